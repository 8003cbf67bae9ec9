#if Replication
internal import Synchronization

/// Ends the waits of one object, for ever. Any thread may set and read it.
final class StopToken: Sendable {
    private let flag = Atomic(false)

    var isStopped: Bool { flag.load(ordering: .acquiring) }

    /// The caller must wake the waiting threads afterwards.
    func stop() { flag.store(true, ordering: .releasing) }
}
#endif
