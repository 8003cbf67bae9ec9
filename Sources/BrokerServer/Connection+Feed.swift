internal import Broker
internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerWire
internal import DequeModule

/// A `subscribe` that waits for the jobs before it, or is open.
struct PendingSubscription: Sendable {
    let query: CommitQuery
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
                to: pending.query.entities, after: pending.query.after,
                wantsKeys: pending.query.reply == .keys, as: peer.owner,
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
            send("subscribed", about: frame) { writer in
                writer.member("after", after)
                writer.member("oldest", oldest)
            }
        case .commits(let commits):
            for commit in commits {
                let bytes = commit.changes.count + (commit.keys?.count ?? 0)
                send("committed", about: frame, finishing: false, capacity: bytes) { writer in
                    writer.member("id", commit.id)
                    writer.member("sequence", commit.sequence)
                    writer.member("changes", raw: commit.changes)
                    writer.member("keys", raw: commit.keys)
                }
            }
            subscriptions.withLock { $0.came(number) }
            sendSubscriptions()
        case .failed(let fault):
            let wasOpen = subscriptions.withLock { $0.ended(number) }
            send(fault, about: frame, finishing: !wasOpen)
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

/// The subscriptions of one connection, and those that wait for room for their next part. A value.
struct ConnectionSubscriptions {
    /// The maximum number of subscriptions of one connection.
    static let maximum = 16

    private var open: [Int: FeedSubscription] = [:]
    /// Those whose client was sent `subscribed`.
    private var opened: Set<Int> = []
    private var waiting = Deque<Int>()
    /// Messages that are to become subscriptions.
    private var pending = 0

    var all: [FeedSubscription] { Array(open.values) }

    /// A message has asked for one.
    ///
    /// - Returns: whether there is room for it.
    mutating func reserve() -> Bool {
        guard open.count + pending < Self.maximum else { return false }
        pending += 1
        return true
    }

    /// The message of ``reserve()`` becomes a subscription, which waits for room.
    mutating func add(_ subscription: FeedSubscription) {
        pending -= 1
        open[subscription.number] = subscription
        waiting.append(subscription.number)
    }

    /// The client is sent that it is open.
    mutating func began(_ number: Int) { opened.insert(number) }

    /// A part has come, and the subscription waits for room for the next one.
    mutating func came(_ number: Int) { if open[number] != nil { waiting.append(number) } }

    /// - Returns: whether the client was sent that it is open.
    mutating func ended(_ number: Int) -> Bool {
        open[number] = nil
        return opened.remove(number) != nil
    }

    var isReady: Bool { !waiting.isEmpty }

    /// The subscription to ask when there is room; nil when none waits.
    mutating func next() -> FeedSubscription? {
        while let number = waiting.popFirst() {
            if let subscription = open[number] { return subscription }
        }
        return nil
    }
}
