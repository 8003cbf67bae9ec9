public import Broker
internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerModel
internal import BrokerRequests
internal import BrokerStore

// Questions, and administration.
extension EmbeddedBroker {
    public func results(of query: Query) -> QueryResults {
        QueryResults { [self] in
            let stream = EmbeddedStream(requests, query)
            return { try await stream.next() }
        }
    }

    public func commits(for query: CommitQuery) -> Commits {
        Commits { [self] in
            let feed = EmbeddedFeed(self, query)
            return { try await feed.next() }
        }
    }

    public func statistics() async throws -> Statistics {
        var writer = JSONWriter(capacity: 2_048)
        writer.object { owned.coordinator.writeStatistics(to: &$0) }
        return try Statistics(json: writer.bytes)
    }

    public func model() async throws -> ModelDescription {
        var writer = JSONWriter()
        owned.coordinator.model.write(to: &writer)
        return try ModelDescription(json: writer.bytes)
    }

    /// Does an administrative action: ``/Broker/AdminAction/pause``, ``/Broker/AdminAction/resume`` or
    /// ``/Broker/AdminAction/checkpoint``.
    ///
    /// - Throws: ``/Broker/BrokerError``; with ``/Broker/BrokerError/Code/unsupported`` for the others, which are about a server.
    @discardableResult public func administer(_ action: AdminAction) async throws -> AdminResult {
        try Task.checkCancellation()
        switch action {
        case .pause:
            guard owned.coordinator.pause() else {
                throw BrokerError(.busy, "The model is being changed. Pause again when that is done.")
            }
        case .resume: owned.coordinator.resume()
        case .checkpoint:
            let answer = Answer<Statistics.WAL>()
            owned.coordinator.checkpoint { result in
                answer.finish(
                    result.map { Statistics.WAL(bytes: $0.bytes, uncheckpointedPages: $0.uncheckpointedPages) }
                        .mapError { BrokerError(.storeUnavailable, $0.message) })
            }
            return AdminResult(wal: try await answer.value(orOnCancellation: BrokerError.actionWaitCancelled))
        case .drain, .reload:
            throw BrokerError(
                .unsupported,
                "An embedded broker does not `\(action.rawValue)`: stop it, and open the store again.")
        default: throw BrokerError.unknown(action)
        }
        return AdminResult()
    }

    public func backUp(to file: String, replacing: Bool) async throws -> Backup {
        try BrokerError.checkBackupPath(file)
        try Task.checkCancellation()
        let answer = Answer<Backup>()
        let isWanted = Wanted()
        owned.coordinator.backup(to: file, replaces: replacing, isWanted: { isWanted.value }) { end in
            switch end {
            case .done(let copy):
                answer.finish(.success(Backup(sequence: copy.sequence, byteCount: Int64(copy.bytes))))
            case .failed(let fault): answer.finish(.failure(BrokerError(fault)))
            case .stopped: answer.finish(.failure(CancellationError()))
            }
        }
        return try await answer.value(onCancel: { isWanted.end() })
    }
}
