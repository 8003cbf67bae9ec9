internal import Broker
internal import BrokerCoordinator
internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore
internal import BrokerWire
internal import DequeModule
internal import Logging

/// A fetch that waits for its turn, or whose objects are being sent.
struct PendingFetch: Sendable {
    let request: FetchRequest
    let ticket: Int
    let frame: FrameReference
    /// Its part of the budget of all waiting fetches.
    let share: BudgetShare

    /// The message around the objects. Each message of a stream says whether others follow.
    var envelope: FetchEnvelope {
        FetchEnvelope(beginning: MessageWriter.objectsBeginning) {
            [tag = frame.tag, isStreamed = request.isStreamed] hasMore, last in
            MessageWriter.objectsEnding(more: isStreamed || hasMore ? hasMore : nil, last: last, tag: tag)
        }
    }
}

/// A `subscribe` that waits for the jobs before it, or is open.
struct PendingSubscription: Sendable {
    let query: CommitQuery
    let ticket: Int
    let frame: FrameReference
    /// Its part of the budget of all fetches, until it ends.
    let share: BudgetShare
}

/// Streamed fetches and subscriptions: the next part is made when the client has taken most of its answers.
extension Connection {
    /// While the client has that much to read, no part is made: one or two frames of ordinary objects, so that a client that
    /// reads does not wait for the next one.
    static let partsAheadBytes = 256 << 10

    /// Answers a streamed fetch, when the jobs before it have ended.
    func stream(_ fetch: PendingFetch) {
        coordinator.whenEnded(before: fetch.ticket, from: source) { [self] in
            let stream = coordinator.stream(
                fetch.request, of: peer.process, in: fetch.envelope,
                isWanted: { [weak self] in self.map { !$0.isClosed } ?? false },
                notify: { [self] stream, event in put(event, of: stream, fetch) })
            parts.withLock { $0.add(stream) }
            begin()
        }
    }

    private func put(_ event: StreamEvent, of stream: FetchStream, _ fetch: PendingFetch) {
        var hasMore = false
        switch event {
        case .objects(let objects):
            let frame = codecs.encode(objects)
            hasMore = objects.hasMore && frame != nil
            if objects.hasMore, frame == nil { stream.cancel() }
            put(frame ?? codecs.tooLarge(about: fetch.frame), finishing: !hasMore)
        case .failed(let fault):
            if fault.code == .snapshotExpired {
                onHandler { [peer] handler in
                    handler.connections.log.logger.info(
                        "A stream was ended: its client was too slow.", metadata: peer.metadata)
                }
            }
            send(fault, about: fetch.frame)
        case .stopped: send(.stopping, about: fetch.frame)
        }
        parts.withLock { $0.came(stream, hasMore: hasMore) }
        sendParts()
    }

    /// Opens a subscription for which there is room, when the jobs before it have ended.
    func subscribe(_ pending: PendingSubscription) {
        coordinator.whenEnded(before: pending.ticket, from: source) { [self] in
            let subscription = coordinator.subscribe(
                to: pending.query.entities, after: pending.query.after,
                wantsKeys: pending.query.reply == .keys, as: peer.owner,
                hasRoom: { [weak self] in
                    self.map { $0.bytes < Self.partsAheadBytes && $0.budget.hasRoom($0.peer.process) } ?? true
                },
                notify: { [self] subscription, event in put(event, of: subscription, pending) })
            parts.withLock { $0.add(subscription) }
            begin()
        }
    }

    private func put(_ event: FeedEvent, of subscription: FeedSubscription, _ pending: PendingSubscription) {
        let (frame, number) = (pending.frame, subscription.number)
        switch event {
        case .opened(let after, let oldest):
            parts.withLock { $0.began(number) }
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
            parts.withLock { $0.came(subscription) }
            sendParts()
        case .failed(let fault):
            let wasOpen = parts.withLock { $0.ended(number) }
            send(fault, about: frame, finishing: !wasOpen)
        case .stopped:
            if !parts.withLock({ $0.ended(number) }) { finish() }
        }
    }

    /// A closed connection retains nothing.
    private func begin() { if isClosed { cancelParts() } else { sendParts() } }

    func sendParts() {
        while bytes < Self.partsAheadBytes, parts.withLock({ $0.isReady }) {
            guard budget.hasRoom(peer.process) else { return waitForRoom() }
            parts.withLock { $0.next() }?()
        }
    }

    /// The connection is closed: the read transactions of its streams end.
    func cancelParts() {
        let parts = parts.withLock { parts in
            defer { parts = ConnectionParts() }
            return parts
        }
        for stream in parts.streams.values { stream.cancel() }
        for subscription in parts.subscriptions.values { subscription.cancel() }
    }
}

/// The streamed fetches and the subscriptions of one connection, and which of them may be asked for its next part. A value.
///
/// One open stream at a time makes a part, so that at most one part more than the unread bytes that a client may have is
/// in memory. One stream at a time is opened: opening may wait for other streams, and an open stream must not wait with it.
struct ConnectionParts {
    static let maximumSubscriptions = 16

    private(set) var streams: [Int: FetchStream] = [:]
    /// Those that have not been asked, and those that wait for room, in their turns.
    private var newStreams = Deque<Int>()
    private var waitingStreams = Deque<Int>()
    /// The stream that was asked for its first part, and the open one that was asked for its next part.
    private var opening: Int?
    private var making: Int?

    private(set) var subscriptions: [Int: FeedSubscription] = [:]
    /// Subscriptions whose client was sent `subscribed`.
    private var opened: Set<Int> = []
    private var waitingSubscriptions = Deque<Int>()
    /// Messages that are to become subscriptions.
    private var reserved = 0

    mutating func add(_ stream: FetchStream) {
        streams[stream.number] = stream
        newStreams.append(stream.number)
    }

    /// A part of a stream has come.
    ///
    /// - Parameter hasMore: the stream waits for room for the next one.
    mutating func came(_ stream: FetchStream, hasMore: Bool) {
        let number = stream.number
        if opening == number { opening = nil }
        if making == number { making = nil }
        if hasMore { waitingStreams.append(number) } else { streams[number] = nil }
    }

    /// A message has asked for a subscription.
    ///
    /// - Returns: whether there is room for it.
    mutating func reserveSubscription() -> Bool {
        guard subscriptions.count + reserved < Self.maximumSubscriptions else { return false }
        reserved += 1
        return true
    }

    /// The message of ``reserveSubscription()`` becomes a subscription, which waits for room.
    mutating func add(_ subscription: FeedSubscription) {
        reserved -= 1
        subscriptions[subscription.number] = subscription
        waitingSubscriptions.append(subscription.number)
    }

    mutating func began(_ number: Int) { opened.insert(number) }

    /// A part has come, and the subscription waits for room for the next one.
    mutating func came(_ subscription: FeedSubscription) {
        if subscriptions[subscription.number] != nil { waitingSubscriptions.append(subscription.number) }
    }

    /// - Returns: whether the client was sent that the subscription is open.
    mutating func ended(_ number: Int) -> Bool {
        subscriptions[number] = nil
        return opened.remove(number) != nil
    }

    /// Whether a stream may be asked for its next part, or a subscription waits for one.
    var isReady: Bool {
        making == nil && !waitingStreams.isEmpty || opening == nil && !newStreams.isEmpty
            || !waitingSubscriptions.isEmpty
    }

    /// Asks one of them for its next part, when there is room; nil when none may be asked now.
    mutating func next() -> (() -> Void)? {
        if making == nil, let number = waitingStreams.popFirst() {
            making = number
            return streams[number]?.ask
        }
        if opening == nil, let number = newStreams.popFirst() {
            opening = number
            return streams[number]?.ask
        }
        while let number = waitingSubscriptions.popFirst() {
            if let subscription = subscriptions[number] { return subscription.ask }
        }
        return nil
    }
}
