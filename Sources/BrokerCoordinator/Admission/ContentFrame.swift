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
