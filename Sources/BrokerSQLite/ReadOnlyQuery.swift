internal import CSQLite
internal import Glibc

/// One statement of a user, which only reads: the file is opened read-only, and SQLite refuses to compile anything else. Belongs
/// to the thread that made it.
package final class ReadOnlyQuery {
    /// Why there is no result, in SQLite's words where it is the statement's fault.
    package struct Fault: Error, CustomStringConvertible {
        package let description: String
    }

    package enum Value {
        case null
        case integer(Int64)
        case real(Double)
        case text(String)
        case blob([UInt8])
    }

    /// As the statement names them; names may repeat.
    package let columns: [String]

    private let connection: Connection
    private let statement: OpaquePointer
    private let path: String
    /// No other program had the database open when it was opened, so it is read without locks.
    private let isUnlocked: Bool

    package init(_ sql: String, path: String) throws {
        guard access(path, R_OK) == 0 else {
            throw Fault(description: "The store \(path) cannot be read: \(String(cString: strerror(errno))).")
        }
        self.path = path
        isUnlocked = access(path + "-wal", F_OK) != 0
        let connection = try Connection(path: path, .look)
        self.connection = connection
        sqlite3_set_authorizer(
            connection.handle,
            { _, action, first, second, _, _ in ReadOnlyQuery.allows(action, first, second) ? SQLITE_OK : SQLITE_DENY },
            nil)
        let (result, statement, rest) = Self.prepare(sql, on: connection)
        guard result == SQLITE_OK else { throw Self.fault(result, connection) }
        guard let statement else { throw Fault(description: "There is no statement.") }
        self.statement = statement
        columns = (0..<sqlite3_column_count(statement)).map { String(cString: sqlite3_column_name(statement, $0)) }
        guard Self.isEmpty(rest, on: connection) else {
            throw Fault(description: "There is more than one statement; give one.")
        }
        guard !columns.isEmpty else { throw Fault(description: "The statement has no result.") }
    }

    deinit { sqlite3_finalize(statement) }

    /// Compiles the first statement, which is nil for blanks alone; `rest` is the text after it.
    private static func prepare(
        _ sql: String, on connection: Connection
    ) -> (result: Int32, statement: OpaquePointer?, rest: String) {
        sql.withCString { start in
            var (statement, end): (OpaquePointer?, UnsafePointer<CChar>?)
            let result = sqlite3_prepare_v2(connection.handle, start, -1, &statement, &end)
            return (result, statement, end.map { String(cString: $0) } ?? "")
        }
    }

    /// Blanks, semicolons and comments.
    private static func isEmpty(_ sql: String, on connection: Connection) -> Bool {
        var rest = sql
        while rest.contains(where: { !$0.isWhitespace }) {
            let (result, statement, next) = prepare(rest, on: connection)
            sqlite3_finalize(statement)
            guard result == SQLITE_OK, statement == nil, next.utf8.count < rest.utf8.count else { return false }
            rest = next
        }
        return true
    }

    /// What a query of a table needs, and the pragmas that describe the database.
    private static func allows(_ action: Int32, _ first: UnsafePointer<CChar>?, _ second: UnsafePointer<CChar>?) -> Bool
    {
        switch action {
        case SQLITE_SELECT, SQLITE_READ, SQLITE_RECURSIVE: true
        // SQLite asks for it when it makes a function such as pragma_table_info a table, and refuses it to users.
        case SQLITE_UPDATE: first.map { strcmp($0, "sqlite_master") == 0 } ?? false
        case SQLITE_FUNCTION: second.map { strcmp($0, "load_extension") != 0 } ?? false
        case SQLITE_PRAGMA: first.map { pragmas.contains(String(cString: $0).lowercased()) } ?? false
        default: false
        }
    }

    private static let pragmas: Set<String> = [
        "collation_list", "compile_options", "database_list", "foreign_key_list", "function_list", "index_info",
        "index_list", "index_xinfo", "pragma_list", "table_info", "table_list", "table_xinfo",
    ]

    private static func fault(_ result: Int32, _ connection: Connection) -> any Error {
        switch result & 0xFF {
        case SQLITE_AUTH:
            Fault(
                description: "The statement does more than read the store; one that reads is allowed, such as a SELECT."
            )
        case SQLITE_ERROR, SQLITE_SCHEMA, SQLITE_MISMATCH, SQLITE_RANGE, SQLITE_TOOBIG, SQLITE_READONLY:
            Fault(description: "SQLite: \(connection.lastMessage).")
        default: connection.error(result)
        }
    }

    /// Whether there is a row more.
    package func step() throws -> Bool {
        let result = sqlite3_step(statement)
        guard result == SQLITE_ROW || result == SQLITE_DONE else { throw Self.fault(result, connection) }
        if result == SQLITE_DONE, isUnlocked, access(path + "-wal", F_OK) == 0 {
            throw Fault(description: "Another program has begun to write to the store meanwhile; ask again.")
        }
        return result == SQLITE_ROW
    }

    /// A value of the row, of columns from 0 on.
    package func value(_ column: Int) -> Value {
        let column = Int32(column)
        switch sqlite3_column_type(statement, column) {
        case SQLITE_INTEGER: return .integer(sqlite3_column_int64(statement, column))
        case SQLITE_FLOAT: return .real(sqlite3_column_double(statement, column))
        case SQLITE_TEXT:
            let start = sqlite3_column_text(statement, column)
            let count = Int(sqlite3_column_bytes(statement, column))
            return .text(String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self))
        case SQLITE_BLOB:
            let start = sqlite3_column_blob(statement, column)
            return .blob(
                Array(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column)))))
        default: return .null
        }
    }
}
