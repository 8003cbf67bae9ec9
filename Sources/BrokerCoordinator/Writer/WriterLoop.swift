internal import BrokerSchema
internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore
internal import Logging

/// The work of the writer's thread; all of it stays on that thread.
struct WriterLoop {
    /// The writer's next work. Without jobs, it reserves sequences for those that have none.
    private struct Turn {
        var reload: ModelReload?
        var tasks: [@Sendable (Store) -> Void]
        var batch: JobBatch
        /// The last sequence of the block to reserve.
        var reservation: Int64?
    }

    /// After this long without a job, no client is sending jobs one at a time.
    private static let idleMicroseconds: Int64 = 300

    private(set) var store: Store
    /// Nil without a journal.
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
    /// The state that the workers were last sent.
    private var isBusy = false
    /// When to try again to record failures, in microseconds of the monotonic clock; nil while there are none.
    var writeKeptAt: Int64?
    /// The server stops, and the store did not take a job of the journal: that job and all after it stay in the
    /// journal.
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
            // A large job joins no small ones, so the first job decides. Staging small jobs takes no processor for
            // long.
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

    /// Usually one transaction; several where the answers of its jobs take much memory.
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
                // Only the values handed over retain the jobs from here on.
                rest.removeFirst(applied.count)
                settle(applied, reservation: reservation)
                writeKept()
                reservation = nil
            } catch {
                guard store.failure == nil else { return drop(rest.map(\.job)) }
                logger.log(
                    level: error.code == .overworked ? .debug : .warning,
                    "A transaction was undone; its jobs are tried one by one.", metadata: ["cause": "\(error)"])
                // When there is room, the next turn reserves them.
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

    /// Waits for jobs, and meanwhile does work that is better done now. Nil when no more will come.
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

    /// The next work. The inner nil means that no more will come, the outer one that nothing is ready.
    private func takeTurn(_ jobTable: inout JobTable) -> Turn?? {
        var batch: JobBatch = []
        while let next = jobTable.takeNext(after: batch) { batch.append(next) }
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

    /// Opens the store with another model, which migrates it. A model that is refused changes nothing, and the old one
    /// stays in force.
    ///
    /// The old connection does nothing from the moment when the new one is opened.
    private mutating func reload(_ wish: ModelReload) {
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

    /// Runs `body` in a transaction. While another program has locked the store, the writer waits and tries again:
    /// nothing has happened then, and jobs need not fail. Only a server that stops limits the wait.
    ///
    /// - Returns: nil when `body` returns nil; its changes are then undone.
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

    /// Applies jobs in one transaction: as a batch without savepoints if possible, else job by job.
    ///
    /// - Parameter batch: gets the jobs that become ready meanwhile.
    /// - Returns: the first jobs: all of them, or as many as there is room for the objects that they ask for.
    private mutating func apply(_ batch: inout JobBatch, _ reservation: Int64?) throws(StoreError) -> [Applied] {
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

    /// Applies runs of jobs as batches and, while the transaction is short, jobs that have become ready meanwhile.
    ///
    /// - Returns: nil when a batch cannot be applied.
    private func applyBatch(_ batch: inout JobBatch, since start: Int64) throws(StoreError) -> [Applied]? {
        var applied: [Applied] = []
        var bytes = 0
        while bytes < ReplyBudget.maximumBytes {
            if applied.count == batch.count {
                // Small jobs that become ready later are staged while these are made durable.
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

    /// Adds the jobs that are ready by now to the transaction.
    private func takeMore(_ batch: inout JobBatch) {
        jobTable.withLock { jobTable in
            while let next = jobTable.takeNext(after: batch) { batch.append(next) }
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

    /// Applies the job in a transaction of its own, so that its fault concerns no other job. Nil when the store has
    /// failed.
    ///
    /// With a journal, a job that the machine cannot store does not fail: the writer tries until it can, or the server
    /// stops.
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
                // A page that a reader needs now may be copied before a later attempt.
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

    /// Sends the outcomes in order, frees the room, and counts.
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
                // A long answer is written there, too, and the rows are freed, while the next jobs are merged here.
                tasks.append(telling(applied, waiters, committedAt))
                guard let fault = applied.unwritten, let sequence = applied.sequence else { continue }
                jobTable.kept.keep(applied.job.failedStoreJob(sequence, fault), applied.toldOutcome(committedAt))
            }
            // The waiters for these ends come after the ends themselves.
            tasks += jobTable.ends.takeReady()
            hasKept = !jobTable.kept.isEmpty
            isLone = isLone && !jobTable.hasWork
            woken = jobTable.takeWoken(limits)
            return jobTable.isDraining || jobTable.count == 0
        }
        writeKeptAt = hasKept ? writeKeptAt ?? committedAt : nil
        // A client that gets an outcome and asks for `stats` finds it counted.
        let storeLog = store.log
        let history = store.history
        let forgotten = store.forgottenThrough
        statistics.count {
            $0.note(applied, committedAt)
            $0.log = storeLog
            $0.history = history
            $0.forgottenThrough = forgotten
        }
        // Usually answers are written, and rows freed, there, while the next jobs are merged here.
        applied = []
        if isLone { completions.runHereIfIdle(tasks) } else { completions.run(tasks) }
        for tell in woken { tell() }
        // Readers hold a WAL whose copying was due and that was not restarted.
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
