internal import CSQLite

/// One SQLite connection. Belongs to the thread that opened it.
final class Connection {
    let handle: OpaquePointer

    /// - Parameter path: of the database file, which is made when it is new unless `isReadOnly`.
    init(path: String, isReadOnly: Bool = false) throws(StoreError) {
        var handle: OpaquePointer?
        // One thread uses a connection, so SQLite's own mutexes would be paid for nothing.
        let access = isReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
        let result = sqlite3_open_v2(path, &handle, access | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nil)
        guard result == SQLITE_OK, let handle else {
            let error = StoreError(result, on: handle, doing: "open \(path)")
            sqlite3_close_v2(handle)
            throw error
        }
        self.handle = handle
    }

    deinit { sqlite3_close_v2(handle) }

    /// Runs statements that give no rows of interest.
    func execute(_ sql: String) throws(StoreError) {
        let result = sqlite3_exec(handle, sql, nil, nil, nil)
        guard result == SQLITE_OK else { throw StoreError(result, on: handle, doing: "run \(sql)") }
    }

    /// Triggers that others put into the file do nothing here.
    ///
    /// With one, SQLite reads a whole `SELECT` before it inserts the first row, and nobody can tell which row it is at.
    func ignoreTriggers() throws(StoreError) {
        let result = broker_sqlite_configure(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        guard result == SQLITE_OK else { throw StoreError(result, on: handle, doing: "turn triggers off") }
    }

    func prepare(_ sql: String) throws(StoreError) -> Statement { try Statement(sql, on: self) }

    /// The first column of the first row; nil when there is no row or it is NULL.
    func integer(_ sql: String) throws(StoreError) -> Int64? {
        let statement = try prepare(sql)
        guard try statement.step(), !statement.isNull(0) else { return nil }
        return statement.integer(0)
    }

    func text(_ sql: String) throws(StoreError) -> String? {
        let statement = try prepare(sql)
        guard try statement.step(), !statement.isNull(0) else { return nil }
        return statement.text(0)
    }

    /// Rows that the newest INSERT, UPDATE or DELETE changed.
    var changes: Int { Int(sqlite3_changes64(handle)) }

    /// No transaction is open; after an error it tells that SQLite undid the whole one.
    var isAutocommit: Bool { sqlite3_get_autocommit(handle) != 0 }

    /// A row refers to one that does not exist (yet).
    var hasDanglingReferences: Bool {
        var current: Int32 = 0
        var highest: Int32 = 0
        sqlite3_db_status(handle, SQLITE_DBSTATUS_DEFERRED_FKS, &current, &highest, 0)
        return current != 0
    }
}
