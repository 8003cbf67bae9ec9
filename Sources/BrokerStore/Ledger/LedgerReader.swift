/// Finds lines of the ledger by job id, on one connection.
struct LedgerLines {
    private let index: JobIndex
    private let find: Statement

    init(on connection: Connection, _ index: JobIndex) throws(StoreError) {
        self.index = index
        find = try connection.prepare(
            "SELECT sequence, hash, failed, outcome, id, owner FROM _broker_jobs WHERE sequence = ?1")
    }

    /// The outcome of the job with that id, as the connection sees it; nil for an unknown one.
    func outcome(ofJob id: String) throws(StoreError) -> StoredOutcome? {
        for sequence in index.sequences(of: id) {
            find.bind(sequence, at: 1)
            defer { find.reset() }
            // Two ids may have one hash, and a line may be deleted, or not committed yet.
            if try find.step(), find.bytes(4).elementsEqual(id.utf8) { return StoredOutcome(find) }
        }
        return nil
    }
}

/// Reads the ledger concurrently with the writer, on a connection of its own that cannot write. Belongs to one thread.
package final class LedgerReader {
    private let lines: LedgerLines
    private let failed: Statement
    private let findBookmark: Statement

    /// A reader of a store that is open: its files must be those that were opened.
    package convenience init(_ files: OpenedFiles, _ index: JobIndex) throws(StoreError) {
        try files.check()
        try self.init(path: files.path, index)
    }

    /// - Parameters:
    ///   - path: the path of a store that the writer has opened before.
    ///   - index: the writer's (``Store/jobs``).
    package init(path: String, _ index: JobIndex) throws(StoreError) {
        let connection = try Connection(store: path, .read)
        try connection.execute("PRAGMA query_only = ON")
        lines = try LedgerLines(on: connection, index)
        // The index has the failed jobs alone, and all columns but the outcome, which is read for a code.
        failed = try connection.prepare(
            """
            SELECT sequence, hash, failed, outcome, id, owner, ended FROM _broker_jobs INDEXED BY _broker_failures
                WHERE failed = 1 AND (?2 IS NULL OR owner = ?2) AND (?3 IS NULL OR ended >= ?3)
                AND (?4 IS NULL OR substr(outcome, 1, length(?4)) = ?4) ORDER BY sequence DESC LIMIT ?1
            """)
        findBookmark = try connection.prepare("SELECT value, sequence FROM _broker_bookmarks WHERE name = ?1")
    }

    /// The outcome of a committed job; nil for an unknown id.
    package func outcome(ofJob id: String) throws(StoreError) -> StoredOutcome? { try lines.outcome(ofJob: id) }

    /// The committed bookmark of that name.
    package func bookmark(named name: String) throws(StoreError) -> StoredBookmark? {
        findBookmark.bind(name, at: 1)
        defer { findBookmark.reset() }
        guard try findBookmark.step() else { return nil }
        return StoredBookmark(value: findBookmark.text(0), sequence: findBookmark.integer(1))
    }

    /// The newest failed jobs that pass the filter and that the asker may see, the newest first. The column `ended` has when
    /// a job was accepted, so that a journal that is applied again writes the same lines.
    ///
    /// - Parameter count: at most that many are returned.
    package func failures(
        _ count: Int, _ filter: FailureFilter, as asker: JobOwner
    ) throws(StoreError) -> [(id: String, acceptedAt: Int64, outcome: StoredOutcome)] {
        let user = filter.user ?? (asker.isPrivileged ? nil : asker.user)
        guard asker.isPrivileged || user == asker.user else { return [] }
        failed.bind(Int64(count), at: 1)
        for index: Int in 2...4 { failed.bind(blob: nil, at: index) }
        if let user { failed.bind(Int64(user), at: 2) }
        if let since = filter.since { failed.bind(since, at: 3) }
        if let beginning = filter.beginning { failed.bind(beginning, at: 4) }
        defer { failed.reset() }
        var failures: [(id: String, acceptedAt: Int64, outcome: StoredOutcome)] = []
        while try failed.step() { failures.append((failed.text(4), failed.integer(6), StoredOutcome(failed))) }
        return failures
    }
}

extension StoredOutcome {
    /// The columns of `row` are sequence, hash, failed, outcome, id, owner.
    init(_ row: Statement) {
        self.init(
            sequence: row.integer(0),
            owner: row.isNull(5) ? nil : JobOwner(user: UInt32(truncatingIfNeeded: row.integer(5))),
            contentHash: row.isNull(1) ? nil : JobHash(UnsafeRawBufferPointer(row.bytes(1))),
            isFailure: row.integer(2) != 0, body: Array(row.bytes(3)))
    }
}
