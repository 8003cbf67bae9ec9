internal import BrokerSchema
internal import BrokerStore
internal import Logging

/// The entries of a shared log about its servers, and what follows from them for this one. Only the thread that reads the log calls
/// it, but for ``table``.
final class ReplicaNotes: Sendable {
    private struct State {
        var table = ReplicaTable()
        /// The log has this run's own entry.
        var hasJoined = false
    }

    private let log: any SharedLog
    private unowned let coordinator: Coordinator
    private let logger: Logger
    private let state: Monitor<State>

    init(_ log: any SharedLog, _ coordinator: Coordinator, _ logger: Logger) {
        self.log = log
        self.coordinator = coordinator
        self.logger = logger
        state = Monitor(State(table: coordinator.writer.replicas))
    }

    var table: ReplicaTable { state.withLock { $0.table } }

    /// The server takes part from now on.
    func join() { log.append(.joined(log.replica)) }

    /// The jobs before the note have ended. Blocks until the store has its position.
    ///
    /// - Returns: why nothing more may be applied; nil when the server goes on.
    /// - Throws: `StoreError` when the store has failed.
    func apply(_ note: ReplicaNote, _ mark: LogMark, isOwn: Bool) throws(StoreError) -> StoreError? {
        var consequences: [ReplicaTable.Consequence] = []
        let table = state.withLock { state -> ReplicaTable in
            consequences = state.table.note(note, at: mark, own: log.replica, hasJoined: state.hasJoined)
            if case .joined(log.replica) = note {
                if state.hasJoined, !isOwn {
                    consequences.append(
                        .halt(
                            "Another server takes part under the name \(log.replica). Give each a --replica of its own."
                        ))
                }
                state.hasJoined = state.hasJoined || isOwn
            }
            return state.table
        }
        var halt: String?
        for consequence in consequences {
            switch consequence {
            case .halt(let reason): halt = halt ?? reason
            case .trim(let position): log.trim(through: position)
            case .remove(let name):
                logger.warning(
                    "A server has been silent for a week, and is removed from the log.",
                    metadata: ["replica": "\(name)"])
                log.append(.left(name))
            }
        }
        var facts: [(StoreMeta.Key, String?)] = [(.replicas, table.text)]
        // A store that differs stays halted, also after a start.
        if case .checkpoint = note, let halt { facts.append((.halt, halt)) }
        let stored = facts
        let isOther = try coordinator.onStore { store throws(StoreError) in
            var facts = stored
            var isOther: String?
            if case .upgrade(let wanted) = note {
                let own = store.fingerprint
                isOther = own.digits == wanted ? nil : own.digits
                facts.append((.fingerprint, isOther == nil ? own.text : ApplicationFingerprint(digits: wanted).text))
            }
            try store.pass(mark, setting: facts, syncs: false)
            return isOther
        }
        if case .upgrade(let wanted) = note, let own = isOther ?? nil {
            halt =
                "At position \(mark.position) the log went over to the fingerprint \(wanted), and this server has \(own). Install the "
                + "versions with that fingerprint, then start it again."
        }
        return halt.map { StoreError(.unavailable, $0) }
    }
}

extension Coordinator {
    /// Runs `body` on the writer's thread between two transactions, again and again while the store takes no writes. Blocks.
    ///
    /// - Returns: nil when the server ends before the store has taken it.
    /// - Throws: `StoreError` when the store has failed for good.
    func onStore<Value: Sendable>(
        _ body: @escaping @Sendable (Store) throws(StoreError) -> Value
    ) throws(StoreError) -> Value? {
        while true {
            let ended = Monitor<Result<Value, StoreError>?>(nil)
            let statistics = statistics
            jobTable.update { jobTable in
                jobTable.writerTasks.append { store in
                    let result = Result { () throws(StoreError) in try body(store) }
                    let history = store.history
                    statistics.count { $0.history = history }
                    ended.update { $0 = result }
                }
            }
            switch ended.wait({ $0 }) {
            case .success(let value): return value
            case .failure(let error):
                if let failure = storageFailure.error { throw failure }
                guard error.isOfMachine || error.isLocked else { throw error }
            }
            let isEnding = jobTable.wait(until: monotonicMicroseconds() + Self.storePause) { jobTable -> Bool? in
                jobTable.isReadingEnded || jobTable.isStopped ? true : nil
            }
            if isEnding == true { return nil }
        }
    }

    /// Microseconds between two attempts.
    private static let storePause: Int64 = 100_000
}
