internal import BrokerJournal
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging
internal import BrokerStore
internal import Logging

/// The one thread that writes: it opens the store and merges ready jobs in order, many to a COMMIT.
///
/// It never waits for a timer: all jobs that are ready when it looks go into one transaction, and the next jobs become
/// ready while that transaction is made durable.
final class Writer: Sendable {
    private let thread: Thread
    let migration: StoreMigration
    /// The store's, which a reload does not change.
    let files: OpenedFiles
    /// Finds the lines of jobs in the ledger.
    let jobs: JobIndex
    /// Nil without a journal.
    let log: (any JobLog)?
    /// Why a store that a shared log feeds must take no more entries of it, from the start on.
    let halt: StoreError?
    /// The servers that share the log.
    let replicas: ReplicaTable
    let applied: AppliedPosition

    /// Opens the store on the new thread and waits for it.
    ///
    /// - Throws: ``StoreError``; the thread has ended then.
    init(
        _ opening: CoordinatorOpening, jobTable: Monitor<JobTable>, pool: WorkerPool, statistics: Statistics,
        completions: SerialThread, storageFailure: StorageFailure, gate: ReaderGate, onCommit: Callback<Void>,
        onLoss: Callback<StoreError>, logger: Logger
    ) throws(StoreError) {
        let options = opening.options
        let opened = Monitor<Result<Opened, StoreError>?>(nil)
        thread = Thread(named: "writer") {
            options.store.activity?.begin()
            do throws(StoreError) {
                try JournalOpening.leaveBeforeMigration(to: opening.plan, options, logger)
                let store = try Store(path: options.storePath, plan: opening.plan, options: options.store)
                let result = try Self.openLog(of: store, opening, jobTable, logger: logger)
                try statistics.note(store)
                opened.update { $0 = .success(result) }
                var loop = WriterLoop(
                    store: store, log: result.log, applied: result.applied, jobTable: jobTable, pool: pool,
                    statistics: statistics, completions: completions, storageFailure: storageFailure, gate: gate,
                    onCommit: onCommit, onLoss: onLoss, activity: options.store.activity ?? WriterActivity(),
                    limits: options.limits, logger: logger)
                loop.run()
            } catch {
                opened.update { $0 = .failure(error) }
            }
        }
        do throws(StoreError) {
            let result = try opened.wait { $0 }.get()
            (migration, files, jobs, log) = (result.migration, result.files, result.jobs, result.log)
            (halt, replicas, applied) = (result.halt, result.replicas, result.applied)
        } catch {
            thread.join()
            throw error
        }
    }

    /// Opens the log of a store, and gives the job table its first sequence.
    private static func openLog(
        of store: Store, _ opening: CoordinatorOpening, _ jobTable: Monitor<JobTable>, logger: Logger
    ) throws(StoreError) -> Opened {
        let (options, shared) = (opening.options, opening.joining?.log)
        let files = try shared == nil ? JournalOpening.open(for: store, options, logger) : nil
        if let first = opening.joining?.beginning, let shared {
            try store.beginLog(shared.identity, after: first.position, at: first.time)
        }
        if let files { try checkFingerprint(store, waiting: files.pendingJobCount, logger) }
        // The reservation is durable before a client is sent one of the sequences.
        let block = options.limits.sequenceBlock
        let applied = store.history?.position ?? 0
        let sequence = try store.openSequences(block, after: files?.lastPosition ?? applied)
        jobTable.withLock { $0 = JobTable(after: sequence, reservedThrough: sequence + block, options.limits) }
        let journal = files.map { DiskJournal($0, after: sequence, applied: applied, logger: logger) }
        let log: (any JobLog)? = shared ?? journal
        if let log { jobTable.withLock { $0.use(log, after: applied) } }
        shared?.begin(after: applied, at: store.history?.time ?? 0) { reason in
            let fault = reason.map { Fault(.storeUnavailable, $0) }
            jobTable.withLock { $0.refusals.log = fault }
        }
        return Opened(
            migration: store.migration, files: store.files, jobs: store.jobs, log: log,
            halt: shared == nil ? nil : try store.haltInForce(),
            replicas: try store.replicas(), applied: AppliedPosition(log == nil ? sequence : applied))
    }

    /// Warns when jobs wait that were accepted under another fingerprint than this start's. They are applied: on one machine there
    /// is no better choice.
    private static func checkFingerprint(_ store: Store, waiting: Int, _ logger: Logger) throws(StoreError) {
        let differences = try store.updateFingerprint()
        guard waiting > 0, !differences.isEmpty else { return }
        logger.warning(
            "Jobs wait in the journal that were accepted by a server with other versions; their outcomes may differ.",
            metadata: ["jobs": "\(waiting)", "differences": "\(differences.joined(separator: "; "))"])
    }

    private struct Opened: Sendable {
        let migration: StoreMigration
        let files: OpenedFiles
        let jobs: JobIndex
        let log: (any JobLog)?
        let halt: StoreError?
        let replicas: ReplicaTable
        let applied: AppliedPosition
    }

    /// Waits for the end of the thread, which comes after `JobTable.isStopped`.
    func join() { thread.join() }
}

extension Statistics {
    /// Notes the state of a store that was opened.
    fileprivate func note(_ store: Store) throws(StoreError) {
        let (wal, history, forgotten) = (store.wal, store.history, store.forgottenThrough)
        let fingerprint = history == nil ? nil : store.fingerprint.digits
        let (outcomes, backedUpAt) = (store.outcomeCount, try store.lastBackup())
        count {
            $0.backedUpAt = backedUpAt
            $0.wal = wal
            $0.outcomes = outcomes
            $0.history = history
            $0.fingerprint = fingerprint
            $0.forgottenThrough = forgotten
        }
    }
}
