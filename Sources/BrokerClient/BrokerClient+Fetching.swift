public import Broker
internal import BrokerRequests
internal import BrokerWire

extension BrokerClient {
    /// Fetches any number of objects, in answers of which all are of one moment. They see every job that was completed before.
    ///
    /// Each iteration has a connection of its own, which ends with it. A reader that is too slow gets
    /// ``/Broker/BrokerError/Code/snapshotExpired``: see `protocol/predicates.md`.
    public func results(of query: Query) -> QueryResults {
        QueryResults { [self] in
            let stream = FetchStream(client: self, query: query)
            return { try await stream.next() }
        }
    }

    /// One iteration over the answers to a query.
    private actor FetchStream {
        private let client: BrokerClient
        private let query: Query
        private var connection: StreamConnection?
        private var isAtEnd = false

        init(client: BrokerClient, query: Query) {
            self.client = client
            self.query = query
        }

        func next() async throws -> QueryResult? {
            guard !isAtEnd else { return nil }
            do {
                let connection = try await open()
                let result = try client.queryResult(try await connection.next())
                isAtEnd = !result.hasMore
                if isAtEnd { self.connection = nil }
                return result
            } catch {
                isAtEnd = true
                connection = nil
                let isLost = (error as? BrokerError)?.code == .connectionLost
                throw isLost && client.driver.isClosed ? BrokerError.closed : error
            }
        }

        private func open() async throws -> StreamConnection {
            if let connection { return connection }
            let content = ClientMessageWriter.fetch(members: try query.members(isStreamed: true))
            // The client's own connection waits for a server that is not running yet, and reports a lost connection. Where it was
            // made before, only the stream's connection reports that.
            _ = try await client.serverInformation()
            let opened = try await client.driver.openStream(sending: client.driver.encoders.encode(content))
            connection = opened
            return opened
        }
    }
}
