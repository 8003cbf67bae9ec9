internal import Synchronization

/// A value that arrives once, from any thread, and that any number of tasks may wait for.
final class Answer<Value: Sendable>: Sendable {
    private struct State {
        var result: Result<Value, BrokerError>?
        var waiters: [Int: CheckedContinuation<Result<Value, BrokerError>, Never>] = [:]
        var nextWaiter = 0
    }

    private let state = Mutex(State())

    /// Only the first result counts.
    func finish(_ result: Result<Value, BrokerError>) {
        let waiters = state.withLock { state in
            guard state.result == nil else {
                return [:] as [Int: CheckedContinuation<Result<Value, BrokerError>, Never>]
            }
            state.result = result
            defer { state.waiters = [:] }
            return state.waiters
        }
        for waiter in waiters.values { waiter.resume(returning: result) }
    }

    /// Suspends until the value is there. Cancelling the task ends the waiting with ``BrokerError/cancelled``.
    func value() async throws(BrokerError) -> Value {
        if let result = state.withLock({ $0.result }) { return try result.get() }
        let number = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in wait(continuation, number) }
        } onCancel: {
            state.withLock { $0.waiters.removeValue(forKey: number) }?.resume(returning: .failure(.cancelled))
        }
        return try result.get()
    }

    private func wait(_ waiter: CheckedContinuation<Result<Value, BrokerError>, Never>, _ number: Int) {
        let result: Result<Value, BrokerError>? = state.withLock { state in
            if let result = state.result { return result }
            // Looked at under the lock: a task cancelled before this may have had its handler run already and find no
            // waiter; one cancelled after this finds it.
            if Task.isCancelled { return .failure(.cancelled) }
            state.waiters[number] = waiter
            return nil
        }
        if let result { waiter.resume(returning: result) }
    }
}
