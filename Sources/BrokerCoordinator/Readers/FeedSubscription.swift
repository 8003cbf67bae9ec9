package import BrokerModel
package import BrokerStore

/// An event of a subscription. The first is `opened` or `failed`.
package enum FeedEvent: Sendable {
    /// The jobs after a sequence follow.
    ///
    /// - oldest: the feed can be read after this sequence, and no older one.
    case opened(after: Int64, oldest: Int64)
    /// The next part, which may be empty; another one follows after ``FeedSubscription/ask()``.
    case commits([FeedCommit])
    /// The subscription has ended.
    case failed(Fault)
    /// The server stops.
    case stopped
}

/// A follower of the feed. Any thread may call.
package final class FeedSubscription: Sendable {
    package let number: Int
    /// Nil for those of the model.
    let entities: [String]?
    /// Nil for the jobs from now on.
    let after: Int64?
    let wantsKeys: Bool
    let asker: JobOwner
    /// Whether the client has room for a part. Called on the feed's thread.
    let hasRoom: @Sendable () -> Bool
    private let notify: @Sendable (FeedSubscription, FeedEvent) -> Void
    private let thread: FeedThread

    init(
        _ number: Int, of entities: [String]?, after: Int64?, wantsKeys: Bool, as asker: JobOwner,
        on thread: FeedThread, hasRoom: @escaping @Sendable () -> Bool,
        notify: @escaping @Sendable (FeedSubscription, FeedEvent) -> Void
    ) {
        self.number = number
        self.entities = entities
        self.after = after
        self.wantsKeys = wantsKeys
        self.asker = asker
        self.thread = thread
        self.hasRoom = hasRoom
        self.notify = notify
    }

    /// The client has room for the first part, or for the next one. Called once for each.
    package func ask() { thread.ask(self) }

    /// Ends the subscription. A part that is being read is still sent; no other event follows.
    package func cancel() { thread.cancel(self) }

    func report(_ event: FeedEvent) { notify(self, event) }
}
