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
    private let newest: Statement
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
        newest = try connection.prepare(
            "SELECT sequence, hash, failed, outcome, id, owner, ended FROM _broker_jobs ORDER BY sequence DESC LIMIT ?1"
        )
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

    /// The failed jobs among the newest lines, the newest first. The column `ended` has when a job was accepted, so that a
    /// journal that is applied again writes the same lines.
    ///
    /// - Parameters:
    ///   - count: at most that many are returned.
    ///   - searched: at most that many lines are read.
    ///   - asker: a job that it may not see is skipped.
    package func failures(
        _ count: Int, among searched: Int, as asker: JobOwner
    ) throws(StoreError) -> [(id: String, acceptedAt: Int64, outcome: StoredOutcome)] {
        newest.bind(Int64(searched), at: 1)
        defer { newest.reset() }
        var failures: [(id: String, acceptedAt: Int64, outcome: StoredOutcome)] = []
        while failures.count < count, try newest.step() {
            guard newest.integer(2) != 0 else { continue }
            let outcome = StoredOutcome(newest)
            guard asker.maySee(jobOf: outcome.owner) else { continue }
            failures.append((newest.text(4), newest.integer(6), outcome))
        }
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
