internal import BrokerCoordinator
internal import BrokerWire

extension MessageHandler {
    func subscribe(_ message: SubscribeMessage, _ frame: FrameReference, _ connection: Connection) -> Opened {
        let bytes = Self.bytesPerSubscription + (message.entities?.count ?? 0) * Self.bytesPerFollowedEntity
        return .question { [self] ticket in
            guard connection.subscriptions.withLock({ $0.reserve() }) else {
                return connection.send(Self.tooManySubscriptions, about: frame)
            }
            guard fetches.hasRoom(connection.peer.process) else {
                return connection.breakOff(
                    .busy("Too many fetches and subscriptions of this process are open."), about: frame)
            }
            connection.subscribe(
                PendingSubscription(
                    message: message, ticket: ticket, frame: frame,
                    share: BudgetShare(of: fetches, bytes, connection.peer.process)))
        }
    }

    private static var tooManySubscriptions: WireError {
        WireError(
            .unsupportedMessage,
            "A connection has at most \(ConnectionSubscriptions.maximum) subscriptions. Name several entities in one, or "
                + "connect again.")
    }

    /// Bytes that a subscription takes beside the names of its entities.
    private static let bytesPerSubscription = 1 << 10
    private static let bytesPerFollowedEntity = 160
}
