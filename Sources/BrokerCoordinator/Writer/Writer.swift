internal import BrokerJournal
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStore
internal import Logging

/// The one thread that writes: it opens the store and merges ready jobs in order, many to a COMMIT.
///
/// It never waits for a timer: all jobs that are ready when it looks go into one transaction, and the next jobs become
/// ready while that transaction is made durable.
final class Writer: Sendable {
    struct Opened: Sendable {
        let migration: StoreMigration
        /// The store's, which a reload does not change.
        let files: OpenedFiles
        /// Finds the lines of jobs in the ledger.
        let jobs: JobIndex
        let log: (any JobLog)?
        /// Why a store that a shared log feeds must take no more entries of it, from the start on.
        let halt: StoreError?
        let replicas: ReplicaTable
        let applied: AppliedPosition
    }

    private let thread: Thread
    let opened: Opened

    /// Opens the store on the new thread and waits for it.
    ///
    /// - Parameter loop: called on the new thread: the work that it then does.
    /// - Throws: ``StoreError``; the thread has ended then.
    init(
        _ opening: CoordinatorOpening, jobTable: Monitor<JobTable>, logger: Logger,
        loop makeLoop: @escaping @Sendable (Store, (any JobLog)?, AppliedPosition) throws(StoreError) -> WriterLoop
    ) throws(StoreError) {
        let options = opening.options
        let opened = Monitor<Result<Opened, StoreError>?>(nil)
        thread = Thread(named: "writer") {
            options.store.activity?.begin()
            do throws(StoreError) {
                try JournalOpening.leaveBeforeMigration(to: opening.plan, options, logger)
                let store = try Store(path: options.storePath, plan: opening.plan, options: options.store)
                let result = try Self.openLog(of: store, opening, jobTable, logger: logger)
                var loop = try makeLoop(store, result.log, result.applied)
                opened.update { $0 = .success(result) }
                loop.run()
            } catch {
                opened.update { $0 = .failure(error) }
            }
        }
        do throws(StoreError) {
            self.opened = try opened.wait { $0 }.get()
        } catch {
            thread.join()
            throw error
        }
    }

    /// Opens the log of a store, and gives the job table its first sequence.
    private static func openLog(
        of store: Store, _ opening: CoordinatorOpening, _ jobTable: Monitor<JobTable>, logger: Logger
    ) throws(StoreError) -> Opened {
        let (options, shared) = (opening.options, opening.shared)
        let files = try shared == nil ? JournalOpening.open(for: store, options, logger) : nil
        if let first = opening.beginning, let shared {
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

    /// Waits for the end of the thread, which comes after `JobTable.isStopped`.
    func join() { thread.join() }
}

/// Decides what follows when a job that has a transaction of its own was not stored. A pure value, of one job.
struct LoneAttempts {
    enum Step {
        case again
        /// Wait for the machine, then again: the journal has the job.
        case wait
        case fail
        /// Neither the job nor the machine is at fault: the server must not go on after the job.
        case stop
    }

    let isLogged: Bool
    private var wasOverworked = false
    private var hasMadeRoom = false

    init(isLogged: Bool) { self.isLogged = isLogged }

    /// `makeRoom` makes room in a full store, and returns whether there may be some. A page that a reader needs now may be copied
    /// before a later attempt.
    mutating func next(after error: StoreError, makeRoom: () -> Bool) -> Step {
        // The second attempt of a job that does too much ends with its fault.
        if error.code == .overworked, !wasOverworked {
            wasOverworked = true
            return .again
        }
        if error.code == .full, makeRoom(), !hasMadeRoom {
            hasMadeRoom = true
            return .again
        }
        guard isLogged else { return .fail }
        return error.isOfMachine ? .wait : .stop
    }
}

/// Whether the next transaction should merge its jobs as a batch. When one job of a batch is at fault, all of them are
/// merged twice; so after such a transaction some are merged job by job, more each time. A pure value.
struct BatchBackoff {
    /// The most transactions in a row that are merged job by job: faults may become rare again.
    static let longest = 32

    private var length = 0
    private var left = 0

    mutating func allows() -> Bool {
        guard left > 0 else { return true }
        left -= 1
        return false
    }

    mutating func note(isTogether: Bool) {
        length = isTogether ? 0 : min(Self.longest, max(1, 2 * length))
        left = length
    }
}

/// A bound for the objects of jobs (`reply: objects`) between the writer, which reads them, and the thread that sends
/// them.
final class ReplyBudget: Sendable {
    private let bytes = Monitor(0)

    /// Bytes of objects, of one transaction and not yet sent, above which the writer reads no more.
    static let maximumBytes = 4 << 20

    /// Waits until most of the objects are sent. The sending thread never waits for the writer.
    func waitForRoom() { bytes.wait { $0 < Self.maximumBytes ? () : nil } }

    func add(_ count: Int) { bytes.withLock { $0 += count } }

    func remove(_ count: Int) {
        bytes.update { $0 -= count }
    }
}

/// Whether everything waits for the writer: the share of recent time in which it worked.
///
/// A pure value without a clock. All times are in microseconds.
struct WriterLoad {
    /// The longest wait for jobs, as a share of the working time, of a writer that counts as busy: a tenth. A writer
    /// that waits longer needs more staged jobs, not a processor.
    private static let idleShare: Int64 = 10
    /// No turn counts for more, so that a very long one does not make the writer count as busy for long.
    static let longestTurn: Int64 = 100_000

    private var worked: Int64 = 0
    private var waited: Int64 = 0

    /// How long the writer may still wait before it is not busy any more; not above 0 when it is not busy.
    var patience: Int64 { worked / Self.idleShare - waited }
    var isBusy: Bool { patience > 0 }

    /// The writer has waited for jobs and worked on large ones. The last few such turns count most.
    mutating func note(waited: Int64, worked: Int64) {
        self.waited = self.waited * 3 / 4 + waited
        self.worked = self.worked * 3 / 4 + min(worked, Self.longestTurn)
    }
}
