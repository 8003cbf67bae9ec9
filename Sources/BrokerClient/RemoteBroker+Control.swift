public import Broker
internal import BrokerJSON
package import BrokerWire
public import Logging
internal import NIOCore

extension RemoteBroker {
    /// Connects and waits for the server's welcome, for ``RemoteBroker/Configuration/connectTimeout`` at most: for programs that are of
    /// no use without the server. A server that is not there yet is tried again until then.
    ///
    /// - Throws: ``/Broker/BrokerError`` with ``/Broker/BrokerError/Code/cannotConnect``, with the code of the server's refusal, or with
    ///   ``/Broker/BrokerError/Code/protocolViolation`` when the peer is no Broker.
    public static func connect(
        to address: BrokerAddress, configuration: RemoteBroker.Configuration = RemoteBroker.Configuration(),
        logger: Logger = Logger(label: "broker.client", factory: { _ in SwiftLogNoOpLogHandler() })
    ) async throws -> RemoteBroker {
        try await connect(to: address, configuration: configuration, logger: logger, nil)
    }

    /// Uses sockets that the caller connects.
    ///
    /// - Parameters:
    ///   - name: the server's name in errors.
    ///   - dial: returns the descriptor of a connected stream socket, which the client then owns. Called for every
    ///     connection, on an event loop; must not block.
    package static func connect(
        to name: String, configuration: RemoteBroker.Configuration = RemoteBroker.Configuration(),
        dial: @escaping @Sendable () throws -> CInt
    ) async throws -> RemoteBroker {
        try await connect(
            to: .unixSocket(name), configuration: configuration,
            logger: Logger(label: "broker.client") { _ in
                SwiftLogNoOpLogHandler()
            }, .descriptor(dial))
    }

    static func connect(
        to address: BrokerAddress, configuration: RemoteBroker.Configuration, logger: Logger,
        firstDelay: TimeAmount = Reconnection.firstDelay, _ dialing: Dialing?
    ) async throws -> RemoteBroker {
        let client = RemoteBroker(
            address, configuration: configuration, logger: logger, beginning: .atOnce, firstDelay: firstDelay, dialing)
        do {
            _ = try await client.driver.welcome.value()
            return client
        } catch {
            client.close()
            throw error
        }
    }
}

/// Runs code with a connected client, and closes it afterwards: for scripts.
///
/// ```swift
/// try await withRemoteBroker(.unixSocket(path)) { broker in
///     try await broker.process(employees, as: "Employee")
/// }
/// ```
///
/// - Throws: as ``RemoteBroker/connect(to:configuration:logger:)``, or what `body` throws.
@discardableResult public func withRemoteBroker<Value>(
    _ address: BrokerAddress, configuration: RemoteBroker.Configuration = RemoteBroker.Configuration(),
    logger: Logger = Logger(label: "broker.client", factory: { _ in SwiftLogNoOpLogHandler() }),
    isolation: isolated (any Actor)? = #isolation, _ body: (RemoteBroker) async throws -> Value
) async throws -> Value {
    let client = try await RemoteBroker.connect(to: address, configuration: configuration, logger: logger)
    defer { client.close() }
    return try await body(client)
}

// Questions, and administration of the server.
extension RemoteBroker {
    public func fetch(_ query: Query) async throws -> QueryResult {
        try await observation.observing(query) {
            // On the other connection, the server would not wait for them.
            try await jobs.waitForUnanswered()
            let answer = try await request("fetch") { try query.write(to: &$0) }
            return try queryResult(answer)
        }
    }

    func queryResult(_ answer: ServerEnvelope) throws(BrokerError) -> QueryResult {
        guard case .objects(let json, let hasMore, let last) = answer.message else {
            throw unexpected(answer, to: "fetch")
        }
        return QueryResult(objects: RawJSON(json), hasMore: hasMore, last: last.map { RawJSON($0) })
    }

    public func bookmark(named name: String) async throws -> StoredBookmark? {
        try await require("bookmark")
        try await jobs.waitForUnanswered()
        let answer = try await request("bookmark") { $0.member("name", name) }
        guard case .bookmark(let value, let sequence) = answer.message else {
            throw unexpected(answer, to: "bookmark")
        }
        return value.map { StoredBookmark(name: name, value: $0, sequence: sequence ?? 0) }
    }

    /// Returns when the server has answered.
    ///
    /// - Parameter timeout: see `BrokerService`.
    public func ping(timeout: Duration? = nil) async throws {
        try await withTimeout(timeout) { try await self.ping() }
    }

    private func ping() async throws {
        let answer = try await request("ping")
        guard case .pong = answer.message else { throw unexpected(answer, to: "ping") }
    }

    /// The server's description of itself, from the newest connection; connects if there was none yet.
    ///
    /// - Parameter timeout: see `BrokerService`.
    /// - Throws: ``/Broker/BrokerError``
    public func serverInformation(timeout: Duration? = nil) async throws -> ServerInformation {
        if let server = driver.server { return server }
        return try await withTimeout(timeout) { try await self.connectedServer() }
    }

    private func connectedServer() async throws -> ServerInformation {
        try await ping()
        guard let server = driver.server else { throw BrokerError.protocolViolation("the server sent no welcome") }
        return server
    }

    public func statistics() async throws -> Statistics {
        let answer = try await request("stats")
        guard case .stats = answer.message else { throw unexpected(answer, to: "stats") }
        return try decoded("stats") { try Statistics(json: answer.text) }
    }

    /// The lists of jobs that `message` asks for: the `jobs` message of the protocol.
    package func jobs(_ message: JobsMessage) async throws -> RawJSON {
        let answer = try await request("jobs") { message.write(to: &$0) }
        guard case .jobs = answer.message else { throw unexpected(answer, to: "jobs") }
        return RawJSON(answer.text)
    }

    /// Rejected records that the server keeps, or how many were dropped: the `rejects` message of the protocol.
    package func rejects(_ message: RejectsMessage) async throws -> RawJSON {
        let answer = try await request("rejects") { message.write(to: &$0) }
        guard case .rejects = answer.message else { throw unexpected(answer, to: "rejects") }
        return RawJSON(answer.text)
    }

    public func model() async throws -> ModelDescription {
        let answer = try await request("model")
        guard case .model(let json) = answer.message else { throw unexpected(answer, to: "model") }
        return try decoded("model") { try ModelDescription(json: json) }
    }

    @discardableResult public func administer(_ action: AdminAction) async throws -> AdminResult {
        try await done(action).document.withRoot { AdminResult($0) }
    }

    /// As ``administer(_:)``.
    ///
    /// - Returns: the server's answer, the `done` message of the protocol.
    package func perform(_ action: AdminAction) async throws -> RawJSON { RawJSON(try await done(action).text) }

    /// Ends connections of other clients, and returns how many there were.
    package func kick(_ message: KickMessage) async throws -> Int {
        Int(try await done { message.write(to: &$0) }.document.root["connections"]?.int64 ?? 0)
    }

    private func done(_ action: AdminAction) async throws -> ServerEnvelope {
        try await done { $0.member("action", action.rawValue) }
    }

    private func done(_ members: @escaping @Sendable (inout JSONWriter) -> Void) async throws -> ServerEnvelope {
        let answer = try await request(
            "admin", isSentOnce: true, orOnCancellation: BrokerError.actionWaitCancelled, members)
        guard case .done = answer.message else { throw unexpected(answer, to: "admin") }
        return answer
    }

    /// Changes the store to the server's model files as they now are, as ``/Broker/AdminAction/reload`` does, or returns what that
    /// would change.
    ///
    /// - Parameters:
    ///   - removedParts: what becomes of parts that the model no longer has, this time.
    ///   - keeping: instead, the only parts that are kept, as the changes name them: `Entity`, `Entity.attribute`.
    ///   - dropping: instead, the only parts that are dropped.
    ///   - dryRun: nothing is changed, and refused changes are returned, too.
    ///   - timeout: see `BrokerService`.
    /// - Throws: ``/Broker/BrokerError``; with ``/Broker/BrokerError/Code/storeUnavailable`` and every difference when a change is
    ///   refused; with ``/Broker/BrokerError/Code/unsupportedMessage`` by a server that does not know the action. With
    ///   ``/Broker/BrokerError/Code/connectionLost`` and ``/Broker/BrokerError/Code/outcomeUnknown`` it may have been done.
    @discardableResult public func migrate(
        removedParts: RemovedParts = .refuse, keeping: [String] = [], dropping: [String] = [], dryRun: Bool = false,
        timeout: Duration? = nil
    ) async throws -> ModelMigration {
        let message = MigrateMessage(
            isDryRun: dryRun, removedParts: removedParts, kept: keeping, dropped: dropping)
        return try await withTimeout(timeout) { try await self.migrate(message) }
    }

    private func migrate(_ message: MigrateMessage) async throws -> ModelMigration {
        let answer = try await request("admin", isSentOnce: true, orOnCancellation: BrokerError.actionWaitCancelled) {
            message.write(to: &$0)
        }
        guard case .done = answer.message,
            let changes = answer.document.withRoot({ ModelMigration($0) })
        else { throw unexpected(answer, to: "migrate") }
        return changes
    }

    /// A copy has a connection of its own, because a server gives it up when its connection ends.
    public func backUp(to file: String, replacing: Bool) async throws -> Backup {
        try Task.checkCancellation()
        let content = MessageWriter.message("admin", tag: [UInt8(ascii: "0")]) { writer in
            writer.member("action", ClientMessage.backupAction)
            writer.member("file", file)
            writer.member("replace", replacing)
        }
        // The client's own connection waits for a server that is not running yet.
        _ = try await serverInformation()
        let connection = try await driver.openStream(sending: try driver.encoders.encode(content))
        let answer: ServerEnvelope
        do {
            answer = try await connection.next()
        } catch is CancellationError {
            throw BrokerError.actionWaitCancelled
        }
        guard case .done = answer.message, let sequence = answer.document.root["sequence"]?.int64,
            let bytes = answer.document.root["bytes"]?.int64
        else { throw unexpected(answer, to: "backup") }
        return Backup(sequence: sequence, byteCount: bytes)
    }

    private func decoded<Value>(_ type: String, _ decode: () throws -> Value) throws -> Value {
        do {
            return try decode()
        } catch {
            throw BrokerError.protocolViolation("the `\(type)` of the server cannot be read: \(error)")
        }
    }
}

extension ModelMigration {
    /// - Parameter done: the members of the answer; nil when they are not those of a migration.
    fileprivate init?(_ done: JSONValue) {
        guard let list = done["changes"] else { return nil }
        var changes: [Change] = []
        for change in list.elements {
            guard let kind = change["change"]?.string, let subject = change["subject"]?.string,
                let message = change["message"]?.string
            else { return nil }
            let loss = change["loss"].flatMap { loss -> Loss? in
                guard let kind = loss["kind"]?.string, let count = loss["count"]?.int64 else { return nil }
                return Loss(
                    kind: Loss.Kind(rawValue: kind), count: count,
                    examples: loss["examples"]?.elements.compactMap(\.string) ?? [])
            }
            changes.append(
                Change(
                    kind: Kind(rawValue: kind), subject: subject, message: message, remedy: change["remedy"]?.string,
                    loss: loss))
        }
        self.init(
            changes: changes, modelFiles: done["modelFiles"]?.elements.compactMap(\.string) ?? [],
            storeFile: done["storeFile"]?.string)
    }
}

extension AdminResult {
    /// - Parameter done: the members of the answer.
    fileprivate init(_ done: JSONValue) {
        let wal = done["wal"].flatMap { wal -> Statistics.WAL? in
            guard let bytes = wal["bytes"]?.int64, let pages = wal["uncheckpointedPages"]?.int64 else { return nil }
            return Statistics.WAL(bytes: Int(bytes), uncheckpointedPages: Int(pages))
        }
        self.init(wal: wal, changes: done["changes"]?.elements.compactMap(\.string) ?? [])
    }
}

extension ServerEnvelope {
    /// The whole message.
    fileprivate var text: [UInt8] { withExtendedLifetime(document) { Array(document.text.bytes) } }
}

extension RemoteBroker {
    /// Follows the committed jobs that change objects; see
    /// `commits(of:after:reply:)`.
    ///
    /// Each iteration has a connection of its own, which ends with it. When it is lost, another one goes on after the newest commit
    /// that was delivered.
    public func commits(for query: CommitQuery) -> Commits {
        observation.commits(query) { [self] in
            let feed = ClientFeed(client: self, query: query)
            return { try await feed.next() }
        }
    }

    /// One iteration over the commits.
    private actor ClientFeed {
        private let client: RemoteBroker
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

        init(client: RemoteBroker, query: CommitQuery) {
            self.client = client
            self.query = query
        }

        func next() async throws -> Commit? {
            guard !isAtEnd else { return nil }
            do {
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
                throw client.driver.streamEnd(error)
            }
        }

        /// - Returns: nil for an answer that is no commit.
        private func nextOfConnection() async throws -> Commit? {
            let connection = try await connected()
            let answer = try await connection.next(isPrompt: !isOpen)
            switch answer.message {
            case .subscribed(let after):
                isOpen = true
                hasBegun = true
                guard query.after == nil else { return nil }
                query.after = after
                return Commit(sequence: after)
            case .committed(let commit):
                delay = .zero
                query.after = commit.sequence
                return commit
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
            let content = MessageWriter.message("subscribe") { [query] in query.write(to: &$0) }
            let frame = try client.driver.encoders.encode(content)
            let opened = try await client.driver.openStream(sending: frame, isEndless: true)
            connection = opened
            return opened
        }
    }
}

extension RemoteBroker {
    /// It was closed, or a shutdown has begun.
    fileprivate var isEnded: Bool { driver.isClosed || driver.isDraining }
}

extension BrokerError {
    /// The feed goes on with another connection.
    fileprivate var endsFeedConnection: Bool { [.connectionLost, .cannotConnect, .draining].contains(code) }
}
