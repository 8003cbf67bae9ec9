package import BrokerStaging

/// Fetches objects concurrently with the writer, on a connection of its own that cannot write. Used by one thread at a
/// time.
///
/// A read transaction lasts for one fetch, so that the WAL can be emptied between two.
package final class StoreReader {
    let connection: Connection
    package let plan: StagingPlan
    /// By entity; nil before the first fetch with a predicate.
    private var knownLongColumns: [LongColumns]?

    /// Bytes of SQLite's page cache for fetches of every kind.
    package static let cacheBytes = 8 << 20
    /// Bytes for a stream, of which several are open at a time. It reads most pages once.
    package static let streamCacheBytes = 2 << 20

    /// - Parameters:
    ///   - path: the path of a store that the writer has opened before.
    ///   - cacheBytes: memory for SQLite's pages.
    package init(path: String, plan: StagingPlan, cacheBytes: Int = cacheBytes) throws(StoreError) {
        self.plan = plan
        connection = try Connection(store: path, .read)
        try connection.execute("PRAGMA query_only = ON")
        try connection.execute("PRAGMA cache_size = -\(cacheBytes / 1024)")
    }

    /// The same, of a store that is open: its files must be those that were opened.
    package convenience init(
        _ files: OpenedFiles, plan: StagingPlan, cacheBytes: Int = cacheBytes
    ) throws(StoreError) {
        try files.check()
        try self.init(path: files.path, plan: plan, cacheBytes: cacheBytes)
        // SQLite opens the WAL with the first read, by its name.
        _ = try connection.integer("SELECT 1 FROM sqlite_schema LIMIT 1")
    }

    /// The columns whose bytes a predicate is charged for, by entity.
    func longColumns() throws(StoreError) -> [LongColumns] {
        if let knownLongColumns { return knownLongColumns }
        let columns = try TableColumns.long(of: plan.model, on: connection)
        knownLongColumns = columns
        return columns
    }

    /// Runs a request.
    ///
    /// - Parameters:
    ///   - envelope: the text around the objects.
    ///   - isWanted: called repeatedly while the fetch runs; when it returns false, the fetch stops.
    package func fetch(
        _ request: FetchRequest, limits: FetchLimits = .long, in envelope: FetchEnvelope = .none,
        isWanted: @escaping () -> Bool = { true }
    ) throws(FetchFailure) -> FetchedObjects {
        let stream = ObjectStream(request, on: self, limits, in: envelope, isWanted: isWanted)
        defer { stream.end() }
        return try stream.next()
    }
}
