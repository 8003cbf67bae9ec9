/// Runs a call, and cancels it when the time is over.
///
/// - Parameter timeout: nil for no limit.
/// - Throws: what the call throws; ``BrokerError/Code/timedOut`` when it ended because of the time, without an effect.
package func withTimeout<Value: Sendable>(
    _ timeout: Duration?, _ call: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    guard let timeout else { return try await call() }
    return try await withThrowingTaskGroup(of: Value?.self) { group in
        group.addTask { try await call() }
        group.addTask {
            try await Task.sleep(for: timeout)
            return nil
        }
        // The first is the call's end, or nil when the time is over.
        if let value = try await group.next() ?? nil { group.cancelAll(); return value }
        group.cancelAll()
        do {
            if let value = try await group.next() ?? nil { return value }
        } catch is CancellationError {}
        try Task.checkCancellation()
        throw BrokerError(
            .timedOut, "The call took longer than its timeout of \(timeout) and was cancelled; it has no effect.")
    }
}
