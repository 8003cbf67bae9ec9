/// Reads the ledger beside the writer, on a connection of its own that cannot write. Belongs to one thread.
public final class LedgerReader {
    private let find: Statement

    /// - Parameter path: of a store that the writer has opened before.
    public init(path: String) throws(StoreError) {
        let connection = try Connection(path: path, .read)
        try connection.execute("PRAGMA query_only = ON")
        find = try connection.prepare("SELECT sequence, hash, failed, outcome FROM _broker_jobs WHERE id = ?1")
    }

    /// How a committed job ended; nil for an unknown id.
    public func outcome(ofJob id: String) throws(StoreError) -> StoredOutcome? {
        find.bind(id, at: 1)
        defer { find.reset() }
        guard try find.step() else { return nil }
        return StoredOutcome(find)
    }
}

extension StoredOutcome {
    /// From a row of sequence, hash, failed, outcome.
    init(_ row: Statement) {
        self.init(
            sequence: row.integer(0), contentHash: row.isNull(1) ? nil : Array(row.bytes(1)),
            isFailure: row.integer(2) != 0, body: Array(row.bytes(3)))
    }
}
