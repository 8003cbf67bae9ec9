internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore

/// What is known of a job from its opening to its end, however often it is staged: on the way from thread to thread one
/// reference, and not its parts.
final class AcceptedJob: Sendable {
    let id: JobID
    /// The client brought no id, so that the server made one.
    let isIDMade: Bool
    let owner: JobOwner
    let place: Int
    /// Its name for ``ScanScheduler``.
    let arrival: Int
    /// Whose it is.
    let source: Int
    /// Nil of a job without an id of the client's.
    let contentHash: [UInt8]?
    /// For the history of the log; nil when the content hash serves, or there is no log.
    let contentDigest: [UInt8]?
    /// The hash that earlier versions recorded instead of ``contentHash``.
    let messageHash: [UInt8]?
    let policy: InvalidRecordPolicy
    let wantsKeys: Bool
    let wantsObjects: Bool
    let observer: @Sendable (JobEvent) -> Void
    /// Nil when nobody wants to know.
    let progress: JobProgress?
    let contentBytes: Int
    /// Bytes that it keeps from others while it is in flight: of the frame and of its content, more for many elements in few
    /// bytes, and what its answer counts for beside them.
    let weight: Int
    /// In microseconds of the monotonic clock, like ``openedAt``.
    let admittedAt: Int64
    let openedAt: Int64
    /// For the ledger: milliseconds since 1970.
    let acceptedAt: Int64

    /// - Parameter isLogged: a log is kept.
    init(
        _ job: Job, id: JobID, _ frame: AdmittedFrame, openedAt: Int64, progress: JobProgress?, isLogged: Bool = false
    ) {
        self.id = id
        isIDMade = job.id == nil
        owner = job.owner
        place = frame.place
        arrival = frame.arrival
        source = frame.source
        contentHash = job.id == nil ? nil : job.contentHash
        contentDigest = isLogged && job.id == nil ? job.contentHash : nil
        messageHash = job.id == nil ? nil : ContentHash.hash(job.content.bytes)
        policy = job.policy
        wantsKeys = job.wantsKeys
        wantsObjects = job.wantsObjects
        observer = job.observer
        self.progress = progress
        contentBytes = job.content.count
        let work = max(contentBytes, job.document.elementCount * CoordinatorLimits.bytesPerElement)
        weight = frame.payloadBytes + work + (job.wantsObjects ? CoordinatorLimits.objectsBytes : 0)
        admittedAt = frame.admittedAt
        self.openedAt = openedAt
        acceptedAt = frame.logged?.time ?? wallClockMilliseconds()
    }
}

/// A job that is staged, or has failed to be: what the writer takes.
struct ReadyJob: Sendable {
    let work: StoreJob.Work
    /// Behind `work`, so that the rows are gone when their memory is given back.
    let memory: JobMemory
    let accepted: AcceptedJob
    /// As far as it is known by now.
    let timing: Timing

    /// Why it is not to be merged, though it keeps its place.
    enum SkipReason {
        /// It was taken back, and has been told so.
        case cancelled
        /// The log could not take it: it is no job at all, and the store never hears of it.
        case unjournaled
    }

    var skipReason: SkipReason?

    var id: JobID { accepted.id }
    var owner: JobOwner { accepted.owner }
    var place: Int { accepted.place }
    var wantsObjects: Bool { accepted.wantsObjects && skipReason == nil }
    /// Nil when nobody wants to know, or nobody any longer.
    var progress: JobProgress? { skipReason == nil ? accepted.progress : nil }
    var isLarge: Bool { accepted.weight > CoordinatorLimits.largeBytes }

    /// Tells who sent it; who took it back has been told its end.
    func tell(_ event: JobEvent) {
        if skipReason != .cancelled { accepted.observer(event) }
    }

    func storeJob(_ sequence: Int64) -> StoreJob { storeJob(sequence, work, MergedJobMemory(memory)) }

    /// The job as one that has failed already.
    func failedStoreJob(_ sequence: Int64, _ fault: Fault) -> StoreJob { storeJob(sequence, .refused(fault), nil) }

    /// The job as one that was taken back: who waits for it has been told, and its rows are gone.
    func cancelled() -> ReadyJob { skipReason == nil ? withdrawn(.cancelled, .cancelled) : self }

    /// The job as one that the log could not take.
    func unjournaled(_ fault: Fault) -> ReadyJob { withdrawn(.unjournaled, fault) }

    private func withdrawn(_ skipReason: SkipReason, _ fault: Fault) -> ReadyJob {
        ReadyJob(work: .refused(fault), memory: memory, accepted: accepted, timing: timing, skipReason: skipReason)
    }

    private func storeJob(_ sequence: Int64, _ work: StoreJob.Work, _ memory: MergedJobMemory?) -> StoreJob {
        StoreJob(
            id: id.text, owner: owner, contentHash: accepted.contentHash, contentDigest: accepted.contentDigest,
            messageHash: accepted.messageHash,
            sequence: sequence,
            policy: accepted.policy, wantsKeys: accepted.wantsKeys, wantsObjects: wantsObjects,
            work: work, now: accepted.acceptedAt, memory: memory)
    }
}
