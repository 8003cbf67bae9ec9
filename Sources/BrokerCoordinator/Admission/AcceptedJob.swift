internal import BrokerJournal
internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore

/// The content of a frame.
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
    let payloadBytes: Int
    /// The most bytes that its content can have, as seen from outside.
    let contentBytesAtMost: Int
    /// The weight that it counts for until it is opened.
    let weight: Int
    /// Why it is refused if it holds a job, decided at admission.
    let refusal: Fault?
    let admittedAt: Int64
    /// The job as the log has it; nil for a client's frame.
    let logged: LogEntry?
    // Only the thread that opens or stages the frame changes the following.
    private var stagingMemory: JobMemory?
    /// Nil until the frame was opened, and is known to hold a job.
    private(set) var job: AcceptedJob?
    /// That of the model under which the job is staged.
    private(set) var generation = 0

    init(
        _ content: any FrameContent, at ticket: Int, arrival: Int? = nil, from source: Int, payloadBytes: Int,
        contentBytesAtMost: Int = 0, weight: Int = 0, _ memory: JobMemory, refusal: Fault? = nil,
        admittedAt: Int64 = monotonicMicroseconds(), logged: LogEntry? = nil
    ) {
        self.content = content
        (self.ticket, self.arrival, self.source) = (ticket, arrival ?? ticket, source)
        (self.payloadBytes, self.contentBytesAtMost) = (payloadBytes, contentBytesAtMost)
        (self.weight, self.refusal, self.admittedAt, self.logged) = (weight, refusal, admittedAt, logged)
        stagingMemory = memory
    }

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
            content, at: ticket, arrival: arrival, from: source, payloadBytes: payloadBytes,
            contentBytesAtMost: contentBytesAtMost, weight: weight, memory, refusal: refusal, admittedAt: admittedAt,
            logged: logged)
    }
}

/// Of a frame that holds a job.
extension AdmittedFrame {
    var accepted: AcceptedJob {
        guard let job else { preconditionFailure("the frame was not opened") }
        return job
    }

    func ready(_ work: StoreJob.Work, took microseconds: Int64 = 0) -> ReadyJob {
        let job = accepted
        var times = StageTimes()
        times.queued = job.openedAt - job.admittedAt
        times.staged = monotonicMicroseconds() - job.openedAt
        times.work = microseconds
        return ReadyJob(work: work, memory: memory, accepted: job, times: times)
    }

    var logEntry: PendingEntry {
        let job = accepted
        return PendingEntry(
            ticket: ticket,
            entry: LogEntry(
                .job, id: job.id, isIDMade: job.isIDMade, mayDelete: job.mayDelete, isPrivileged: job.isPrivileged,
                user: job.owner.user, time: job.acceptedAt),
            payload: { [content] in content.payload })
    }
}

/// The facts of a job from its opening to its end, however often it is staged. Threads pass one reference instead of
/// its parts.
final class AcceptedJob: JobFacts {
    let id: String
    let owner: JobOwner
    /// As decided when the job was accepted, like ``mayDelete``: the server that applies it may run as another user.
    let isPrivileged: Bool
    /// Nil for a job without an id of the client's.
    let contentHash: JobHash?
    /// For the state digest of the journal; nil when the content hash serves, or without a journal.
    let contentDigest: JobHash?
    let policy: InvalidRecordPolicy
    let wantsAcceptance: Bool
    let wantsKeys: Bool
    let wantsObjects: Bool
    let objectDates: FetchDates
    let isDryRun: Bool
    let maximumDeletions: DeletionLimit?
    let bookmark: Bookmark?
    /// As decided when the job was accepted: the journal has it.
    let mayDelete: Bool
    /// The server made the id, because the client sent none.
    let isIDMade: Bool
    let ticket: Int
    /// The job's key in ``ScanScheduler``.
    let arrival: Int
    let source: Int
    /// The job was read from the log, where another server, or an earlier run of this one, had put it.
    let isFromLog: Bool
    let observer: @Sendable (JobEvent) -> Void
    /// Nil when the client does not want progress.
    let progress: JobProgress?
    let contents: JobContents
    let contentBytes: Int
    /// Bytes that the job reserves while it is in flight: those of the frame and of its content, more for many elements
    /// in few bytes, and the share of its answer.
    let weight: Int
    /// In microseconds of the monotonic clock, like ``openedAt``.
    let admittedAt: Int64
    let openedAt: Int64
    /// For the log, in milliseconds since 1970.
    let acceptedAt: Int64

    /// - Parameter isLogged: there is a journal.
    init(
        _ job: Job, id: JobID, _ frame: AdmittedFrame, openedAt: Int64, progress: JobProgress?, isLogged: Bool = false
    ) {
        (self.id, isIDMade) = (id.text, job.id == nil)
        (ticket, arrival, source) = (frame.ticket, frame.arrival, frame.source)
        (observer, self.progress) = (job.observer, progress)
        contents = JobContents(job.operations)
        contentBytes = job.content.count
        let work = max(contentBytes, job.document.elementCount * CoordinatorLimits.bytesPerElement)
        weight = frame.payloadBytes + work + (job.wantsObjects ? CoordinatorLimits.objectsBytes : 0)
        (admittedAt, self.openedAt) = (frame.admittedAt, openedAt)
        let logged = frame.logged
        isFromLog = logged != nil
        acceptedAt = logged?.time ?? wallClockMilliseconds()
        owner = job.owner
        isPrivileged = logged?.isPrivileged ?? job.owner.isPrivileged
        mayDelete = logged?.mayDelete ?? job.mayDelete
        contentHash = job.id == nil ? nil : job.contentHash
        contentDigest = isLogged && job.id == nil ? job.contentHash : nil
        (policy, isDryRun, maximumDeletions, bookmark) = (job.policy, job.isDryRun, job.maximumDeletions, job.bookmark)
        (wantsAcceptance, wantsKeys) = (job.wantsAcceptance, job.wantsKeys)
        (wantsObjects, objectDates) = (job.wantsObjects, job.objectDates)
    }

    var key: JobID { JobID(id) }

    /// The log has the job.
    func noteAccepted(at sequence: Int64) {
        observer(.accepted(id: id, sequence: sequence))
        progress?.accepted()
    }
}

/// A job that is staged, or whose staging has failed: the writer's input. A class, like ``AcceptedJob``: the order and
/// the writer pass it on many times.
final class ReadyJob: Sendable {
    let work: StoreJob.Work
    /// Declared after `work`, so that the rows are freed before their memory is given back.
    let memory: JobMemory
    let accepted: AcceptedJob
    let times: StageTimes

    /// Why the job is not merged, though it keeps its ticket.
    enum SkipReason {
        /// The job was cancelled, and its observer has been called.
        case cancelled
        /// The log has no place for it: it is not a job, and the store never sees it.
        case refused
    }

    let skipReason: SkipReason?

    init(
        work: StoreJob.Work, memory: JobMemory, accepted: AcceptedJob, times: StageTimes, skipReason: SkipReason? = nil
    ) {
        self.work = work
        self.memory = memory
        self.accepted = accepted
        self.times = times
        self.skipReason = skipReason
    }

    var id: String { accepted.id }
    var owner: JobOwner { accepted.owner }
    var ticket: Int { accepted.ticket }
    var wantsObjects: Bool { accepted.wantsObjects && skipReason == nil }
    /// Nil when no client wants progress, or none any more.
    var progress: JobProgress? { skipReason == nil ? accepted.progress : nil }
    var isLarge: Bool { accepted.weight > CoordinatorLimits.largeBytes }

    /// Calls the observer; that of a cancelled job has been called already.
    func notify(_ event: JobEvent) {
        if skipReason != .cancelled { accepted.observer(event) }
    }

    /// The job in its turn.
    ///
    /// - Parameters:
    ///   - place: one with a position.
    ///   - isLogged: the store limits the memory of the merge, as the log wants.
    func storeJob(at place: LogPlace, isLogged: Bool) -> StoreJob {
        memory.beginTurn(isUnlimited: isLogged)
        return StoreJob(accepted, sequence: place.position!, work: work, now: place.time, memory: memory)
    }

    func failedStoreJob(at place: LogPlace, _ fault: Fault) -> StoreJob {
        StoreJob(accepted, sequence: place.position!, work: .refused(fault), now: place.time, memory: nil)
    }

    /// The job as a cancelled one: its waiters have been called, and its rows are freed.
    func cancelled() -> ReadyJob { skipReason == nil ? withdrawn(.cancelled, .cancelled) : self }

    /// The job as one for which the log has no place.
    func refused(_ fault: Fault) -> ReadyJob { skipReason == nil ? withdrawn(.refused, fault) : self }

    private func withdrawn(_ skipReason: SkipReason, _ fault: Fault) -> ReadyJob {
        ReadyJob(work: .refused(fault), memory: memory, accepted: accepted, times: times, skipReason: skipReason)
    }
}

extension ReadyJob {
    func noteMerged() { progress?.note(merged: rowCount) }

    var rowCount: Int {
        switch work {
        case .merge(let rows): rows.rowCount
        case .steps(let steps): steps.reduce(0) { $0 + ($1.rows?.rowCount ?? 0) }
        case .refused: 0
        }
    }
}
