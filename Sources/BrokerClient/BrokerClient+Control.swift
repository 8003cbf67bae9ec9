public import Broker
internal import BrokerRequests
internal import BrokerWire

// Questions, and administration of the server.
extension BrokerClient {
    public func fetch(_ query: Query) async throws -> QueryResult {
        let members = try query.members()
        let answer = try await request { ClientMessageWriter.fetch(members: members, tag: $0) }
        return try queryResult(answer)
    }

    func queryResult(_ answer: ServerEnvelope) throws(BrokerError) -> QueryResult {
        guard case .objects(let json, let hasMore, let last) = answer.message else {
            throw unexpected(answer, to: "fetch")
        }
        return QueryResult(objects: RawJSON(json), hasMore: hasMore, last: last.map { RawJSON($0) })
    }

    /// Returns when the server has answered.
    public func ping() async throws {
        let answer = try await request { ClientMessageWriter.ping(tag: $0) }
        guard case .pong = answer.message else { throw unexpected(answer, to: "ping") }
    }

    /// The server's description of itself, from the newest connection; connects if there was none yet.
    ///
    /// - Throws: ``/Broker/BrokerError``
    public func serverInformation() async throws -> ServerInformation {
        if let server = driver.server { return server }
        try await ping()
        guard let server = driver.server else { throw BrokerError.protocolViolation("the server sent no welcome") }
        return server
    }

    public func statistics() async throws -> Statistics {
        let answer = try await request { ClientMessageWriter.stats(tag: $0) }
        guard case .stats = answer.message else { throw unexpected(answer, to: "stats") }
        return try decoded("stats") { try Statistics(json: answer.text) }
    }

    public func model() async throws -> ModelDescription {
        let answer = try await request { ClientMessageWriter.model(tag: $0) }
        guard case .model(let json) = answer.message else { throw unexpected(answer, to: "model") }
        return try decoded("model") { try ModelDescription(json: json) }
    }

    public func administer(_ action: Broker.AdminAction) async throws { _ = try await perform(action) }

    /// As ``administer(_:)``.
    ///
    /// - Returns: the server's answer, the `done` message of the protocol.
    package func perform(_ action: Broker.AdminAction) async throws -> RawJSON {
        guard let asked = BrokerWire.AdminAction(rawValue: action.rawValue) else {
            throw BrokerError(.unsupportedMessage, "There is no action \"\(action.rawValue)\". Nothing was sent.")
        }
        let answer = try await request(isSentOnce: true, orOnCancellation: BrokerError.actionWaitCancelled) {
            ClientMessageWriter.admin(asked, tag: $0)
        }
        guard case .done = answer.message else { throw unexpected(answer, to: "admin") }
        return RawJSON(answer.text)
    }

    public func backUp(to file: String, replacing: Bool = false) async throws -> Backup {
        let answer = try await request(isSentOnce: true, orOnCancellation: BrokerError.actionWaitCancelled) {
            ClientMessageWriter.backup(file: file, replaces: replacing, tag: $0)
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

extension ServerEnvelope {
    /// The whole message.
    fileprivate var text: [UInt8] { withExtendedLifetime(document) { Array(document.text.bytes) } }
}
