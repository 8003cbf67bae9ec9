#if Replication
internal import CNATS

/// The messages of a subject. A thread of libnats calls the handler with them, one after the other, until the connection has closed:
/// only then may this object be released.
final class NATSSubscription: @unchecked Sendable {
    /// libnats makes it safe across threads; it is destroyed only with this object.
    private let subscription: OpaquePointer

    private final class Handler: Sendable {
        let receive: @Sendable (NATSMessage) -> Void

        init(_ receive: @escaping @Sendable (NATSMessage) -> Void) { self.receive = receive }
    }

    /// - Parameter receive: owns the message. Must not block.
    init(
        _ subject: String, on connection: OpaquePointer, receive: @escaping @Sendable (NATSMessage) -> Void
    ) throws(NATSFailure) {
        var subscription: OpaquePointer?
        let handler = Unmanaged.passRetained(Handler(receive)).toOpaque()
        let status = natsConnection_Subscribe(
            &subscription, connection, subject,
            { _, _, message, handler in
                // libnats calls with the handler of the subscription, and with nil only for a time limit, which is not set.
                guard let message, let handler else { return }
                Unmanaged<Handler>.fromOpaque(handler).takeUnretainedValue().receive(NATSMessage(adopting: message))
            }, handler)
        guard status == NATS_OK, let subscription else {
            Unmanaged<Handler>.fromOpaque(handler).release()
            throw NATSFailure(status)
        }
        self.subscription = subscription
        // No message comes after the call of this function.
        natsSubscription_SetOnCompleteCB(
            subscription,
            { handler in
                guard let handler else { return }
                Unmanaged<Handler>.fromOpaque(handler).release()
            }, handler)
        // The callers bound the messages that wait: they ask for them.
        natsSubscription_SetPendingLimits(subscription, -1, -1)
    }

    deinit { natsSubscription_Destroy(subscription) }
}
#endif
