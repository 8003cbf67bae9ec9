#if Replication
internal import BrokerJournal
internal import CNATS
internal import Glibc
internal import Synchronization

/// The state of a connection, which threads of libnats change.
final class ConnectionEvents: Sendable {
    struct State {
        var isConnected = false
        /// How often a connection was made.
        var connections = 0
        var server: String?
        var lastError: String?
        /// libnats has given up, or the connection was closed.
        var isClosed = false
        var isStopped = false
    }

    let state = Monitor(State())

    /// libnats calls this object until the connection has closed.
    func register(in options: OpaquePointer) {
        let context = Unmanaged.passUnretained(self).toOpaque()
        natsOptions_SetRetryOnFailedConnect(options, true, { ConnectionEvents.of($1).connected($0) }, context)
        natsOptions_SetReconnectedCB(options, { ConnectionEvents.of($1).connected($0) }, context)
        natsOptions_SetDisconnectedCB(options, { ConnectionEvents.of($1).disconnected($0) }, context)
        natsOptions_SetClosedCB(options, { ConnectionEvents.of($1).disconnected($0, isClosed: true) }, context)
        natsOptions_SetErrorHandler(
            options,
            { connection, _, status, context in
                ConnectionEvents.of(context).failed(NATSFailure(status).text, connection)
            }, context)
    }

    private static func of(_ context: UnsafeMutableRawPointer?) -> ConnectionEvents {
        // libnats passes what it was given; the connection retains the object until it has closed.
        Unmanaged<ConnectionEvents>.fromOpaque(context!).takeUnretainedValue()
    }

    /// The connection is nil only if libnats breaks its contract.
    func connected(_ connection: OpaquePointer?) {
        var url = [CChar](repeating: 0, count: 512)
        let hasURL = natsConnection_GetConnectedUrl(connection, &url, url.count) == NATS_OK
        let name = hasURL ? String(decoding: url.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self) : nil
        state.update { state in
            state.isConnected = true
            state.connections += 1
            state.server = name
        }
    }

    private func disconnected(_ connection: OpaquePointer?, isClosed: Bool = false) {
        let error = Self.lastError(of: connection)
        state.update { state in
            state.isConnected = false
            state.isClosed = state.isClosed || isClosed
            state.server = nil
            state.lastError = error ?? state.lastError
        }
    }

    private func failed(_ text: String, _ connection: OpaquePointer?) {
        let error = Self.lastError(of: connection) ?? text
        state.update { $0.lastError = error }
    }

    private static func lastError(of connection: OpaquePointer?) -> String? {
        var text: UnsafePointer<CChar>?
        guard let connection, natsConnection_GetLastError(connection, &text) != NATS_OK, let text else { return nil }
        let error = String(cString: text)
        return error.isEmpty ? nil : error
    }
}

/// Gives the messages of a connection's only subscription to their receivers.
///
/// There is one subscription for as long as the connection exists, because libnats before 3.6 crashes when one is destroyed while a
/// message for it arrives (nats.c#637), and Debian 12 has 3.4.
///
/// | message | receiver |
/// |---|---|
/// | with the subject `INBOX.m.ID.…` | the inbox of that id |
/// | of a stream, with the reply subject `$JS.ACK.….broker-ID.…` | the inbox of that id, which is in the consumer's name |
final class MessageRouter: Sendable {
    /// The beginning of all subjects.
    let inbox = "_INBOX.broker.\(SessionID())"
    private let inboxes = Mutex<[UInt64: MessageInbox]>([:])

    var subject: String { "\(inbox).>" }

    /// The number distinguishes the messages of one receiver.
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
        deliver(message, to: tokens.count == 3 && tokens[0] == "m" ? UInt64(tokens[1], radix: 16) : nil)
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

/// Messages that have arrived for one receiver and were not taken. Threads of libnats add them.
final class MessageInbox: Sendable {
    private struct State {
        var messages: [NATSMessage] = []
        var isClosed = false
    }

    private let state = Monitor(State())

    func add(_ message: NATSMessage) {
        var isLate = false
        state.update { state in
            isLate = state.isClosed
            if !isLate { state.messages.append(message) }
        }
        if isLate { message.destroy() }
    }

    /// Destroys the messages, and those that are added later.
    func close() {
        var messages: [NATSMessage] = []
        state.withLock { state in
            state.isClosed = true
            swap(&messages, &state.messages)
        }
        for message in messages { message.destroy() }
    }

    /// Wakes ``take(until:_:)``.
    func wake() { state.update { _ in } }

    var isEmpty: Bool { state.withLock { $0.messages.isEmpty } }

    /// Waits for messages until a time of the monotonic clock, and takes all that have arrived, in their order. The caller owns
    /// them.
    func take(until deadline: Int64, _ isStopped: () -> Bool) -> [NATSMessage] {
        let messages: [NATSMessage]? = state.wait(until: deadline) { state in
            guard state.messages.isEmpty else {
                var messages: [NATSMessage] = []
                swap(&messages, &state.messages)
                return messages
            }
            return isStopped() ? [] : nil
        }
        return messages ?? []
    }
}

/// A message of libnats. The owner calls ``destroy()`` once.
struct NATSMessage: @unchecked Sendable {
    /// Only its owner touches it, one thread after the other.
    private let pointer: OpaquePointer

    init(adopting pointer: OpaquePointer) { self.pointer = pointer }

    init(_ subject: String, _ bytes: [UInt8], headers: [(String, String)]) throws(NATSFailure) {
        var message: OpaquePointer?
        let status = bytes.withUnsafeBytes {
            natsMsg_Create(
                &message, subject, nil, $0.baseAddress?.assumingMemoryBound(to: CChar.self), Int32($0.count))
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

    /// Sends the message, and waits for the answer, which the caller owns.
    func request(on connection: OpaquePointer, milliseconds: Int64) -> Result<NATSMessage, NATSFailure> {
        var reply: OpaquePointer?
        let status = natsConnection_RequestMsg(&reply, connection, pointer, milliseconds)
        guard status == NATS_OK, let reply else { return .failure(NATSFailure(status)) }
        return .success(NATSMessage(adopting: reply))
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

    func header(_ key: String) -> String? {
        var value: UnsafePointer<CChar>?
        guard natsMsgHeader_Get(pointer, key, &value) == NATS_OK, let value else { return nil }
        return String(cString: value)
    }
}

/// A call of libnats failed.
struct NATSFailure: Error {
    let status: natsStatus

    init(_ status: natsStatus) { self.status = status }

    var text: String { String(cString: natsStatus_GetText(status)) }
}

/// The one subscription of a connection. A thread of libnats gives its messages to the router, one after the other, until the connection
/// has closed: only then may this object be released.
final class NATSSubscription: @unchecked Sendable {
    /// libnats makes it safe across threads; it is destroyed only with this object.
    private let subscription: OpaquePointer

    init(_ router: MessageRouter, on connection: OpaquePointer) throws(NATSFailure) {
        var subscription: OpaquePointer?
        let context = Unmanaged.passRetained(router).toOpaque()
        let status = natsConnection_Subscribe(
            &subscription, connection, router.subject,
            { _, _, message, context in
                // libnats calls with what it was given, and without a message only for a time limit, which is not set.
                guard let message, let context else { return }
                Unmanaged<MessageRouter>.fromOpaque(context).takeUnretainedValue().route(NATSMessage(adopting: message))
            }, context)
        guard status == NATS_OK, let subscription else {
            Unmanaged<MessageRouter>.fromOpaque(context).release()
            throw NATSFailure(status)
        }
        self.subscription = subscription
        // No message comes after the call of this function.
        natsSubscription_SetOnCompleteCB(
            subscription,
            { context in
                if let context { Unmanaged<MessageRouter>.fromOpaque(context).release() }
            }, context)
        // The callers bound the messages that wait: they ask for them.
        natsSubscription_SetPendingLimits(subscription, -1, -1)
    }

    deinit { natsSubscription_Destroy(subscription) }
}
#endif
