internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore

/// Reads the feed for its subscriptions, a part at a time, on a thread of its own. ``FeedTable`` decides for which,
/// ``FeedLoop`` does it.
final class FeedThread: Sendable {
    /// A subscription, and what its next part needs.
    struct Follower: Sendable {
        let subscription: FeedSubscription
        /// The entities by the model ``plan``; nil before the first part.
        var selection: FeedSelection?
        var plan: StagingPlan?
        /// The newest sequence that the client was sent.
        var reported: Int64 = 0
    }

    struct State {
        var table = FeedTable()
        var followers: [Int: Follower] = [:]
        var plan: StagingPlan
        /// The contents of the store are unknown.
        var failure: StoreError?
        var isStopping = false
        var lastNumber = 0
    }

    private let state: Monitor<State>
    private let onCommit: Callback<Void>
    private let thread: Thread

    init(_ files: OpenedFiles, plan: StagingPlan, gate: ReaderGate, _ onCommit: Callback<Void>) {
        let state = Monitor(State(plan: plan))
        self.state = state
        self.onCommit = onCommit
        onCommit.set {
            state.broadcast { state in
                guard !state.followers.isEmpty else { return false }
                state.table.committed()
                return true
            }
        }
        thread = Thread(named: "feed") {
            var loop = FeedLoop(state, gate, files)
            loop.run()
        }
    }

    /// The number of open subscriptions.
    var count: Int { state.withLock { $0.table.count } }

    /// Subscriptions have the entities of another model from now on.
    func use(_ plan: StagingPlan) { state.withLock { $0.plan = plan } }

    /// The contents of the store are unknown: every subscription ends, also those that wait.
    func fail(_ error: StoreError) {
        state.update { state in
            state.failure = error
            state.table.committed()
        }
    }

    func subscribe(
        to entities: [String]?, after: Int64?, wantsKeys: Bool, as asker: JobOwner,
        hasRoom: @escaping @Sendable () -> Bool,
        notify: @escaping @Sendable (FeedSubscription, FeedEvent) -> Void
    ) -> FeedSubscription {
        state.withLock { state in
            state.lastNumber += 1
            let subscription = FeedSubscription(
                state.lastNumber, of: entities, after: after, wantsKeys: wantsKeys, as: asker, on: self,
                hasRoom: hasRoom, notify: notify)
            state.followers[subscription.number] = Follower(subscription: subscription)
            state.table.add(subscription.number)
            return subscription
        }
    }

    func ask(_ subscription: FeedSubscription) {
        state.update { $0.table.ask(subscription.number) }
    }

    func cancel(_ subscription: FeedSubscription) {
        state.withLock { $0.end(subscription.number) }
    }

    /// Ends all subscriptions and the thread. Called once.
    func stop() {
        onCommit.set(nil)
        state.update { $0.isStopping = true }
        thread.join()
    }
}

extension FeedThread.State {
    mutating func end(_ number: Int) {
        followers[number] = nil
        table.end(number)
    }
}
