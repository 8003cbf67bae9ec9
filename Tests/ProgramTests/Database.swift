import TestSupport
import CSQLite

/// A reader of the store with its own tool, as any program may be.
final class Database {
    private var handle: OpaquePointer?

    init(_ path: String) throws {
        guard sqlite3_open_v2(path, &handle, SQLITE_OPEN_READONLY, nil) == SQLITE_OK else {
            throw Programs.Failure(what: "cannot open \(path)")
        }
    }

    deinit { sqlite3_close(handle) }

    /// The rows of a query, their columns joined by `|`.
    func rows(_ sql: String) throws -> [String] {
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(handle, sql, -1, &statement, nil) == SQLITE_OK else {
            throw Programs.Failure(what: String(cString: sqlite3_errmsg(handle)))
        }
        defer { sqlite3_finalize(statement) }
        var rows: [String] = []
        while sqlite3_step(statement) == SQLITE_ROW {
            let columns = (0..<sqlite3_column_count(statement)).map { column in
                sqlite3_column_text(statement, column).map { String(cString: $0) } ?? "NULL"
            }
            rows.append(columns.joined(separator: "|"))
        }
        return rows
    }
}

/// Another program that holds the store's lock.
final class StoreLocker {
    private var handle: OpaquePointer?

    init(_ path: String) throws {
        guard sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE, nil) == SQLITE_OK else {
            throw Programs.Failure(what: "cannot open \(path)")
        }
        sqlite3_busy_timeout(handle, Int32(Patience.seconds) * 1_000)
        guard sqlite3_exec(handle, "BEGIN IMMEDIATE", nil, nil, nil) == SQLITE_OK else {
            throw Programs.Failure(what: String(cString: sqlite3_errmsg(handle)))
        }
    }

    deinit { unlock() }

    func unlock() {
        sqlite3_close_v2(handle)
        handle = nil
    }
}
