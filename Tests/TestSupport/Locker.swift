internal import CSQLite

/// Another program that has locked the store.
public final class Locker {
    private var database: OpaquePointer?

    public init(_ path: String) throws {
        guard sqlite3_open_v2(path, &database, SQLITE_OPEN_READWRITE, nil) == SQLITE_OK else {
            throw SQLRows.Failure(message: "cannot open \(path)")
        }
        sqlite3_busy_timeout(database, Int32(Patience.seconds) * 1_000)
        try execute("BEGIN IMMEDIATE")
    }

    deinit { sqlite3_close_v2(database) }

    public func unlock() throws { try execute("ROLLBACK") }

    public func execute(_ sql: String) throws {
        guard sqlite3_exec(database, sql, nil, nil, nil) == SQLITE_OK else {
            throw SQLRows.Failure(message: String(cString: sqlite3_errmsg(database)))
        }
    }
}
