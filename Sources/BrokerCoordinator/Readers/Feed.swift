internal import BrokerJSON
internal import BrokerJournal
package import BrokerModel
internal import BrokerStaging
package import BrokerStore
internal import DequeModule

/// The loop of the thread that reads the feed. Only it touches the connection, which has no read transaction open between
/// two parts.
struct FeedLoop {
    /// A follower is sent how far nothing concerned it at most once for so many sequences.
    private static let silentSequences: Int64 = 1_000

    fileprivate let state: Monitor<FeedThread.State>
    fileprivate let gate: ReaderGate
    fileprivate let files: OpenedFiles
    /// Opened for the first subscription.
    fileprivate var reader: FeedReader?

    mutating func run() {
        while let (number, follower) = next() { read(number, follower) }
        for follower in state.withLock({ $0.followers.values.map(\.subscription) }) { follower.report(.stopped) }
    }

    /// Waits for a subscription to read for; nil when the thread ends.
    private func next() -> (Int, FeedThread.Follower)? {
        state.wait { state -> (Int, FeedThread.Follower)?? in
            if state.isStopping { return .some(nil) }
            guard let number = state.table.next(), let follower = state.followers[number] else { return nil }
            return (number, follower)
        }
    }

    private mutating func read(_ number: Int, _ follower: FeedThread.Follower) {
        guard follower.subscription.request.hasRoom() else {
            state.withLock { $0.table.postpone(number) }
            return follower.subscription.report(.commits([]))
        }
        do throws(Fault) {
            try readPart(number, follower)
        } catch {
            state.withLock { $0.end(number) }
            follower.subscription.report(.failed(error))
        }
    }

    private mutating func readPart(_ number: Int, _ follower: FeedThread.Follower) throws(Fault) {
        var follower = follower
        let (plan, failure, read) = state.withLock { ($0.plan, $0.failure, $0.table.position(of: number)) }
        if let failure { throw Fault(failure) }
        let position: Int64
        if let read { position = read } else { position = try open(&follower) }
        if follower.plan !== plan {
            follower.selection = try follower.subscription.request.selection(in: plan)
            follower.plan = plan
        }
        guard let selection = follower.selection else { return }
        let part = try reading { reader throws(StoreError) in try reader.part(after: position, selection) }
        guard let part else {
            throw .gone(position, try reading { reader throws(StoreError) in try reader.bounds() })
        }
        var commits = part.commits
        if commits.isEmpty, part.position - follower.reported >= Self.silentSequences {
            commits = [FeedCommit(nothingThrough: part.position)]
        }
        follower.reported = commits.last?.sequence ?? follower.reported
        state.withLock { state in
            if state.followers[number] != nil { state.followers[number] = follower }
            state.table.read(number, through: part.position, isLast: part.isLast, isSent: !commits.isEmpty)
        }
        if !commits.isEmpty { follower.subscription.report(.commits(commits)) }
    }

    private mutating func open(_ follower: inout FeedThread.Follower) throws(Fault) -> Int64 {
        // An unknown entity comes before a position that is gone.
        let plan = state.withLock { $0.plan }
        follower.selection = try follower.subscription.request.selection(in: plan)
        follower.plan = plan
        let bounds = try reading { reader throws(StoreError) in try reader.bounds() }
        let after = follower.subscription.request.after ?? bounds.newest
        guard (bounds.oldest...bounds.newest).contains(after) else { throw .gone(after, bounds) }
        follower.reported = after
        follower.subscription.report(.opened(after: after, oldest: bounds.oldest))
        return after
    }

    /// A short read, for which the writer may wait.
    private mutating func reading<Result>(
        _ body: (FeedReader) throws(StoreError) -> Result
    ) throws(Fault) -> Result {
        do throws(StoreError) {
            let reader: FeedReader
            if let open = self.reader { reader = open } else { reader = try FeedReader(files) }
            self.reader = reader
            return try gate.read(.brief) { _ throws(StoreError) in try body(reader) }
        } catch {
            // A fault of the connection may end with it.
            reader = nil
            throw Fault(error)
        }
    }
}

extension FeedRequest {
    fileprivate func selection(in plan: StagingPlan) throws(Fault) -> FeedSelection {
        let model = plan.model
        guard let entities else {
            return FeedSelection(entities: model.entities.map(\.name), wantsKeys: wantsKeys, asker: asker)
        }
        var names: Set<String> = []
        for (position, name) in entities.enumerated() {
            let entity = try model.entity(named: name, at: "/entities/\(position)")
            for kind in model.subentities(of: entity) { names.insert(model.entities[kind].name) }
        }
        return FeedSelection(entities: names, wantsKeys: wantsKeys, asker: asker)
    }
}

extension Fault {
    fileprivate static func gone(_ after: Int64, _ bounds: FeedReader.Bounds) -> Fault {
        let why =
            after > bounds.newest
            ? "This store has no job \(after), so it is another one, or an older copy."
            : "The store has forgotten jobs after \(after)."
        var fault = Fault(
            .gone,
            "\(why) Read the objects again: subscribe from now on, and then fetch them.", path: "/after")
        fault.oldest = bounds.oldest
        return fault
    }
}

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
            var loop = FeedLoop(state: state, gate: gate, files: files)
            loop.run()
        }
    }

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

    func subscribe(_ request: FeedRequest) -> FeedSubscription {
        state.withLock { state in
            state.lastNumber += 1
            let subscription = FeedSubscription(state.lastNumber, request, on: self)
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

/// An event of a subscription. The first is `opened` or `failed`.
package enum FeedEvent: Sendable {
    /// The jobs after a sequence follow.
    ///
    /// - oldest: the feed can be read after this sequence, and no older one.
    case opened(after: Int64, oldest: Int64)
    /// The next part, which may be empty; another one follows after ``FeedSubscription/ask()``.
    case commits([FeedCommit])
    case failed(Fault)
    case stopped
}

struct FeedRequest: Sendable {
    let entities: [String]?
    let after: Int64?
    let wantsKeys: Bool
    let asker: JobOwner
    /// Whether the client has room for a part. Called on the feed's thread.
    let hasRoom: @Sendable () -> Bool
    let notify: @Sendable (FeedSubscription, FeedEvent) -> Void
}

/// A follower of the feed. Any thread may call.
package final class FeedSubscription: Sendable {
    package let number: Int
    let request: FeedRequest
    private let thread: FeedThread

    init(_ number: Int, _ request: FeedRequest, on thread: FeedThread) {
        self.number = number
        self.request = request
        self.thread = thread
    }

    /// The client has room for the first part, or for the next one. Called once for each.
    package func ask() { thread.ask(self) }

    /// Ends the subscription. A part that is being read is still sent; no other event follows.
    package func cancel() { thread.cancel(self) }

    func report(_ event: FeedEvent) { request.notify(self, event) }
}

/// Which subscriptions of the feed are open, and which of them the next part is read for. A pure value.
///
/// A part is read for a client that has room for it, when there is something new: so a slow client costs no memory. Subscriptions take
/// turns.
struct FeedTable {
    private struct Subscription {
        let number: Int
        /// Its client has asked for the next part.
        var hasRoom = false
        /// The jobs up to this one have been read; nil before the first read.
        var position: Int64?
        /// The transactions whose jobs it has read; -1 before the first read, and while there is more to read.
        var commits = -1
    }

    /// The next turn is that of the first one that has room and news.
    private var subscriptions = Deque<Subscription>()
    /// The number of transactions. Not a sequence: those of duplicates and of some failures are in no ledger.
    private var commits = 0
    /// ``commits`` when the part that is being read was begun.
    private var commitsAtBegin = 0

    var count: Int { subscriptions.count }

    /// The jobs that a subscription has read; nil before its first read, and when it has ended.
    func position(of number: Int) -> Int64? { subscriptions.first { $0.number == number }?.position }

    mutating func add(_ number: Int) { subscriptions.append(Subscription(number: number)) }

    /// The client has room for the first part, or for the next one.
    mutating func ask(_ number: Int) { change(number) { $0.hasRoom = true } }

    mutating func end(_ number: Int) { subscriptions.removeAll { $0.number == number } }

    mutating func committed() { commits += 1 }

    /// The part was read that ``next()`` has begun. `isLast`: there was no other job. `isSent`: the client gets something, and asks
    /// when it has room again.
    mutating func read(_ number: Int, through position: Int64, isLast: Bool, isSent: Bool) {
        // One that is sent something looks again when it asks.
        let commits = isLast && !isSent ? commitsAtBegin : -1
        change(number) { ($0.position, $0.commits, $0.hasRoom) = (position, commits, !isSent) }
    }

    /// The client had no room when its turn came: it asks again.
    mutating func postpone(_ number: Int) { change(number) { $0.hasRoom = false } }

    /// The subscription to read the next part for; nil when there is none.
    mutating func next() -> Int? {
        guard let turn = subscriptions.firstIndex(where: { $0.hasRoom && $0.commits < commits }) else { return nil }
        let subscription = subscriptions.remove(at: turn)
        subscriptions.append(subscription)
        commitsAtBegin = commits
        return subscription.number
    }

    /// Ignored if the subscription has ended.
    private mutating func change(_ number: Int, _ body: (inout Subscription) -> Void) {
        if let index = subscriptions.firstIndex(where: { $0.number == number }) { body(&subscriptions[index]) }
    }
}
