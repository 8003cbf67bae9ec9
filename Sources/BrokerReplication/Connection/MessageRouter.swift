#if Replication
internal import Synchronization

/// Gives the messages of a connection's only subscription to their receivers.
///
/// There is one subscription for as long as the connection exists, because libnats before 3.6 crashes when one is destroyed while a
/// message for it arrives (nats.c#637), and Debian 12 has 3.4.
///
/// | message | receiver |
/// |---|---|
/// | with the subject `INBOX.r.NUMBER` | the request of that number |
/// | with the subject `INBOX.m.ID.…` | the inbox of that id |
/// | of a stream, with the reply subject `$JS.ACK.….broker-ID.…` | the inbox of that id, which is in the consumer's name |
final class MessageRouter: Sendable {
    /// The beginning of all subjects.
    let inbox = "_INBOX.broker.\(SessionID())"
    private let events: ConnectionEvents
    private let inboxes = Mutex<[UInt64: MessageInbox]>([:])

    init(_ events: ConnectionEvents) { self.events = events }

    var subject: String { "\(inbox).>" }

    func subject(ofRequest number: UInt64) -> String { "\(inbox).r.\(number)" }

    /// - Parameter number: distinguishes the messages of one receiver.
    func subject(of id: SessionID, _ number: Int) -> String { "\(inbox).m.\(id).\(number)" }

    static func consumerName(_ id: SessionID) -> String { String(decoding: consumerPrefix, as: UTF8.self) + "\(id)" }

    private static let consumerPrefix = Array("broker-".utf8)

    func open(_ id: SessionID) -> MessageInbox {
        let inbox = MessageInbox()
        inboxes.withLock { $0[id.number] = inbox }
        return inbox
    }

    func close(_ id: SessionID) {
        inboxes.withLock { $0.removeValue(forKey: id.number) }?.close()
    }

    /// Called by a thread of libnats, one message after the other.
    func route(_ message: NATSMessage) {
        if let id = Self.consumer(message.reply) {
            deliver(message, to: id)
            return
        }
        let tokens = message.subject.dropFirst(inbox.utf8.count).split(separator: ".")
        switch tokens.first {
        case "r" where tokens.count == 2:
            let reply: ConnectionEvents.Reply =
                message.isNoResponders ? .noResponders : .message(Array(message.bytes))
            message.destroy()
            if let number = UInt64(tokens[1]) { events.receive(reply, number) }
        case "m" where tokens.count == 3:
            deliver(message, to: UInt64(tokens[1], radix: 16))
        default: message.destroy()
        }
    }

    private func deliver(_ message: NATSMessage, to id: UInt64?) {
        guard let inbox = id.flatMap({ id in inboxes.withLock { $0[id] } }) else {
            message.destroy()
            return
        }
        inbox.add(message)
    }

    /// The id in the consumer's name in a reply subject; nil for other subjects.
    static func consumer(_ reply: UnsafeBufferPointer<UInt8>) -> UInt64? {
        guard reply.count > 8, reply[0] == UInt8(ascii: "$") else { return nil }
        var (start, found) = (0, UInt64?.none)
        while let dot = reply[start...].firstIndex(of: UInt8(ascii: ".")) {
            start = dot + 1
            guard reply[start...].starts(with: consumerPrefix) else { continue }
            let digits = reply[(start + consumerPrefix.count)...].prefix { $0 != UInt8(ascii: ".") }
            // The stream, whose name is before the consumer's, may have such a name, too.
            if digits.count == 16 { found = UInt64(String(decoding: digits, as: UTF8.self), radix: 16) ?? found }
        }
        return found
    }
}
#endif
