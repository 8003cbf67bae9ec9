internal import BrokerCoordinator

/// A whole frame of a connection, until its message is answered or its job is staged.
final class ArrivedFrame: Sendable {
    /// Without its length.
    let payload: [UInt8]
    private let ordinal: Int
    private let connection: Connection
    private let messages: MessageHandler

    init(_ payload: [UInt8], _ ordinal: Int, _ connection: Connection, _ messages: MessageHandler) {
        self.payload = payload
        self.ordinal = ordinal
        self.connection = connection
        self.messages = messages
    }

    func open(_ memory: JobMemory) -> Opened {
        payload.withUnsafeBytes { messages.open($0, ordinal, memory, from: connection) }
    }

    func refuseTooLarge(_ message: String) {
        payload.withUnsafeBytes { messages.refuseTooLarge($0, ordinal, message, on: connection) }
    }
}
