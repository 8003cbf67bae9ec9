internal import BrokerModel

/// A frame between admission and the merge order; it is retained until its job is staged, to be opened again. A class,
/// because tasks of workers capture it.
final class AdmittedFrame: Sendable {
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

    init(
        ticket: Int, arrival: Int, source: Int, payloadBytes: Int, contentBytesAtMost: Int, weight: Int,
        memory: JobMemory, refusal: Fault?, admittedAt: Int64, logged: JournaledJob?,
        payload: (@Sendable () -> [UInt8])?, open: @escaping @Sendable (JobMemory) -> Opened,
        refuse: @escaping @Sendable (_ message: String) -> Void
    ) {
        self.ticket = ticket
        self.arrival = arrival
        self.source = source
        self.payloadBytes = payloadBytes
        self.contentBytesAtMost = contentBytesAtMost
        self.weight = weight
        self.memory = memory
        self.refusal = refusal
        self.admittedAt = admittedAt
        self.logged = logged
        self.payload = payload
        self.open = open
        self.refuse = refuse
    }

    /// The frame has waited for its turn, or has its ticket for good, and goes on whatever it holds.
    var isCalled: Bool { ticket != arrival || logged != nil }

    /// The same frame, not opened yet.
    func again(at ticket: Int, _ memory: JobMemory) -> AdmittedFrame {
        AdmittedFrame(
            ticket: ticket, arrival: arrival, source: source, payloadBytes: payloadBytes,
            contentBytesAtMost: contentBytesAtMost, weight: weight, memory: memory, refusal: refusal,
            admittedAt: admittedAt, logged: logged, payload: payload, open: open, refuse: refuse)
    }
}
