internal import BrokerJournal
internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore

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
        (wantsKeys, wantsObjects, objectDates) = (job.wantsKeys, job.wantsObjects, job.objectDates)
    }

    var key: JobID { JobID(id) }
}

/// A job that is staged, or whose staging has failed: the writer's input. A class, like ``AcceptedJob``: the order and
/// the writer pass it on many times.
final class ReadyJob: Sendable {
    let work: StoreJob.Work
    /// Declared after `work`, so that the rows are freed before their memory is given back.
    let memory: JobMemory
    let accepted: AcceptedJob
    /// As far as they are known.
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
    /// Reports that the job is merged, before its COMMIT.
    func noteMerged() { progress?.note(merged: rowCount) }

    var rowCount: Int {
        switch work {
        case .merge(let rows): rows.rowCount
        case .steps(let steps): steps.reduce(0) { $0 + ($1.rows?.rowCount ?? 0) }
        case .refused: 0
        }
    }
}

/// A job during staging, with what is needed to open it again.
struct StagingRun: Sendable {
    let frame: AdmittedFrame
    let accepted: AcceptedJob
    /// That of the model under which it is staged.
    let generation: Int

    /// - Parameter microseconds: the time that workers spent on the job.
    func ready(_ work: StoreJob.Work, took microseconds: Int64 = 0) -> ReadyJob {
        var times = StageTimes()
        times.queued = accepted.openedAt - accepted.admittedAt
        times.staged = monotonicMicroseconds() - accepted.openedAt
        times.work = microseconds
        return ReadyJob(work: work, memory: frame.memory, accepted: accepted, times: times)
    }

    var logEntry: PendingEntry {
        PendingEntry(
            ticket: accepted.ticket,
            entry: LogEntry(
                .job, id: accepted.id, isIDMade: accepted.isIDMade, mayDelete: accepted.mayDelete,
                isPrivileged: accepted.isPrivileged, user: accepted.owner.user, time: accepted.acceptedAt),
            payload: { [frame] in frame.content.payload })
    }
}
