internal import Synchronization

/// How long a call that was cancelled because of its time may take to end: for the server's answer to the cancellation.
package let timeoutGrace = Duration.seconds(2)

/// Runs a call, and cancels it when the time is over.
///
/// - Parameters:
///   - timeout: nil for no limit.
///   - grace: the maximum time from the cancellation to the call's end.
///   - id: the job's, if it is known.
/// - Throws: what the call throws; ``BrokerError/Code/timedOut`` when it ended because of the time, without an effect;
///   ``BrokerError/Code/outcomeUnknown`` when it only waited, or when it did not end in the grace period. It goes on then, without
///   a waiter.
package func withTimeout<Value: Sendable>(
    _ timeout: Duration?, grace: Duration = timeoutGrace, job id: JobID? = nil,
    _ call: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    guard let timeout else { return try await call() }
    let end = FirstResult<Value>()
    let isLate = Atomic(false)
    let work = Task {
        do {
            end.finish(.success(try await call()))
        } catch {
            end.finish(.failure(error))
        }
    }
    let clock = Task {
        try await Task.sleep(for: timeout)
        isLate.store(true, ordering: .relaxed)
        work.cancel()
        try await Task.sleep(for: grace)
        let what = ", and the server did not answer its cancellation within \(grace)"
        end.finish(.failure(BrokerError.outcomeUnknown(afterTimeout: timeout, what, job: id)))
    }
    defer { clock.cancel() }
    do {
        return try await withTaskCancellationHandler {
            try await end.value()
        } onCancel: {
            work.cancel()
        }
    } catch is CancellationError {
        try Task.checkCancellation()
        guard isLate.load(ordering: .relaxed) else { throw CancellationError() }
        throw BrokerError.timedOut(
            "The call took longer than its timeout of \(timeout) and was cancelled; it has no effect.")
    } catch let error as BrokerError where isLate.load(ordering: .relaxed) && error.isWaitCancelled {
        throw BrokerError.outcomeUnknown(afterTimeout: timeout, "", job: error.jobID)
    }
}

extension BrokerError {
    fileprivate static func timedOut(_ message: String) -> BrokerError { BrokerError(.timedOut, message) }

    /// The call only waited for something that goes on, and its task was cancelled.
    fileprivate var isWaitCancelled: Bool { isOutcomeUnknown && (cause as? BrokerError)?.code == .waitCancelled }

    /// - Parameter what: the end of the first sentence.
    fileprivate static func outcomeUnknown(
        afterTimeout timeout: Duration, _ what: String, job id: JobID?
    ) -> BrokerError {
        let message = "The call took longer than its timeout of \(timeout)\(what)."
        let cause = timedOut(message)
        guard let id else {
            return BrokerError(.outcomeUnknown, "\(message) Whether it has an effect is not known.", cause: cause)
        }
        return outcomeUnknown(id, message, cause: cause)
    }
}

/// The first of several results. One task waits for it.
private final class FirstResult<Value: Sendable>: Sendable {
    private enum State: Sendable {
        case empty
        case waiting(CheckedContinuation<Value, any Error>)
        case finished(Result<Value, any Error>)
    }

    private let state = Mutex(State.empty)

    func finish(_ result: Result<Value, any Error>) {
        let waiter = state.withLock { state -> CheckedContinuation<Value, any Error>? in
            switch state {
            case .empty:
                state = .finished(result)
                return nil
            case .waiting(let waiter):
                state = .finished(result)
                return waiter
            case .finished: return nil
            }
        }
        waiter?.resume(with: result)
    }

    func value() async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            let result = state.withLock { state -> Result<Value, any Error>? in
                if case .finished(let result) = state { return result }
                state = .waiting(continuation)
                return nil
            }
            if let result { continuation.resume(with: result) }
        }
    }
}
