internal import BrokerCoordinator
internal import Synchronization

/// The calls that wait for room in the coordinator, in the order of their arrival. May be called from any thread.
///
/// Invariants:
/// 1. Everything is admitted in the order of ``add(_:drop:)``, or dropped, once.
/// 2. A call that was withdrawn before it was admitted is never admitted.
/// 3. While something waits, the coordinator has been asked to notify when there is room.
final class AdmissionQueue: Sendable {
    private struct Waiting: Sendable {
        /// Called under the lock, so that the order holds.
        let admit: @Sendable () -> Void
        let drop: @Sendable () -> Void
    }

    private struct State: Sendable {
        /// By number; those that were withdrawn are missing.
        var waiting: [Int: Waiting] = [:]
        var first = 0
        var next = 0
        var isAsking = false
        var isClosed = false

        /// Takes the first that waits; nil when nothing does.
        mutating func take() -> Waiting? {
            while first < next {
                defer { first += 1 }
                if let waiting = waiting.removeValue(forKey: first) { return waiting }
            }
            return nil
        }
    }

    private let coordinator: Coordinator
    private let state = Mutex(State())

    init(_ coordinator: Coordinator) { self.coordinator = coordinator }

    /// How many wait.
    var count: Int { state.withLock { $0.waiting.count } }

    /// Admits something as soon as there is room and everything before it is admitted.
    ///
    /// - Parameters:
    ///   - admit: must not call back here.
    ///   - drop: called instead when the queue is closed before.
    /// - Returns: what it may be withdrawn by.
    func add(_ admit: @escaping @Sendable () -> Void, drop: @escaping @Sendable () -> Void) -> Int {
        let number: Int? = state.withLock { state in
            guard !state.isClosed else { return nil }
            defer { state.next += 1 }
            state.waiting[state.next] = Waiting(admit: admit, drop: drop)
            return state.next
        }
        if number == nil { drop() } else { admitWaiting() }
        return number ?? -1
    }

    /// If it still waits, it is neither admitted nor dropped.
    ///
    /// - Returns: whether it still waited.
    func withdraw(_ number: Int) -> Bool {
        state.withLock { $0.waiting.removeValue(forKey: number) != nil }
    }

    /// Admits nothing from now on, and drops what waits.
    func close() {
        let dropped = state.withLock { state in
            state.isClosed = true
            var dropped: [Waiting] = []
            while let waiting = state.take() { dropped.append(waiting) }
            return dropped
        }
        for waiting in dropped { waiting.drop() }
    }

    private func admitWaiting() {
        let mustAsk = state.withLock { state in
            while coordinator.hasRoom() {
                guard let waiting = state.take() else { return false }
                waiting.admit()
            }
            guard !state.waiting.isEmpty, !state.isAsking else { return false }
            state.isAsking = true
            return true
        }
        guard mustAsk else { return }
        coordinator.whenRoom { [self] in
            state.withLock { $0.isAsking = false }
            admitWaiting()
        }
    }
}
