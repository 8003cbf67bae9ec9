package import BrokerStaging

/// The objects of one request, in one or several answers of one read transaction. Used by one thread at a time.
///
/// The transaction begins with the first `next()`, and lasts until `end()`. A reader has one at a time.
package final class ObjectStream {
    private let request: FetchRequest
    private let reader: StoreReader
    private let limits: FetchLimits
    private let envelope: FetchEnvelope
    private let guardian: FetchGuard
    /// Nil before the first answer, and after the end.
    private var run: FetchRun?

    /// - Parameters:
    ///   - envelope: the text around the objects of each answer.
    ///   - isWanted: called repeatedly while an answer is made; when it returns false, the fetch stops.
    package init(
        _ request: FetchRequest, on reader: StoreReader, _ limits: FetchLimits = .part,
        in envelope: FetchEnvelope = .none, isWanted: @escaping () -> Bool = { true }
    ) {
        self.request = request
        self.reader = reader
        self.limits = limits
        self.envelope = envelope
        guardian = FetchGuard(reader.connection, limits, isWanted: isWanted)
    }

    /// Makes the next answer. Called again while that has more; not after a failure.
    package func next() throws(FetchFailure) -> FetchedObjects {
        try guardian.watch { () throws(FetchFailure) in
            if run == nil {
                try fetching { () throws(StoreError) in try reader.connection.execute("BEGIN") }
                run = try FetchRun(request, on: reader, limits, envelope, guardian)
            }
            // Not optional chaining: `run` may not be copied, and a missing one is a programming error.
            return try run!.objects()
        }
    }

    /// Ends the transaction. Any number of calls.
    package func end() {
        // The statements first: one that is not reset would hold the snapshot.
        run = nil
        do throws(StoreError) {
            // Nothing was written, so there is nothing to commit.
            if !reader.connection.isAutocommit { try reader.connection.execute("ROLLBACK") }
        } catch {
            preconditionFailure("a read transaction ends: \(error)")
        }
    }
}
