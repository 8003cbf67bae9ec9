/// The position up to which every job has ended, and the callers that wait for one. Any thread may call.
final class AppliedPosition: Sendable {
    typealias Waiter = @Sendable () -> Void

    /// Names a waiter.
    struct Wait: Sendable {
        fileprivate let number: Int
    }

    private struct State {
        var position: Int64
        var nextNumber = 0
        var waiters: [Int: (position: Int64, notify: Waiter)] = [:]
    }

    private let state: Monitor<State>

    init(_ position: Int64) { state = Monitor(State(position: position)) }

    var position: Int64 { state.withLock { $0.position } }

    /// - Returns: the waiters to call.
    func reached(_ position: Int64) -> [Waiter] {
        state.withLock { state in
            guard position > state.position else { return [] }
            state.position = position
            guard !state.waiters.isEmpty else { return [] }
            let ready = state.waiters.filter { $0.value.position <= position }.sorted { $0.key < $1.key }
            for (number, _) in ready { state.waiters[number] = nil }
            return ready.map(\.value.notify)
        }
    }

    /// - Returns: nil when the position is reached: `notify` is not called then.
    func wait(for position: Int64, _ notify: @escaping Waiter) -> Wait? {
        state.withLock { state in
            guard position > state.position else { return nil }
            state.nextNumber += 1
            state.waiters[state.nextNumber] = (position, notify)
            return Wait(number: state.nextNumber)
        }
    }

    /// - Returns: false when the waiter was called, or is about to be.
    func forget(_ wait: Wait) -> Bool { state.withLock { $0.waiters.removeValue(forKey: wait.number) != nil } }
}
