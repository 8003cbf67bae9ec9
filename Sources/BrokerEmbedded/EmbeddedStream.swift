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
            stream.ask()
            let result = try await part.value(onCancel: {
                stream.cancel(); part.finish(.failure(CancellationError()))
            })
            isAtEnd = !result.hasMore
            return result
        } catch {
            isAtEnd = true
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

/// Hands each event of a stream to the call that waits for it.
private final class StreamParts: Sendable {
    private let waiting = Mutex<Answer<QueryResult>?>(nil)

    func expect() -> Answer<QueryResult> {
        let answer = Answer<QueryResult>()
        waiting.withLock { $0 = answer }
        return answer
    }

    func came(_ event: StreamEvent) {
        let answer = waiting.withLock { $0 }
        switch event {
        case .objects(let objects): answer?.finish(.success(QueryResult(objects)))
        case .failed(let fault): answer?.finish(.failure(BrokerError(fault)))
        case .stopped: answer?.finish(.failure(BrokerError.stopped))
        }
    }
}
