internal import Broker
internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerStore
internal import Synchronization

/// One iteration over the answers to a query, which are made one at a time, when they are wanted.
actor EmbeddedStream {
    private let requests: Requests
    private let query: Query
    private let parts = StreamParts()
    private var stream: FetchStream?
    private var isAtEnd = false

    init(_ requests: Requests, _ query: Query) {
        self.requests = requests
        self.query = query
    }

    deinit { stream?.cancel() }

    func next() async throws -> QueryResult? {
        guard !isAtEnd else { return nil }
        do {
            let stream = try await open()
            let part = parts.expect()
            // A stream that has ended would begin again, from the first object.
            if !part.isFinished { stream.ask() }
            let result = try await part.value(onCancel: {
                stream.cancel(); part.finish(.failure(CancellationError()))
            })
            isAtEnd = !result.hasMore
            return result
        } catch {
            isAtEnd = true
            stream?.cancel()
            throw error
        }
    }

    private func open() async throws -> FetchStream {
        if let stream { return stream }
        let opened = try await requests.stream(query) { [parts] _, event in parts.came(event) }
        stream = opened
        return opened
    }
}

/// Hands each event of a stream to the call that waits for it. The last one may come while none waits: a stream ends by itself when
/// its reader is slow, or when the broker is stopped. The next call gets it.
private final class StreamParts: Sendable {
    private struct State: Sendable {
        var waiting: Answer<QueryResult>?
        var end: BrokerError?
    }

    private let state = Mutex(State())

    func expect() -> Answer<QueryResult> {
        let answer = Answer<QueryResult>()
        let end = state.withLock { state in
            state.waiting = answer
            return state.end
        }
        if let end { answer.finish(.failure(end)) }
        return answer
    }

    func came(_ event: StreamEvent) {
        switch event {
        case .objects(let objects): state.withLock { $0.waiting }?.finish(.success(QueryResult(objects)))
        case .failed(let fault): end(BrokerError(fault))
        case .stopped: end(.stopped)
        }
    }

    private func end(_ error: BrokerError) {
        let answer = state.withLock { state in
            state.end = error
            return state.waiting
        }
        answer?.finish(.failure(error))
    }
}

/// One iteration over the commits of the store. The next part is read when it is wanted.
actor EmbeddedFeed {
    private let broker: EmbeddedBroker
    private let query: CommitQuery
    private let events = FeedEvents()
    private var subscription: FeedSubscription?
    private var commits: ArraySlice<FeedCommit> = []
    private var isAtEnd = false

    init(_ broker: EmbeddedBroker, _ query: CommitQuery) {
        self.broker = broker
        self.query = query
    }

    deinit { subscription?.cancel() }

    func next() async throws -> Commit? {
        guard !isAtEnd else { return nil }
        do {
            if let commit = commits.popFirst() { return try Commit(commit) }
            let subscription = try await open()
            while true {
                let event = try await events.next()
                switch event {
                case .opened(let after, _):
                    if query.after == nil { return Commit(sequence: after) }
                case .commits(let part):
                    subscription.ask()
                    commits = part[...]
                    if let commit = commits.popFirst() { return try Commit(commit) }
                case .failed(let fault): throw BrokerError(fault)
                case .stopped:
                    isAtEnd = true
                    return nil
                }
            }
        } catch {
            isAtEnd = true
            subscription?.cancel()
            throw error
        }
    }

    private func open() async throws -> FeedSubscription {
        if let subscription { return subscription }
        let opened = try await broker.requests.subscribe(query) { [events] _, event in events.add(event) }
        subscription = opened
        opened.ask()
        return opened
    }
}

/// The events of a subscription until they are taken: a part of the feed, and what comes before and after it. One call waits at a
/// time.
private final class FeedEvents: Sendable {
    private struct State: Sendable {
        var events: [FeedEvent] = []
        var waiting: Answer<Void>?
    }

    private let state = Mutex(State())

    func add(_ event: FeedEvent) {
        let waiting = state.withLock { state in
            state.events.append(event)
            return state.waiting
        }
        waiting?.finish(.success(()))
    }

    func next() async throws -> FeedEvent {
        while true {
            let arrival = Answer<Void>()
            let event = state.withLock { state -> FeedEvent? in
                guard state.events.isEmpty else { return state.events.removeFirst() }
                state.waiting = arrival
                return nil
            }
            if let event { return event }
            try await arrival.value()
        }
    }
}

extension Commit {
    fileprivate init(_ commit: FeedCommit) throws(BrokerError) {
        let changes = try JSONDocument(ofStore: commit.changes)
        self.init(
            sequence: commit.sequence, id: commit.id.map { JobID($0) },
            changes: withExtendedLifetime(changes) { Completion.Changes.byEntity(changes.root) },
            keys: commit.keys.map { RawJSON($0) })
    }
}
