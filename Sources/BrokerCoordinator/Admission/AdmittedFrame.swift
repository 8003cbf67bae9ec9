internal import BrokerModel

/// A frame between admission and the merge order; it is retained until its job is staged, to be opened again. A class,
/// because tasks of workers capture it. Its subclasses have its content.
package class AdmittedFrame: @unchecked Sendable {
    /// The facts of a frame when it is admitted.
    package struct Start: Sendable {
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
    }

    let ticket: Int
    let arrival: Int
    let source: Int
    let payloadBytes: Int
    let contentBytesAtMost: Int
    let weight: Int
    let refusal: Fault?
    let admittedAt: Int64
    let logged: JournaledJob?
    // Only the thread that opens or stages the frame uses it.
    private var stagingMemory: JobMemory?

    package init(_ start: Start) {
        ticket = start.ticket
        arrival = start.arrival
        source = start.source
        payloadBytes = start.payloadBytes
        contentBytesAtMost = start.contentBytesAtMost
        weight = start.weight
        refusal = start.refusal
        admittedAt = start.admittedAt
        logged = start.logged
        stagingMemory = start.memory
    }

    // MARK: - Its content

    /// The frame's bytes, for the journal.
    package var payload: [UInt8] { [] }

    /// Opens the frame; see ``FrameContent/open(_:of:)``.
    package func open(_ memory: JobMemory) -> Opened { .nothing }

    /// Answers a frame for which there will never be room, so that its content stays unknown.
    package func refuse(_ message: String) {}

    /// The same frame, not opened yet.
    package func again(_ start: Start) -> AdmittedFrame { AdmittedFrame(start) }

    // MARK: - Staging

    /// Until ``releaseMemory()``.
    var memory: JobMemory { stagingMemory! }

    /// The frame will not be opened again: its job has the memory.
    func releaseMemory() { stagingMemory = nil }

    /// The frame has waited for its turn, or has its ticket for good, and goes on whatever it holds.
    var isCalled: Bool { ticket != arrival || logged != nil }

    /// The same frame, not opened yet.
    func again(at ticket: Int, _ memory: JobMemory) -> AdmittedFrame {
        again(
            Start(
                ticket: ticket, arrival: arrival, source: source, payloadBytes: payloadBytes,
                contentBytesAtMost: contentBytesAtMost, weight: weight, memory: memory, refusal: refusal,
                admittedAt: admittedAt, logged: logged))
    }
}

/// A frame whose content is known to closures.
final class ClosureFrame: AdmittedFrame, @unchecked Sendable {
    private let payloadBody: (@Sendable () -> [UInt8])?
    private let openBody: @Sendable (JobMemory) -> Opened
    private let refuseBody: @Sendable (_ message: String) -> Void

    init(
        _ start: Start, payload: (@Sendable () -> [UInt8])?, open: @escaping @Sendable (JobMemory) -> Opened,
        refuse: @escaping @Sendable (_ message: String) -> Void
    ) {
        payloadBody = payload
        openBody = open
        refuseBody = refuse
        super.init(start)
    }

    @available(*, unavailable)
    override package init(_ start: Start) { preconditionFailure("a frame without content") }

    convenience init(
        ticket: Int, arrival: Int, source: Int, payloadBytes: Int, contentBytesAtMost: Int, weight: Int,
        memory: JobMemory, refusal: Fault?, admittedAt: Int64, logged: JournaledJob?,
        payload: (@Sendable () -> [UInt8])?, open: @escaping @Sendable (JobMemory) -> Opened,
        refuse: @escaping @Sendable (_ message: String) -> Void
    ) {
        self.init(
            Start(
                ticket: ticket, arrival: arrival, source: source, payloadBytes: payloadBytes,
                contentBytesAtMost: contentBytesAtMost, weight: weight, memory: memory, refusal: refusal,
                admittedAt: admittedAt, logged: logged),
            payload: payload, open: open, refuse: refuse)
    }

    override var payload: [UInt8] { payloadBody?() ?? [] }

    override func open(_ memory: JobMemory) -> Opened { openBody(memory) }

    override func refuse(_ message: String) { refuseBody(message) }

    override func again(_ start: Start) -> AdmittedFrame {
        ClosureFrame(start, payload: payloadBody, open: openBody, refuse: refuseBody)
    }
}
