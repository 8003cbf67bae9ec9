#if Replication
extension ReplicatedStream {
    /// Runs a part of an operator's command that waits as long as the stream has no quorum. The stream is stopped when the patience
    /// ends.
    ///
    /// - Parameters:
    ///   - patience: microseconds.
    ///   - failure: what the servers did not do, after "The servers".
    ///   - body: returns nil when the stream was stopped.
    /// - Throws: what `body` throws, and ``ReplicationError/Code/unavailable`` after the patience.
    package func within<Result>(
        patience: Int64 = standardPatience, failure: String, _ body: () throws(ReplicationError) -> Result?
    ) throws(ReplicationError) -> Result {
        let watch = Task.detached {
            try await Task.sleep(for: .microseconds(patience))
            self.stop()
        }
        defer { watch.cancel() }
        do throws(ReplicationError) {
            if let result = try body() { return result }
        } catch {
            guard error.code == .stopped else { throw error }
        }
        throw ReplicationError(
            .unavailable,
            "The servers \(failure), in \(patience / 1_000_000) s. Check that two of them run and reach each other; then try again."
        )
    }
}
#endif
