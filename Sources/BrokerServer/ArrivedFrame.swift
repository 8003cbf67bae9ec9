internal import BrokerCoordinator

/// A whole frame of a connection, until its message is answered or its job is staged.
final class ArrivedFrame: Sendable {
    private let bytes: FrameBytes
    private let ordinal: Int
    private let connection: Connection
    private let messages: MessageHandler

    init(_ bytes: FrameBytes, _ ordinal: Int, _ connection: Connection, _ messages: MessageHandler) {
        self.bytes = bytes
        self.ordinal = ordinal
        self.connection = connection
        self.messages = messages
    }

    /// Without its length, as it arrived.
    var payload: [UInt8] { bytes.payload }

    func open(_ memory: JobMemory) -> Opened { messages.open(bytes, ordinal, memory, from: connection) }

    func refuseTooLarge(_ message: String) {
        payload.withUnsafeBytes { messages.refuseTooLarge($0, ordinal, message, on: connection) }
    }
}
