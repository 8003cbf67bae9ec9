internal import CSQLite
internal import Glibc

/// One SQLite connection. Belongs to the thread that opened it.
package final class Connection {
    package let handle: OpaquePointer
    /// Counts the work of the statements; nil where nothing bounds it.
    package var meter: (any StatementMeter)?
    /// The first error after which the state of the disk is unknown.
    package private(set) var failure: StoreError?
    /// The bound of ``bounded(valueBytes:schemaBytes:memory:)``; nil when there is none.
    private var memoryBound: Int64?
    /// ``checkForeignKeys(_:)`` has turned the checks off.
    private var skipsForeignKeys = false

    package enum Access {
        case write
        case read
        /// Reads, and creates no file beside the database, as SQLite otherwise does for one in WAL mode.
        case look
    }

    /// How long a statement waits for a lock of another program: longer than any lock of a careful reader or backup,
    /// short enough to be reported. It counts from the first statement: even opening a database may meet a lock.
    package static let lockMilliseconds: Int32 = 5_000

    package init(path: String, _ access: Access = .write, vfs: String? = nil) throws(StoreError) {
        var handle: OpaquePointer?
        // One thread uses a connection, so SQLite's own mutexes would be useless cost.
        var flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_URI
        flags |= access == .write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY
        // An existing WAL must be read, and its files exist already; without a WAL, nothing changes.
        let isImmutable = access == .look && Glibc.access(path + "-wal", F_OK) != 0
        let location = "file:\(Self.escaped(path))\(isImmutable ? "?immutable=1" : "")"
        let result = sqlite3_open_v2(location, &handle, flags, vfs)
        guard result == SQLITE_OK, let handle else {
            let error = StoreError(result, on: handle, path: path)
            sqlite3_close_v2(handle)
            throw error
        }
        self.handle = handle
        waitForLocks(milliseconds: Self.lockMilliseconds)
    }

    deinit { sqlite3_close_v2(handle) }

    /// A path in a URI (RFC 3986), so that no character of a file's name has a meaning.
    private static func escaped(_ path: String) -> String {
        path.utf8.map { "%\($0 < 16 ? "0" : "")\(String($0, radix: 16))" }.joined()
    }

    /// Bounds what is read from a file of unknown origin: each value, each statement of the schema, and SQLite's memory.
    package func bounded(valueBytes: Int32, schemaBytes: Int32, memory: Int64) -> Connection {
        memoryBound = memory
        broker_sqlite_bound(handle, valueBytes, schemaBytes, memory)
        return self
    }

    package func waitForLocks(milliseconds: Int32) { sqlite3_busy_timeout(handle, milliseconds) }

    /// From now on the WAL, which is open, gets all checksums, and the disk begins early with long transactions.
    package func prepareWAL() { WALMethods.install(on: handle) }

    package func execute(_ sql: String) throws(StoreError) {
        let result = sqlite3_exec(handle, sql, nil, nil, nil)
        guard result == SQLITE_OK else { throw error(result, running: sql) }
    }

    /// The error of the last call of SQLite. All are created here, so that none is missed that tells of a failing disk.
    package func error(_ result: Int32, running sql: String? = nil) -> StoreError {
        let error = StoreError(result, on: handle, running: sql)
        if let memoryBound, error.isBeyondBound { return StoreError(tooLarge: handle, result, memory: memoryBound) }
        if error.isDiskFailure { fail(error) }
        return error
    }

    /// Makes the open transaction durable.
    ///
    /// When the disk is full, another program has a lock, or a constraint does not hold, nothing is committed. After
    /// any other error the end of the transaction may be on the disk, where the next process that opens the database
    /// finds it.
    package func commit(by statement: Statement) throws(StoreError) {
        let result = sqlite3_step(statement.handle)
        defer { sqlite3_reset(statement.handle) }
        guard result != SQLITE_DONE else { return }
        let error = StoreError(
            result, on: handle, running: "COMMIT", cause: broker_sqlite_log_errno(handle))
        if error.code != .full, error.code != .constraint, !error.isLocked { fail(error) }
        throw error
    }

    /// Records that the state of the disk is unknown. The next process that opens the database reads the WAL; closing
    /// does not copy it into the database.
    package func fail(_ error: StoreError) {
        guard failure == nil else { return }
        failure = error
        leaveWAL()
    }

    /// Closing the connection neither copies the WAL into the database nor deletes its files.
    package func leaveWAL() { _ = broker_sqlite_configure(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1) }

    /// Disables triggers that other programs have added to the file.
    ///
    /// With a trigger, SQLite reads a whole `SELECT` before it inserts the first row, and the current row of the scan
    /// is unknown.
    package func ignoreTriggers() throws(StoreError) {
        let result = broker_sqlite_configure(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        guard result == SQLITE_OK else { throw error(result) }
    }

    /// Whether statements check foreign keys from now on, in an open transaction, too; the pragma has no effect in one. After a
    /// change, SQLite compiles each statement again when it runs next.
    ///
    /// Without checks the caller guarantees that each link leads to a row that exists.
    package func checkForeignKeys(_ checks: Bool) throws(StoreError) {
        guard checks == skipsForeignKeys else { return }
        let result = broker_sqlite_configure(handle, SQLITE_DBCONFIG_ENABLE_FKEY, checks ? 1 : 0)
        guard result == SQLITE_OK else { throw error(result) }
        skipsForeignKeys = !checks
    }

    package var lastMessage: String { String(cString: sqlite3_errmsg(handle)) }

    package func prepare(_ sql: String) throws(StoreError) -> Statement { try Statement(sql, on: self) }

    package func prepare(_ sql: String, _ text: String) throws(StoreError) -> Statement {
        let statement = try prepare(sql)
        statement.bind(text, at: 1)
        return statement
    }

    /// The first column of the first row; nil when there is no row or it is NULL.
    package func integer(_ sql: String) throws(StoreError) -> Int64? {
        let statement = try prepare(sql)
        guard try statement.step(), !statement.isNull(0) else { return nil }
        return statement.integer(0)
    }

    package func text(_ sql: String) throws(StoreError) -> String? {
        let statement = try prepare(sql)
        guard try statement.step(), !statement.isNull(0) else { return nil }
        return statement.text(0)
    }

    package var changes: Int { Int(sqlite3_changes64(handle)) }

    /// No transaction is open; true after an error when SQLite rolled back the whole one.
    package var isAutocommit: Bool { sqlite3_get_autocommit(handle) != 0 }

    /// A row refers to one that does not exist (yet).
    package var hasDanglingReferences: Bool {
        var current: Int32 = 0
        var highest: Int32 = 0
        sqlite3_db_status(handle, SQLITE_DBSTATUS_DEFERRED_FKS, &current, &highest, 0)
        return current != 0
    }
}

/// Counts the work of a connection's statements. Belongs to the connection's thread.
package protocol StatementMeter: AnyObject {
    func check() throws(StoreError)
    /// - Parameter instructions: those of a statement that has ended (`SQLITE_STMTSTATUS_VM_STEP`).
    func charge(ended instructions: Int)
}
