internal import BrokerModel
internal import BrokerStore
internal import Logging

/// Reads the log, on a thread of its own: jobs of this server are delivered to the job table, others are admitted as frames.
///
/// An entry that cannot be applied stops it: nothing after that entry is applied, and nothing is lost. With a shared log the server
/// halts then, and serves reads.
final class LogReader: Sendable {
    typealias Opening = @Sendable (_ payload: [UInt8], JournaledJob, JobMemory) -> ReopenedJob

    private struct State {
        /// Why nothing more is applied.
        var failure: StoreError?
        var thread: Thread?
    }

    /// Bytes of other servers' entries that are read at a time.
    private static let batchBytes = 1 << 20

    private let log: any JobLog
    /// Nil for a log of this server alone.
    let replicas: ReplicaNotes?
    private let open: Opening
    private unowned let coordinator: Coordinator
    private let logger: Logger
    private let state = Monitor(State())

    /// - Parameter open: opens the frame of a job that was read from the log.
    init(_ log: any JobLog, _ coordinator: Coordinator, _ logger: Logger, opening open: @escaping Opening) {
        self.log = log
        self.coordinator = coordinator
        self.logger = logger
        self.open = open
        replicas = (log as? any SharedLog).map { ReplicaNotes($0, coordinator, logger) }
    }

    /// Applies the jobs of earlier runs, or of other servers, that the store has not applied, each in its place. Blocks until they
    /// have ended.
    ///
    /// - Throws: `StoreError` when the log cannot be read, or one of its jobs cannot be applied. No job after it has been
    ///   applied then. With a shared log the server has halted instead, unless its store has failed.
    func catchUp() throws(StoreError) {
        guard log.backlog > 0, failure == nil else { return }
        logger.notice("Jobs that were accepted before are applied first.", metadata: ["jobs": "\(log.backlog)"])
        let start = monotonicMicroseconds()
        var rest = log.backlog
        do throws(StoreError) {
            while rest > 0, failure == nil, let items = try log.read(after: position, bytes: Self.batchBytes) {
                rest -= items.count { $0.hasPosition }
                try deliver(items)
            }
        } catch {
            refuse(error)
        }
        coordinator.waitUntilIdle()
        if let failure = coordinator.storageFailure.error { throw failure }
        if let failure {
            guard replicas == nil else { return }
            throw failure
        }
        logger.notice(
            "The log is applied.",
            metadata: [
                "jobs": "\(log.backlog)", "milliseconds": "\((monotonicMicroseconds() - start) / 1_000)",
            ])
    }

    /// Reads on a thread of its own from now on, until the log ends.
    func start() {
        guard failure == nil else { return }
        replicas?.join()
        let thread = Thread(named: "log") { [self] in
            do throws(StoreError) {
                while failure == nil, let items = try log.read(after: position, bytes: Self.batchBytes) {
                    try deliver(items)
                }
            } catch {
                fail(error)
            }
        }
        state.withLock { $0.thread = thread }
    }

    /// Waits until the log has ended.
    func join() { state.withLock { $0.thread }?.join() }

    private var failure: StoreError? { state.withLock { $0.failure } }

    private var position: Int64 { coordinator.jobTable.withLock { $0.application.position } }

    /// Entries that are delivered after the end of reading are left for the next start.
    private var isEnded: Bool { failure != nil || coordinator.jobTable.withLock { $0.isReadingEnded } }

    private func deliver(_ items: [LogItem]) throws(StoreError) {
        if items.contains(where: \.isRefused) { try? coordinator.checkFiles() }
        guard !items.allSatisfy(\.isOwnJob) else { return try deliver(own: items) }
        var own: [LogItem] = []
        for item in items {
            if item.isOwnJob {
                own.append(item)
                continue
            }
            try deliver(own: own)
            own = []
            guard !isEnded else { return }
            switch item {
            case .other(let job, let payload):
                coordinator.waitForLog { $0.hasRoomForOthers }
                guard !isEnded else { return }
                try admit(job, payload)
            case .change(let change): try apply(change)
            case .note(let note, let mark, let isOwn): try apply(note, mark, isOwn: isOwn)
            case .refused(let entry, let error): coordinator.failChanges(error, at: entry.ticket)
            case .job, .cancellation: preconditionFailure("these concern jobs of this server")
            }
        }
        try deliver(own: own)
    }

    private func deliver(own items: [LogItem]) throws(StoreError) {
        guard !items.isEmpty else { return }
        var violation: LogViolation?
        var stale: [JobTable.StaleJob] = []
        coordinator.jobTable.change(coordinator.completions) { jobTable in
            var effects = Effects()
            do throws(LogViolation) {
                stale = try jobTable.deliver(items, &effects)
            } catch {
                violation = error
            }
            return effects
        }
        for job in stale { stageAgain(job) }
        if let violation { throw violation.error }
    }

    /// Waits for the end of the jobs before the change, and makes it.
    private func apply(_ change: LoggedChange) throws(StoreError) {
        try self.change(at: change.place) { () throws(StoreError) in
            for line in try coordinator.apply(change) { logger.notice("\(line)") }
        }
    }

    private func apply(_ note: ReplicaNote, _ mark: LogMark, isOwn: Bool) throws(StoreError) {
        try self.change(at: LogPlace(position: mark.position, time: mark.time)) { () throws(StoreError) in
            if let error = try replicas?.apply(note, mark, isOwn: isOwn) { refuse(error) }
        }
    }

    /// Waits for the end of the jobs before that place, and calls `body`, unless the server ends.
    private func change(at place: LogPlace, _ body: () throws(StoreError) -> Void) throws(StoreError) {
        let delivered = coordinator.jobTable.withLock { jobTable in
            Result { () throws(LogViolation) in
                try jobTable.application.advance(to: place)
                jobTable.memoryLog.note(place.position ?? 0)
            }
        }
        if case .failure(let violation) = delivered { throw violation.error }
        coordinator.waitForLog { !$0.application.hasDelivered }
        let goesOn = coordinator.jobTable.withLock { jobTable in
            jobTable.isReaderChanging = !jobTable.isReadingEnded
            return jobTable.isReaderChanging
        }
        defer { coordinator.jobTable.update { $0.isReaderChanging = false } }
        guard goesOn, failure == nil else { return }
        try body()
    }

    // MARK: - Jobs of others

    private func admit(_ job: JournaledJob, _ payload: [UInt8]) throws(StoreError) {
        do throws(LogViolation) {
            try coordinator.admit(job, payloadBytes: payload.count, open: opening(of: job, payload)) { [self] _ in
                refuseForMemory(job)
            }
        } catch {
            throw error.error
        }
    }

    private func opening(of job: JournaledJob, _ payload: [UInt8]) -> @Sendable (JobMemory) -> Opened {
        { [self] memory in
            switch open(payload, job, memory) {
            case .job(let job): return .job(job)
            case .noRoom: return .noRoom
            case .unreadable(let reason):
                refuse(.unappliable(job, reason, "Start the version of the server that accepted it."))
                return .nothing
            }
        }
    }

    private func refuseForMemory(_ job: JournaledJob) {
        let reason = "the system has no memory left for it."
        refuse(.unappliable(job, reason, "Give the server more memory, then start it again."))
    }

    /// Another server has changed the model before a job of this one.
    private func stageAgain(_ stale: JobTable.StaleJob) {
        let job = stale.job
        let logged = JournaledJob(
            sequence: stale.place.position ?? 0, id: job.id, owner: job.owner, isIDMade: job.isIDMade,
            mayDelete: job.mayDelete, isPrivileged: job.isPrivileged, time: stale.place.time, isCancelled: false)
        coordinator.stageAgain(
            job, logged, payloadBytes: stale.payload.count, open: opening(of: logged, stale.payload)
        ) { [self] _ in refuseForMemory(logged) }
    }

    // MARK: - Failures

    /// Nothing more is admitted. The ticket of a frame that could not be opened is never settled, so nothing after it is
    /// merged; the coordinator does not wait for it.
    private func refuse(_ error: StoreError) {
        state.update { $0.failure = $0.failure ?? error }
        if replicas != nil { return halt(error) }
        coordinator.jobTable.update { $0.isLogLost = true }
    }

    private func fail(_ error: StoreError) {
        if replicas != nil { return refuse(error) }
        // Entries that cannot be made durable are not confirmed: after a crash they may be there or not.
        coordinator.storageFailure.happened(
            .failed(cause: error.message), error, coordinator.statistics, coordinator.completions
        ) {
            logger.critical(
                """
                The journal failed, and no job is accepted any more. Check its disk, and start the server again: \
                accepted and completed jobs are retained, and jobs with ids can be sent again.
                """,
                metadata: ["cause": "\(error.message)"])
        }
        coordinator.jobTable.update { $0.isLogLost = true }
        coordinator.failChanges(error)
    }

    /// Also for a halt that an earlier run has stored.
    func halt(_ error: StoreError) {
        state.update { $0.failure = $0.failure ?? error }
        coordinator.halt(error) {
            logger.critical(
                """
                This server has halted: it applies no more entries of the log, refuses jobs, and serves reads. Jobs that were \
                accepted are in the log, and the other servers apply them.
                """, metadata: ["cause": "\(error.message)"])
        }
    }
}

extension LogItem {
    fileprivate var isRefused: Bool { if case .refused = self { true } else { false } }

    /// Whether it is an entry of the log: a refused one is none.
    fileprivate var hasPosition: Bool {
        switch self {
        case .job, .other, .change, .note: true
        case .cancellation, .refused: false
        }
    }
}

extension StoreError {
    /// A job of the log cannot be applied. It and all jobs after it stay in the log.
    ///
    /// - Parameter remedy: a sentence.
    fileprivate static func unappliable(_ job: JournaledJob, _ reason: String, _ remedy: String) -> StoreError {
        StoreError(
            .unavailable,
            "Job \(job.sequence) of the log (id \"\(job.id)\") cannot be applied: \(reason) \(remedy) The job and all after "
                + "it stay in the log.")
    }
}
