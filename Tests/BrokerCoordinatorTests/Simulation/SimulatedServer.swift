import BrokerJSON
import BrokerModel
import BrokerStaging
import BrokerStore

@testable import BrokerCoordinator

/// What the server's parts tell, put down until whoever drives the simulation looks.
enum SimulatedNotice: Sendable {
    case event(delivery: Int, JobEvent)
    /// A question may be asked, at its place.
    case question(delivery: Int, place: Int)
    case cancellation(delivery: Int, Cancellation)
    case awaited(delivery: Int, JobCompletion?)
    /// Every job before the delivery has ended.
    case passed(delivery: Int)
    /// A frame that waited for its turn has its new place.
    case reopened(AdmittedFrame)
    case room(connection: Int)
}

/// One run of the server: the real values, and in place of its threads what is to be done next by each of them. The glue
/// is that of `Coordinator`, on one thread.
struct SimulatedServer {
    typealias Task = @Sendable () -> Void

    /// An answer that the ledger's thread is to look for.
    struct Search {
        let id: String
        let asker: JobOwner
        let wait: RunningJobs.Wait?
        let kept: JobCompletion?
        let tell: @Sendable (JobCompletion?) -> Void
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
    /// What the thread of completions has to do, in order.
    var completions: [Task] = []
    var opening: [AdmittedFrame] = []
    var staging: [(run: StagingRun, isFaulty: Bool)] = []
    var searches: [Search] = []
    /// Jobs of the log that are to be admitted before anything else, with their messages.
    var pending: [(job: JournaledJob, message: Int)] = []
    var isReplaying = false
    /// By the place at which they arrived.
    var deliveries: [Int: Int] = [:]
    /// Entries that the log's thread is writing.
    var syncing: [JournalWrite] = []
    /// They are on the disk, and the flight has not been told.
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
        jobTable = JobTable(after: sequence, reservedThrough: sequence + limits.sequenceBlock)
        writer = SimulatedWriter()
        guard let disk else { return }
        let log = SimulatedLog()
        self.log = log
        jobTable.logging.begin(log, after: max(disk.lastPosition, store.durable.applied))
        let cancelled = disk.cancelled
        pending = disk.jobs(after: store.durable.applied).map { entry in
            let job = JournaledJob(
                sequence: entry.position, id: entry.id, owner: JobOwner(user: entry.user), isIDMade: entry.isIDMade,
                time: entry.time, isCancelled: cancelled.contains(entry.position))
            return (job, Int(String(decoding: entry.payload, as: UTF8.self))!)
        }
        if bug == .replayOneTooLate { pending = Array(pending.dropFirst()) }
        isReplaying = !pending.isEmpty
    }

    /// As `Monitor.broadcast` of the flight: the writer looks again when `body` says so.
    mutating func change(_ body: (inout SimulatedServer) -> Bool) { if body(&self) { writer.isAwake = true } }

    func note(_ notice: SimulatedNotice) { notices.withLock { $0.append(notice) } }

    private mutating func wake() { for task in jobTable.takeWoken(limits) { task() } }

    // MARK: - Admitting, opening

    /// Whether there is room for that connection; if not, it is told when there is.
    mutating func hasRoom(for connection: Int) -> Bool {
        if jobTable.hasRoom(limits, for: connection) { return true }
        jobTable.waitForRoom(connection) { [notices] in notices.withLock { $0.append(.room(connection: connection)) } }
        return false
    }

    mutating func admit(_ delivery: Int, _ message: Int, from source: Int, _ logged: JournaledJob? = nil) -> Int {
        let place = jobTable.admit(10, from: source, logged)
        deliveries[place] = delivery
        let payload = Array("\(message)".utf8)
        opening.append(
            AdmittedFrame(
                place: place, arrival: place, source: source, payloadBytes: 10, contentBytesAtMost: 10, weight: 10,
                memory: memory.admit(place, payloadBytes: 10), refusal: nil, admittedAt: 0, logged: logged,
                payload: { payload }, open: { _ in .nothing }, refuse: { _ in }))
        return place
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
            skip(frame) { [notices] place in
                notices.withLock { $0.append(.question(delivery: delivery, place: place)) }
            }
        case .job:
            if goesOn(frame, message.isSearch ? .search : .job) { begin(frame, message, delivery) }
        }
    }

    private mutating func goesOn(
        _ frame: AdmittedFrame, _ content: ScanScheduler<JobTable.WaitingFrame>.Content
    ) -> Bool {
        guard !frame.isCalled else { return true }
        let (memory, notices) = (memory, notices)
        var goesOn = true
        change { server in
            let tasks: [Task]
            (goesOn, tasks) = server.jobTable.opened(frame.place, from: frame.source, content) {
                [memory, notices] place in
                let again = frame.again(at: place, memory.admit(place, payloadBytes: 10))
                return { notices.withLock { $0.append(.reopened(again)) } }
            }
            server.completions += tasks
            return !goesOn && server.jobTable.hasWork
        }
        wake()
        return goesOn
    }

    private mutating func skip(_ frame: AdmittedFrame, _ question: (@Sendable (Int) -> Void)?) {
        change { server in
            server.completions += server.jobTable.skipped(frame, question)
            return server.jobTable.hasWork
        }
        wake()
    }

    /// What is in a job is not looked at here.
    private static let document = try? JSONDocument(parsing: JSONText(copying: Array("{}".utf8)))

    private mutating func begin(_ frame: AdmittedFrame, _ message: SimulatedMessage, _ delivery: Int) {
        let notices = notices
        let job = Job(
            id: message.id, owner: message.owner, document: Self.document!, operations: [], policy: .fail,
            wantsKeys: false,
            wantsAcceptance: message.wantsAcceptance,
            content: JSONText(copying: Array("\(message.content)".utf8)),
            observer: { event in notices.withLock { $0.append(.event(delivery: delivery, event)) } })
        let id = frame.logged?.id ?? message.id ?? "broker-\(run)-\(frame.place)"
        let accepted = AcceptedJob(job, id: JobID(id), frame, openedAt: 0, progress: nil)
        let begun = StagingRun(frame: frame, accepted: accepted)
        change { server in
            var acceptance: (@Sendable (Int64?) -> Void)?
            if job.wantsAcceptance, frame.logged == nil {
                acceptance = { if let sequence = $0 { job.observer(.accepted(id: id, sequence: sequence)) } }
            }
            server.completions += server.jobTable.began(begun, addedWeight: accepted.weight - frame.weight, acceptance)
            return server.jobTable.hasWork
        }
        wake()
        self.begun.insert(frame.place)
        staging.append((begun, message.isFaulty))
    }

    // MARK: - Staging, asking

    mutating func stage(_ position: Int) {
        let (run, isFaulty) = staging.remove(at: position)
        if isFaulty, bug == .failedJobStalls { return }
        let work: StoreJob.Work = isFaulty ? .refused(Fault(.unknownEntity, "faulty")) : .steps([])
        change { server in
            server.jobTable.finish(run.ready(work))
            return server.jobTable.hasWork
        }
    }

    mutating func cancel(_ id: String, before place: Int, as asker: JobOwner, _ delivery: Int) {
        let tell: @Sendable (Cancellation) -> Void = { [notices] told in
            notices.withLock { $0.append(.cancellation(delivery: delivery, told)) }
        }
        var isDone = false
        change { server in
            switch server.jobTable.cancel(JobID(id), before: place, as: asker, tell) {
            case .unknown: return false
            case .tooLate: server.completions.append { tell(.tooLate) }
            case .cancelled(let tasks): server.completions += tasks
            case .pending: break
            }
            isDone = true
            return server.jobTable.hasWork
        }
        if !isDone { self.await(id, before: place, as: asker) { tell($0 == nil ? .unknown : .tooLate) } }
    }

    mutating func await(
        _ id: String, before place: Int, as asker: JobOwner, _ tell: @escaping @Sendable (JobCompletion?) -> Void
    ) {
        let key = JobID(id)
        let wait = jobTable.running.await(key, before: place, RunningJobs.Waiter(asker: asker) { tell($0) })
        searches.append(
            Search(id: id, asker: asker, wait: wait, kept: jobTable.kept.outcome(of: key, as: asker), tell: tell))
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
            if isCommitted, jobTable.running.forget(wait) { search.tell(outcome) }
        } else if let kept = search.kept, !isCommitted, outcome?.sequence ?? 0 < kept.sequence ?? 0 {
            search.tell(kept)
        } else {
            search.tell(outcome)
        }
    }

    mutating func passJobs(before place: Int, _ delivery: Int) {
        let tell: Task = { [notices] in notices.withLock { $0.append(.passed(delivery: delivery)) } }
        if !jobTable.ends.wait(before: place, tell) { tell() }
    }
}
