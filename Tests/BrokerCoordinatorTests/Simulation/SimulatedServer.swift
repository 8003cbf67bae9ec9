import BrokerJSON
import BrokerModel
import BrokerStaging
import BrokerStore

@testable import BrokerCoordinator

/// Events of the server's parts, stored until the simulation takes them.
enum SimulatedNotice: Sendable {
    case event(delivery: Int, JobEvent)
    /// A question may be asked, at its place.
    case question(delivery: Int, ticket: Int)
    case cancellation(delivery: Int, Cancellation)
    case awaited(delivery: Int, JobCompletion?)
    /// Every job before the delivery has ended.
    case passed(delivery: Int)
    /// A frame that waited for its turn has its new place.
    case reopened(AdmittedFrame)
    case room(connection: Int)
}

/// One run of the server on one thread: the real job table and the real run of the writer, and for each of its threads the
/// tasks that it has to do. `perform` replaces `Monitor.change`; all decisions are those of `JobTable` and `WriterRun`.
struct SimulatedServer {
    typealias Task = @Sendable () -> Void

    /// An answer that the ledger's thread is to look for.
    struct Search {
        let id: String
        let asker: JobOwner
        let wait: RunningJobs.Wait?
        let unrecorded: JobCompletion?
        let notify: @Sendable (JobCompletion?) -> Void
    }

    let run: Int
    let limits: CoordinatorLimits
    let bug: PlantedBug?
    var jobTable: JobTable
    let memory = MemoryBudget(shared: 1 << 20, one: 1 << 20)
    let notices = Monitor<[SimulatedNotice]>([])
    /// Nil without a journal.
    var log: SimulatedLog?
    var writer: SimulatedWriter
    /// The calls of the completions thread, in order.
    var completions: [Task] = []
    var opening: [AdmittedFrame] = []
    var staging: [(run: StagingRun, isFaulty: Bool, isLarge: Bool)] = []
    var searches: [Search] = []
    /// Jobs of the log that are to be admitted before anything else, with their messages.
    var pending: [(job: JournaledJob, message: Int)] = []
    var isReplaying = false
    /// By the place at which they arrived.
    var deliveries: [Int: Int] = [:]
    /// Entries that the log's thread is writing, with the places of the jobs among them.
    var syncing: [(entry: LogEntry, place: LogPlace?)] = []
    /// The newest position that the log gave, and its time.
    var newest = LogPlace(position: 0, time: 0)
    /// They are on the disk, and the job table does not know it yet.
    var areSynced = false
    /// Places of the jobs that have begun and not ended.
    var begun: Set<Int> = []
    /// The virtual clock, in microseconds.
    var time: Int64 = 0

    init(
        run: Int, _ limits: CoordinatorLimits, _ bug: PlantedBug?, store: inout SimulatedStore, disk: SimulatedDisk?
    ) {
        self.run = run
        self.limits = limits
        self.bug = bug
        let sequence = store.openSequences(limits.sequenceBlock)
        jobTable = JobTable(after: sequence, reservedThrough: sequence + limits.sequenceBlock, limits)
        writer = SimulatedWriter()
        guard let disk else { return }
        let log = SimulatedLog()
        self.log = log
        jobTable.use(log, after: store.durable.applied)
        newest = LogPlace(position: max(disk.lastPosition, sequence), time: disk.lastTime)
        let cancelled = disk.cancelled
        pending = disk.jobs(after: store.durable.applied).map { entry in
            let job = JournaledJob(
                sequence: entry.position, id: entry.id, owner: JobOwner(user: entry.user), isIDMade: entry.isIDMade,
                mayDelete: true, isPrivileged: entry.isPrivileged, time: entry.time,
                isCancelled: cancelled.contains(entry.position))
            return (job, Int(String(decoding: entry.payload, as: UTF8.self))!)
        }
        if bug == .replayOneTooLate { pending = Array(pending.dropFirst()) }
        isReplaying = !pending.isEmpty
    }

    /// Makes the calls that follow a change of the job table.
    mutating func perform(_ effects: Effects) {
        completions += effects.completions
        if effects.notifies { writer.isAwake = true }
        for call in effects.wakeUps { call() }
    }

    func checkInvariants() throws(InvariantViolation) {
        try jobTable.checkInvariants()
        try writer.run?.checkInvariants()
    }

    func note(_ notice: SimulatedNotice) { notices.withLock { $0.append(notice) } }

    // MARK: - Admitting, opening

    /// Whether there is room for that connection; if not, a notice follows when there is.
    mutating func hasRoom(for connection: Int) -> Bool {
        if jobTable.hasRoom(for: connection) { return true }
        jobTable.waitForRoom(connection) { [notices] in notices.withLock { $0.append(.room(connection: connection)) } }
        return false
    }

    /// - Parameter logged: the job as it was read from the log.
    mutating func admit(
        _ delivery: Int, _ message: Int, from source: Int, _ logged: JournaledJob? = nil
    ) throws(LogViolation) -> Int {
        let ticket: Int
        if let logged {
            ticket = try jobTable.admit(10, logged)
        } else {
            ticket = jobTable.admit(10, from: source)
        }
        deliveries[ticket] = delivery
        let payload = Array("\(message)".utf8)
        opening.append(
            ClosureFrame(
                ticket: ticket, arrival: ticket, source: source, payloadBytes: 10, contentBytesAtMost: 10, weight: 10,
                memory: memory.admit(ticket, payloadBytes: 10), refusal: nil, admittedAt: 0, logged: logged,
                payload: { payload }, open: { _ in .nothing }, refuse: { _ in }))
        return ticket
    }

    mutating func open(_ frame: AdmittedFrame, _ message: SimulatedMessage) {
        let delivery = deliveries[frame.arrival]!
        switch message.kind {
        case .nothing:
            _ = goesOn(frame, .nothing)
            skip(frame, nil)
            note(.passed(delivery: delivery))
        case .cancel, .await, .barrier:
            guard goesOn(frame, .question) else { return }
            skip(frame) { [notices] ticket in
                notices.withLock { $0.append(.question(delivery: delivery, ticket: ticket)) }
            }
        case .job:
            if goesOn(frame, message.isSearch ? .search : .job) { begin(frame, message, delivery) }
        }
    }

    private mutating func goesOn(
        _ frame: AdmittedFrame, _ content: ScanScheduler<JobTable.WaitingFrame>.Content
    ) -> Bool {
        guard !frame.isCalled else { return true }
        let again: JobTable.WaitingFrame = { [memory, notices] ticket in
            let again = frame.again(at: ticket, memory.admit(ticket, payloadBytes: 10))
            return { notices.withLock { $0.append(.reopened(again)) } }
        }
        let (goesOn, effects) = jobTable.opened(frame.ticket, from: frame.source, content) { again }
        perform(effects)
        return goesOn
    }

    private mutating func skip(_ frame: AdmittedFrame, _ question: (@Sendable (Int) -> Void)?) {
        perform(jobTable.skipped(frame, question))
    }

    /// The contents of a job do not matter here.
    private static let document = try? JSONDocument(parsing: JSONText(copying: Array("{}".utf8)))
    private static let largeContent = [UInt8](repeating: 32, count: CoordinatorLimits.briefBytes)

    private mutating func begin(_ frame: AdmittedFrame, _ message: SimulatedMessage, _ delivery: Int) {
        let notices = notices
        let job = Job(
            id: message.id, owner: message.owner, document: Self.document!, operations: [], policy: .fail,
            wantsKeys: false,
            wantsAcceptance: message.wantsAcceptance,
            content: JSONText(copying: Array("\(message.content)".utf8) + (message.isLarge ? Self.largeContent : [])),
            observer: { event in notices.withLock { $0.append(.event(delivery: delivery, event)) } })
        let id = frame.logged?.id ?? message.id ?? "broker-\(run)-\(frame.ticket)"
        let accepted = AcceptedJob(job, id: JobID(id), frame, openedAt: 0, progress: nil)
        let begun = StagingRun(frame: frame, accepted: accepted, generation: 0)
        var acceptance: (@Sendable (Int64) -> Void)?
        if job.wantsAcceptance, frame.logged == nil {
            acceptance = { job.observer(.accepted(id: id, sequence: $0)) }
        }
        perform(jobTable.began(begun, addedWeight: accepted.weight - frame.weight, acceptance))
        self.begun.insert(frame.ticket)
        staging.append((begun, message.isFaulty, message.isLarge))
    }

    // MARK: - Staging, asking

    mutating func stage(_ position: Int) {
        let (run, isFaulty, isLarge) = staging.remove(at: position)
        if isFaulty, bug == .failedJobStalls { return }
        let fault = Fault(isLarge ? .busy : .unknownEntity, "faulty")
        let work: StoreJob.Work = isFaulty ? .refused(fault) : .steps([])
        let isShort = isFaulty && isLarge && bug != .logsWithoutMemory
        perform(jobTable.finish(run.ready(work), outOfMemory: isShort ? fault : nil))
    }

    mutating func cancel(_ id: String, before ticket: Int, as asker: JobOwner, _ delivery: Int) {
        let notify: @Sendable (Cancellation) -> Void = { [notices] cancellation in
            notices.withLock { $0.append(.cancellation(delivery: delivery, cancellation)) }
        }
        if let effects = jobTable.cancel(JobID(id), before: ticket, as: asker, notify) { return perform(effects) }
        self.await(id, before: ticket, as: asker) { notify($0 == nil ? .unknown : .tooLate) }
    }

    mutating func await(
        _ id: String, before ticket: Int, as asker: JobOwner, _ notify: @escaping @Sendable (JobCompletion?) -> Void
    ) {
        let key = JobID(id)
        let wait = jobTable.running.await(key, before: ticket, RunningJobs.Waiter(asker: asker) { notify($0) })
        searches.append(
            Search(
                id: id, asker: asker, wait: wait, unrecorded: jobTable.unrecorded.outcome(of: key, as: asker),
                notify: notify)
        )
    }

    /// The ledger's thread looks for an outcome.
    mutating func search(_ position: Int, in store: SimulatedStore) {
        let search = searches.remove(at: position)
        let outcome = store.durable.ledger[search.id].flatMap {
            search.asker.maySee(jobOf: $0.owner)
                ? JobCompletion(stored: $0, id: search.id, isDuplicate: false, timing: nil) : nil
        }
        let isCommitted = outcome?.isCommitted == true
        if let wait = search.wait {
            if isCommitted, jobTable.running.forget(wait) { search.notify(outcome) }
        } else if let unrecorded = search.unrecorded, !isCommitted, outcome?.sequence ?? 0 < unrecorded.sequence ?? 0 {
            search.notify(unrecorded)
        } else {
            search.notify(outcome)
        }
    }

    mutating func passJobs(before ticket: Int, _ delivery: Int) {
        let notify: Task = { [notices] in notices.withLock { $0.append(.passed(delivery: delivery)) } }
        if !jobTable.ends.wait(before: ticket, notify) { notify() }
    }
}
