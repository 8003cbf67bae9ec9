internal import DequeModule

/// Which subscriptions of the feed are open, and which of them the next part is read for. A pure value.
///
/// ```
///  add ─▶ idle ─ask─▶ ready ─next─▶ reading ─a part is sent─▶ idle ─ask─▶ ready …
///                       ▲              └─nothing is new─▶ waiting
///                       └──────────────a commit───────────────┘
/// ```
///
/// A part is read only for a client with room for it, so a slow one costs no memory. Ready subscriptions take turns.
struct FeedTable {
    private enum Phase {
        /// Its client has not asked for the next part.
        case idle
        case ready
        case reading
        /// For a commit.
        case waiting
    }

    private struct Subscription {
        var phase = Phase.idle
        /// The jobs up to this one have been read; nil before the first read.
        var position: Int64?
        /// ``commits`` when its last part was begun, which has all of them if the part was the last one.
        var commits = 0
    }

    private var subscriptions: [Int: Subscription] = [:]
    private var ready = Deque<Int>()
    private var waiting: [Int] = []
    /// The number of transactions. Not a sequence: those of duplicates and of some failures are in no ledger.
    private var commits = 0
    /// ``commits`` when those that wait were searched for one to read for.
    private var searched = 0

    var count: Int { subscriptions.count }

    /// The jobs that a subscription has read; nil before its first read, and when it has ended.
    func position(of number: Int) -> Int64? { subscriptions[number]?.position }

    // MARK: - Events

    mutating func add(_ number: Int) { subscriptions[number] = Subscription() }

    /// The client has room for the first part, or for the next one. Ignored if the subscription has ended.
    mutating func ask(_ number: Int) {
        guard subscriptions[number]?.phase == .idle else { return }
        subscriptions[number]?.phase = .ready
        ready.append(number)
    }

    /// The subscription has ended. Any number of calls.
    mutating func end(_ number: Int) {
        switch subscriptions.removeValue(forKey: number)?.phase {
        case .ready: ready.removeAll { $0 == number }
        case .waiting: waiting.removeAll { $0 == number }
        case nil, .idle, .reading: break
        }
    }

    /// A transaction has become durable.
    mutating func committed() { commits += 1 }

    /// A part was read. Ignored if the subscription has ended.
    ///
    /// - Parameters:
    ///   - position: the jobs up to this one have been read.
    ///   - isLast: there was no other job.
    ///   - isSent: the client gets something, and asks when it has room again.
    mutating func read(_ number: Int, through position: Int64, isLast: Bool, isSent: Bool) {
        guard var subscription = subscriptions[number], subscription.phase == .reading else { return }
        subscription.position = position
        if isSent {
            subscription.phase = .idle
        } else if !isLast || subscription.commits < commits {
            subscription.phase = .ready
            ready.append(number)
        } else {
            subscription.phase = .waiting
            waiting.append(number)
        }
        subscriptions[number] = subscription
    }

    /// The client had no room when its turn came: it asks again.
    mutating func postpone(_ number: Int) {
        if subscriptions[number]?.phase == .reading { subscriptions[number]?.phase = .idle }
    }

    // MARK: - Steps

    /// The subscription to read the next part for, which is reading from now on; nil when there is none.
    mutating func next() -> Int? {
        if searched < commits {
            searched = commits
            // Those that are ready come first: each has its turn, however much there is to read for another one.
            let news = waiting.filter(hasNews)
            waiting.removeAll(where: hasNews)
            for number in news { subscriptions[number]?.phase = .ready }
            ready.append(contentsOf: news)
        }
        guard let number = ready.popFirst() else { return nil }
        subscriptions[number]?.phase = .reading
        subscriptions[number]?.commits = commits
        return number
    }

    private func hasNews(_ number: Int) -> Bool { subscriptions[number].map { $0.commits < commits } ?? false }

    /// Checks the invariants in linear time.
    func checkInvariants() throws(InvariantViolation) {
        let phases = subscriptions.mapValues(\.phase)
        try InvariantViolation.require(
            Set(ready).count == ready.count && ready.count == phases.values.count { $0 == .ready }
                && ready.allSatisfy { phases[$0] == .ready }, "a ready subscription has one turn")
        try InvariantViolation.require(
            Set(waiting).count == waiting.count && waiting.count == phases.values.count { $0 == .waiting }
                && waiting.allSatisfy { phases[$0] == .waiting }, "a waiting subscription waits once")
        try InvariantViolation.require(
            subscriptions.values.allSatisfy { $0.phase != .waiting || $0.position != nil },
            "a subscription waits only once it has read")
        try InvariantViolation.require(
            waiting.allSatisfy { subscriptions[$0].map { $0.commits >= searched } ?? false },
            "a subscription waits only for what comes")
    }
}
