package import BrokerStaging

/// Fetches objects concurrently with the writer, on a connection of its own that cannot write. Used by one thread at a
/// time.
///
/// A read transaction lasts for one fetch, so that the WAL can be emptied between two.
package final class StoreReader {
    private let connection: Connection
    private let plan: StagingPlan

    /// - Parameter path: the path of a store that the writer has opened before.
    package init(path: String, plan: StagingPlan) throws(StoreError) {
        self.plan = plan
        connection = try Connection(store: path, .read)
        try connection.execute("PRAGMA query_only = ON")
        try connection.execute("PRAGMA cache_size = -\(Self.cacheBytes / 1024)")
    }

    private static let cacheBytes = 8 << 20

    /// Runs a request.
    ///
    /// - Parameters:
    ///   - envelope: the text around the objects.
    ///   - isWanted: called repeatedly while the fetch runs; when it returns false, the fetch stops.
    package func fetch(
        _ request: FetchRequest, limits: FetchLimits = .long, in envelope: FetchEnvelope = .none,
        isWanted: @escaping () -> Bool = { true }
    ) throws(FetchFailure) -> FetchedObjects {
        let guardian = FetchGuard(connection, limits, isWanted: isWanted)
        return try guardian.watch { () throws(FetchFailure) in
            do throws(StoreError) {
                try connection.execute("BEGIN")
            } catch {
                throw .store(error)
            }
            // Nothing was written, so there is nothing to commit.
            defer { endTransaction() }
            var run = try FetchRun(request, plan, connection, limits, envelope, guardian)
            return try run.objects()
        }
    }

    private func endTransaction() {
        do throws(StoreError) {
            if !connection.isAutocommit { try connection.execute("ROLLBACK") }
        } catch {
            preconditionFailure("a read transaction ends: \(error)")
        }
    }
}
