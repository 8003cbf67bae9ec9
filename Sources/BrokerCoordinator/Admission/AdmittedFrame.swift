internal import BrokerModel

/// A frame between admission and the merge order; it is retained until its job is staged, to be opened again. A class,
/// because tasks of workers capture it. Its subclass ``ContentFrame`` has its content.
package class AdmittedFrame: @unchecked Sendable {
    package struct Start: Sendable {
        fileprivate(set) var ticket: Int
        /// Its first ticket, which it keeps unless it has to wait for its turn to scan.
        let arrival: Int
        let source: Int
        let payloadBytes: Int
        /// The most bytes that its content can have, as seen from outside.
        var contentBytesAtMost = 0
        /// The weight that it counts for until it is opened.
        var weight = 0
        fileprivate(set) var memory: JobMemory?
        /// Why it is refused if it holds a job, decided at admission.
        var refusal: Fault?
        var admittedAt: Int64
        var logged: JournaledJob?

        init(_ ticket: Int, from source: Int, payloadBytes: Int, _ memory: JobMemory, at now: Int64) {
            (self.ticket, arrival) = (ticket, ticket)
            self.source = source
            self.payloadBytes = payloadBytes
            self.memory = memory
            admittedAt = now
        }
    }

    /// Without the memory.
    private let start: Start
    // Only the thread that opens or stages the frame uses it.
    private var stagingMemory: JobMemory?

    package init(_ start: Start) {
        stagingMemory = start.memory
        var start = start
        start.memory = nil
        self.start = start
    }

    var ticket: Int { start.ticket }
    var arrival: Int { start.arrival }
    var source: Int { start.source }
    var payloadBytes: Int { start.payloadBytes }
    var contentBytesAtMost: Int { start.contentBytesAtMost }
    var weight: Int { start.weight }
    var refusal: Fault? { start.refusal }
    var admittedAt: Int64 { start.admittedAt }
    var logged: JournaledJob? { start.logged }

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

    /// Until ``releaseMemory()``, after which no thread opens or stages the frame.
    var memory: JobMemory { stagingMemory! }

    /// The frame will not be opened again: its job has the memory.
    func releaseMemory() { stagingMemory = nil }

    /// The frame has waited for its turn, or has its ticket for good, and goes on whatever it holds.
    var isCalled: Bool { ticket != arrival || logged != nil }

    /// The same frame, not opened yet.
    func again(at ticket: Int, _ memory: JobMemory) -> AdmittedFrame {
        var start = start
        (start.ticket, start.memory) = (ticket, memory)
        return again(start)
    }
}

/// The content of a frame of a connection.
package protocol FrameContent: Sendable {
    /// Which answers the client of the frame's job wants.
    associatedtype Reply: Sendable

    /// The frame as it was received, for the journal; not called without one.
    var payload: [UInt8] { get }

    /// Decodes the frame, asking the memory that it is given, and answers it when it is no job.
    ///
    /// Called again if there was no room for the job, or if there is none later on, or if the frame has to wait for its turn
    /// to scan; each call must return the same result. Must not call the coordinator.
    func open(_ memory: JobMemory, of frame: ContentFrame<Self>) -> Opened

    /// Called instead when there will never be room to open the frame; answers it.
    func refuse(_ message: String)
}

/// An admitted frame with its content in the same object, which small jobs also have for their replies: there is one for
/// each job.
package final class ContentFrame<Content: FrameContent>: AdmittedFrame, @unchecked Sendable {
    package let content: Content
    /// Set while the frame is opened for the first time, and not changed after that, so any thread may read it.
    package private(set) var reply: Content.Reply?

    @inlinable package init(_ content: Content, _ start: Start) {
        self.content = content
        super.init(start)
    }

    @available(*, unavailable)
    override package init(_ start: Start) { preconditionFailure("a frame without content") }

    package func setReply(_ reply: Content.Reply) {
        if self.reply == nil { self.reply = reply }
    }

    @inlinable override package var payload: [UInt8] { content.payload }

    @inlinable override package func open(_ memory: JobMemory) -> Opened { content.open(memory, of: self) }

    @inlinable override package func refuse(_ message: String) { content.refuse(message) }

    @inlinable override package func again(_ start: Start) -> AdmittedFrame { ContentFrame(content, start) }
}

/// A content that closures know.
struct ClosureContent: FrameContent {
    typealias Reply = Never

    var bytes: (@Sendable () -> [UInt8])?
    let opened: @Sendable (JobMemory) -> Opened
    let refused: @Sendable (_ message: String) -> Void

    var payload: [UInt8] { bytes?() ?? [] }

    func open(_ memory: JobMemory, of frame: ContentFrame<Self>) -> Opened { opened(memory) }

    func refuse(_ message: String) { refused(message) }
}
