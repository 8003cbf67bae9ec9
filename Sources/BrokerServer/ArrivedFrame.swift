internal import BrokerCoordinator
internal import BrokerWire

/// A whole frame of a connection, until its message is answered or its job is staged.
struct ArrivedFrame: FrameContent {
    typealias Reply = JobReply

    let bytes: FrameBytes
    let ordinal: Int
    let connection: Connection
    let messages: MessageHandler

    /// Without its length, as it arrived.
    var payload: [UInt8] { bytes.payload }

    func open(_ memory: JobMemory, of frame: ContentFrame<ArrivedFrame>) -> Opened { messages.open(frame, memory) }

    func refuse(_ message: String) {
        payload.withUnsafeBytes { messages.refuseTooLarge($0, ordinal, message, on: connection) }
    }

    /// The frame is little memory, which its job may retain until it has ended. It has no other bytes than the content, which
    /// the job's rows retain.
    var isSmall: Bool {
        if case .content(let content) = bytes { content.count <= Self.smallBytes } else { false }
    }

    private static let smallBytes = 2_048
}

/// Which answers the client of a job wants.
struct JobReply: Sendable {
    let frame: FrameReference
    let isBrief: Bool
    let wantsCompletion: Bool
    let trace: String?
}
