internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerModel
internal import BrokerWire

extension MessageHandler {
    /// Checks a subscription; a fault is sent at once.
    func subscribe(
        _ message: SubscribeMessage, _ content: JSONText, _ memory: JobMemory, _ frame: FrameReference,
        _ connection: Connection
    ) -> Opened {
        if let unknown = message.entities?.enumerated().first(where: {
            coordinator.model.index(ofEntity: $0.element) == nil
        }) {
            let fault = Fault(
                .unknownEntity,
                "The model has no entity \(unknown.element.quotedBriefly). See `entities` of `welcome`.",
                path: "/entities/\(unknown.offset)")
            connection.send(fault, about: frame)
            return .nothing
        }
        let bytes = Self.bytesPerSubscription + (message.entities?.count ?? 0) * Self.bytesPerFollowedEntity
        return .question { [self] ticket in
            guard connection.subscriptions.withLock({ $0.reserve() }) else {
                return connection.send(Self.tooManySubscriptions, about: frame)
            }
            guard fetches.hasRoom(connection.peer.process) else {
                let error = WireError.busy("Too many fetches and subscriptions of this process are open.")
                connection.send(error, about: frame)
                return connection.onHandler { $0.breakOff(error) }
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
