internal import BrokerRequests
internal import Synchronization

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#elseif canImport(Darwin)
internal import Darwin
#endif

/// The stores whose brokers were dropped and are still finishing their jobs. Opening such a store waits for that: otherwise it
/// would be refused for the sake of this very process.
enum StoppingStores {
    private static let stopping = Mutex<[String: Answer<Void>]>([:])

    /// - Returns: the name of the store for ``end(_:)``, which the file may not have any more then.
    static func begin(_ path: String) -> String {
        let name = resolved(path)
        stopping.withLock { $0[name] = Answer() }
        return name
    }

    static func end(_ name: String) { stopping.withLock { $0.removeValue(forKey: name) }?.finish(.success(())) }

    /// Returns when no dropped broker uses the store of that path, or when the task is cancelled.
    static func wait(_ path: String) async {
        guard let end = stopping.withLock({ $0[resolved(path)] }) else { return }
        try? await end.value()
    }

    /// The path without symbolic links and dots, so that a file has one name here; that of a file which does not exist as it is.
    private static func resolved(_ path: String) -> String {
        guard let real = realpath(path, nil) else { return path }
        defer { free(real) }
        return String(cString: real)
    }
}
