import BrokerJSON
import BrokerJournal
import BrokerModel
import BrokerStaging
import TestSupport

@testable import BrokerCoordinator
@testable import BrokerStore

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
/// tasks that it has to do. `perform` replaces `Monitor.change`; all decisions are those of `JobTable` and `WriterTurn`.
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
    var staging: [(frame: AdmittedFrame, isFaulty: Bool, isLarge: Bool)] = []
    var searches: [Search] = []
    /// Jobs of the log that are to be admitted before anything else, with their messages.
    var pending: [(job: LogEntry, isCancelled: Bool, message: Int)] = []
    var isReplaying = false
    /// By the place at which they arrived.
    var deliveries: [Int: Int] = [:]
    /// Entries that the log's thread is writing, and as the disk has them.
    var syncing: [(pending: PendingEntry, entry: LogEntry)] = []
    /// The newest position that the log gave, and its time.
    var newest: (position: Int64, time: Int64) = (0, 0)
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
        newest = (max(disk.lastPosition, sequence), disk.lastTime)
        let cancelled = disk.cancelled
        pending = disk.jobs(after: store.durable.applied).map { entry in
            (entry, cancelled.contains(entry.position), Int(String(decoding: entry.payload, as: UTF8.self))!)
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
        try writer.turn?.checkInvariants()
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
        _ delivery: Int, _ message: Int, from source: Int, _ logged: LogEntry? = nil, isCancelled: Bool = false
    ) throws(StoreError) -> Int {
        let ticket: Int
        if let logged {
            ticket = try jobTable.admit(10, logged)
        } else {
            ticket = jobTable.admit(10, from: source)
        }
        deliveries[ticket] = delivery
        let payload = Array("\(message)".utf8)
        opening.append(
            .test(
                ticket, from: source, bytes: 10, memory.admit(ticket, payloadBytes: 10), logged,
                isCancelled: isCancelled,
                payload: { payload }))
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
            id: message.id, owner: message.owner, document: Self.document!, operations: [],
            wantsAcceptance: message.wantsAcceptance,
            content: JSONText(copying: Array("\(message.content)".utf8) + (message.isLarge ? Self.largeContent : [])),
            observer: { event in notices.withLock { $0.append(.event(delivery: delivery, event)) } })
        let id = frame.logged?.id ?? message.id ?? "broker-\(run)-\(frame.ticket)"
        let accepted = AcceptedJob(job, id: JobID(id), frame, openedAt: 0, progress: nil)
        frame.began(accepted, under: 0)
        perform(jobTable.began(frame))
        self.begun.insert(frame.ticket)
        staging.append((frame, message.isFaulty, message.isLarge))
    }

    // MARK: - Staging, asking

    mutating func stage(_ position: Int) {
        let (frame, isFaulty, isLarge) = staging.remove(at: position)
        if isFaulty, bug == .failedJobStalls { return }
        let fault = Fault(isLarge ? .busy : .unknownEntity, "faulty")
        let work: StoreJob.Work = isFaulty ? .refused(fault) : .steps([])
        let isShort = isFaulty && isLarge && bug != .logsWithoutMemory
        perform(jobTable.finish(frame, work, outOfMemory: isShort ? fault : nil))
    }

    mutating func cancel(_ id: String, before ticket: Int, as asker: JobOwner, _ delivery: Int) {
        let notify: @Sendable (Cancellation) -> Void = { [notices] cancellation in
            notices.withLock { $0.append(.cancellation(delivery: delivery, cancellation)) }
        }
        if let effects = jobTable.cancel(JobID(id), before: ticket, as: asker, notify) { return perform(effects) }
        self.await(id, before: ticket, as: asker) { notify($0.map { .tooLate($0) } ?? .unknown) }
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

/// The writer between two of its steps: the turn of the real writer, with a simulated transaction.
struct SimulatedWriter {
    struct Transaction {
        var applied: [AcceptedJob]
        var reservation: Int64?
        var isDurable = false
        /// The planted bug has settled it already.
        var isSettled = false
    }

    /// There may be something to do.
    var isAwake = true
    var turn: WriterTurn?
    var transaction: Transaction?

    var isIdle: Bool { transaction == nil && turn == nil }

    /// The next step is a job in a transaction of its own.
    var isAlone: Bool { if case .alone = turn?.next { true } else { false } }
}

/// The steps of `WriterLoop`; a crash may follow each of them.
extension SimulatedServer {
    /// Takes the ready jobs, and applies them in a transaction that is not durable yet.
    ///
    /// - Parameter check: called before each job is applied.
    mutating func takeBatch(
        _ store: inout SimulatedStore, _ check: (AcceptedJob, Int64, SimulatedStore) -> Void
    ) {
        guard case var turn?? = jobTable.takeTurn() else { return writer.isAwake = false }
        if let reservation = turn.reservation { store.reserve(through: reservation) }
        if bug == .cancelLosesPlace { turn.jobs.removeAll { $0.skipReason == .cancelled } }
        settle(turn.refused, nil)
        writer.turn = turn
        guard turn.next != nil else { return endRun() }
        for job in turn.jobs { apply(job, &store, check) }
        writer.transaction = SimulatedWriter.Transaction(applied: turn.jobs, reservation: turn.reservation)
        if bug == .reportBeforeCommit {
            settle(turn.jobs, turn.reservation)
            writer.transaction?.isSettled = true
        }
    }

    private func apply(
        _ job: AcceptedJob, _ store: inout SimulatedStore, _ check: (AcceptedJob, Int64, SimulatedStore) -> Void
    ) {
        check(job, job.place.position!, store)
        job.applied(store.apply(job.storeJob(isLogged: true)), took: (0, 0), at: 0)
    }

    /// The transaction becomes durable, or the store refuses it.
    mutating func commit(_ store: inout SimulatedStore, fails: Bool) {
        guard fails else {
            store.commit()
            writer.transaction?.isDurable = true
            return
        }
        store.rollback()
        writer.transaction = nil
        writer.turn?.failed(Self.full, hasMadeRoom: false)
        if case .failStarved = writer.turn?.next { failStarved() }
    }

    private static let full = StoreError(.full, "the simulated store is full")

    /// After the COMMIT: settles the jobs.
    mutating func settleTransaction(took microseconds: Int64) {
        guard let transaction = writer.transaction else { return }
        writer.transaction = nil
        writer.turn?.applied(transaction.applied.count)
        if !transaction.isSettled {
            for job in transaction.applied {
                if let end = job.end { job.applied(end, took: (microseconds, microseconds), at: 0) }
            }
            settle(transaction.applied, transaction.reservation)
        }
        endRun()
    }

    /// The next job in a transaction of its own. With a journal, a job that the store refuses is tried again.
    mutating func applyAlone(
        _ store: inout SimulatedStore, fails: Bool, _ check: (AcceptedJob, Int64, SimulatedStore) -> Void
    ) {
        guard case .alone(let job) = writer.turn?.next else { return }
        apply(job, &store, check)
        if fails {
            store.rollback()
            guard log == nil else { return }
            job.failed(Fault(.storeFull, Self.full.message), isUnwritten: true)
        } else {
            store.commit()
        }
        settle([job], nil)
        writer.turn?.applied(1)
        endRun()
    }

    private mutating func failStarved() {
        completions += jobTable.refuseStarved(Fault(.storeFull, Self.full.message))
        writer.turn?.starvedFailed()
        endRun()
    }

    private mutating func endRun() {
        guard writer.turn?.next == nil else { return }
        writer.turn = nil
        writer.isAwake = true
    }

    private mutating func settle(_ applied: [AcceptedJob], _ reservation: Int64?) {
        for job in applied { begun.remove(job.ticket) }
        let settlement = jobTable.settle(applied, reservation: reservation, at: time) { ended in
            { for (job, waiters) in ended { job.notify(waiters, 0) } }
        }
        completions += settlement.reserved
        perform(settlement.effects)
    }

    /// Failures that the store did not take before.
    mutating func recordFailures(_ store: inout SimulatedStore) {
        let unrecorded = jobTable.unrecorded.jobs
        for job in unrecorded { _ = store.apply(job) }
        store.commit()
        jobTable.unrecorded.remove(unrecorded)
    }

    /// After a commit, the log need not keep what is durable in the store.
    func notifyLog(_ store: SimulatedStore) { log?.applied(through: store.durable.applied) }

    // MARK: - The log's thread

    mutating func gather() {
        var last = newest
        syncing = (log?.takeWaiting() ?? []).map { pending in
            var entry = pending.whole
            if entry.kind == .job {
                last = (last.position + 1, max(last.time, entry.time))
                (entry.position, entry.time) = last
            }
            return (pending, entry)
        }
        areSynced = false
    }

    /// The entries that the log's thread is writing, as the disk has them.
    var stored: [LogEntry] { syncing.map(\.entry) }

    /// The report of the log's thread, when the disk has stored the entries or had no room for them.
    mutating func reportSynced(isFull: Bool) throws(StoreError) {
        let entries = syncing
        syncing = []
        areSynced = false
        if !isFull, let last = entries.last(where: { $0.entry.kind == .job })?.entry {
            newest = (last.position, last.time)
        }
        var effects = Effects()
        _ = try jobTable.deliver(
            entries.map { pending, entry in
                if isFull { return .refused(pending, StoreError(.full, "the simulated disk is full")) }
                return entry.kind == .job ? .job(ticket: pending.ticket, entry.place) : .cancellation(pending)
            }, &effects)
        perform(effects)
    }
}

/// A store in memory, with the ledger of the real one: what is committed is durable, what is not is gone with a crash.
struct SimulatedStore {
    struct Effect: Equatable {
        let sequence: Int64
        let id: String
    }

    struct Contents {
        var ledger: [String: StoredOutcome] = [:]
        /// The effects of completed jobs, in order.
        var effects: [Effect] = []
        /// Sequences of the jobs that were applied, however they ended.
        var ended: Set<Int64> = []
        var newestSequence: Int64 = 0
        var reservedThrough: Int64 = 0
        /// The newest position of the log that was applied.
        var applied: Int64 = 0
    }

    private(set) var durable = Contents()
    /// As the transaction in progress sees it.
    private(set) var contents = Contents()
    let skipsDedupe: Bool

    init(_ bug: PlantedBug?) { skipsDedupe = bug == .skipDedupe }

    /// The newest sequence of all; a block after it is reserved at once.
    mutating func openSequences(_ count: Int64) -> Int64 {
        rollback()
        let newest = max(durable.newestSequence, durable.reservedThrough)
        reserve(through: newest + count)
        commit()
        return newest
    }

    mutating func reserve(through sequence: Int64) { contents.reservedThrough = sequence }

    mutating func commit() { durable = contents }

    mutating func rollback() { contents = durable }

    /// As `Store.apply`.
    mutating func apply(_ job: StoreJob) -> JobOutcome {
        let known = job.contentHash == nil || skipsDedupe ? nil : contents.ledger[job.id]
        contents.ended.insert(job.sequence)
        contents.applied = max(contents.applied, job.sequence)
        if let known, !known.isFailure {
            let isSame = job.isRepetition(of: known)
            return isSame ? .duplicate(known) : .conflict(Fault(.idConflict, "used before"), committed: known)
        }
        let end: JobOutcome
        switch job.work {
        case .refused(let fault): end = .failed(fault)
        case .merge, .steps: end = .completed(Outcome())
        }
        if let known, end.isFailure, known.sequence > job.sequence { return end }
        contents.ledger[job.id] = StoredOutcome(
            sequence: job.sequence, owner: job.owner, contentHash: job.contentHash, isFailure: end.isFailure,
            body: end.body(of: job))
        contents.newestSequence = max(contents.newestSequence, job.sequence)
        if !end.isFailure { contents.effects.append(Effect(sequence: job.sequence, id: job.id)) }
        return end
    }
}

/// The journal of one run of the server: entries that wait for the disk, and the store's position.
final class SimulatedLog: JobLog {
    struct State {
        var waiting: [PendingEntry] = []
        var appliedThrough: Int64 = 0
    }

    private let state = Monitor(State())
    let takesCancellations: Bool

    init(takesCancellations: Bool = true) { self.takesCancellations = takesCancellations }

    /// The simulation reads what is on the disk itself, and what waits with ``takeWaiting()``.
    let backlog = 0

    func append(_ entry: PendingEntry) { state.withLock { $0.waiting.append(entry) } }

    func read(after position: Int64, bytes: Int) -> [LogItem]? { nil }

    func applied(through position: Int64) {
        state.withLock { $0.appliedThrough = max($0.appliedThrough, position) }
    }

    var appliedThrough: Int64 { state.withLock { $0.appliedThrough } }

    var hasWaiting: Bool { state.withLock { !$0.waiting.isEmpty } }

    func takeWaiting() -> [PendingEntry] {
        state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
    }

    func write(to writer: inout JSONWriter) {}

    func stop() {}
}

/// The log's disk: what is in `entries` was synced, and is read again after a crash.
struct SimulatedDisk {
    private(set) var entries: [LogEntry] = []
    /// The position of the newest job that was ever in it.
    private(set) var lastPosition: Int64 = 0
    private(set) var lastTime: Int64 = 0

    mutating func sync(_ added: some Sequence<LogEntry>) {
        entries += added
        for entry in added where entry.kind == .job { (lastPosition, lastTime) = (entry.position, entry.time) }
    }

    mutating func trim(through position: Int64) { entries.removeAll { $0.position <= position } }

    func jobs(after position: Int64) -> [LogEntry] {
        entries.filter { $0.kind == .job && $0.position > position }
    }

    func holds(_ position: Int64) -> Bool { entries.contains { $0.kind == .job && $0.position == position } }

    var cancelled: Set<Int64> { Set(entries.filter { $0.kind == .cancellation }.map(\.position)) }
}

/// A client's message. Messages are numbered, and the numbers replace their bytes.
struct SimulatedMessage {
    enum Kind {
        case job
        case cancel
        case await
        /// Waits until every job before it has ended.
        case barrier
        /// It is answered at once, and is no job.
        case nothing
    }

    var kind: Kind
    var client: Int
    var owner: JobOwner
    /// Nil of a job that brought none.
    var id: String?
    /// Two jobs of one id and one content are the same job.
    var content = 0
    /// It cannot be staged; a large one, for want of memory.
    var isFaulty = false
    /// The log gets it when it is staged.
    var isLarge = false
    var isSearch = false
    var wantsAcceptance = false
}

/// A message that has arrived at one run of the server, or was read from its log.
struct SimulatedDelivery {
    let message: Int
    let run: Int
    /// Nil for a job of the journal: it has no client.
    let connection: Int?
    /// In the merge order; a search may be given another.
    var ticket = 0
    /// It has its answer, and may have no other.
    var isAnswered = false
    var wasCancelled = false
}

struct SimulatedConnection {
    let number: Int
    let client: Int
    var toServer: [Int] = []
    /// Messages that are answered.
    var toClient: [Int] = []
    /// The server reads no more of it before there is room.
    var waitsForRoom = false
    /// The newest sequence of a `completed` that left.
    var newestCompleted: Int64 = 0
}

/// As `RemoteBroker` behaves: a window of jobs without an outcome; those with ids are sent again on each new connection.
struct SimulatedClient {
    let owner: JobOwner
    let window: Int
    /// Jobs that were not sent yet.
    var waiting: [Int] = []
    /// In the order in which they were sent first.
    var inFlight: [Int] = []
    /// Messages to send again on this connection, before any other.
    var again: [Int] = []
    var connection: SimulatedConnection?
}
