internal import BrokerRequests
internal import Synchronization

/// The stores whose brokers were dropped and are still finishing their jobs. Opening such a store waits for that: otherwise it
/// would be refused for the sake of this very process.
enum StoppingStores {
    private static let stopping = Mutex<[String: Answer<Void>]>([:])

    static func begin(_ path: String) { stopping.withLock { $0[path] = Answer() } }

    static func end(_ path: String) { stopping.withLock { $0.removeValue(forKey: path) }?.finish(.success(())) }

    /// Returns when no dropped broker uses the store of that path, or when the task is cancelled.
    static func wait(_ path: String) async {
        guard let end = stopping.withLock({ $0[path] }) else { return }
        try? await end.value()
    }
}
