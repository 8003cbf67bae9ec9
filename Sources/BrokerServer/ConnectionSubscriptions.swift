internal import BrokerCoordinator
internal import DequeModule

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
