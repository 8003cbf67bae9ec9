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
    let logged: JournaledJob?
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

/// A job that has its sequence, on its way through staging, with what is needed to open it again.
struct StagingRun: Sendable {
    let frame: AdmittedFrame
    let accepted: AcceptedJob

    func ready(_ work: StoreJob.Work) -> ReadyJob {
        var timing = Timing()
        timing.queued = accepted.openedAt - accepted.admittedAt
        timing.staged = monotonicMicroseconds() - accepted.openedAt
        return ReadyJob(work: work, memory: frame.memory, accepted: accepted, timing: timing)
    }

    /// What the log keeps of the job, but for its sequence.
    var logEntry: JournalWrite {
        JournalWrite(
            kind: .job, place: accepted.place, position: 0, id: accepted.id, isIDMade: accepted.isIDMade,
            owner: accepted.owner, time: accepted.acceptedAt, payload: frame.payload ?? { [] })
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
