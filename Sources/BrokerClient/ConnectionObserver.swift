internal import Broker
internal import Logging
internal import Metrics
internal import Synchronization

/// The state of a client's connection.
public struct BrokerConnectionState: Sendable, Hashable, CustomStringConvertible {
    public let description: String

    /// There is no connection, and nothing waits for one.
    public static let idle = BrokerConnectionState(description: "idle")
    /// The connection is being established, for the first time or again.
    public static let connecting = BrokerConnectionState(description: "connecting")
    public static let connected = BrokerConnectionState(description: "connected")
    /// The client was closed.
    public static let closed = BrokerConnectionState(description: "closed")
}

/// The current state, and those that follow, for any number of readers.
final class ConnectionStates: Sendable {
    private struct State: Sendable {
        var current = BrokerConnectionState.idle
        var readers: [Int: AsyncStream<BrokerConnectionState>.Continuation] = [:]
        var next = 0
    }

    private let state = Mutex(State())

    var current: BrokerConnectionState { state.withLock { $0.current } }

    func change(to new: BrokerConnectionState) {
        let readers = state.withLock { state in
            guard state.current != new else { return [] as [AsyncStream<BrokerConnectionState>.Continuation] }
            state.current = new
            return Array(state.readers.values)
        }
        for reader in readers {
            reader.yield(new)
            if new == .closed { reader.finish() }
        }
    }

    /// Begins with the current state. A slow reader misses all but the newest states, and never that.
    func read() -> AsyncStream<BrokerConnectionState> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: BrokerConnectionState.self, bufferingPolicy: .bufferingNewest(16))
        let number = state.withLock { state in
            defer { state.next += 1 }
            continuation.yield(state.current)
            if state.current == .closed { continuation.finish() } else { state.readers[state.next] = continuation }
            return state.next
        }
        continuation.onTermination = { [weak self] _ in
            _ = self?.state.withLock { $0.readers.removeValue(forKey: number) }
        }
        return stream
    }
}

/// Logs, counts and publishes what happens to connections. Any thread may call.
///
/// Counters: `broker_client_connections_total`, `broker_client_connections_lost_total`, `broker_client_jobs_resent_total`.
struct ConnectionObserver: Sendable {
    let states = ConnectionStates()
    private let logger: Logger
    private let connections = Counter(label: "broker_client_connections_total")
    private let losses = Counter(label: "broker_client_connections_lost_total")
    private let resent = Counter(label: "broker_client_jobs_resent_total")

    init(path: String, _ logger: Logger) {
        var logger = logger
        logger[metadataKey: "socket"] = "\(path)"
        self.logger = logger
    }

    func note(_ note: Session.Note) {
        switch note {
        case .connecting: states.change(to: .connecting)
        case .connected(let jobs):
            states.change(to: .connected)
            connections.increment()
            resent.increment(by: jobs)
            if jobs == 0 {
                logger.debug("Connected.")
            } else {
                logger.notice("Connected again; unanswered jobs are sent again.", metadata: ["jobs": "\(jobs)"])
            }
        case .lost(let reason):
            losses.increment()
            logger.notice("There is no connection.", metadata: ["reason": "\(reason)"])
        case .gaveUp(let error, let jobs):
            states.change(to: .idle)
            logger.error(
                "There is no connection; unanswered requests have failed.",
                metadata: ["jobs": "\(jobs)", "error": "\(error)"])
        case .idle: states.change(to: .idle)
        case .closed: states.change(to: .closed)
        }
    }
}
