internal import BrokerJournal
internal import BrokerStore
internal import Logging

/// The work of the writer's thread; all of it stays on that thread.
struct WriterLoop {
    /// After this long without a job, no client is sending jobs one at a time.
    private static let idleMicroseconds: Int64 = 300

    var store: Store
    let log: (any JobLog)?
    let applied: AppliedPosition
    let jobTable: Monitor<JobTable>
    let pool: WorkerPool
    let statistics: Statistics
    let completions: SerialThread
    let storageFailure: StorageFailure
    let gate: ReaderGate
    let onCommit: Callback<Void>
    /// Reports that the store's files are no longer those that were opened.
    let onLoss: Callback<StoreError>
    let activity: WriterActivity
    let limits: CoordinatorLimits
    let logger: Logger
    private let replyBudget = ReplyBudget()
    var batchBackoff = BatchBackoff()
    var load = WriterLoad()
    /// The position of the newest checkpoint that was reported to the other servers.
    var checkpointed: Int64 = 0
    /// The state that the workers were last sent.
    var isBusy = false
    /// When to try again to record failures, or to reserve sequences that were refused, in microseconds of the monotonic
    /// clock; nil while there are none.
    var recordFailuresAt: Int64?
    /// The server stops, and the store did not take a job of the journal: that job and all after it stay in the
    /// journal.
    var leavesJobs = false

    mutating func run() {
        var ended = monotonicMicroseconds()
        while store.failure == nil, let turn = awaitTurn(since: ended) {
            // A large job joins no small ones, so the first job decides. Staging small jobs takes no processor for
            // long.
            let isLarge = turn.jobs.first?.isLarge ?? false
            let begun = monotonicMicroseconds()
            let waited = begun - ended
            work(turn)
            ended = monotonicMicroseconds()
            load.note(waited: waited, worked: isLarge ? ended - begun : 0)
            notifyWorkers(isBusy: load.isBusy)
        }
        if store.failure == nil { close() }
        if store.failure != nil { dropAll() }
    }

    /// Usually one transaction; several where the answers of its jobs take much memory, or the store does not accept all
    /// of them together.
    private mutating func work(_ turn: consuming WriterTurn) {
        for task in turn.tasks { task(store) }
        if !turn.tasks.isEmpty {
            reportCheckpoint()
            if let position = store.history?.position { reached(position) }
        }
        if let request = turn.reopening { reopen(request) }
        if !turn.refused.isEmpty {
            settle(turn.refused, reservation: nil)
            turn.refused = []
        }
        while let step = turn.next {
            switch step {
            case .together: guard applyTogether(&turn) else { return drop(turn.jobs) }
            case .alone(let job):
                guard applyAlone(job) else { return drop(turn.jobs) }
                turn.applied(1)
                settle([job], reservation: nil)
            case .failStarved(let error):
                failStarved(error)
                turn.starvedFailed()
            }
        }
    }

    private mutating func applyTogether(_ turn: inout WriterTurn) -> Bool {
        if turn.jobs.contains(where: \.wantsObjects) { replyBudget.waitForRoom() }
        let reservation = turn.reservation
        do throws(StoreError) {
            let count = try apply(turn.jobs, reservation)
            let applied = Array(turn.jobs.prefix(count))
            // Only the array that is handed over retains the jobs from here on.
            turn.applied(count)
            settle(applied, reservation: reservation)
            recordFailures()
        } catch {
            guard store.failure == nil else { return false }
            logger.log(
                level: error.code == .overworked ? .debug : .warning,
                "A transaction was undone; its jobs are tried one by one.", metadata: ["cause": "\(error)"])
            turn.failed(error, hasMadeRoom: turn.jobs.isEmpty && error.code == .full && store.makeRoom())
        }
        return true
    }

    /// Waits for jobs, and meanwhile does work that is better done now. Nil when no more will come.
    private mutating func awaitTurn(since start: Int64) -> WriterTurn? {
        if isBusy {
            let next = activity.wait { jobTable.wait(until: start + load.patience) { $0.takeTurn() } }
            if let next { return next }
            notifyWorkers(isBusy: false)
        }
        if store.hasIdleWork {
            let deadline = monotonicMicroseconds() + Self.idleMicroseconds
            if let next = jobTable.wait(until: deadline, { $0.takeTurn() }) { return next }
            store.idle()
        }
        // The store takes no writes; without a job nothing else would notice that it does again.
        while let time = recordFailuresAt, store.failure == nil {
            if let next = activity.wait({ jobTable.wait(until: time) { $0.takeTurn() } }) { return next }
            recordFailures()
        }
        return store.failure == nil ? activity.wait { jobTable.wait { $0.takeTurn() } } : nil
    }

    private mutating func notifyWorkers(isBusy: Bool) {
        guard isBusy != self.isBusy else { return }
        self.isBusy = isBusy
        pool.writer(isBusy: isBusy)
    }

    /// Opens the store with another model, which migrates it, or with other limits. What is refused changes nothing, and the
    /// old model and limits stay in force.
    ///
    /// The old connection does nothing from the moment when the new one is opened.
    private mutating func reopen(_ request: StoreReopening) {
        do throws(StoreError) {
            // The path may lead to another database, or to none, where a new one would be made.
            try store.checkFiles()
            let new = try Store(
                path: request.path, plan: request.plan, options: request.options, applying: request.mark,
                isOpen: !store.isForeign)
            store = new
            // A store that takes no writes now keeps the earlier one until the next start.
            if log != nil { _ = try? new.updateFingerprint() }
            let fingerprint = log == nil ? nil : new.fingerprint.digits
            statistics.note(new)
            statistics.count { $0.fingerprint = fingerprint }
            request.notify(.success((new.migration, new.jobs)))
            if let position = new.history?.position { reached(position) }
        } catch {
            noteLoss()
            if error.isDiskFailure { store.fail(error) }
            if let mark = request.mark, error.code == .incompatible { pass(mark) }
            request.notify(.failure(error))
        }
    }

    func noteLoss() {
        if let loss = store.loss { onLoss(loss) }
    }

    /// The store refuses the change of that entry. If this cannot be stored now, a later entry moves the position past it.
    private func pass(_ mark: LogMark) {
        do throws(StoreError) {
            try store.pass(mark)
            statistics.note(store)
        } catch {
            logger.debug("The position of a refused change was not stored.", metadata: ["cause": "\(error)"])
        }
    }

    // MARK: - Transactions

    /// Applies jobs in one transaction: as a batch without savepoints if possible, else job by job.
    ///
    /// - Returns: how many of the first jobs: all of them, or as many as the transaction has time for, and room for the objects
    ///   that they ask for.
    private mutating func apply(_ batch: [AcceptedJob], _ reservation: Int64?) throws(StoreError) -> Int {
        if batchBackoff.allows() {
            let start = monotonicMicroseconds()
            let count = try transaction { () throws(StoreError) -> Int? in
                if let reservation { try store.reserveSequences(through: reservation) }
                return try applyBatch(batch, since: start)
            }
            batchBackoff.note(isTogether: count != nil)
            if let count { return count }
        }
        let start = monotonicMicroseconds()
        return try transaction { () throws(StoreError) -> Int? in
            if let reservation { try store.reserveSequences(through: reservation) }
            var bytes = 0
            for (position, job) in batch.enumerated() {
                try apply(job)
                bytes += job.objectBytes
                guard bytes < ReplyBudget.maximumBytes, hasTime(since: start) else { return position + 1 }
            }
            return batch.count
        }!
    }

    /// Applies runs of jobs as batches, while the transaction is short. Jobs that become ready meanwhile are left for the next one,
    /// so that clients get answers, and send more, while those are merged.
    ///
    /// - Returns: how many of the first jobs; nil when a batch cannot be applied.
    private func applyBatch(_ batch: [AcceptedJob], since start: Int64) throws(StoreError) -> Int? {
        var count = 0
        var bytes = 0
        while count < batch.count, bytes < ReplyBudget.maximumBytes, count == 0 || hasTime(since: start) {
            var run: [StoreJob] = []
            run.reserveCapacity(batch.count - count)
            for job in batch[count...] {
                let job = job.storeJob(isLogged: log != nil)
                guard store.canJoin(job) else { break }
                run.append(job)
            }
            if run.isEmpty {
                try apply(batch[count])
                bytes += batch[count].objectBytes
                count += 1
            } else {
                let begun = monotonicMicroseconds()
                guard let ends = try store.applyBatch(run) else { return nil }
                let now = monotonicMicroseconds()
                // The jobs were merged in the same statements: by its rows, and one more, each has a share of the time.
                let jobs = batch[count...].prefix(ends.count)
                let shares = jobs.reduce(0) { $0 + $1.rowCount + 1 }
                for (job, end) in zip(jobs, ends) {
                    let own = (now - begun) * Int64(job.rowCount + 1) / Int64(shares)
                    job.applied(end, took: (now - begun, own), at: now)
                }
                count += ends.count
            }
        }
        return count
    }

    private func hasTime(since start: Int64) -> Bool {
        monotonicMicroseconds() - start < limits.transactionMicroseconds
    }

    private func apply(_ job: AcceptedJob) throws(StoreError) {
        activity.advance()
        let start = monotonicMicroseconds()
        let end = try store.apply(job.storeJob(isLogged: log != nil))
        let now = monotonicMicroseconds()
        job.applied(end, took: (now - start, now - start), at: now)
    }

    /// Applies the job in a transaction of its own, so that its fault concerns no other job. False when the store has
    /// failed.
    ///
    /// With a journal, a job that the machine cannot store does not fail: the writer tries until it can, or the server
    /// stops.
    private mutating func applyAlone(_ job: AcceptedJob) -> Bool {
        var wait = StoreWait(isLocked: false, jobTable, statistics, logger: logger)
        var attempts = LoneAttempts(isLogged: log != nil)
        while true {
            if leavesJobs {
                job.place = LogPlace(position: nil, time: job.place.time)
                job.failed(.leftInJournal)
                return true
            }
            do throws(StoreError) {
                _ = try transaction { () throws(StoreError) -> Void? in try apply(job) }
                wait.ended()
                return true
            } catch {
                guard store.failure == nil else { return false }
                switch attempts.next(after: error, makeRoom: store.makeRoom) {
                case .again: continue
                case .wait: leavesJobs = !wait.pause(error)
                case .fail:
                    failed(job, error)
                    return true
                case .stop:
                    stop(at: job, error)
                    return false
                }
            }
        }
    }

    // MARK: - After COMMIT

    /// Sends the outcomes in order, frees the room, and counts.
    mutating func settle(_ ended: consuming [AcceptedJob], reservation: Int64?) {
        var applied = consume ended
        var isLone = applied.count == 1 && applied[0].weight <= CoordinatorLimits.briefBytes
        let committedAt = monotonicMicroseconds()
        let position = applied.last?.sequence
        for job in applied where job.objectBytes > 0 {
            replyBudget.add(job.objectBytes)
            job.memory?.add(job.objectBytes)
        }
        var settlement = JobTable.Settlement()
        jobTable.broadcast { jobTable in
            settlement = jobTable.settle(applied, reservation: reservation, at: committedAt) {
                report($0, committedAt)
            }
            completions.run(settlement.reserved)
            return settlement.effects.notifies
        }
        isLone = isLone && !settlement.hasWork
        if settlement.hasUnrecordedFailures { recordFailuresAt = recordFailuresAt ?? committedAt }
        // A client that gets an outcome and asks for `stats` finds it counted.
        let facts = StoreFacts(store)
        var slow: [EndedJob] = []
        statistics.count {
            slow = $0.note(applied, committedAt)
            $0.facts = facts
        }
        onCommit()
        // Usually answers are written, and rows freed, there, while the next jobs are merged here.
        applied = []
        let calls = settlement.effects.completions
        if isLone { completions.runHereIfIdle(calls) } else { completions.run(calls) }
        if !slow.isEmpty { completions.run(statistics.reports(slow)) }
        for call in settlement.effects.wakeUps { call() }
        // Readers hold a WAL whose copying was due and that was not restarted.
        if store.isWALOverdue {
            gate.whileIdle(walBytes: store.wal.bytes) { store.copyWALIfDue() }
        } else {
            store.copyWALIfDue()
        }
        awaitBackupTool()
        if store.wal != facts.wal { statistics.note(store) }
        let interpretations = store.takeInterpretations()
        if !interpretations.isEmpty { statistics.count { $0.interpreted.merge(interpretations, uniquingKeysWith: +) } }
        if let position { reached(position) }
        if let log, let position = store.durablePosition { log.applied(through: position) }
        reportCheckpoint()
        for notice in store.takeWALNotices() {
            notice.log(to: logger, ownReader: gate.longReader, store: store.location)
        }
    }

    private func reached(_ position: Int64) {
        let waiters = applied.reached(position)
        if !waiters.isEmpty { completions.run(waiters) }
    }

    private func report(_ ended: [(AcceptedJob, [RunningJobs.Waiter])], _ committedAt: Int64) -> Effects.Call {
        { [replyBudget] in
            for (job, waiters) in ended {
                job.notify(waiters, committedAt)
                if job.objectBytes > 0 { replyBudget.remove(job.objectBytes) }
            }
        }
    }
}

extension WriterLoop {
    /// A server that lacks more positions of a shared log does not report: the others compare newer ones.
    private static let farBehind = 10 * StateDigest.checkpointInterval

    /// Reports the digest at the newest checkpoint to the servers that share the log.
    mutating func reportCheckpoint() {
        guard let shared = log as? any SharedLog, let checkpoint = store.history?.checkpoint,
            checkpoint.position > checkpointed
        else { return }
        checkpointed = checkpoint.position
        guard shared.lastPosition - checkpoint.position < Self.farBehind else { return }
        var backup: Int64 = 0
        statistics.count { backup = $0.backedUpThrough }
        shared.append(
            .checkpoint(
                ReplicaCheckpoint(
                    replica: shared.replica, position: checkpoint.position, digest: checkpoint.digits,
                    fingerprint: store.fingerprint.digits, durable: store.durablePosition ?? 0, backup: backup)))
    }
}

extension WriterLoop {
    /// How long the writer waits for a backup tool: Litestream looks at the WAL every second, and then copies it.
    private static let backupPatience: Int64 = 2_000_000
    private static let backupPause: Int64 = 5_000

    /// Lets a continuous backup tool copy a long WAL, which restarts when the tool has checkpointed it.
    ///
    /// Litestream holds the WAL by a read transaction until it has copied all of it. To checkpoint, it needs SQLite's
    /// write lock, for which it tries ten times a second. Under load the writer releases the lock for less than that, so
    /// the tool never gets it, and the WAL would grow until the load ends.
    func awaitBackupTool() {
        guard store.isWALLeftToBackupTool(), gate.longReader == nil, let header = store.walHeader else { return }
        let deadline = monotonicMicroseconds() + Self.backupPatience
        var now = monotonicMicroseconds()
        while now < deadline, store.walHeader == header {
            if activity.wait({ jobTable.isStopDue(by: now + Self.backupPause) }) { return }
            now = monotonicMicroseconds()
        }
    }
}
