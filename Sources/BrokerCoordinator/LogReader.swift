internal import BrokerModel
internal import BrokerStore
internal import Logging

/// Reads the log, on a thread of its own: jobs of this server are delivered to the job table, others are admitted as frames.
///
/// An entry that cannot be applied stops it: nothing after that entry is applied, and nothing is lost.
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
    }

    /// Applies the jobs of earlier runs that the store has not applied, each in its place. Blocks until they have ended.
    ///
    /// - Throws: `StoreError` when the log cannot be read, or one of its jobs cannot be applied. No job after it has been
    ///   applied then.
    func catchUp() throws(StoreError) {
        guard log.backlog > 0 else { return }
        logger.notice("Jobs that were accepted before are applied first.", metadata: ["jobs": "\(log.backlog)"])
        let start = monotonicMicroseconds()
        var rest = log.backlog
        do throws(StoreError) {
            while rest > 0, failure == nil, let items = try log.read(after: position, bytes: Self.batchBytes) {
                rest -= items.count
                try deliver(items)
            }
        } catch {
            refuse(error)
        }
        coordinator.finishAdmitted()
        if let failure = failure ?? coordinator.storageFailure.error { throw failure }
        logger.notice(
            "The journal is applied.",
            metadata: [
                "jobs": "\(log.backlog)", "milliseconds": "\((monotonicMicroseconds() - start) / 1_000)",
            ])
    }

    /// Reads on a thread of its own from now on, until the log ends.
    func start() {
        let thread = Thread(named: "journal") { [self] in
            do throws(StoreError) {
                while let items = try log.read(after: position, bytes: Self.batchBytes) { try deliver(items) }
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

    private func deliver(_ items: [LogItem]) throws(StoreError) {
        guard !items.allSatisfy(\.isOwnJob) else { return try deliver(own: items) }
        var own: [LogItem] = []
        for item in items {
            if item.isOwnJob {
                own.append(item)
                continue
            }
            try deliver(own: own)
            own = []
            guard failure == nil else { return }
            switch item {
            case .other(let job, let payload):
                coordinator.waitForLog { $0.hasRoomForOthers }
                guard failure == nil else { return }
                try admit(job, payload)
            case .change(let change): try apply(change)
            case .refused(let entry, let error): coordinator.failChanges(error, at: entry.ticket)
            case .job, .cancellation: preconditionFailure("these concern jobs of this server")
            }
        }
        try deliver(own: own)
    }

    private func deliver(own items: [LogItem]) throws(StoreError) {
        guard !items.isEmpty else { return }
        var violation: LogViolation?
        coordinator.jobTable.change(coordinator.completions) { jobTable in
            var effects = Effects()
            do throws(LogViolation) {
                try jobTable.deliver(items, &effects)
            } catch {
                violation = error
            }
            return effects
        }
        if let violation { throw violation.error }
    }

    /// Waits for the end of the jobs before the change, and makes it.
    private func apply(_ change: LoggedChange) throws(StoreError) {
        let delivered = coordinator.jobTable.withLock { jobTable in
            Result { () throws(LogViolation) in
                try jobTable.application.advance(to: change.place)
                jobTable.memoryLog.note(change.place.position ?? 0)
            }
        }
        if case .failure(let violation) = delivered { throw violation.error }
        coordinator.waitForLog { !$0.application.hasDelivered }
        guard failure == nil else { return }
        for line in try coordinator.apply(change) { logger.notice("\(line)") }
    }

    // MARK: - Jobs of others

    private func admit(_ job: JournaledJob, _ payload: [UInt8]) throws(StoreError) {
        let opening: @Sendable (JobMemory) -> Opened = { [self] memory in
            switch open(payload, job, memory) {
            case .job(let job): return .job(job)
            case .noRoom: return .noRoom
            case .unreadable(let reason):
                refuse(.unappliable(job, reason, "Start the version of the server that accepted it."))
                return .nothing
            }
        }
        do throws(LogViolation) {
            try coordinator.admit(job, payloadBytes: payload.count, open: opening) { [self] _ in
                let reason = "the system has no memory left for it."
                refuse(.unappliable(job, reason, "Give the server more memory, then start it again."))
            }
        } catch {
            throw error.error
        }
    }

    /// Nothing more is admitted. The ticket of a frame that could not be opened is never settled, so nothing after it is
    /// merged; `finishAdmitted()` does not wait for it.
    private func refuse(_ error: StoreError) {
        state.update { $0.failure = $0.failure ?? error }
        coordinator.jobTable.update { $0.isJournalLost = true }
    }

    /// Entries that cannot be made durable are not confirmed: after a crash they may be there or not.
    private func fail(_ error: StoreError) {
        coordinator.storageFailure.happened(error, coordinator.statistics, coordinator.completions) {
            logger.critical(
                """
                The journal failed, and no job is accepted any more. Check its disk, and start the server again: \
                accepted and completed jobs are retained, and jobs with ids can be sent again.
                """,
                metadata: ["cause": "\(error.message)"])
        }
        coordinator.jobTable.update { $0.isJournalLost = true }
        coordinator.failChanges(error)
    }
}

extension StoreError {
    /// A job of the journal cannot be applied. It and all jobs after it stay in the journal.
    ///
    /// - Parameter remedy: a sentence.
    fileprivate static func unappliable(_ job: JournaledJob, _ reason: String, _ remedy: String) -> StoreError {
        StoreError(
            .unavailable,
            "Job \(job.sequence) of the journal (id \"\(job.id)\") cannot be applied: \(reason) \(remedy) The job and all after "
                + "it stay in the journal.")
    }
}
