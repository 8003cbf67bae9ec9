internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore

/// A frame between admission and the merge order; it is kept until its job is staged, to be opened again.
struct AdmittedFrame: Sendable {
    let place: Int
    /// Its first place, which it keeps unless it has to wait for its turn to search.
    let arrival: Int
    let source: Int
    let payloadBytes: Int
    /// Bytes of its content, as far as can be told from outside.
    let contentBytesAtMost: Int
    /// What it counts as until it is opened.
    let weight: Int
    let memory: JobMemory
    /// Why it is refused if it holds a job, decided when it was admitted.
    let refusal: Fault?
    let admittedAt: Int64
    /// It was read from the log.
    let logged: LoggedJob?
    /// The frame's bytes, for the log.
    let payload: (@Sendable () -> [UInt8])?
    let open: @Sendable (JobMemory) -> Opened
    /// Answers a frame for which there will never be room, so that nobody knows what is in it.
    let refuse: @Sendable (_ message: String) -> Void

    /// It has waited for its turn, or has its place for good, and goes on whatever is in it.
    var isCalled: Bool { place != arrival || logged != nil }

    /// The same frame, not opened yet.
    func again(at place: Int, _ memory: JobMemory) -> AdmittedFrame {
        AdmittedFrame(
            place: place, arrival: arrival, source: source, payloadBytes: payloadBytes,
            contentBytesAtMost: contentBytesAtMost, weight: weight, memory: memory,
            refusal: refusal, admittedAt: admittedAt, logged: logged, payload: payload, open: open, refuse: refuse)
    }
}

/// A job that has its sequence, on its way through staging: what is kept of it when it must be opened again.
struct StagingRun: Sendable {
    let frame: AdmittedFrame
    let id: JobID
    let owner: JobOwner
    private let contentHash: [UInt8]?
    private let policy: InvalidRecordPolicy
    private let wantsKeys: Bool
    private let wantsObjects: Bool
    let observer: @Sendable (JobEvent) -> Void
    /// Nil when nobody wants to know.
    let progress: JobProgress?
    private let openedAt: Int64
    private let isIDMade: Bool
    private let acceptedAt: Int64
    let contentBytes: Int
    /// Bytes of the frame and of its content, more for many elements in few bytes, and what its answer counts for beside
    /// them.
    let weight: Int

    var place: Int { frame.place }

    init(
        _ job: Job, id: JobID, _ frame: AdmittedFrame, openedAt: Int64, progress: JobProgress? = nil
    ) {
        self.frame = frame
        self.id = id
        owner = job.owner
        isIDMade = job.id == nil
        acceptedAt = frame.logged?.time ?? wallClockMilliseconds()
        contentHash = job.id == nil ? nil : ContentHash.hash(job.content.bytes)
        policy = job.policy
        wantsKeys = job.wantsKeys
        wantsObjects = job.wantsObjects
        observer = job.observer
        self.progress = progress
        self.openedAt = openedAt
        contentBytes = job.content.count
        let work = max(contentBytes, job.document.elementCount * CoordinatorLimits.bytesPerElement)
        weight = frame.payloadBytes + work + (job.wantsObjects ? CoordinatorLimits.objectsBytes : 0)
    }

    func ready(_ work: StoreJob.Work) -> ReadyJob {
        var timing = Timing()
        timing.queued = openedAt - frame.admittedAt
        timing.staged = monotonicMicroseconds() - openedAt
        return ReadyJob(
            id: id, owner: owner, place: place, arrival: frame.arrival, source: frame.source, contentHash: contentHash,
            policy: policy, wantsKeys: wantsKeys, wantsObjects: wantsObjects, work: work, memory: frame.memory,
            observer: observer, weight: weight, admittedAt: frame.admittedAt, timing: timing, acceptedAt: acceptedAt,
            progress: progress)
    }

    /// What the log keeps of the job, but for its sequence.
    var logEntry: LogEntry {
        LogEntry(
            kind: .job, place: place, position: 0, id: id, isIDMade: isIDMade, owner: owner, time: acceptedAt,
            payload: frame.payload ?? { [] })
    }
}

/// What the collections of one job became, each on the worker that staged it.
struct StagedParts {
    private var parts: [Result<StagedPart, StagingRefusal>?]
    private var missing: Int

    init(count: Int) {
        parts = Array(repeating: nil, count: count)
        missing = count
    }

    /// All of them, in payload order, when this was the last one.
    mutating func note(
        _ part: Result<StagedPart, StagingRefusal>, at number: Int
    ) -> [Result<StagedPart, StagingRefusal>]? {
        parts[number] = part
        missing -= 1
        guard missing == 0 else { return nil }
        defer { parts = [] }
        return parts.compactMap { $0 }
    }
}
