internal import CSQLite
internal import Glibc

package struct StoreError: Error, Sendable, CustomStringConvertible {
    package enum Code: Sendable {
        /// The disk, or the limit set for the database, is full.
        case full
        /// The file cannot be opened, locked, read or written.
        case unavailable
        /// The database in the file does not fit the model, and cannot be migrated without loss.
        case incompatible
        /// A constraint of the database rejected a change.
        case constraint
        /// A statement of Broker's own was wrong: a defect.
        case defect
        /// The work budget of a job is spent. When the job is tried again, in another transaction, it ends with its fault.
        case overworked
    }

    package let code: Code
    /// The event and the remedy, in one line; no SQL. Of a constraint it is the same for every version of SQLite.
    package let message: String
    /// SQLite's extended result code, zero when the error is not SQLite's.
    package let sqliteCode: Int32

    package private(set) var sqliteMessage = ""

    /// The SQL of Broker's that failed, for a defect.
    package let statement: String?

    package init(_ code: Code, _ message: String, sqliteCode: Int32 = 0, statement: String? = nil) {
        self.code = code
        self.message = message
        self.sqliteCode = sqliteCode
        self.statement = statement
    }

    /// For logs: with SQLite's own message, and for a defect with the statement that failed.
    package var description: String {
        let text = message.contains(sqliteMessage) ? message : "\(message) (\(sqliteMessage))"
        return statement.map { "\(text) [\($0)]" } ?? text
    }

    /// Another broker owns the store: it may be had when that one ends, and be read meanwhile.
    package var isInUse = false

    /// Another program holds a lock: a later attempt may succeed.
    package var isLocked: Bool { [SQLITE_BUSY, SQLITE_LOCKED].contains(sqliteCode & 0xFF) }

    package var isNoDatabase: Bool { sqliteCode & 0xFF == SQLITE_NOTADB }

    /// SQLite has no code of its own for the error.
    package var isPlain: Bool { code == .defect && [SQLITE_ERROR, SQLITE_MISMATCH].contains(sqliteCode & 0xFF) }

    /// A column that is NOT NULL would be NULL.
    package var isOfNull: Bool { sqliteCode == SQLITE_CONSTRAINT | 5 << 8 }

    /// A value or a statement is larger than the connection reads.
    package var isTooLarge: Bool { sqliteCode & 0xFF == SQLITE_TOOBIG }

    /// A value, a statement or the memory exceeds a bound of the connection.
    package var isBeyondBound: Bool { isTooLarge || sqliteCode & 0xFF == SQLITE_INTERRUPT }

    /// The disk has failed, or the file is damaged: the written data may be on the disk, or not, or in part.
    package var isDiskFailure: Bool {
        code != .full && [SQLITE_IOERR, SQLITE_CORRUPT, SQLITE_NOTADB].contains(sqliteCode & 0xFF)
    }
}

extension StoreError {
    package static func unavailable(_ message: String, sqliteCode: Int32 = 0) -> StoreError {
        StoreError(.unavailable, message, sqliteCode: sqliteCode)
    }

    package static let overworked = StoreError(.overworked, "The job makes the store do more work than one job may.")
    /// The error of the last call of SQLite on that connection.
    ///
    /// - Parameters:
    ///   - path: of the database, when the connection does not know it yet.
    ///   - cause: an `errno`, where SQLite itself does not report the cause.
    package init(
        _ result: Int32, on database: OpaquePointer?, path: String? = nil, running sql: String? = nil,
        cause: Int32? = nil
    ) {
        let store = "The store \(path ?? database.flatMap(Self.path) ?? "")"
        let system = cause ?? database.map { sqlite3_system_errno($0) } ?? 0
        let said = database.map { String(cString: sqlite3_errmsg($0)) } ?? String(cString: sqlite3_errstr(result))
        switch result & 0xFF {
        case SQLITE_FULL: self.init(full: store, said, result)
        case SQLITE_IOERR where result == Self.failedWrite && Self.isFull(system):
            self.init(full: store, String(cString: strerror(system)), result)
        case SQLITE_CONSTRAINT:
            self.init(
                .constraint, "The database does not allow it: \(Self.brokenConstraint(result)).", sqliteCode: result)
        case SQLITE_ERROR where said == "too many levels of trigger recursion":
            // Broker's own deletions do not recurse: these are foreign keys that the model does not name.
            self.init(
                .constraint,
                "The database does not allow it: ON DELETE CASCADE of a table that another program made goes through more than "
                    + "1,000 levels. Delete the rows at the lowest levels first, or make the column of the link optional.",
                sqliteCode: result)
        case SQLITE_TOOBIG:
            self.init(
                .constraint,
                "The database does not allow it: SQLite stores no row of more than 1,000,000,000 bytes.",
                sqliteCode: result)
        case SQLITE_BUSY, SQLITE_LOCKED:
            self.init(
                .unavailable,
                "\(store) is locked by another program (\(said)), and only Broker may write to it. End that program, then "
                    + "send this again.", sqliteCode: result)
        case SQLITE_NOTADB:
            self.init(
                .unavailable, "\(store) is no SQLite database. Name another file for the store; nothing was touched.",
                sqliteCode: result)
        case SQLITE_CORRUPT:
            self.init(
                .unavailable, "\(store) is damaged (\(said)). Stop the server and put a good copy in its place.",
                sqliteCode: result)
        case SQLITE_CANTOPEN, SQLITE_IOERR, SQLITE_PERM, SQLITE_READONLY, SQLITE_NOMEM:
            let cause = system == 0 ? "" : ": \(String(cString: strerror(system)))"
            self.init(
                .unavailable,
                "\(store) cannot be opened, read or written (\(said)\(cause)). Check the file, its folder's permissions "
                    + "and the disk.", sqliteCode: result)
        default:
            self.init(
                .defect, "\(store) refused what Broker asked of it (\(said)). This is a defect of Broker's; report it.",
                sqliteCode: result, statement: sql)
        }
        sqliteMessage = said
    }

    /// The schema, or a value that is read at the opening, is larger than any in a store.
    init(tooLarge database: OpaquePointer, _ result: Int32, memory: Int64) {
        self.init(
            .unavailable,
            "The store \(Self.path(database) ?? "") cannot be opened: its schema, or the model in it, is larger than any that "
                + "Broker makes, or takes more than \(memory >> 20) MiB of memory. Name another file for the store; nothing was "
                + "touched.", sqliteCode: result)
    }

    /// The extended codes of SQLITE_CONSTRAINT are no literals in SQLite's header (sqlite.org/rescode.html).
    private static func brokenConstraint(_ result: Int32) -> String {
        switch result >> 8 {
        case 1: "a CHECK constraint does not hold"
        case 3: "a foreign key would lead to no row"
        case 5: "a column that is NOT NULL would be NULL"
        case 6, 10: "a primary key would occur twice"
        case 8: "a UNIQUE constraint or index would have a value twice"
        case 12: "a column of a STRICT table would have a value of another type"
        default: "a constraint does not hold"
        }
    }

    /// SQLITE_IOERR_WRITE, which is no literal in SQLite's header.
    private static let failedWrite = SQLITE_IOERR | 3 << 8

    private init(full store: String, _ said: String, _ result: Int32) {
        self.init(
            .full,
            "\(store), or its disk, is full (\(said)). Nothing of this was stored: free some space, then try again.",
            sqliteCode: result)
    }

    /// Whether a write found no room on the disk or in the quota: SQLite itself recognizes only the first. This is for
    /// writes only: a sync that finds no room has lost the written data, and for the shared memory of connections
    /// SQLite allocates more after a COMMIT.
    private static func isFull(_ system: Int32) -> Bool { [ENOSPC, EDQUOT, EFBIG].contains(system) }

    private static func path(_ database: OpaquePointer) -> String? {
        sqlite3_db_filename(database, "main").map { String(cString: $0) }
    }
}
