internal import BrokerCoordinator
internal import BrokerWire

/// A `subscribe` that waits for the jobs before it, or is open.
struct PendingSubscription: Sendable {
    let message: SubscribeMessage
    /// The ticket of the question.
    let ticket: Int
    let frame: FrameReference
    /// Its part of the budget of all fetches, until it ends.
    let share: BudgetShare
}

/// Subscriptions: the next part is read when the client has taken most of its answers.
extension Connection {
    /// Opens a subscription for which there is room, when the jobs before it have ended.
    func subscribe(_ pending: PendingSubscription) {
        coordinator.whenEnded(before: pending.ticket, from: source) { [self] in
            let subscription = coordinator.subscribe(
                to: pending.message.entities, after: pending.message.after,
                wantsKeys: pending.message.reply == .keys, as: peer.owner,
                hasRoom: { [weak self] in self?.hasRoomForFeed ?? true },
                notify: { [self] subscription, event in put(event, of: subscription, pending) })
            subscriptions.withLock { $0.add(subscription) }
            // A closed connection retains none.
            if isClosed { cancelSubscriptions() } else { sendSubscriptions() }
        }
    }

    private func put(_ event: FeedEvent, of subscription: FeedSubscription, _ pending: PendingSubscription) {
        let (frame, number) = (pending.frame, subscription.number)
        switch event {
        case .opened(let after, let oldest):
            subscriptions.withLock { $0.began(number) }
            send(ServerMessageWriter.subscribed(after: after, oldest: oldest, tag: frame.tag), about: frame)
        case .commits(let commits):
            for commit in commits {
                let message = ServerMessageWriter.committed(
                    sequence: commit.sequence, id: commit.id, changes: commit.changes, keys: commit.keys,
                    tag: frame.tag)
                send(message, about: frame, finishing: false)
            }
            subscriptions.withLock { $0.came(number) }
            sendSubscriptions()
        case .failed(let fault):
            let wasOpen = subscriptions.withLock { $0.ended(number) }
            send(ServerMessageWriter.error(fault.encoded, about: frame), about: frame, finishing: !wasOpen)
        case .stopped:
            if !subscriptions.withLock({ $0.ended(number) }) { finish() }
        }
    }

    private var hasRoomForFeed: Bool { bytes < Self.streamAheadBytes && budget.hasRoom(peer.process) }

    /// Asks for the next parts, as far as there is room for them.
    func sendSubscriptions() {
        while bytes < Self.streamAheadBytes, subscriptions.withLock({ $0.isReady }) {
            guard budget.hasRoom(peer.process) else { return waitForRoom() }
            subscriptions.withLock { $0.next() }?.ask()
        }
    }

    /// The connection is closed.
    func cancelSubscriptions() {
        let all = subscriptions.withLock { subscriptions in
            defer { subscriptions = ConnectionSubscriptions() }
            return subscriptions.all
        }
        for subscription in all { subscription.cancel() }
    }
}
