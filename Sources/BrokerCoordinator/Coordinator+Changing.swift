internal import BrokerJSON
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging
internal import BrokerStore

typealias ChangeCallback = @Sendable (Result<StoreMigration, StoreError>) -> Void

/// Changes of the model and of the limits. With a log they are entries of it.
///
/// ```
/// append ─▶ the log gives a position ─▶ the jobs before it end ─▶ writer: opens the store again ─▶ the jobs after it
/// ```
extension Coordinator {
    /// - Parameters:
    ///   - ticket: distinguishes the changes of this run.
    ///   - notify: called once, on a thread of the coordinator's.
    func append(_ change: LogChange, at ticket: Int, _ notify: @escaping ChangeCallback) {
        guard change.payload.count <= Self.largestChange else {
            return notify(
                .failure(
                    StoreError(
                        .incompatible,
                        "The model takes more than \(Self.largestChange >> 20) MiB as text, and the journal has no room for it. Split "
                            + "it, or start without --journal.")))
        }
        loggedChanges.withLock { $0[ticket] = notify }
        jobTable.update { $0.log?.append(LogEntry(change, ticket: ticket)) }
    }

    /// Bytes of a change in the log: those of the largest frame.
    private static let largestChange = 16 << 20

    /// The log delivers a change, and the jobs before it have ended. Blocks until the store has it, or has refused it.
    ///
    /// - Returns: for the change of an earlier run, sentences about what it did.
    /// - Throws: when such a change cannot be made, though the store does not refuse it.
    func apply(_ change: LoggedChange) throws(StoreError) -> [String] {
        let ended = Monitor<Result<StoreMigration, StoreError>?>(nil)
        let notify: ChangeCallback = { result in ended.update { $0 = result } }
        switch LogChange(change.kind, change.payload) {
        case .model(let text, let removal):
            reopen(try plan(text, change), limitsInForce.withLock { $0 }, removal, change.mark, notify)
        case .limits(let limits):
            // Parts of the file that are not in the model may be in the one that is wanted next.
            reopen(plan, limits, .keep, change.mark, notify)
        case nil: throw .unappliable(change, "it was written by a later version.")
        }
        let result = ended.wait { $0 }
        if let ticket = change.ticket {
            loggedChanges.withLock { $0.removeValue(forKey: ticket) }?(result)
            return []
        }
        switch result {
        case .success(let migration): return migration.lines
        case .failure(let error) where error.code == .incompatible:
            return ["A change of the model in the journal is refused again: \(error.message)"]
        case .failure(let error): throw error
        }
    }

    /// The log has failed, or has refused the change of that ticket.
    ///
    /// - Parameter ticket: nil for all changes that wait for the log.
    func failChanges(_ error: StoreError, at ticket: Int? = nil) {
        let callbacks = loggedChanges.withLock { changes -> [ChangeCallback] in
            let tickets = ticket.map { [$0] } ?? changes.keys.sorted()
            return tickets.compactMap { changes.removeValue(forKey: $0) }
        }
        for notify in callbacks { notify(.failure(error)) }
    }

    private func plan(_ text: String, _ change: LoggedChange) throws(StoreError) -> StagingPlan {
        do throws(ModelError) {
            return try StagingPlan(ModelReader.read(JSONText(copying: Array(text.utf8))))
        } catch {
            throw .unappliable(change, "its model cannot be read (\(error.faults.first.map(\.description) ?? "")).")
        }
    }

    /// Has the writer open the store again, between two transactions.
    func reopen(
        _ plan: StagingPlan, _ limits: LoggedLimits, _ removal: RemovalPolicy, _ mark: LogMark?,
        _ notify: @escaping ChangeCallback
    ) {
        var options = storeOptions
        options.removal = removal
        limits.set(in: &options)
        let request = StoreReopening(plan: plan, path: storePath, options: options, mark: mark) { [self] result in
            if case .success((_, let index)) = result {
                let generation = planInForce.withLock { inForce in
                    if inForce.plan.model.text != plan.model.text { inForce.generation += 1 }
                    inForce.plan = plan
                    return inForce.generation
                }
                jobTable.withLock { $0.application.generation = generation }
                limitsInForce.withLock { $0 = limits }
                readers.use(plan)
                ledger.use(index)
                failures.use(index)
            }
            notify(result.map(\.0))
        }
        jobTable.update { $0.reopening = request }
    }
}

extension StoreError {
    /// A change in the journal cannot be made. It and all entries after it stay in the journal.
    fileprivate static func unappliable(_ change: LoggedChange, _ reason: String) -> StoreError {
        StoreError(
            .unavailable,
            "Entry \(change.place.position ?? 0) of the journal cannot be applied: \(reason) Start the version of the server that "
                + "wrote it. The entry and all after it stay in the journal.")
    }
}
