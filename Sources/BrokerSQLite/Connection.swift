internal import CSQLite
internal import Glibc

/// One SQLite connection. Belongs to the thread that opened it.
package final class Connection {
    package let handle: OpaquePointer
    /// Counts the work of the statements; nil where nothing bounds it.
    package var meter: (any StatementMeter)?
    /// The first error after which nobody knows what is on the disk.
    package private(set) var failure: StoreError?
    /// Of ``bounded(valueBytes:schemaBytes:memory:)``; nil when what is read has no bounds.
    private var memoryBound: Int64?

    package enum Access {
        /// The file is made when it is new.
        case write
        case read
        /// Reads, and makes no file beside the database, as SQLite otherwise does for one in WAL mode.
        case look
    }

    /// How long a lock of another program's is waited for: longer than any that a careful reader or backup holds, short
    /// enough to be told of. It counts from the very first statement: even opening a database may meet a lock.
    package static let lockMilliseconds: Int32 = 5_000

    /// - Parameters:
    ///   - path: of the database file.
    ///   - vfs: SQLite's name for what stands between it and the files; nil for its own.
    package init(path: String, _ access: Access = .write, vfs: String? = nil) throws(StoreError) {
        var handle: OpaquePointer?
        // One thread uses a connection, so SQLite's own mutexes would be paid for nothing.
        var flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_URI
        flags |= access == .write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY
        // Where there is a log it must be read, and its files are there already; where there is none, nothing changes.
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

    /// A path as a URI writes it (RFC 3986), so that no character of a file's name means anything.
    private static func escaped(_ path: String) -> String {
        path.utf8.map { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "/"), UInt8(ascii: "."), UInt8(ascii: "-"),
                UInt8(ascii: "_"), UInt8(ascii: "~"):
                String(UnicodeScalar(byte))
            default: "%\(byte < 16 ? "0" : "")\(String(byte, radix: 16))"
            }
        }.joined()
    }

    /// Bounds what is read, for a file that may be anybody's: its schema alone could take all memory.
    ///
    /// - Parameters:
    ///   - valueBytes: of a value.
    ///   - schemaBytes: of a statement of the schema.
    ///   - memory: bytes that SQLite may take for it.
    package func bounded(valueBytes: Int32, schemaBytes: Int32, memory: Int64) -> Connection {
        memoryBound = memory
        broker_sqlite_bound(handle, valueBytes, schemaBytes, memory)
        return self
    }

    /// From now on a lock is waited for so long; 0 fails at once.
    package func waitForLocks(milliseconds: Int32) { sqlite3_busy_timeout(handle, milliseconds) }

    /// Runs statements that give no rows of interest.
    package func execute(_ sql: String) throws(StoreError) {
        let result = sqlite3_exec(handle, sql, nil, nil, nil)
        guard result == SQLITE_OK else { throw error(result, running: sql) }
    }

    /// What SQLite just said. Every error comes by here, so that none is forgotten after which the disk is not to be trusted.
    package func error(_ result: Int32, running sql: String? = nil) -> StoreError {
        let error = StoreError(result, on: handle, running: sql)
        if let memoryBound, error.isBeyondBound { return StoreError(tooLarge: handle, result, memory: memoryBound) }
        if error.isDiskFailure { fail(error) }
        return error
    }

    /// Makes the open transaction durable.
    ///
    /// Without room, with another program's lock and with a constraint that does not hold, nothing is committed. After any other
    /// error the transaction's end may have come to the disk, where the next one who opens the database finds it.
    package func commit(by statement: Statement) throws(StoreError) {
        let result = sqlite3_step(statement.handle)
        defer { sqlite3_reset(statement.handle) }
        guard result != SQLITE_DONE else { return }
        let error = StoreError(
            result, on: handle, running: "COMMIT", cause: broker_sqlite_log_errno(handle))
        if error.code != .full, error.code != .constraint, !error.isLocked { fail(error) }
        throw error
    }

    /// Nobody knows any more what is on the disk. What the log holds is left to whoever opens it next, who finds out; closing
    /// does not copy it into the database.
    package func fail(_ error: StoreError) {
        guard failure == nil else { return }
        failure = error
        _ = broker_sqlite_configure(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    }

    /// Triggers that others put into the file do nothing here.
    ///
    /// With one, SQLite reads a whole `SELECT` before it inserts the first row, and nobody can tell which row it is at.
    package func ignoreTriggers() throws(StoreError) {
        let result = broker_sqlite_configure(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        guard result == SQLITE_OK else { throw error(result) }
    }

    /// What SQLite said of the newest call that failed.
    package var lastMessage: String { String(cString: sqlite3_errmsg(handle)) }

    package func prepare(_ sql: String) throws(StoreError) -> Statement { try Statement(sql, on: self) }

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

    /// Rows that the newest INSERT, UPDATE or DELETE changed.
    package var changes: Int { Int(sqlite3_changes64(handle)) }

    /// Rows that all statements so far have changed, those among them that followed a foreign key.
    package var totalChanges: Int { Int(sqlite3_total_changes64(handle)) }

    /// No transaction is open; after an error it tells that SQLite undid the whole one.
    package var isAutocommit: Bool { sqlite3_get_autocommit(handle) != 0 }

    /// A row refers to one that does not exist (yet).
    package var hasDanglingReferences: Bool {
        var current: Int32 = 0
        var highest: Int32 = 0
        sqlite3_db_status(handle, SQLITE_DBSTATUS_DEFERRED_FKS, &current, &highest, 0)
        return current != 0
    }
}
