import Synchronization

/// A server of this process from before its start, so that a signal which ends the command leaves no ``TrialStore``.
final class LocalServerStart: Sendable {
    private let server = Mutex<LocalServer?>(nil)

    func succeeded(_ server: LocalServer) { self.server.withLock { $0 = server } }

    /// From a thread that may wait. The process ends after it.
    func stopAndWait() {
        if let server = server.withLock({ $0 }) { server.stopAndWait() } else { TrialStore.remove() }
    }
}
