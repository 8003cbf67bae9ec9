internal import BrokerJournal
internal import BrokerModel
internal import BrokerStore
internal import Logging

/// Failures that the store has not recorded, and the end of the writer.
extension WriterLoop {
    private static let recordingPauseMicroseconds: Int64 = 1_000_000

    /// Records the failures that the store did not take, if it takes them now: after a transaction that succeeded, and
    /// regularly while there are no jobs.
    mutating func recordFailures() {
        guard let time = recordFailuresAt, time <= monotonicMicroseconds() else { return }
        let reservation = jobTable.withLock { $0.log.memory.reservationDue }
        do throws(StoreError) {
            try finishLedger(reserving: reservation)
            recordFailuresAt = hasRoom() ? nil : monotonicMicroseconds() + Self.recordingPauseMicroseconds
            if let reservation { settle([], reservation: reservation) }
        } catch {
            // They are retained; `await` finds them all the same.
            logger.debug("Failed jobs still cannot be recorded.", metadata: ["cause": "\(error)"])
            recordFailuresAt = monotonicMicroseconds() + Self.recordingPauseMicroseconds
        }
    }

    /// Whether there is room for the job that had none, after a transaction, which may be smaller, has succeeded; reports it to
    /// `stats`.
    private func hasRoom() -> Bool {
        var bytes: Int?
        statistics.count { bytes = $0.refusedBytes }
        guard let bytes else { return true }
        guard DiskSpace(of: store.location + "-wal").hasRoom(for: bytes) else { return false }
        statistics.count {
            $0.refusedBytes = nil
            $0.noteServing()
        }
        return true
    }

    /// Records the failures that are retained, and that no sequence up to this one is given to another job.
    private func finishLedger(reserving sequence: Int64?) throws(StoreError) {
        let failures = jobTable.withLock { $0.unrecorded.jobs }
        _ = try transaction { () throws(StoreError) in
            for job in failures { _ = try store.apply(job) }
            if let sequence { try store.reserveSequences(through: sequence) }
        }
        jobTable.withLock { $0.unrecorded.remove(failures) }
    }

    func close() {
        do throws(StoreError) {
            try finishLedger(reserving: jobTable.withLock { $0.log.memory.newest })
        } catch {
            // The sequences of the next server then begin after the whole reserved block.
            logger.warning(
                "The last outcomes could not be recorded; recent failures of jobs may be forgotten.",
                metadata: ["cause": "\(error)"])
        }
        guard store.failure == nil else { return }
        do throws(StoreError) {
            try store.checkpoint()
        } catch {
            // The next start reads the WAL beside the database, so nothing is lost.
            logger.warning("The WAL could not be emptied when the store was closed.", metadata: ["cause": "\(error)"])
        }
    }
}

/// Jobs that fail because of the store, and the end of a store whose disk has failed.
extension WriterLoop {
    // MARK: - One job

    mutating func failed(_ job: AcceptedJob, _ error: StoreError) {
        logger.error("A job could not be stored.", metadata: ["id": "\(job.id)", "cause": "\(error)"])
        noteWaiting(error, bytes: job.weight)
        job.failed(Fault(ofJob: error), isUnwritten: true)
    }

    /// The store cannot apply a job of the journal, and neither the job nor the machine is at fault. If the server went
    /// on, later jobs would be applied without this one.
    func stop(at job: AcceptedJob, _ error: StoreError) {
        logger.critical(
            """
            A job of the journal cannot be applied because of a defect. The server ends; the job and all after it stay \
            in the journal. Report the defect, then start a version of the server without it.
            """, metadata: ["id": "\(job.id)", "sequence": "\(job.sequence ?? 0)", "cause": "\(error)"])
        store.fail(error)
    }

    /// No more sequences can be reserved, so the jobs that wait for one fail without.
    mutating func failStarved(_ error: StoreError) {
        noteWaiting(error, bytes: 0)
        jobTable.change(completions) { jobTable in
            Effects(completions: jobTable.refuseStarved(Fault(ofJob: error)))
        }
    }

    /// Reports to `stats` that the store takes no writes, until a transaction succeeds; of a full store, until there is room for
    /// the job, too, because a smaller transaction may succeed before.
    private mutating func noteWaiting(_ error: StoreError, bytes: Int) {
        recordFailuresAt = recordFailuresAt ?? monotonicMicroseconds()
        guard error.isOfMachine else { return }
        statistics.count {
            $0.store = .waiting(cause: error.message)
            // A disk that has room for as much serves, though it has none for a job of gigabytes.
            if error.code == .full { $0.refusedBytes = max($0.refusedBytes ?? 0, min(bytes, 1 << 20)) }
        }
    }

    // MARK: - The store

    // The disk has failed, or the file is damaged: how much of the last transaction is in the file is unknown. From
    // then on no client is sent an outcome: for the jobs of that transaction it would be a guess, and the jobs after
    // them could not be stored. They leave the job table without an answer, so that a caller that stops the coordinator
    // need not wait for them.

    /// Drops the jobs of the transaction in which the store failed.
    func drop(_ jobs: [AcceptedJob]) {
        reportFailure()
        let now = monotonicMicroseconds()
        jobTable.change(completions) { $0.drop(jobs, at: now) }
    }

    func dropAll() {
        reportFailure()
        while let turn = jobTable.wait(takeFailedTurn) {
            for task in turn.tasks { task(store) }
            if let failure = store.failure { turn.reopening?.notify(.failure(failure)) }
            drop(turn.refused + turn.jobs)
        }
    }

    private func takeFailedTurn(_ jobTable: inout JobTable) -> WriterTurn?? {
        completions.run(jobTable.refuseStarved(Fault(.storeUnavailable, store.failure?.message ?? "")))
        return jobTable.takeTurn()
    }

    /// Reports the failure once to the log, to `stats` and to the observers, after all ends that were sent before.
    private func reportFailure() {
        guard let failure = store.failure else { return }
        storageFailure.happened(
            .failed(cause: failure.message), failure, in: statistics, after: completions
        ) {
            logger.critical(
                """
                The store has failed, and it is unknown whether the last transaction is on the disk. No job is \
                answered any more. Check the disk, then start again: every job that was reported as completed is \
                stored, and a job with an id can be sent again.
                """, metadata: ["cause": "\(failure)"])
        }
    }
}

extension Fault {
    /// The fault of a job that the store did not take. Where the machine is at fault it has the cause; else it has no
    /// text of SQLite's and no path.
    fileprivate init(ofJob error: StoreError) {
        self.init(
            error.faultCode,
            error.isOfMachine
                ? error.message
                : "The store could not apply the job because of a defect of Broker's, and nothing of the job was stored. Report it: the "
                    + "server's log has the cause.")
    }
}

extension WriterLoop {
    /// Runs `body` in a transaction; when it returns nil, its changes are undone. While another program has locked the store, the
    /// writer waits and tries again: nothing has happened then, and jobs need not fail. Only a server that stops limits the wait.
    func transaction<Result>(
        _ body: () throws(StoreError) -> Result?
    ) throws(StoreError) -> Result? {
        var wait = StoreWait(isLocked: true, jobTable, statistics, logger: logger)
        while true {
            do throws(StoreError) {
                try store.begin()
                guard let result = try body() else {
                    store.rollback()
                    return nil
                }
                let start = monotonicMicroseconds()
                try store.commit()
                statistics.count {
                    $0.batches.record(commitMicroseconds: monotonicMicroseconds() - start)
                    $0.noteServing()
                }
                wait.ended()
                activity.advance()
                return result
            } catch {
                store.rollback()
                noteLoss()
                activity.advance()
                guard error.isLocked, wait.pause(error) else { throw error }
            }
        }
    }
}

/// One incident of a store that takes no writes: how long it lasts, what the log and `stats` report of it, and what clients are
/// sent meanwhile. Either another program has locked it, or the journal retains the accepted jobs.
///
/// The wait uses the job table's condition, with growing pauses, so that it costs next to nothing and ends when the
/// server stops.
struct StoreWait {
    /// A lock held for a shorter time is normal, and is not logged.
    private static let silentMicroseconds: Int64 = 1_000_000

    private let isLocked: Bool
    private let jobTable: Monitor<JobTable>
    private let statistics: Statistics
    private let logger: Logger
    /// The longest is that by which jobs may go on too late.
    private var pauses: (next: Int64, longest: Int64)?
    private var beganAt: Int64 = 0
    private var isReported = false

    /// - Parameter isLocked: another program has locked the store; else the machine does not take a job of the journal.
    init(isLocked: Bool, _ jobTable: Monitor<JobTable>, _ statistics: Statistics, logger: Logger) {
        (self.isLocked, self.jobTable, self.statistics, self.logger) = (isLocked, jobTable, statistics, logger)
    }

    /// Waits before the next attempt. Returns false when there must be none, because the server stops.
    mutating func pause(_ error: StoreError) -> Bool {
        let now = monotonicMicroseconds()
        if pauses == nil { beganAt = now }
        let (pause, longest) = pauses ?? (isLocked ? (1_000, 50_000) : (10_000, 1_000_000))
        report(error, at: now)
        let isOver = jobTable.isStopDue(by: now + pause)
        pauses = (min(2 * pause, longest), longest)
        guard isOver else { return true }
        if isLocked {
            reportEnd("The server stops, and the store is still locked by another program; jobs fail.")
        } else {
            logger.error(
                """
                The server stops, and the store still cannot be written: accepted jobs stay in the journal, and are \
                applied when the server starts again.
                """)
        }
        return false
    }

    private mutating func report(_ error: StoreError, at now: Int64) {
        if isLocked {
            guard !isReported, now - beganAt >= Self.silentMicroseconds else { return }
            statistics.count { $0.store = .waiting(cause: "Another program has locked the store.") }
            logger.warning("Another program has locked the store; jobs wait until it releases the lock.")
        } else {
            // The cause may differ from that of the attempt before.
            statistics.count { $0.store = .waiting(cause: error.message) }
            guard !isReported else { return }
            let fault = Fault(error)
            jobTable.withLock { $0.refusals.store = fault }
            logger.error(
                "The store cannot be written; accepted jobs stay in the journal, and new jobs are refused.",
                metadata: ["cause": "\(error)"])
        }
        isReported = true
    }

    /// The store has taken the transaction, or the job.
    func ended() {
        guard isReported else { return }
        guard !isLocked else { return reportEnd("The store is no longer locked; jobs continue.") }
        jobTable.withLock { $0.refusals.store = nil }
        logger.notice("The store can be written again.", metadata: ["milliseconds": milliseconds])
    }

    private func reportEnd(_ words: Logger.Message) {
        guard isReported else { return }
        statistics.count { $0.noteServing() }
        logger.warning(words, metadata: ["milliseconds": milliseconds])
    }

    private var milliseconds: Logger.MetadataValue { "\((monotonicMicroseconds() - beganAt) / 1_000)" }
}

extension Monitor<JobTable> {
    /// Waits until that time of the monotonic clock, or until the server that stops waits for no locked store any more.
    func isStopDue(by time: Int64) -> Bool {
        wait(until: time) { jobTable in
            jobTable.service.lockDeadline.map { $0 <= monotonicMicroseconds() } == true ? true : nil
        } ?? false
    }
}

extension StoreError {
    /// Whether the machine is at fault, not the job, so that a later attempt may succeed.
    var isOfMachine: Bool { code == .full || code == .unavailable }
}

extension Fault {
    static let leftInJournal = Fault(
        .draining,
        "The server stops, and its store could not store this job. It was accepted, stays in the journal, and is "
            + "applied when the server starts again; sent again under its id, it is applied once.")
}

extension WALNotice {
    /// The server's own reader may be active.
    func log(to logger: Logger, ownReader: ReaderGate.LongReader?, store: String) {
        switch self {
        case .held(let bytes):
            let others = ownReader == nil ? WALReader.others(ofStoreAt: store) : []
            let why: Logger.Message =
                switch ownReader {
                case .fetch: "The store's WAL grows while a long fetch of this server runs; it is shortened after that."
                case .backup: "The store's WAL grows while a backup of this server runs; it is shortened after that."
                case nil where others.contains(where: \.isBackupTool):
                    """
                    The store's WAL grows, because a backup tool has not copied it: see whether it runs, and whether its \
                    disk has room.
                    """
                case nil:
                    "The store's WAL grows, because another program's read transaction stays open: find it and end it."
                }
            var metadata: Logger.Metadata = ["bytes": "\(bytes)"]
            if let reader = others.first(where: \.isBackupTool) ?? others.first {
                metadata["process"] = reader.process.map { "\($0)" }
                metadata["pid"] = reader.pid.map { "\($0)" }
            }
            logger.warning(why, metadata: metadata)
        case .released(let bytes):
            logger.notice("No reader holds the store's WAL any more.", metadata: ["bytes": "\(bytes)"])
        case .uncopied(let error):
            logger.warning(
                "The store's WAL cannot be copied into the database, and grows; what is committed is safe in it.",
                metadata: ["cause": "\(error)"])
        case .copied: logger.notice("The store's WAL is copied into the database again.")
        }
    }
}
