internal import CSQLite

/// The store could not do what it was asked to. Whatever the transaction had done is undone.
public struct StoreError: Error, Sendable, CustomStringConvertible {
    public enum Code: Sendable {
        /// The disk, or the limit set for the database, is full.
        case full
        /// The file cannot be opened, locked, read or written.
        case unavailable
        /// The database in the file is not what the model wants, and cannot become it without loss.
        case incompatible
        /// A constraint of the database said no.
        case constraint
        /// Our own statement was wrong: a defect.
        case defect
    }

    public let code: Code
    /// What happened and the remedy.
    public let message: String
    /// SQLite's extended result code, zero when the error is not SQLite's.
    public let sqliteCode: Int32

    init(_ code: Code, _ message: String, sqliteCode: Int32 = 0) {
        self.code = code
        self.message = message
        self.sqliteCode = sqliteCode
    }

    public var description: String { message }

    /// Another program holds a lock: the same again, later, may succeed.
    public var isLocked: Bool { [SQLITE_BUSY, SQLITE_LOCKED].contains(sqliteCode & 0xFF) }
}

extension StoreError {
    /// What SQLite just said on that connection.
    init(_ result: Int32, on database: OpaquePointer?, doing task: String) {
        let said = database.map { String(cString: sqlite3_errmsg($0)) } ?? String(cString: sqlite3_errstr(result))
        let code: Code
        let remedy: String
        switch result & 0xFF {
        case SQLITE_FULL:
            code = .full
            remedy = " Free some space; nothing of this is in the store, so it can be sent again."
        case SQLITE_CONSTRAINT:
            code = .constraint
            remedy = ""
        case SQLITE_BUSY, SQLITE_LOCKED:
            code = .unavailable
            remedy =
                " Another program has locked the store, and only Broker may write to it. End that program, then send this "
                + "again."
        case SQLITE_CANTOPEN, SQLITE_IOERR, SQLITE_PERM, SQLITE_READONLY, SQLITE_NOTADB, SQLITE_CORRUPT, SQLITE_NOMEM:
            code = .unavailable
            remedy = " Check the file, its folder's permissions and the disk."
        default:
            code = .defect
            remedy = ""
        }
        self.init(code, "SQLite could not \(task): \(said).\(remedy)", sqliteCode: result)
    }
}
