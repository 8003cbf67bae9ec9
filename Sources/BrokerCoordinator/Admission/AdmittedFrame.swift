internal import BrokerModel

/// A frame between admission and the merge order; it is retained until its job is staged, to be opened again.
struct AdmittedFrame: Sendable {
    private(set) var ticket: Int
    /// Its first ticket, which it keeps unless it has to wait for its turn to scan.
    let arrival: Int
    let source: Int
    let payloadBytes: Int
    /// The most bytes that its content can have, as seen from outside.
    let contentBytesAtMost: Int
    /// The weight that it counts for until it is opened.
    let weight: Int
    private(set) var memory: JobMemory
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
        var frame = self
        (frame.ticket, frame.memory) = (ticket, memory)
        return frame
    }
}
