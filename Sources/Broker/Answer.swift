internal import BrokerJSON
internal import Synchronization

/// A value that arrives once, from any thread, and that any number of tasks may wait for.
package final class Answer<Value: Sendable>: Sendable {
    // Resumed once, by the caller that takes it out of the state under the lock. A checked continuation would cost an
    // object for each job.
    private typealias Continuation = UnsafeContinuation<Result<Value, any Error>, Never>

    private struct Waiter: Sendable {
        let number: Int
        let continuation: Continuation
    }

    private struct State: Sendable {
        var result: Result<Value, any Error>?
        /// Usually no other task waits.
        var first: Waiter?
        var others: [Int: Continuation] = [:]
    }

    private let state = Mutex(State())
    private let lastWaiter = Atomic(0)

    package init() {}

    /// The value has arrived.
    package var isFinished: Bool { state.withLock { $0.result != nil } }

    /// Only the first result counts.
    package func finish(_ result: Result<Value, any Error>) {
        let (first, others) = state.withLock { state in
            guard state.result == nil else { return (nil, [:]) as (Waiter?, [Int: Continuation]) }
            state.result = result
            defer {
                state.first = nil
                state.others = [:]
            }
            return (state.first, state.others)
        }
        first?.continuation.resume(returning: result)
        for continuation in others.values { continuation.resume(returning: result) }
    }

    /// Suspends until the value is there.
    ///
    /// - Parameter cancellation: thrown when the task is cancelled, which ends the waiting.
    package func value(orOnCancellation cancellation: any Error = CancellationError()) async throws -> Value {
        if let result = state.withLock({ $0.result }) { return try result.get() }
        let number = lastWaiter.add(1, ordering: .relaxed).newValue
        let result = await withTaskCancellationHandler {
            await withUnsafeContinuation { continuation in wait(continuation, number, cancellation) }
        } onCancel: {
            take(number)?.resume(returning: .failure(cancellation))
        }
        return try result.get()
    }

    /// Suspends until the value is there, or until `onCancel` has had an effect that makes it come: cancelling the task
    /// does nothing else.
    package func value(onCancel: @Sendable () -> Void) async throws -> Value {
        let number = lastWaiter.add(1, ordering: .relaxed).newValue
        let result = await withTaskCancellationHandler {
            await withUnsafeContinuation { continuation in wait(continuation, number, nil) }
        } onCancel: {
            onCancel()
        }
        return try result.get()
    }

    /// - Parameter cancellation: what ends the waiting when the task is cancelled; nil when nothing does.
    private func wait(_ continuation: Continuation, _ number: Int, _ cancellation: (any Error)?) {
        let result: Result<Value, any Error>? = state.withLock { state in
            if let result = state.result { return result }
            // Looked at under the lock: a task cancelled before this may have had its handler run already and find no
            // waiter; one cancelled after this finds it.
            if let cancellation, Task.isCancelled { return .failure(cancellation) }
            if state.first == nil {
                state.first = Waiter(number: number, continuation: continuation)
            } else {
                state.others[number] = continuation
            }
            return nil
        }
        if let result { continuation.resume(returning: result) }
    }

    /// Takes out a waiter that will not wait any longer; nil when it does not.
    private func take(_ number: Int) -> Continuation? {
        state.withLock { state in
            guard let first = state.first, first.number == number else {
                return state.others.removeValue(forKey: number)
            }
            state.first = nil
            return first.continuation
        }
    }
}

/// Makes the ids of jobs that have none.
package final class JobIDs: Sendable {
    /// Random, so that these ids differ from those of other clients and of other runs.
    private let prefix: String
    private let lastNumber = Atomic(-1)

    package init() {
        prefix = UInt64.random(in: 0...UInt64.max).hexadecimalText + "-"
    }

    package func next() -> JobID { JobID(prefix + String(lastNumber.add(1, ordering: .relaxed).newValue)) }
}
