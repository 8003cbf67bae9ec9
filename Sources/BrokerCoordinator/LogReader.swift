package import BrokerJournal
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging
package import BrokerStore
package import Logging

/// Reads the log, on a thread of its own: jobs of this server are delivered to the job table, others are admitted as frames.
///
/// An entry that cannot be applied stops it: nothing after that entry is applied, and nothing is lost. With a shared log the server
/// halts then, and serves reads.
final class LogReader: Sendable {
    typealias Opening = @Sendable (LogEntry, JobMemory) -> ReopenedJob

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
    private let opening: Opening
    private unowned let coordinator: Coordinator
    private let logger: Logger
    private let state = Monitor(State())

    init(_ log: any JobLog, _ coordinator: Coordinator, logger: Logger, opening open: @escaping Opening) {
        self.log = log
        self.coordinator = coordinator
        self.logger = logger
        opening = open
        replicas = (log as? any SharedLog).map { ReplicaNotes($0, coordinator, logger: logger) }
    }

    /// Applies the jobs of earlier runs, or of other servers, that the store has not applied, each in its place. Blocks until they
    /// have ended.
    ///
    /// - Throws: `StoreError` when the log cannot be read, or one of its jobs cannot be applied: none after it has been. A server
    ///   of a shared log has halted instead, unless its store has failed.
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
        coordinator.jobTable.wait { $0.load.count == 0 || $0.log.isLost ? () : nil }
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

    func join() { state.withLock { $0.thread }?.join() }

    private var failure: StoreError? { state.withLock { $0.failure } }

    private var position: Int64 { coordinator.jobTable.withLock { $0.application.position } }

    /// Entries that are delivered after the end of reading are left for the next start.
    private var isEnded: Bool { failure != nil || coordinator.jobTable.withLock { $0.log.isReadingEnded } }

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
            case .other(let job, let isCancelled):
                coordinator.waitForLog { $0.load.hasRoomForOthers }
                guard !isEnded else { return }
                try coordinator.admit(job, isCancelled: isCancelled, LoggedFrame(entry: job, reader: self))
            case .change(let change, let ticket):
                // The jobs before it end first.
                try self.change(at: change.place) { () throws(StoreError) in
                    for line in try coordinator.apply(change, at: ticket) { logger.notice("\(line)") }
                }
            case .note(let note, let mark, let isOwn): try apply(note, mark, isOwn: isOwn)
            case .refused(let entry, let error): coordinator.failChanges(error, at: entry.ticket)
            case .job, .cancellation: preconditionFailure("these concern jobs of this server")
            }
        }
        try deliver(own: own)
    }

    private func deliver(own items: [LogItem]) throws(StoreError) {
        guard !items.isEmpty else { return }
        var violation: StoreError?
        var stale: [JobTable.StaleJob] = []
        coordinator.jobTable.change(coordinator.completions) { jobTable in
            var effects = Effects()
            do throws(StoreError) {
                stale = try jobTable.deliver(items, &effects)
            } catch {
                violation = error
            }
            return effects
        }
        for job in stale { stageAgain(job) }
        if let violation { throw violation }
    }

    private func apply(_ note: ReplicaNote, _ mark: LogMark, isOwn: Bool) throws(StoreError) {
        try self.change(at: LogPlace(position: mark.position, time: mark.time)) { () throws(StoreError) in
            if let error = try replicas?.apply(note, mark, isOwn: isOwn) { refuse(error) }
        }
    }

    /// Waits for the end of the jobs before that place, and calls `body`, unless the server ends.
    private func change(at place: LogPlace, _ body: () throws(StoreError) -> Void) throws(StoreError) {
        try coordinator.jobTable.withLock { jobTable throws(StoreError) in
            try jobTable.application.advance(to: place)
            jobTable.log.memory.note(place.position ?? 0)
        }
        coordinator.waitForLog { !$0.application.hasDelivered }
        let goesOn = coordinator.jobTable.withLock { jobTable in
            jobTable.log.isReaderChanging = !jobTable.log.isReadingEnded
            return jobTable.log.isReaderChanging
        }
        defer { coordinator.jobTable.update { $0.log.isReaderChanging = false } }
        guard goesOn, failure == nil else { return }
        try body()
    }

    // MARK: - Jobs of others

    fileprivate func open(_ job: LogEntry, _ memory: JobMemory) -> Opened {
        switch opening(job, memory) {
        case .job(let job): return .job(job)
        case .noRoom: return .noRoom
        case .unreadable(let reason):
            refuse(.unappliable(job, reason, remedy: "Start the version of the server that accepted it."))
            return .nothing
        }
    }

    fileprivate func refuseForMemory(_ job: LogEntry) {
        let reason = "the system has no memory left for it."
        refuse(.unappliable(job, reason, remedy: "Give the server more memory, then start it again."))
    }

    /// Another server has changed the model before a job of this one.
    private func stageAgain(_ stale: JobTable.StaleJob) {
        let job = stale.job
        let entry = job.logEntry(at: stale.place, payload: stale.payload)
        coordinator.stageAgain(job, LoggedFrame(entry: entry, reader: self))
    }

    // MARK: - Failures

    /// Nothing more is admitted. The ticket of a frame that could not be opened is never settled, so nothing after it is
    /// merged; the coordinator does not wait for it.
    private func refuse(_ error: StoreError) {
        state.update { $0.failure = $0.failure ?? error }
        if replicas != nil { return halt(error) }
        coordinator.jobTable.update { $0.log.isLost = true }
    }

    private func fail(_ error: StoreError) {
        if replicas != nil { return refuse(error) }
        // Entries that cannot be made durable are not confirmed: after a crash they may be there or not.
        coordinator.storageFailure.happened(
            .failed(cause: error.message), error, in: coordinator.statistics, after: coordinator.completions
        ) {
            logger.critical(
                """
                The journal failed, and no job is accepted any more. Check its disk, and start the server again: \
                accepted and completed jobs are retained, and jobs with ids can be sent again.
                """,
                metadata: ["cause": "\(error.message)"])
        }
        coordinator.jobTable.update { $0.log.isLost = true }
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
    /// A job of the log cannot be applied. It and all jobs after it stay in the log. The remedy is a sentence.
    fileprivate static func unappliable(_ job: LogEntry, _ reason: String, remedy: String) -> StoreError {
        StoreError.unavailable(
            "Job \(job.position) of the log (id \"\(job.id)\") cannot be applied: \(reason) \(remedy) The job and all after "
                + "it stay in the log.")
    }
}

extension Coordinator {
    /// Applies what the log has and the store has not, each job in its place, under the model and the limits under which it was
    /// accepted; then changes to the wanted ones, and reads the log from then on. Called once, before anything is admitted; blocks
    /// until all these jobs have ended.
    ///
    /// The limits of memory of this server do not apply to these jobs: a job that was accepted is applied, or the start fails, and
    /// the coordinator can only be stopped.
    ///
    /// - Parameter open: opens the frame of an accepted job, like `FrameContent.open`.
    package func start(
        _ logger: Logger, opening open: @escaping @Sendable (LogEntry, JobMemory) -> ReopenedJob
    ) throws(StoreError) {
        guard let log = writer.opened.log else { return }
        let reader = LogReader(log, self, logger: logger, opening: open)
        logReader.withLock { $0 = reader }
        if let halt = writer.opened.halt { return reader.halt(halt) }
        try reader.catchUp()
        reader.start()
        guard !(log is any SharedLog) else { return reportUnlike(logger) }
        if model.text != wantedPlan.model.text { try useWanted(wantedPlan, logger) }
        try useWantedLimits()
    }

    /// A job was read from the log: its frame is opened, by the calling thread if it is small, else by a worker. Throws when it
    /// cannot be next.
    fileprivate func admit(_ logged: LogEntry, isCancelled: Bool, _ content: LoggedFrame) throws(StoreError) {
        let bytes = logged.payload.count
        let (ticket, memory) = try jobTable.withLock { jobTable throws(StoreError) in
            let ticket = try jobTable.admit(AdmittedFrame.weight(of: bytes), logged)
            return (ticket, self.memory.admit(ticket, payloadBytes: bytes, isLogged: true))
        }
        let frame = AdmittedFrame(
            content, at: ticket, from: Self.logSource, payloadBytes: bytes, contentBytesAtMost: bytes, memory,
            logged: logged, isCancelled: isCancelled)
        self.open(frame, mayOpenHere: true, isAlone: false)
    }

    /// The place of the job is after a change of the model by another server: its frame is opened and staged again.
    fileprivate func stageAgain(_ job: AcceptedJob, _ content: LoggedFrame) {
        let bytes = content.entry.payload.count
        // Its memory has a place among those of the jobs that were read from the log.
        let memory = jobTable.withLock { jobTable in
            self.memory.admit(jobTable.pass(), payloadBytes: bytes, isLogged: true)
        }
        let frame = AdmittedFrame(
            content, at: job.ticket, from: Self.logSource, payloadBytes: bytes, contentBytesAtMost: bytes, memory,
            admittedAt: job.admittedAt, logged: content.entry)
        frame.began(job, under: planInForce.withLock { $0.generation })
        pool.run(.opening, .long, from: frame.source) { [self] in openWhole(frame, granted: 0) }
    }

    /// A server that starts does not change what all servers share: a reload does.
    private func reportUnlike(_ logger: Logger) {
        if model.text != wantedPlan.model.text {
            logger.warning(
                "The log has another model than the given one, and keeps it. Reload this server to change it for all servers."
            )
        }
        if limitsInForce.withLock({ $0 }) != LoggedLimits(storeOptions) {
            logger.warning(
                """
                The log has other limits than the given ones (outcomes that are stored, memory of a merge), and keeps them. Reload this \
                server to change them for all servers.
                """)
        }
    }

    /// The source of the frames that were read from the log; no connection's.
    private static let logSource = -2

    /// Blocks the thread that reads the log until the jobs before have made the table ready, or nothing more is applied.
    func waitForLog(_ isReady: (JobTable) -> Bool) {
        jobTable.wait { jobTable in
            let isReady = jobTable.log.isLost || isReady(jobTable)
            jobTable.log.isReaderWaiting = !isReady
            return isReady ? () : nil
        }
    }

    private func useWantedLimits() throws(StoreError) {
        let wanted = LoggedLimits(storeOptions)
        guard try Store.limitsInForce(path: storePath) != wanted else { return }
        _ = try waitForAnswer { append(.limits(wanted), at: Self.ticketOfLimits, $0) }.get()
    }

    /// No frame's.
    static let ticketOfLimits = -1

    private func useWanted(_ plan: StagingPlan, _ logger: Logger) throws(StoreError) {
        switch waitForAnswer({ reload(reading: { .success(plan) }, notify: $0) }) {
        case .success(let migration): for line in migration.lines { logger.notice("\(line)") }
        case .failure(let fault): throw StoreError(.incompatible, fault.message)
        }
    }
}

/// The frame of a job that was read from the log.
private struct LoggedFrame: FrameContent {
    let entry: LogEntry
    let reader: LogReader

    var payload: [UInt8] { entry.payload }

    func open(_ memory: JobMemory) -> Opened { reader.open(entry, memory) }

    func refuse(_ message: String) { reader.refuseForMemory(entry) }
}

/// The result of opening a frame of the journal: a job that an earlier run of the server accepted.
package enum ReopenedJob: Sendable {
    case job(Job)
    /// The memory was refused; the same may be tried again.
    case noRoom
    /// This server cannot read the frame.
    case unreadable(_ reason: String)
}

/// The entries of a shared log about its servers, and what follows from them for this one. Only the thread that reads the log calls
/// it, but for ``table``.
final class ReplicaNotes: Sendable {
    private struct State {
        var table = ReplicaTable()
        /// The log has this run's own entry.
        var hasJoined = false
    }

    private let log: any SharedLog
    private unowned let coordinator: Coordinator
    private let logger: Logger
    private let state: Monitor<State>

    init(_ log: any SharedLog, _ coordinator: Coordinator, logger: Logger) {
        self.log = log
        self.coordinator = coordinator
        self.logger = logger
        state = Monitor(State(table: coordinator.writer.opened.replicas))
    }

    var table: ReplicaTable { state.withLock { $0.table } }

    /// The server takes part from now on.
    func join() { log.append(.joined(log.replica)) }

    /// The jobs before the note have ended. Blocks until the store has its position.
    ///
    /// - Returns: why nothing more may be applied; nil when the server goes on.
    func apply(_ note: ReplicaNote, _ mark: LogMark, isOwn: Bool) throws(StoreError) -> StoreError? {
        var consequences: [ReplicaTable.Consequence] = []
        let table = state.withLock { state -> ReplicaTable in
            consequences = state.table.note(note, at: mark, own: log.replica, hasJoined: state.hasJoined)
            if case .joined(log.replica) = note {
                if state.hasJoined, !isOwn {
                    consequences.append(
                        .halt(
                            "Another server takes part under the name \(log.replica). Give each a --replica of its own."
                        ))
                }
                state.hasJoined = state.hasJoined || isOwn
            }
            return state.table
        }
        var halt: String?
        for consequence in consequences {
            switch consequence {
            case .halt(let reason): halt = halt ?? reason
            case .trim(let position): log.trim(through: position)
            case .remove(let name):
                logger.warning(
                    "A server has been silent for a week, and is removed from the log.",
                    metadata: ["replica": "\(name)"])
                log.append(.left(name))
            }
        }
        var facts: [(StoreMeta.Key, String?)] = [(.replicas, table.text)]
        // A store that differs stays halted, also after a start.
        if case .checkpoint = note, let halt { facts.append((.halt, halt)) }
        let stored = facts
        let isOther = try coordinator.onStore { store throws(StoreError) in
            var facts = stored
            var isOther: String?
            if case .upgrade(let wanted) = note {
                let own = store.fingerprint
                isOther = own.digits == wanted ? nil : own.digits
                facts.append((.fingerprint, isOther == nil ? own.text : ApplicationFingerprint(digits: wanted).text))
            }
            try store.pass(mark, setting: facts, syncs: false)
            return isOther
        }
        if case .upgrade(let wanted) = note, let own = isOther ?? nil {
            halt =
                "At position \(mark.position) the log went over to the fingerprint \(wanted), and this server has \(own). Install the "
                + "versions with that fingerprint, then start it again."
        }
        return halt.map { StoreError(.unavailable, $0) }
    }
}

extension Coordinator {
    /// Runs `body` on the writer's thread between two transactions, again and again while the store takes no writes. Blocks. Nil
    /// when the server ends before the store has taken it; throws when the store has failed for good.
    func onStore<Value: Sendable>(
        _ body: @escaping @Sendable (Store) throws(StoreError) -> Value
    ) throws(StoreError) -> Value? {
        while true {
            switch waitForAnswer({ onWriter(body, $0) }) {
            case .success(let value): return value
            case .failure(let error):
                if let failure = storageFailure.error { throw failure }
                guard error.isOfMachine || error.isLocked else { throw error }
            }
            let isEnding = jobTable.wait(until: monotonicMicroseconds() + Self.storePause) { jobTable -> Bool? in
                jobTable.log.isReadingEnded || jobTable.service.isStopped ? true : nil
            }
            if isEnding == true { return nil }
        }
    }

    /// Microseconds between two attempts.
    private static let storePause: Int64 = 100_000
}
