internal import BrokerJSON
internal import BrokerJournal
package import BrokerModel
package import BrokerSchema
package import BrokerStaging
internal import BrokerStore

typealias ChangeCallback = @Sendable (Result<StoreMigration, StoreError>) -> Void

/// Changes of the model and of the limits. With a log they are entries of it.
///
/// ```
/// append ─▶ the log gives a position ─▶ the jobs before it end ─▶ writer: opens the store again ─▶ the jobs after it
/// ```
extension Coordinator {
    /// - Parameter ticket: distinguishes the changes of this run.
    func append(_ change: LogChange, at ticket: Int, _ notify: @escaping ChangeCallback) {
        var entry = change.entry
        entry.user = JobOwner.server.user
        guard entry.payload.count <= Self.largestChange else {
            return notify(
                .failure(
                    StoreError(
                        .incompatible,
                        "The model takes more than \(Self.largestChange >> 20) MiB as text, and the journal has no room for it. Split "
                            + "it, or start without --journal.")))
        }
        let pending = PendingEntry(ticket: ticket, entry: entry)
        loggedChanges.withLock { $0[ticket] = notify }
        jobTable.update { $0.log.durable?.append(pending) }
    }

    /// Bytes of a change in the log: those of the largest frame.
    private static let largestChange = 16 << 20

    /// The log delivers a change, and the jobs before it have ended. Blocks until the store has it, or has refused it.
    ///
    /// - Parameter ticket: nil for the change of another server, or of an earlier run.
    /// - Returns: for such a change, sentences about what it did.
    /// - Throws: when such a change cannot be made, though the store does not refuse it.
    func apply(_ change: LogEntry, at ticket: Int?) throws(StoreError) -> [String] {
        let result = try waitForAnswer { (notify: @escaping ChangeCallback) throws(StoreError) in
            switch LogChange(change) {
            case .model(let text, let removal):
                let limits = limitsInForce.withLock { $0 }
                reopen(try plan(text, change), limits, removal: removal, at: change.mark, then: notify)
            case .limits(let limits):
                // Parts of the file that are not in the model may be in the one that is wanted next.
                reopen(plan, limits, removal: .keep, at: change.mark, then: notify)
            case nil: throw .unappliable(change, "it was written by a later version.")
            }
        }
        if let ticket {
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

    /// The log has failed, or has refused the change of that ticket; nil for all changes that wait for the log.
    func failChanges(_ error: StoreError, at ticket: Int? = nil) {
        let callbacks = loggedChanges.withLock { changes -> [ChangeCallback] in
            let tickets = ticket.map { [$0] } ?? changes.keys.sorted()
            return tickets.compactMap { changes.removeValue(forKey: $0) }
        }
        for notify in callbacks { notify(.failure(error)) }
    }

    private func plan(_ text: String, _ change: LogEntry) throws(StoreError) -> StagingPlan {
        do throws(ModelError) {
            return try StagingPlan(ModelReader.read(JSONText(copying: Array(text.utf8))))
        } catch {
            throw .unappliable(change, "its model cannot be read (\(error.faults.first.map(\.description) ?? "")).")
        }
    }

    /// Has the writer open the store again, between two transactions.
    func reopen(
        _ plan: StagingPlan, _ limits: LoggedLimits, removal: RemovalPolicy, at mark: LogMark?,
        then notify: @escaping ChangeCallback
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
        jobTable.update { $0.requests.reopening = request }
    }
}

extension StoreError {
    /// A change in the journal cannot be made. It and all entries after it stay in the journal.
    fileprivate static func unappliable(_ change: LogEntry, _ reason: String) -> StoreError {
        StoreError.unavailable(
            "Entry \(change.position) of the journal cannot be applied: \(reason) Start the version of the server that "
                + "wrote it. The entry and all after it stay in the journal.")
    }
}

/// A reload: changes the model between two jobs.
///
/// ```
/// reload ─▶ jobs before it end ─▶ writer: opens the store again, which migrates it ─▶ later jobs are opened
/// ```
///
/// Frames that arrive after it wait, and are read by the new model, or by the old one if that stays; their clients
/// notice only the wait.
extension Coordinator {
    /// Reads a model, on a thread of its own, and applies it completely, including the migration, or stays with the old one.
    ///
    /// - Parameters:
    ///   - removal: what becomes of parts that the model no longer has; nil for the store's option.
    ///   - notify: called once, with the changes, or the reason why the old model stays.
    package func reload(
        removal: RemovalPolicy? = nil, reading read: @escaping @Sendable () -> Result<StagingPlan, Fault>,
        notify: @escaping @Sendable (Result<StoreMigration, Fault>) -> Void
    ) {
        Thread(named: "reload") { [self] in
            let end: @Sendable (Result<StoreMigration, Fault>) -> Void = { [statistics] result in
                statistics.note(reload: result)
                notify(result)
            }
            do throws(StoreError) {
                try checkFiles()
            } catch {
                return end(.failure(Fault(error)))
            }
            switch read() {
            case .success(let plan): hold(for: plan, removal, end)
            case .failure(let fault): end(.failure(fault))
            }
        }.detach()
    }

    /// Reads a model, and reports the changes that a ``reload(removal:reading:notify:)`` with it would make to the store as it
    /// is now, with what is lost by them. Changes nothing, and holds no job.
    package func compare(
        removal: RemovalPolicy, reading read: @escaping @Sendable () -> Result<StagingPlan, Fault>,
        notify: @escaping @Sendable (Result<[StoreChange], Fault>) -> Void
    ) {
        Thread(named: "compare") { [self] in
            notify(
                read().flatMap { plan in
                    do throws(StoreError) {
                        try checkFiles()
                        return .success(
                            try Store.changes(
                                path: storePath, plan: plan, removal: removal, vfs: storeOptions.vfs))
                    } catch {
                        return .failure(Fault(error))
                    }
                })
        }.detach()
    }

    private static let ownSource = -1

    private func hold(
        for plan: StagingPlan, _ removal: RemovalPolicy?,
        _ notify: @escaping @Sendable (Result<StoreMigration, Fault>) -> Void
    ) {
        // A frame of its own, which holds only the question whether everything before it has ended.
        let begun: (ticket: Int, memory: JobMemory)
        switch beginHolding() {
        case .success(let holding): begun = holding
        case .failure(let fault): return notify(.failure(fault))
        }
        let frame = AdmittedFrame(
            ClosureContent(opened: { _ in .nothing }, refused: { _ in }), at: begun.ticket, from: Self.ownSource,
            payloadBytes: 0, begun.memory)
        // It has no source, so it need not wait for a turn.
        _ = goesOn(frame, .question)
        skip(frame) { [self] ticket in
            let change: @Sendable () -> Void = { [self] in self.change(to: plan, removal, at: ticket, notify) }
            let waits = jobTable.withLock { $0.ends.wait(before: ticket, change) }
            if !waits { change() }
        }
    }

    private func beginHolding() -> Result<(ticket: Int, memory: JobMemory), Fault> {
        jobTable.withLock { jobTable in
            guard jobTable.reload.ticket == nil, !jobTable.service.isPaused, !jobTable.service.isDraining else {
                return .failure(.notNow)
            }
            // The jobs before it wait for a store that takes no writes; the others should not wait with them.
            if let refusal = jobTable.refusals.current { return .failure(refusal) }
            let ticket = jobTable.admit(0, from: Self.ownSource)
            jobTable.reload.ticket = ticket
            return .success((ticket, memory.admit(ticket, payloadBytes: 0)))
        }
    }

    private func change(
        to plan: StagingPlan, _ removal: RemovalPolicy?, at ticket: Int,
        _ notify: @escaping @Sendable (Result<StoreMigration, Fault>) -> Void
    ) {
        let removal = removal ?? storeOptions.removal
        let end: ChangeCallback = { [self] result in
            release()
            notify(result.mapError { error in Fault(error) })
        }
        guard writer.opened.log != nil else {
            return reopen(plan, limitsInForce.withLock { $0 }, removal: removal, at: nil, then: end)
        }
        let limits = LoggedLimits(storeOptions)
        if limits != limitsInForce.withLock({ $0 }) { append(.limits(limits), at: Self.ticketOfLimits) { _ in } }
        append(.model(plan.model.text, removal), at: ticket, end)
    }

    private func release() {
        jobTable.change(completions) { jobTable in
            jobTable.reload.ticket = nil
            var frames: [AdmittedFrame] = []
            swap(&frames, &jobTable.reload.heldFrames)
            let opening: [Effects.Call] = frames.map { frame in { [self] in open(frame) } }
            var effects = jobTable.effects([], notifies: false)
            effects.wakeUps = opening + effects.wakeUps
            return effects
        }
    }

    /// Whether the frame waits for the new model; opening it with the old one was in vain.
    func holds(_ frame: AdmittedFrame) -> Bool {
        jobTable.withLock { jobTable in
            // Entries that the log delivers before the change are applied before it.
            guard let ticket = jobTable.reload.ticket, frame.ticket > ticket, frame.logged == nil else { return false }
            jobTable.reload.heldFrames.append(frame)
            return true
        }
    }
}

extension Fault {
    fileprivate static let notNow = Fault(
        .busy, "The model is being changed already, or the server is paused or stops. Reload again when that is over.")
}

extension Statistics {
    /// A reload that the server was not ready for was not judged, and is to be asked for again.
    fileprivate func note(reload result: Result<StoreMigration, Fault>) {
        let time = wallClockMilliseconds()
        switch result {
        case .success: count { $0.lastReload = LastReload(time: time, refusal: nil) }
        case .failure(let fault) where ![.busy, .draining].contains(fault.code):
            count { $0.lastReload = LastReload(time: time, refusal: fault.message) }
        case .failure: break
        }
    }
}

struct PlanInForce {
    var plan: StagingPlan
    /// Rises with each change of the model, so that a job that was staged under another one is recognized.
    var generation: Int
}
