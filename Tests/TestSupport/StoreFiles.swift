import CSQLite
import Foundation

/// The rows that a reader of a database sees.
public enum SQLRows {
    public struct Failure: Error {
        public let message: String

        public init(message: String) { self.message = message }
    }

    /// The rows of a query, their columns joined by `|`.
    public static func of(_ sql: String, in path: String) throws -> [String] {
        var database: OpaquePointer?
        defer { sqlite3_close_v2(database) }
        var statement: OpaquePointer?
        guard sqlite3_open_v2(path, &database, SQLITE_OPEN_READONLY, nil) == SQLITE_OK,
            sqlite3_prepare_v2(database, sql, -1, &statement, nil) == SQLITE_OK
        else { throw Failure(message: String(cString: sqlite3_errmsg(database))) }
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

/// A folder of the test's own, removed with this object.
public final class TemporaryFolder: Sendable {
    private let location = FileManager.default.temporaryDirectory.appending(path: "broker-\(UUID().uuidString)")

    public init() {
        do {
            try FileManager.default.createDirectory(at: location, withIntermediateDirectories: true)
        } catch {
            preconditionFailure("no folder for a test: \(error)")
        }
    }

    deinit {
        do {
            try FileManager.default.removeItem(at: location)
        } catch {
            preconditionFailure("a test's folder cannot be deleted: \(error)")
        }
    }

    public func path(_ name: String) -> String { location.appending(path: name).path }
}
