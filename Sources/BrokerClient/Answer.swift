internal import Synchronization

/// A value that arrives once, from any thread, and that any number of tasks may wait for.
package final class Answer<Value: Sendable>: Sendable {
    typealias Waiter = CheckedContinuation<Result<Value, any Error>, Never>

    private struct State {
        var result: Result<Value, any Error>?
        var waiters: [Int: Waiter] = [:]
        var nextWaiter = 0
    }

    private let state = Mutex(State())

    package init() {}

    /// Only the first result counts.
    package func finish(_ result: Result<Value, any Error>) {
        let waiters = state.withLock { state in
            guard state.result == nil else { return [:] as [Int: Waiter] }
            state.result = result
            defer { state.waiters = [:] }
            return state.waiters
        }
        for waiter in waiters.values { waiter.resume(returning: result) }
    }

    /// Suspends until the value is there. Cancelling the task ends the waiting with `CancellationError`.
    package func value() async throws -> Value {
        if let result = state.withLock({ $0.result }) { return try result.get() }
        let number = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in wait(continuation, number, isCancellable: true) }
        } onCancel: {
            state.withLock { $0.waiters.removeValue(forKey: number) }?.resume(returning: .failure(CancellationError()))
        }
        return try result.get()
    }

    /// Suspends until the value is there, or until `onCancel` has had an effect that makes it come: cancelling the task
    /// does nothing else.
    package func value(onCancel: @escaping @Sendable () -> Void) async throws -> Value {
        let number = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in wait(continuation, number, isCancellable: false) }
        } onCancel: {
            onCancel()
        }
        return try result.get()
    }

    private func wait(_ waiter: Waiter, _ number: Int, isCancellable: Bool) {
        let result: Result<Value, any Error>? = state.withLock { state in
            if let result = state.result { return result }
            // Looked at under the lock: a task cancelled before this may have had its handler run already and find no
            // waiter; one cancelled after this finds it.
            if isCancellable, Task.isCancelled { return .failure(CancellationError()) }
            state.waiters[number] = waiter
            return nil
        }
        if let result { waiter.resume(returning: result) }
    }
}
