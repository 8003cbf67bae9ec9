import CSQLite
import Foundation

@testable import BrokerCoordinator

/// Holds threads back until it is opened.
final class Gate: Sendable {
    private let isOpen = Monitor(false)

    func open() {
        isOpen.broadcast {
            $0 = true
            return true
        }
    }

    func pass() { isOpen.wait { $0 ? () : nil } }
}

enum SQLRows {
    struct Failure: Error {
        let message: String
    }

    static func of(_ sql: String, in path: String) throws -> [String] {
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

/// A folder of the test's own, removed with this object.
final class TemporaryFolder: Sendable {
    private let location = FileManager.default.temporaryDirectory.appending(path: "broker-\(UUID().uuidString)")

    init() {
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
            preconditionFailure("a test's folder stays behind: \(error)")
        }
    }

    func path(_ name: String) -> String { location.appending(path: name).path }
}

/// A generator that a printed seed repeats (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(for name: String, seed: UInt64 = UInt64.random(in: 0...UInt64.max)) {
        print("\(name): seed \(seed)")
        state = seed
    }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
