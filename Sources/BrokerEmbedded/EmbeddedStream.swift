internal import Broker
internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerRequests
internal import BrokerWire
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
        let content = JSONText(copying: ClientMessageWriter.fetch(members: try query.members(isStreamed: true)))
        let opened = try await requests.stream(content) { [parts] _, event in parts.came(event) }
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
