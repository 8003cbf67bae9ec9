internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore

/// A frame between admission and the merge order; it is retained until its job is staged, to be opened again.
struct AdmittedFrame: Sendable {
    let ticket: Int
    /// Its first ticket, which it keeps unless it has to wait for its turn to scan.
    let arrival: Int
    let source: Int
    let payloadBytes: Int
    /// The most bytes that its content can have, as seen from outside.
    let contentBytesAtMost: Int
    /// The weight that it counts for until it is opened.
    let weight: Int
    let memory: JobMemory
    /// Why it is refused if it holds a job, decided at admission.
    let refusal: Fault?
    let admittedAt: Int64
    /// The journaled job, if it was read from the journal.
    let logged: JournaledJob?
    /// The frame's bytes, for the journal.
    let payload: (@Sendable () -> [UInt8])?
    let open: @Sendable (JobMemory) -> Opened
    /// Answers a frame for which there will never be room, so that its content stays unknown.
    let refuse: @Sendable (_ message: String) -> Void

    /// The frame has waited for its turn, or has its ticket for good, and goes on whatever it holds.
    var isCalled: Bool { ticket != arrival || logged != nil }

    /// The same frame, not opened yet.
    func again(at ticket: Int, _ memory: JobMemory) -> AdmittedFrame {
        AdmittedFrame(
            ticket: ticket, arrival: arrival, source: source, payloadBytes: payloadBytes,
            contentBytesAtMost: contentBytesAtMost, weight: weight, memory: memory,
            refusal: refusal, admittedAt: admittedAt, logged: logged, payload: payload, open: open, refuse: refuse)
    }
}

/// A job that has its sequence, during staging, with what is needed to open it again.
struct StagingRun: Sendable {
    let frame: AdmittedFrame
    let accepted: AcceptedJob

    func ready(_ work: StoreJob.Work) -> ReadyJob {
        var timing = Timing()
        timing.queued = accepted.openedAt - accepted.admittedAt
        timing.staged = monotonicMicroseconds() - accepted.openedAt
        return ReadyJob(work: work, memory: frame.memory, accepted: accepted, timing: timing)
    }

    /// The journal's entry for the job, but for its sequence.
    var journalEntry: JournalWrite {
        JournalWrite(
            kind: .job, ticket: accepted.ticket, position: 0, id: accepted.id, isIDMade: accepted.isIDMade,
            owner: accepted.owner, time: accepted.acceptedAt, payload: frame.payload ?? { [] })
    }
}

/// The results of the collections of one job, each from the worker that staged it.
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
