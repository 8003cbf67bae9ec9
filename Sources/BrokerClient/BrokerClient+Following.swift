public import Broker
internal import BrokerRequests
internal import BrokerWire

extension BrokerClient {
    /// Follows the committed jobs that change objects; see
    /// ``/Broker/BrokerProtocol/commits(of:after:reply:)``.
    ///
    /// Each iteration has a connection of its own, which ends with it. When it is lost, another one goes on after the newest commit
    /// that was delivered.
    public func commits(for query: CommitQuery) -> Commits {
        Commits { [self] in
            let feed = ClientFeed(client: self, query: query)
            return { try await feed.next() }
        }
    }

    /// One iteration over the commits.
    private actor ClientFeed {
        private let client: BrokerClient
        /// Its `after` is the newest sequence that was delivered.
        private var query: CommitQuery
        private var connection: StreamConnection?
        private var isOpen = false
        private var hasBegun = false
        private var isAtEnd = false
        /// Before the next connection.
        private var delay = Duration.zero

        private static let firstDelay = Duration.milliseconds(10)
        private static let longestDelay = Duration.milliseconds(250)

        init(client: BrokerClient, query: CommitQuery) {
            self.client = client
            self.query = query
        }

        func next() async throws -> Commit? {
            guard !isAtEnd else { return nil }
            do {
                if !hasBegun { _ = try query.members() }
                while true {
                    if connection == nil { try await waitForServer() }
                    do {
                        if let commit = try await nextOfConnection() { return commit }
                    } catch let error as BrokerError where hasBegun && error.endsFeedConnection {
                        connection = nil
                        isOpen = false
                        guard !client.isEnded else {
                            isAtEnd = true
                            return nil
                        }
                    }
                }
            } catch {
                isAtEnd = true
                connection = nil
                if hasBegun, client.isEnded, (error as? BrokerError)?.code == .closed { return nil }
                let isLost = (error as? BrokerError)?.code == .connectionLost
                throw isLost && client.driver.isClosed ? BrokerError.closed : error
            }
        }

        /// - Returns: nil for an answer that is no commit.
        private func nextOfConnection() async throws -> Commit? {
            let connection = try await connected()
            let answer = try await connection.next(isPrompt: !isOpen)
            switch answer.message {
            case .subscribed(let after, _):
                isOpen = true
                hasBegun = true
                guard query.after == nil else { return nil }
                query.after = after
                return Commit(sequence: after)
            case .committed(let message):
                delay = .zero
                query.after = message.sequence
                return Commit(message)
            default: throw client.unexpected(answer, to: "subscribe")
            }
        }

        /// The client's own connection waits for a server that is not running, or not running any more.
        private func waitForServer() async throws {
            if delay > .zero { try await Task.sleep(for: delay) }
            delay = min(max(delay * 2, Self.firstDelay), Self.longestDelay)
            try await client.ping(timeout: nil)
        }

        private func connected() async throws -> StreamConnection {
            if let connection { return connection }
            let frame = try client.driver.encoders.encode(ClientMessageWriter.subscribe(members: try query.members()))
            let opened = try await client.driver.openStream(sending: frame, isEndless: true)
            connection = opened
            return opened
        }
    }
}

extension BrokerClient {
    /// It was closed, or a shutdown has begun.
    fileprivate var isEnded: Bool { driver.isClosed || driver.isDraining }
}

extension BrokerError {
    /// The feed goes on with another connection.
    fileprivate var endsFeedConnection: Bool { [.connectionLost, .cannotConnect, .draining].contains(code) }
}
