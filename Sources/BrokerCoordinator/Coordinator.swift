internal import BrokerJournal
package import BrokerModel
package import BrokerSchema
package import BrokerStaging
package import BrokerStore
package import Logging

/// Accepts jobs, gives them sequences, lets workers stage them, and lets one writer merge them in that order.
///
/// ```
/// admit ─▶ ticket ─▶ worker: open ─▶ sequence ─▶ worker: stage ─▶ merge order ─▶ writer: merge, COMMIT ─▶ observers
///                     ▲    no room    │               │ no room
///                     └──── wait ◀────┴───────────────┘
/// ```
///
/// A job for which there is no room gives up all memory except its frame, and is opened and staged again later: both
/// are pure.
///
/// Embeddable: it uses neither sockets nor frames. All its methods may be called from any thread, and only
/// ``finishAdmitted()`` and ``stop()`` block.
///
/// Ordering: tickets are given in the order of
/// ``admit(from:of:payloadBytes:contentBytesAtMost:mayOpenHere:payload:open:refuse:)``, except that a scan may have to
/// wait for a later ticket, with the later jobs of its source. Jobs take effect, and end, in the order of their
/// tickets. Observers are called one after the other, each on a thread of the coordinator; they must not block. So is each
/// `notify`: once, or for each event. `isWanted` says whether the client is still there.
package final class Coordinator: Sendable {
    package var model: Model { plan.model }
    package let retention: LedgerRetention
    /// The staging plan of the model in effect; another one after ``reload(removal:reading:notify:)``.
    package var plan: StagingPlan { planInForce.withLock { $0.plan } }
    let planInForce: Monitor<PlanInForce>
    let limitsInForce: Monitor<LoggedLimits>
    /// By ticket: called with the results of changes that wait for the log.
    let loggedChanges = Monitor<[Int: ChangeCallback]>([:])
    let storeOptions: StoreOptions
    let storePath: String
    let allocations: (@Sendable () -> Int)?
    let jobTable: Monitor<JobTable>
    let statistics: Statistics
    let completions: SerialThread
    let storageFailure: StorageFailure
    /// That a shared log cannot be applied further.
    let halting = StorageFailure()
    let applied: AppliedPosition
    let logger: Logger
    let pool: WorkerPool
    let memory: MemoryBudget
    let ledger: LedgerThread
    /// Lists failed jobs, beside the thread that answers `await`.
    let failures: LedgerThread
    let readers: ReaderPool
    let backups: BackupThread
    let writer: Writer
    /// The changes that opening the store made, because the model differs from the stored one.
    package var migration: StoreMigration { writer.opened.migration }
    /// The plan of the wanted model. Until the entries of the journal are applied, the model in force may be another one.
    let wantedPlan: StagingPlan
    /// Nil before the start, and without a journal.
    let logReader = Monitor<LogReader?>(nil)
    /// Distinguishes the ids that this run of the server makes from those of earlier runs.
    private let run = String(UInt64.random(in: .min ... .max), radix: 16)

    /// Opens the store and starts the threads.
    ///
    /// With a journal, and a model that differs from the store's, ``start(_:opening:)`` changes the model.
    package init(plan wanted: StagingPlan, options: CoordinatorOptions, logger: Logger) throws(StoreError) {
        let logger = logger.escaping
        var changed = options
        if options.hasLog { changed.store.mergeMemory = options.limits.jobMemory }
        let options = changed
        if options.sharedLog == nil { try JournalOpening.check(options) }
        let opening = try CoordinatorOpening(wanted, options)
        wantedPlan = wanted
        let limits = options.limits
        let jobTable = Monitor(JobTable(after: 0, reservedThrough: 0, limits))
        let statistics = Statistics(slow: options.slowJobMicroseconds ?? SlowJobs.defaultMicroseconds)
        let completions = SerialThread(named: "completions")
        let storageFailure = StorageFailure()
        let gate = ReaderGate(snapshotBytes: limits.streams.snapshotBytes)
        let onCommit = Callback<Void>()
        let onLoss = Callback<StoreError>()
        let pool = WorkerPool(longTasks: limits.workers, processors: CoordinatorLimits.processors)
        do throws(StoreError) {
            writer = try Writer(opening, jobTable: jobTable, logger: logger) { store, log, applied throws(StoreError) in
                let (fingerprint, backedUpAt) = (log == nil ? nil : store.fingerprint.digits, try store.lastBackup())
                statistics.note(store)
                statistics.count { ($0.fingerprint, $0.backedUpAt) = (fingerprint, backedUpAt) }
                return WriterLoop(
                    store: store, log: log, applied: applied, jobTable: jobTable, pool: pool, statistics: statistics,
                    completions: completions, storageFailure: storageFailure, gate: gate, onCommit: onCommit,
                    onLoss: onLoss, activity: options.store.activity ?? WriterActivity(), limits: limits,
                    logger: logger)
            }
        } catch {
            opening.shared?.stop()
            pool.stop()
            completions.stop()
            throw error
        }
        applied = writer.opened.applied
        planInForce = Monitor(PlanInForce(plan: opening.plan, generation: 0))
        limitsInForce = Monitor(LoggedLimits(opening.options.store))
        (storeOptions, storePath, allocations) = (options.store, options.storePath, options.allocations)
        self.logger = logger
        self.jobTable = jobTable
        memory = MemoryBudget(shared: limits.memory, one: limits.jobMemory)
        self.statistics = statistics
        self.storageFailure = storageFailure
        retention = options.store.retention
        ledger = LedgerThread(writer.opened.files, writer.opened.jobs)
        failures = LedgerThread(writer.opened.files, writer.opened.jobs)
        readers = ReaderPool(
            options.fetched ?? writer.opened.files, plan: opening.plan, gate: gate, streams: limits.streams,
            onCommit: onCommit
        )
        gate.onLongEnd { [weak gate] in if let gate { Self.copyWAL(whileIdle: gate, jobTable) } }
        backups = BackupThread(gate, logger)
        self.pool = pool
        self.completions = completions
        onFailure { [readers] in readers.fail($0) }
        onLoss.set { [weak self] in self?.halt(forLossOf: $0) }
    }

    /// The long reads that delayed the writer have ended.
    private static func copyWAL(whileIdle gate: ReaderGate, _ jobTable: Monitor<JobTable>) {
        jobTable.update { jobTable in
            jobTable.requests.tasks.append { [weak gate] store in
                // A WAL that grew long is copied beside brief reads; then the gate is closed for a moment only.
                store.copyLog()
                gate?.whileIdle { store.copyLog() }
            }
        }
    }

    // MARK: - Admission

    /// A whole frame has arrived: it gets its ticket, and a worker opens it.
    ///
    /// - Parameters:
    ///   - source: the connection of the frame; sources take turns with the workers.
    ///   - user: the client's, whose bytes in flight the frame and its job are.
    ///   - contentBytesAtMost: an upper bound of its content's bytes, from the outside. Until the frame is opened it
    ///     counts as that much, and a large one as more (``CoordinatorLimits``).
    ///   - mayOpenHere: the calling thread may open and stage a small frame, which saves a hand-over to a worker.
    ///   - payload: as that of ``FrameContent``, like `open` and `refuse`.
    package func admit(
        from source: Int = 0, of user: UInt32 = 0, payloadBytes: Int, contentBytesAtMost: Int = 0,
        mayOpenHere: Bool = false, payload: (@Sendable () -> [UInt8])? = nil,
        open: @escaping @Sendable (JobMemory) -> Opened, refuse: @escaping @Sendable (_ message: String) -> Void
    ) {
        let content = ClosureContent(bytes: payload, opened: open, refused: refuse)
        admit(
            content, from: source, of: user, payloadBytes: payloadBytes, contentBytesAtMost: contentBytesAtMost,
            mayOpenHere: mayOpenHere)
    }

    /// The same for a frame whose content is an object.
    package func admit(
        _ content: any FrameContent, from source: Int, of user: UInt32 = 0, payloadBytes: Int, contentBytesAtMost: Int,
        mayOpenHere: Bool = true
    ) {
        let most = max(payloadBytes, contentBytesAtMost)
        let (ticket, memory, refusal, isAlone) = jobTable.withLock { jobTable in
            let ticket = jobTable.admit(AdmittedFrame.weight(of: most), from: source, of: user)
            let memory = self.memory.admit(ticket, payloadBytes: payloadBytes)
            return (ticket, memory, jobTable.refusals.current, jobTable.load.count == 1)
        }
        let frame = AdmittedFrame(
            content, at: ticket, from: source, of: user, payloadBytes: payloadBytes, contentBytesAtMost: most, memory,
            refusal: refusal)
        open(frame, mayOpenHere: mayOpenHere, isAlone: isAlone)
    }

    /// - Parameter isAlone: nothing else is in flight.
    func open(_ frame: AdmittedFrame, mayOpenHere: Bool, isAlone: Bool) {
        let mostBytes = isAlone ? CoordinatorLimits.openedHereBytes : CoordinatorLimits.openedBesideOthersBytes
        if mayOpenHere, plan.isBrief, frame.contentBytesAtMost <= mostBytes {
            openBriefly(frame)
        } else {
            open(frame)
        }
    }

    package func hasRoom(for source: Int = 0, of user: UInt32 = 0) -> Bool {
        jobTable.withLock { $0.hasRoom(for: source, of: user) }
    }

    /// From now on, users have no more bytes in flight than that before their clients wait.
    package func limitBytesInFlight(_ limit: UserLimit) { jobTable.change(completions) { $0.use(limit) } }

    /// Whether the user has fewer bytes in flight than its limit.
    package func hasRoom(ofUser user: UInt32) -> Bool { jobTable.withLock { $0.load.hasRoom(of: user) } }

    /// The number of frames that were admitted and have not ended.
    package var admittedCount: Int { jobTable.withLock { $0.load.count } }

    /// Calls `notify` once when there is room for that source and user: at once, or later on a thread of the coordinator's.
    package func whenRoom(for source: Int = 0, of user: UInt32 = 0, _ notify: @escaping @Sendable () -> Void) {
        let hasRoom = jobTable.withLock { jobTable in
            if jobTable.hasRoom(for: source, of: user) { return true }
            jobTable.waitForRoom(source, of: user, notify)
            return false
        }
        if hasRoom { notify() }
    }

    private static let draining = Fault(
        .draining, "The server is stopping and takes no new jobs. Send it again when the server is back.")

    func refuse(_ job: Job, _ fault: Fault) {
        let outcome = JobCompletion.failed(fault, id: job.id ?? "", owner: job.owner, sequence: nil)
        completions.run { job.observer(.ended(outcome)) }
        statistics.count { $0.noteFailure(fault.code, at: monotonicMicroseconds()) }
    }

    /// The frame held no job, or a job that was refused. For a question ``goesOn(_:_:of:)`` was called before.
    func skip(_ frame: AdmittedFrame, _ question: (@Sendable (Int) -> Void)? = nil) {
        if question == nil { _ = goesOn(frame, .nothing) }
        jobTable.change(completions) { $0.skipped(frame, question) }
    }

    func madeId(_ ticket: Int) -> String { "broker-\(run)-\(ticket)" }

    // MARK: - Awaiting, stopping

    /// Reports how a job ended, now or when it ends; nil when the id is unknown, or the asker may not see the job.
    ///
    /// The committed job of the id counts. If there is none, the newest job of that id before the question's ticket counts: its end
    /// is waited for, and its failure is reported.
    package func await(
        _ id: String, before ticket: Int? = nil, as asker: JobOwner = .server,
        _ notify: @escaping @Sendable (Result<JobCompletion?, StoreError>) -> Void
    ) {
        let key = JobID(id)
        let (wait, cancelled, unrecorded) = jobTable.withLock { jobTable in
            // A cancelled job has ended, though its turn, which a pause may delay, has not come.
            let cancelled = jobTable.running.cancellation(of: key, before: ticket, as: asker)
            let waiter = RunningJobs.Waiter(asker: asker) { notify(.success($0)) }
            return (
                cancelled == nil ? jobTable.running.await(key, before: ticket, waiter) : nil, cancelled,
                jobTable.unrecorded.outcome(of: key, as: asker)
            )
        }
        // A job leaves the job table after its COMMIT, so a job that is not there is in the ledger, among the
        // unrecorded failures, or unknown.
        ledger.find(id, as: asker) { [jobTable] result in
            guard case .success(let outcome) = result else { return wait == nil ? notify(result) : () }
            let isCommitted = outcome?.isCommitted == true
            if let wait {
                if isCommitted, jobTable.withLock({ $0.running.forget(wait) }) { notify(result) }
            } else if let cancelled, !isCommitted {
                notify(.success(cancelled))
            } else if let unrecorded, !isCommitted, outcome?.sequence ?? 0 < unrecorded.sequence ?? 0 {
                notify(.success(unrecorded))
            } else {
                notify(result)
            }
        }
    }

    /// Calls `notify` once if the disk under the store or its journal fails, or the store's file is damaged, on a thread of the
    /// coordinator's, after the ends that were sent before.
    ///
    /// Whether the last transaction, or the newest entries, are on the disk is unknown then: their jobs and later ones, and who
    /// awaits them, get no answer, and fetches fail. The coordinator is not used any more; ``stop()`` does not wait for those jobs.
    package func onFailure(_ notify: @escaping @Sendable (StoreError) -> Void) {
        completions.run(storageFailure.observe(notify))
    }

    /// From now on new jobs are refused; those admitted before still take effect. A backup is cancelled, and fetches end. Any
    /// number of calls.
    ///
    /// - Parameter seconds: how long jobs still wait for a store that another program has locked; then they fail.
    package func refuseNewJobs(lockSeconds seconds: Int = CoordinatorLimits.defaultLockSecondsAtStop) {
        backups.cancel()
        readers.interrupt()
        jobTable.update {
            $0.service.isDraining = true
            $0.refusals.stopping = Self.draining
            $0.service.isPaused = false
            $0.service.lockDeadline = $0.service.lockDeadline ?? monotonicMicroseconds() + Int64(seconds) * 1_000_000
        }
    }

    /// Waits until everything admitted before has taken effect, but for entries of a log that has failed, or that takes none when
    /// the time for a locked store is over: they may be in the log or not. Blocks; called after ``refuseNewJobs(lockSeconds:)``.
    package func finishAdmitted() {
        awaitOwnJobs()
        // Entries of other servers may come for ever: the next start applies them.
        jobTable.update { $0.log.isReadingEnded = true }
        // The reader waits for the writer, which must not end before.
        jobTable.wait { ($0.load.count == 0 || $0.log.isLost) && !$0.log.isReaderChanging ? () : nil }
    }

    private func awaitOwnJobs() {
        while true {
            let isDone = jobTable.wait(until: monotonicMicroseconds() + Self.logPause) { jobTable -> Bool? in
                jobTable.hasNoOwn || jobTable.log.isLost ? true : nil
            }
            if isDone == true { return }
            guard let shared = writer.opened.log as? any SharedLog, shared.waiting != nil else { continue }
            jobTable.update { jobTable in
                if let deadline = jobTable.service.lockDeadline, deadline <= monotonicMicroseconds() {
                    jobTable.log.isLost = true
                }
            }
        }
    }

    /// Microseconds between two looks at a log that takes no entries.
    private static let logPause: Int64 = 100_000

    /// Refuses new jobs, finishes those admitted before, and ends the threads. Blocks; called once, and nothing may be
    /// admitted afterwards.
    package func stop() {
        refuseNewJobs()
        finishAdmitted()
        pool.stop()
        // Before the writer closes: only the last connection deletes the WAL's files, and only the writer's connection
        // may.
        ledger.stop()
        failures.stop()
        readers.stop()
        backups.stop()
        jobTable.update { $0.service.isStopped = true }
        writer.join()
        writer.opened.log?.stop()
        logReader.withLock { $0 }?.join()
        completions.stop()
    }

    /// The newest sequence whose outcome may have been forgotten; 0 for none. A client that was sent a larger one can
    /// send the job again without the risk that it is applied twice.
    package var forgottenThrough: Int64 { statistics.now.facts.forgottenThrough }

    package var jobMemory: Int { memory.one }

    package var durability: Durability {
        guard let log = writer.opened.log else { return .queued }
        return (log as? any SharedLog)?.durability ?? .disk
    }

    /// The name of this server among those that share its log; nil without a shared log.
    package var replica: String? { (writer.opened.log as? any SharedLog)?.replica }
}

/// The halt of a server that shares its log, or whose files are no longer those that it opened: it applies nothing more, refuses
/// jobs, and serves reads.
extension Coordinator {
    /// Calls `notify` once, with the reason, when nothing more is applied: now or later, on a thread of the coordinator's.
    ///
    /// Jobs on their way to the log get no answer then: another server may apply them. Their clients' connections are to be
    /// ended.
    package func onHalt(_ notify: @escaping @Sendable (StoreError) -> Void) { completions.run(halting.observe(notify)) }

    /// Halts if the files of the store and of the journal are not those that were opened.
    ///
    /// - Throws: why jobs, and whatever would open the store again, are refused from now on.
    func checkFiles() throws(StoreError) {
        do throws(StoreError) {
            try writer.opened.files.check()
            try writer.opened.log?.checkFiles()
        } catch {
            // A store that was closed has no WAL.
            guard !jobTable.withLock({ $0.service.isStopped }) else { return }
            halt(forLossOf: error)
            throw error
        }
    }

    /// The files of the store or of the journal are no longer those that were opened: nothing is opened by their names any more.
    /// Any number of calls; the first counts.
    func halt(forLossOf error: StoreError) {
        if let reader = logReader.withLock({ $0 }), reader.replicas != nil { return reader.halt(error) }
        let isFirst = jobTable.withLock { jobTable in
            defer { jobTable.refusals.halt = jobTable.refusals.halt ?? .halted(error) }
            return jobTable.refusals.halt == nil
        }
        guard isFirst else { return }
        statistics.count { $0.store = .halted(cause: error.message) }
        logger.critical(
            "This server has halted: it refuses jobs, and serves reads where it can.", metadata: ["cause": "\(error)"])
    }

    /// Nothing more is applied. Any number of calls; the first counts.
    func halt(_ error: StoreError, _ say: () -> Void) {
        jobTable.change(completions) { jobTable in
            jobTable.log.isLost = true
            jobTable.refusals.halt = jobTable.refusals.halt ?? .halted(error)
            return jobTable.effects([], notifies: true)
        }
        halting.happened(.halted(cause: error.message), error, in: statistics, after: completions, say: say)
        failChanges(error)
    }
}

extension Fault {
    fileprivate static func halted(_ error: StoreError) -> Fault {
        Fault(.storeUnavailable, "This server has halted. \(error.message)")
    }
}

extension Coordinator {
    package var condition: CoordinatorCondition {
        var condition = CoordinatorCondition()
        switch storeState {
        case .waiting(let cause): condition.waitingCause = cause
        case .halted(let cause): condition.haltCause = cause
        case .serving, .failed: break
        }
        (condition.jobs, condition.isPaused, condition.isDraining) = jobTable.withLock {
            ($0.jobCount, $0.service.isPaused, $0.service.isDraining)
        }
        return condition
    }

    /// The state that a new job would meet now, also where none was sent since the cause arose.
    var storeState: StoreState {
        try? checkFiles()
        let state = statistics.now.store
        guard case .serving = state else { return state }
        let refusals = jobTable.withLock { $0.refusals }
        let fullness = { [self] in writer.opened.log?.fullness ?? DiskSpace(of: storePath).fullness }
        return ((refusals.store ?? refusals.log)?.message ?? fullness()?.message).map { .waiting(cause: $0) } ?? state
    }
}
