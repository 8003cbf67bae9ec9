#if Replication
internal import CNATS

/// A message of libnats. The owner calls ``destroy()`` once.
struct NATSMessage: @unchecked Sendable {
    /// Only its owner touches it, one thread after the other.
    private let pointer: OpaquePointer

    init(adopting pointer: OpaquePointer) { self.pointer = pointer }

    /// - Parameter reply: the subject that the servers answer to; nil when they do not.
    init(_ subject: String, reply: String?, _ bytes: [UInt8], headers: [(String, String)]) throws(NATSFailure) {
        var message: OpaquePointer?
        let status = bytes.withUnsafeBytes {
            natsMsg_Create(
                &message, subject, reply, $0.baseAddress?.assumingMemoryBound(to: CChar.self), Int32($0.count))
        }
        guard status == NATS_OK, let message else { throw NATSFailure(status) }
        pointer = message
        for (key, value) in headers {
            let status = natsMsgHeader_Set(message, key, value)
            guard status == NATS_OK else {
                destroy()
                throw NATSFailure(status)
            }
        }
    }

    func destroy() { natsMsg_Destroy(pointer) }

    func publish(on connection: OpaquePointer) throws(NATSFailure) {
        let status = natsConnection_PublishMsg(connection, pointer)
        guard status == NATS_OK else { throw NATSFailure(status) }
    }

    /// Valid until ``destroy()``.
    var bytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: natsMsg_GetData(pointer), count: Int(natsMsg_GetDataLength(pointer)))
    }

    var subject: String { String(cString: natsMsg_GetSubject(pointer)) }

    /// The bytes of the reply subject; empty when there is none. Valid until ``destroy()``.
    var reply: UnsafeBufferPointer<UInt8> {
        guard let reply = natsMsg_GetReply(pointer) else { return UnsafeBufferPointer(start: nil, count: 0) }
        var count = 0
        while reply[count] != 0 { count += 1 }
        return UnsafeRawBufferPointer(start: reply, count: count).assumingMemoryBound(to: UInt8.self)
    }

    var isNoResponders: Bool { natsMsg_IsNoResponders(pointer) }

    func header(_ key: String) -> String? {
        var value: UnsafePointer<CChar>?
        guard natsMsgHeader_Get(pointer, key, &value) == NATS_OK, let value else { return nil }
        return String(cString: value)
    }
}

/// A call of libnats failed.
struct NATSFailure: Error {
    let text: String

    init(_ status: natsStatus) {
        text = String(cString: natsStatus_GetText(status))
    }
}
#endif
