internal import BrokerJournal
internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore

package protocol FrameContent: Sendable {
    /// The frame as it was received, for the journal; not asked for without one.
    var payload: [UInt8] { get }

    /// Decodes the frame, asking the memory that it is given, and answers it when it is no job.
    ///
    /// Called on a worker, or by the admitting thread. Called again if there was no room for the job, or if there is none later
    /// on, or if the frame has to wait for its turn to scan; each call must return the same result. Must not call the coordinator.
    func open(_ memory: JobMemory) -> Opened

    /// Called instead when there will never be room to open the frame; answers it.
    func refuse(_ message: String)
}

struct ClosureContent: FrameContent {
    var bytes: (@Sendable () -> [UInt8])?
    let opened: @Sendable (JobMemory) -> Opened
    let refused: @Sendable (_ message: String) -> Void

    var payload: [UInt8] { bytes?() ?? [] }

    func open(_ memory: JobMemory) -> Opened { opened(memory) }

    func refuse(_ message: String) { refused(message) }
}

/// A frame between admission and the merge order; it is retained until its job is staged, to be opened again.
final class AdmittedFrame: @unchecked Sendable {
    let content: any FrameContent
    let ticket: Int
    /// Its first ticket, which it keeps unless it has to wait for its turn to scan.
    let arrival: Int
    let source: Int
    /// The client's.
    let user: UInt32
    let payloadBytes: Int
    /// The most bytes that its content can have, as seen from outside.
    let contentBytesAtMost: Int
    /// Why it is refused if it holds a job, decided at admission.
    let refusal: Fault?
    let admittedAt: Int64
    /// The job as the log has it; nil for a client's frame.
    let logged: LogEntry?
    /// The log has the job's cancellation, too.
    let isCancelled: Bool
    // Only the thread that opens or stages the frame changes the following.
    private var stagingMemory: JobMemory?
    /// Nil until the frame was opened, and is known to hold a job.
    private(set) var job: AcceptedJob?
    /// That of the model under which the job is staged.
    private(set) var generation = 0

    init(
        _ content: any FrameContent, at ticket: Int, arrival: Int? = nil, from source: Int, of user: UInt32 = 0,
        payloadBytes: Int, contentBytesAtMost: Int = 0, _ memory: JobMemory, refusal: Fault? = nil,
        admittedAt: Int64 = monotonicMicroseconds(), logged: LogEntry? = nil, isCancelled: Bool = false
    ) {
        self.content = content
        (self.ticket, self.arrival, self.source, self.user) = (ticket, arrival ?? ticket, source, user)
        (self.payloadBytes, self.contentBytesAtMost) = (payloadBytes, contentBytesAtMost)
        (self.refusal, self.admittedAt, self.logged, self.isCancelled) = (refusal, admittedAt, logged, isCancelled)
        stagingMemory = memory
    }

    /// The weight of a frame whose content can have so many bytes, until it is opened.
    static func weight(of bytes: Int) -> Int {
        bytes > CoordinatorLimits.largeBytes ? bytes * CoordinatorLimits.unopenedFactor : bytes
    }

    var weight: Int { Self.weight(of: contentBytesAtMost) }

    /// Until ``releaseMemory()``, after which no thread opens or stages the frame.
    var memory: JobMemory { stagingMemory! }

    /// The frame will not be opened again: its job has the memory.
    func releaseMemory() { stagingMemory = nil }

    func began(_ job: AcceptedJob, under generation: Int) { (self.job, self.generation) = (job, generation) }

    /// The frame has waited for its turn, or has its ticket for good, and goes on whatever it holds.
    var isCalled: Bool { ticket != arrival || logged != nil }

    /// The same frame, not opened yet.
    func again(at ticket: Int, _ memory: JobMemory) -> AdmittedFrame {
        AdmittedFrame(
            content, at: ticket, arrival: arrival, from: source, of: user, payloadBytes: payloadBytes,
            contentBytesAtMost: contentBytesAtMost, memory, refusal: refusal, admittedAt: admittedAt,
            logged: logged, isCancelled: isCancelled)
    }

    /// Of a frame that holds one.
    var accepted: AcceptedJob {
        guard let job else { preconditionFailure("the frame was not opened") }
        return job
    }

    var pendingEntry: PendingEntry {
        PendingEntry(ticket: ticket, entry: accepted.logEntry(at: nil), payload: { [content] in content.payload })
    }
}

/// A job from its opening to its end, however often it is staged: its facts, and what becomes known on the way. Threads pass one
/// reference to it.
///
/// Unchecked: what changes is changed under the lock of the job table until the writer takes the job, then on the writer's thread, and
/// not at all once it is settled.
final class AcceptedJob: @unchecked Sendable {
    let facts: JobFacts
    let wantsAcceptance: Bool
    /// The server made the id, because the client sent none.
    let isIDMade: Bool
    let ticket: Int
    /// The job's key in ``ScanScheduler``.
    let arrival: Int
    let source: Int
    /// The job was read from the log, where another server, or an earlier run of this one, had put it.
    let isFromLog: Bool
    let observer: @Sendable (JobEvent) -> Void
    private let wantedProgress: JobProgress?
    let contents: JobContents
    /// The name in the client's `hello`.
    let client: String?
    let contentBytes: Int
    /// Bytes that the job reserves while it is in flight: those of the frame and of its content, more for many elements
    /// in few bytes, and the share of its answer.
    let weight: Int
    /// In microseconds of the monotonic clock, like ``openedAt``.
    let admittedAt: Int64
    let openedAt: Int64
    /// For the log, in milliseconds since 1970.
    let acceptedAt: Int64

    /// The rows, or the fault of their staging; nil until then.
    private(set) var work: StoreJob.Work?
    /// Declared after `work`, so that the rows are freed before their memory is given back. Nil until the job is staged.
    private(set) var memory: JobMemory?
    private(set) var skipReason: SkipReason?
    /// Set when the writer takes the job.
    var place = LogPlace(position: nil, time: 0)
    /// The outcome in a transaction that may not be durable yet.
    private(set) var end: JobOutcome?
    /// The ledger could not record the failure.
    private(set) var isUnwritten = false
    private var times = StageTimes()
    private var appliedAt: Int64 = 0
    /// The part of the merge that the writer spent on this job alone.
    private var ownMicroseconds: Int64 = 0

    /// Why the job is not merged, though it keeps its ticket.
    enum SkipReason {
        /// The job was cancelled, and its observer has been called.
        case cancelled
        /// The log has no place for it: it is not a job, and the store never sees it.
        case refused
    }

    /// - Parameter isLogged: there is a journal.
    init(
        _ job: Job, id: JobID, _ frame: AdmittedFrame, openedAt: Int64, progress: JobProgress?, isLogged: Bool = false
    ) {
        isIDMade = job.id == nil
        (ticket, arrival, source) = (frame.ticket, frame.arrival, frame.source)
        (observer, wantedProgress) = (job.observer, progress)
        (contents, client) = (JobContents(job.operations), job.client)
        contentBytes = job.content.count
        let work = max(contentBytes, job.document.elementCount * CoordinatorLimits.bytesPerElement)
        weight = frame.payloadBytes + work + (job.terms.wantsObjects ? CoordinatorLimits.objectsBytes : 0)
        (admittedAt, self.openedAt) = (frame.admittedAt, openedAt)
        let logged = frame.logged
        isFromLog = logged != nil
        acceptedAt = logged?.time ?? wallClockMilliseconds()
        wantsAcceptance = job.wantsAcceptance
        let hash = isIDMade && !isLogged ? nil : job.contentHash
        // What a user may do was decided when the job was accepted: the server that applies it may run as another one.
        var terms = job.terms
        if let logged { terms.mayDelete = logged.mayDelete }
        facts = JobFacts(
            id: id.text, owner: job.owner, isPrivileged: logged?.isPrivileged,
            contentHash: isIDMade ? nil : hash, contentDigest: isIDMade ? hash : nil, terms)
        if frame.isCancelled { withdraw(.cancelled, .cancelled) }
    }

    var id: String { facts.id }
    var key: JobID { JobID(facts.id) }
    var owner: JobOwner { facts.owner }
    var sequence: Int64? { place.position }
    var wantsObjects: Bool { facts.terms.wantsObjects && skipReason == nil }
    /// Nil when no client wants progress, or none any more.
    var progress: JobProgress? { skipReason == nil ? wantedProgress : nil }
    var isLarge: Bool { weight > CoordinatorLimits.largeBytes }

    /// - Parameter place: nil before the log has given it one.
    func logEntry(at place: LogPlace?, payload: [UInt8] = []) -> LogEntry {
        LogEntry(
            .job, position: place?.position ?? 0, id: id, isIDMade: isIDMade, mayDelete: facts.terms.mayDelete,
            isPrivileged: facts.isPrivileged, user: owner.user, time: place?.time ?? acceptedAt, payload: payload)
    }

    // MARK: - Before its turn

    /// The log has the job.
    func noteAccepted(at sequence: Int64) {
        observer(.accepted(id: id, sequence: sequence))
        wantedProgress?.accepted()
    }

    /// The job is staged, or its staging has failed.
    ///
    /// - Parameter microseconds: the workers' time for it.
    func staged(_ work: StoreJob.Work, _ memory: JobMemory, took microseconds: Int64) {
        if skipReason == nil { self.work = work }
        self.memory = memory
        times.queued = openedAt - admittedAt
        times.staged = monotonicMicroseconds() - openedAt
        times.work = microseconds
    }

    /// It is to be staged again, under another model.
    func unstage() {
        if skipReason == nil { work = nil }
        memory = nil
    }

    /// The job will not be merged, and its rows are freed. The first reason counts.
    func withdraw(_ reason: SkipReason, _ fault: Fault) {
        guard skipReason == nil else { return }
        skipReason = reason
        work = .refused(fault)
    }

    // MARK: - In its turn

    var rowCount: Int { work?.rowCount ?? 0 }

    /// - Parameter isLogged: the store limits the memory of the merge, as the log wants.
    func storeJob(isLogged: Bool) -> StoreJob {
        guard let work, let memory, let sequence else { preconditionFailure("the turn of the job has not come") }
        memory.beginTurn(isUnlimited: isLogged)
        return StoreJob(facts, sequence: sequence, work: work, now: place.time, memory: memory)
    }

    /// - Parameters:
    ///   - microseconds: the time of the merge, and the part that the writer spent on this job alone.
    func applied(
        _ end: JobOutcome, took microseconds: (all: Int64, own: Int64), at now: Int64 = monotonicMicroseconds()
    ) {
        progress?.note(merged: rowCount)
        (self.end, appliedAt) = (end, now)
        times.merged = microseconds.all
        ownMicroseconds = microseconds.own
    }

    /// The store did not take the job.
    ///
    /// - Parameter isUnwritten: nor the failure.
    func failed(_ fault: Fault, isUnwritten: Bool = false) {
        (end, self.isUnwritten, appliedAt) = (.failed(fault), isUnwritten, monotonicMicroseconds())
        (times.merged, ownMicroseconds) = (0, 0)
    }

    /// The log refused the job, which ends with that.
    func failedAsRefused() {
        guard case .refused(let fault) = work else { preconditionFailure("a refused job has failed") }
        failed(fault)
    }

    /// The transaction is not durable, and will not be repeated.
    func dropped() { (end, times.merged) = (nil, 0) }

    var mergedMicroseconds: Int64 { times.merged }

    var objectBytes: Int { if case .completed(let outcome) = end { outcome.objects?.json?.count ?? 0 } else { 0 } }

    // MARK: - After COMMIT

    /// - Parameter committedAt: in microseconds of the monotonic clock.
    func times(_ committedAt: Int64) -> StageTimes {
        var times = times
        times.work += ownMicroseconds
        times.committed = committedAt - appliedAt
        if place.durableAt > 0 {
            // A small job is staged while the journal stores it.
            let stagedAt = admittedAt + times.queued + times.staged
            times.isJournaled = true
            times.journalWaited = max(0, place.writtenAt - stagedAt)
            times.journalSynced = max(0, place.durableAt - max(place.writtenAt, stagedAt))
        }
        times.waited = max(0, committedAt - admittedAt - times.total)
        return times
    }

    /// Whether a job is committed under the id: this one, or one before it.
    var isCommitted: Bool {
        switch end {
        case nil, .failed: false
        case .completed: !facts.terms.isDryRun
        case .duplicate, .conflict: true
        }
    }

    /// The owner of the job that is committed under the id.
    var committedOwner: JobOwner? {
        switch end {
        case nil: nil
        case .failed, .completed: owner
        case .duplicate(let outcome), .conflict(_, let outcome): outcome.owner
        }
    }

    func completion(_ committedAt: Int64) -> JobCompletion {
        switch end {
        case nil: preconditionFailure("the job has not ended")
        case .failed(let fault), .conflict(let fault, _):
            return .failed(fault, id: id, owner: owner, sequence: sequence)
        case .duplicate(let outcome):
            // The changes are those of the first time; the timing is this message's own.
            var completion = JobCompletion(stored: outcome, id: id, isDuplicate: true, timing: times(committedAt))
            completion.isDryRun = facts.terms.isDryRun
            return completion
        case .completed(let outcome):
            var completion = JobCompletion(
                id: id, owner: owner, sequence: sequence,
                result: .completed(members: outcome.members, isDuplicate: false))
            completion.timing = times(committedAt)
            completion.objects = outcome.objects
            completion.cause = outcome.rejected.lazy.compactMap(\.cause).first
            completion.isDryRun = facts.terms.isDryRun
            return completion
        }
    }
}

extension StoreJob.Work {
    var rowCount: Int {
        switch self {
        case .merge(let rows): rows.rowCount
        case .steps(let steps): steps.reduce(0) { $0 + ($1.rows?.rowCount ?? 0) }
        case .refused: 0
        }
    }
}
