internal import BrokerJournal
internal import BrokerModel

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

/// A content that closures know.
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
    // Only the thread that opens or stages the frame uses it.
    private var stagingMemory: JobMemory?

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
