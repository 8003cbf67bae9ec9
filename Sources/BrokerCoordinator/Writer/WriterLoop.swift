internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore
internal import Logging

/// What the writer's thread does; all of it stays on that thread.
struct WriterLoop {
    typealias Batch = [(sequence: Int64, job: ReadyJob)]

    /// What the writer does next. Without jobs, it sets sequences aside for those that have none.
    private struct Turn {
        var reload: Reload?
        var tasks: [@Sendable (Store) -> Void]
        var batch: Batch
        /// Through which sequence a new block is to be set aside.
        var reservation: Int64?
    }

    /// The store is to be opened with another model.
    struct Reload: Sendable {
        let plan: StagingPlan
        let path: String
        let options: StoreOptions
        /// Called once on the writer's thread, with what has changed and where lines of the ledger are found from now on.
        let tell: @Sendable (Result<(StoreMigration, JobIndex), StoreError>) -> Void
    }

    /// Without a job for so long, nobody is sending one after the other.
    private static let idleMicroseconds: Int64 = 300

    private(set) var store: Store
    /// Nil when what is accepted need not be kept.
    let log: (any JobJournal)?
    let jobTable: Monitor<JobTable>
    let pool: WorkerPool
    let statistics: Statistics
    let completions: SerialThread
    let storageFailure: StorageFailure
    private let gate: ReaderGate
    let limits: CoordinatorLimits
    let logger: Logger
    private let untold = ReplyBudget()
    private var caution = BatchBackoff()
    private var load = WriterLoad()
    /// What the workers know of it.
    private var isBusy = false
    /// When to try to write kept failures again, in microseconds of the monotonic clock; nil while there are none.
    var writeKeptAt: Int64?
    /// The server stops, and a job stays in the log that the store did not take: so does all behind it.
    private var leavesJobs = false

    init(
        store: Store, log: (any JobJournal)?, jobTable: Monitor<JobTable>, pool: WorkerPool, statistics: Statistics,
        completions: SerialThread, storageFailure: StorageFailure, gate: ReaderGate, limits: CoordinatorLimits,
        logger: Logger
    ) {
        self.store = store
        self.log = log
        self.jobTable = jobTable
        self.pool = pool
        self.statistics = statistics
        self.completions = completions
        self.storageFailure = storageFailure
        self.gate = gate
        self.limits = limits
        self.logger = logger
    }

    mutating func run() {
        var ended = monotonicMicroseconds()
        while store.failure == nil, let turn = awaitTurn(since: ended) {
            // As a large one joins no small ones, the first tells. Staging small ones takes no processor for long.
            let isLarge = turn.batch.first?.job.isLarge ?? false
            let begun = monotonicMicroseconds()
            let waited = begun - ended
            work(turn)
            ended = monotonicMicroseconds()
            load.note(waited: waited, worked: isLarge ? ended - begun : 0)
            tellWorkers(isBusy: load.isBusy)
        }
        if store.failure == nil { close() }
        if store.failure != nil { dropAll() }
    }

    /// As a rule one transaction; several where the answers of its jobs take much memory.
    private mutating func work(_ turn: Turn) {
        for task in turn.tasks { task(store) }
        if let wish = turn.reload { reload(wish) }
        if turn.batch.isEmpty, turn.reservation == nil { return }
        var rest = turn.batch
        var reservation = turn.reservation
        repeat {
            if rest.contains(where: \.job.wantsObjects) { untold.waitForRoom() }
            do throws(StoreError) {
                let applied = try apply(&rest, reservation)
                // Nothing holds the jobs any longer but what is handed over.
                rest.removeFirst(applied.count)
                settle(applied, reservation: reservation)
                writeKept()
                reservation = nil
            } catch {
                guard store.failure == nil else { return drop(rest.map(\.job)) }
                logger.log(
                    level: error.code == .overworked ? .debug : .warning,
                    "A transaction was undone; its jobs are tried one by one.", metadata: ["cause": "\(error)"])
                // With more room, the next turn sets them aside.
                let hasMadeRoom = rest.isEmpty && error.code == .full && store.makeRoom()
                if rest.isEmpty, !hasMadeRoom { settle(failStarved(error), reservation: nil) }
                while let (sequence, job) = rest.first {
                    guard let applied = applyAlone(sequence, job) else { return drop(rest.map(\.job)) }
                    rest.removeFirst()
                    settle([applied], reservation: nil)
                }
            }
        } while !rest.isEmpty
    }

    /// Waits for jobs, and does meanwhile what is better done now; nil when there will be no more.
    private mutating func awaitTurn(since start: Int64) -> Turn? {
        if isBusy {
            if let turn = jobTable.wait(until: start + load.patience, { takeTurn(&$0) }) { return turn }
            tellWorkers(isBusy: false)
        }
        guard store.hasIdleWork else { return jobTable.wait { takeTurn(&$0) } }
        let deadline = monotonicMicroseconds() + Self.idleMicroseconds
        if let turn = jobTable.wait(until: deadline, { takeTurn(&$0) }) { return turn }
        store.idle()
        return store.failure == nil ? jobTable.wait { takeTurn(&$0) } : nil
    }

    private mutating func tellWorkers(isBusy: Bool) {
        guard isBusy != self.isBusy else { return }
        self.isBusy = isBusy
        pool.writer(isBusy: isBusy)
    }

    /// What there is to do; the inner nil when there will be no more, the outer one when nothing is ready yet.
    private func takeTurn(_ jobTable: inout JobTable) -> Turn?? {
        var batch: Batch = []
        while let next = jobTable.takeNext(behind: batch) { batch.append(next) }
        let tasks = jobTable.writerTasks
        jobTable.writerTasks = []
        let reload = batch.isEmpty ? jobTable.reload : nil
        if batch.isEmpty { jobTable.reload = nil }
        if batch.isEmpty, tasks.isEmpty, reload == nil, !jobTable.order.isStarved {
            return jobTable.isStopped ? .some(nil) : nil
        }
        return Turn(
            reload: reload, tasks: tasks, batch: batch,
            reservation: jobTable.order.reservationDue(block: limits.sequenceBlock))
    }

    /// Opens the store with another model, which migrates it; what is refused changes nothing, and the old one stays in force.
    ///
    /// The old connection does nothing from the moment when the new one is opened.
    private mutating func reload(_ wish: Reload) {
        do throws(StoreError) {
            let new = try Store(path: wish.path, plan: wish.plan, options: wish.options)
            store = new
            let storeLog = new.log
            statistics.count { $0.log = storeLog }
            wish.tell(.success((new.migration, new.jobs)))
        } catch {
            if error.isDiskFailure { store.fail(error) }
            wish.tell(.failure(error))
        }
    }

    // MARK: - Transactions

    /// Runs `body` in a transaction. While another program has locked the store, it waits and tries again: nothing has
    /// happened then, and jobs need not fail for it. Only a server that stops has not for ever.
    ///
    /// - Returns: nil when `body` gives nil; what it did is then undone.
    func transaction<Result>(
        _ body: () throws(StoreError) -> Result?
    ) throws(StoreError) -> Result? {
        var wait = LockWait(statistics, logger)
        while true {
            do throws(StoreError) {
                try store.begin()
                guard let result = try body() else {
                    store.rollback()
                    return nil
                }
                let start = monotonicMicroseconds()
                try store.commit()
                statistics.count { $0.batches.record(commitMicroseconds: monotonicMicroseconds() - start) }
                wait.ended()
                return result
            } catch {
                store.rollback()
                guard error.isLocked, wait.pause(jobTable) else { throw error }
            }
        }
    }

    /// Applies jobs in one transaction: without a savepoint for each if possible, else one by one.
    ///
    /// - Parameter batch: becomes longer by what was ready meanwhile.
    /// - Returns: the first jobs: all of them, or as many as there is room for the objects that they ask for.
    private mutating func apply(_ batch: inout Batch, _ reservation: Int64?) throws(StoreError) -> [Applied] {
        if caution.allows() {
            let start = monotonicMicroseconds()
            let applied = try transaction { () throws(StoreError) -> [Applied]? in
                if let reservation { try store.reserveSequences(through: reservation) }
                return try applyBatch(&batch, since: start)
            }
            caution.note(isTogether: applied != nil)
            if let applied { return applied }
        }
        let jobs = batch
        return try transaction { () throws(StoreError) -> [Applied]? in
            if let reservation { try store.reserveSequences(through: reservation) }
            var applied: [Applied] = []
            var bytes = 0
            for (sequence, job) in jobs where bytes < ReplyBudget.maximumBytes {
                applied.append(try apply(job, sequence))
                bytes += applied.last?.objectBytes ?? 0
            }
            return applied
        }!
    }

    /// Applies jobs, runs of them at once, and as long as the transaction is short what has become ready meanwhile.
    ///
    /// - Returns: nil when they cannot be applied like this.
    private func applyBatch(_ batch: inout Batch, since start: Int64) throws(StoreError) -> [Applied]? {
        var applied: [Applied] = []
        var bytes = 0
        while bytes < ReplyBudget.maximumBytes {
            if applied.count == batch.count {
                // Small jobs that are ready later are staged while these are made durable.
                guard batch.last?.job.isLarge ?? false,
                    monotonicMicroseconds() - start < CoordinatorLimits.transactionMicroseconds
                else { break }
                takeMore(&batch)
                if applied.count == batch.count { break }
            }
            var run: [StoreJob] = []
            for (sequence, job) in batch[applied.count...] {
                guard job.skipReason != .unjournaled else { break }
                let job = job.storeJob(sequence)
                guard store.canJoin(job) else { break }
                run.append(job)
            }
            if run.isEmpty {
                let (sequence, job) = batch[applied.count]
                applied.append(try apply(job, sequence))
                bytes += applied.last?.objectBytes ?? 0
            } else {
                let begun = monotonicMicroseconds()
                guard let ends = try store.applyBatch(run) else { return nil }
                let now = monotonicMicroseconds()
                for end in ends {
                    let (sequence, job) = batch[applied.count]
                    job.noteMerged()
                    applied.append(
                        Applied(
                            sequence: sequence, job: job, end: end, mergedMicroseconds: now - begun, appliedAt: now))
                }
            }
        }
        return applied
    }

    /// Jobs that are ready by now join the transaction.
    private func takeMore(_ batch: inout Batch) {
        jobTable.withLock { jobTable in
            while let next = jobTable.takeNext(behind: batch) { batch.append(next) }
        }
    }

    private func apply(_ job: ReadyJob, _ sequence: Int64) throws(StoreError) -> Applied {
        if job.skipReason == .unjournaled, case .refused(let fault) = job.work {
            return Applied(sequence: nil, job: job, end: .failed(fault))
        }
        let start = monotonicMicroseconds()
        let end = try store.apply(job.storeJob(sequence))
        job.noteMerged()
        let now = monotonicMicroseconds()
        return Applied(sequence: sequence, job: job, end: end, mergedMicroseconds: now - start, appliedAt: now)
    }

    /// The job in a transaction of its own, so that the fault is its own, too; nil when the store has failed.
    ///
    /// With a log, what the machine cannot store is no failure of the job's: it is tried until it can be, or the server stops.
    private mutating func applyAlone(_ sequence: Int64, _ job: ReadyJob) -> Applied? {
        var wait = StoreWait(statistics, logger)
        var hasMadeRoom = false
        while true {
            if leavesJobs { return Applied(sequence: nil, job: job, end: .failed(.leftInLog)) }
            do throws(StoreError) {
                let applied = try transaction { () throws(StoreError) in try apply(job, sequence) }!
                wait.ended(jobTable)
                return applied
            } catch {
                guard store.failure == nil else { return nil }
                if error.code == .overworked { continue }
                // What a reader holds now may be copied before a later try.
                if error.code == .full, store.makeRoom(), !hasMadeRoom {
                    hasMadeRoom = true
                    continue
                }
                guard log != nil else { return failed(error, sequence, job) }
                guard error.isOfMachine else {
                    stop(at: sequence, job, error)
                    return nil
                }
                leavesJobs = !wait.pause(jobTable, error)
            }
        }
    }

    // MARK: - After COMMIT

    /// Tells the ends in order, frees the room, and counts.
    private mutating func settle(_ ended: consuming [Applied], reservation: Int64?) {
        var applied = consume ended
        var isLone = applied.count == 1 && applied[0].job.accepted.weight <= CoordinatorLimits.briefBytes
        let committedAt = monotonicMicroseconds()
        var woken: [@Sendable () -> Void] = []
        var tasks: [@Sendable () -> Void] = []
        tasks.reserveCapacity(applied.count)
        var hasKept = false
        for applied in applied where applied.objectBytes > 0 {
            untold.add(applied.objectBytes)
            applied.job.memory.add(applied.objectBytes)
        }
        jobTable.broadcast { jobTable in
            if let reservation { completions.run(jobTable.reserved(through: reservation)) }
            for applied in applied {
                let waiters = jobTable.ended(
                    applied.job.accepted, isCommitted: applied.isCommitted, owner: applied.committedOwner,
                    took: applied.mergedMicroseconds, at: committedAt)
                // A long answer is written there, too, and the rows are freed, while the next ones are merged here.
                tasks.append(telling(applied, waiters, committedAt))
                guard let fault = applied.unwritten, let sequence = applied.sequence else { continue }
                jobTable.kept.keep(applied.job.failedStoreJob(sequence, fault), applied.toldOutcome(committedAt))
            }
            // Whoever waited for these ends comes after they are told.
            tasks += jobTable.ends.takeReady()
            hasKept = !jobTable.kept.isEmpty
            isLone = isLone && !jobTable.hasWork
            woken = jobTable.takeWoken(limits)
            return jobTable.isDraining || jobTable.count == 0
        }
        writeKeptAt = hasKept ? writeKeptAt ?? committedAt : nil
        // Who is told an end and asks for the numbers finds it counted.
        let storeLog = store.log
        let history = store.history
        let forgotten = store.forgottenThrough
        statistics.count {
            $0.note(applied, committedAt)
            $0.log = storeLog
            $0.history = history
            $0.forgottenThrough = forgotten
        }
        // As a rule answers are written, and rows freed, there, while the next jobs are merged here.
        applied = []
        if isLone { completions.runHereIfIdle(tasks) } else { completions.run(tasks) }
        for tell in woken { tell() }
        // A WAL that was due before and was not begun anew is in use by readers.
        if store.isLogOverdue { gate.whileIdle { store.copyLogIfDue() } } else { store.copyLogIfDue() }
        if store.log != storeLog {
            let storeLog = store.log
            statistics.count { $0.log = storeLog }
        }
        if let log, let position = store.durablePosition { log.applied(through: position) }
        for notice in store.takeLogNotices() { notice.tell(logger, isOwnReader: gate.isReadingLong) }
    }

    private func telling(
        _ applied: Applied, _ waiters: [RunningJobs.Waiter], _ committedAt: Int64
    ) -> @Sendable () -> Void {
        let bytes = applied.objectBytes
        guard bytes > 0 else { return { applied.tell(waiters, committedAt) } }
        return { [untold] in
            applied.tell(waiters, committedAt)
            untold.remove(bytes)
        }
    }
}
