internal import BrokerSchema
internal import BrokerStaging
internal import CSQLite
internal import Glibc

/// SQL functions about the current row of a merge's scan. Rows may have values for different columns, and SQL alone
/// cannot distinguish a row without a value from one with NULL.
///
/// Columns are named by their numbers in the virtual table. The functions are not deterministic: each call refers to
/// the current row of the scan.
enum StagedFunctions {
    /// `_broker_value(number, old)`: the row's value of the column, or the old one if the row has none.
    static let value = "_broker_value"
    /// `_broker_differs(first, old…)`: 1 if a column from that number on differs for which the row has a value.
    static let differs = "_broker_differs"
    /// `_broker_postpones(first, old…)`: as ``differs``; such a row is also recorded, for the next statement.
    static let postpones = "_broker_postpones"
    /// Columns that one call can compare: SQLite takes 127 arguments at most.
    static let columnsPerCall = 120

    /// - Parameter tally: knows the current scan; at an address that outlives the connection.
    static func install(
        on connection: Connection, _ tally: UnsafeMutablePointer<MergeTally>
    ) throws(StoreError) {
        let flags = SQLITE_UTF8 | SQLITE_DIRECTONLY
        for (name, count, body) in [
            (value, Int32(2), giveValue), (differs, -1, findDifferences), (postpones, -1, postpone),
        ] {
            let result = sqlite3_create_function_v2(
                connection.handle, name, count, flags, tally, body, nil, nil, nil)
            guard result == SQLITE_OK else { throw connection.error(result) }
        }
    }

    private typealias Function =
        @convention(c) (OpaquePointer?, Int32, UnsafeMutablePointer<OpaquePointer?>?) -> Void

    private static let giveValue: Function = { context, _, arguments in
        let scan = scan(context)
        switch scan.pointee.value(Int(sqlite3_value_int(arguments![0]))) {
        case .key(let key): sqlite3_result_int64(context, key)
        case .cell(let cell) where cell.kind == .absent: sqlite3_result_value(context, arguments![1])
        case .cell(let cell): cell.give(to: context)
        }
    }

    private static let findDifferences: Function = { context, count, arguments in
        sqlite3_result_int(context, differs(scan(context), count, arguments!) ? 1 : 0)
    }

    private static let postpone: Function = { context, count, arguments in
        let scan = scan(context)
        guard let postponed = scan.pointee.postponed else { return sqlite3_result_int(context, 0) }
        let place = scan.pointee.position
        // A row that follows a postponed row of the same object must be postponed, too.
        let follows = postponed.pointee.last == place - 1 && isSame(scan, place, place - 1)
        guard follows || differs(scan, count, arguments!) else { return sqlite3_result_int(context, 0) }
        postponed.pointee.note(place)
        sqlite3_result_int(context, 1)
    }

    private static func isSame(_ scan: UnsafeMutablePointer<StagedScan>, _ place: Int, _ other: Int) -> Bool {
        // Only rows of several jobs can belong to one object.
        guard scan.pointee.jobs != nil, let identity = scan.pointee.identity, !identity.isEmpty else { return false }
        let (left, right) = (scan.pointee.cells(at: place), scan.pointee.cells(at: other))
        return identity.allSatisfy { left[$0].isSame(as: right[$0]) }
    }

    @inline(__always)
    private static func scan(_ context: OpaquePointer?) -> UnsafeMutablePointer<StagedScan> {
        sqlite3_user_data(context)!.assumingMemoryBound(to: MergeTally.self).pointee.scan!
    }

    @inline(__always)
    private static func differs(
        _ scan: UnsafeMutablePointer<StagedScan>, _ count: Int32, _ arguments: UnsafeMutablePointer<OpaquePointer?>
    ) -> Bool {
        let first = Int(sqlite3_value_int(arguments[0])) - 1
        for argument in 1..<Int(count) {
            let old = arguments[argument]
            switch scan.pointee.value(first + argument) {
            case .key(let key):
                if sqlite3_value_type(old) != SQLITE_INTEGER || sqlite3_value_int64(old) != key { return true }
            case .cell(let cell):
                if cell.kind != .absent, !cell.isStored(as: old) { return true }
            }
        }
        return false
    }
}

extension Cell {
    /// Whether a column that holds the cell's type has the same value; numbers are compared by their values.
    @inline(__always)
    fileprivate func isStored(as value: OpaquePointer?) -> Bool {
        switch sqlite3_value_type(value) {
        case SQLITE_INTEGER:
            if kind == .integer { return sqlite3_value_int64(value) == integer }
            return kind == .real && sqlite3_value_double(value) == real
        case SQLITE_FLOAT:
            if kind == .real { return sqlite3_value_double(value) == real }
            return kind == .integer && sqlite3_value_double(value) == Double(integer)
        case SQLITE_TEXT: return kind == .text && hasBytes(sqlite3_value_text(value), sqlite3_value_bytes(value))
        case SQLITE_BLOB:
            let start = sqlite3_value_blob(value)?.assumingMemoryBound(to: UInt8.self)
            return kind == .blob && hasBytes(start, sqlite3_value_bytes(value))
        default: return kind == .null || kind == .object
        }
    }

    @inline(__always)
    private func hasBytes(_ start: UnsafePointer<UInt8>?, _ count: Int32) -> Bool {
        self.count == UInt32(count) && (count == 0 || memcmp(bytes.baseAddress!, start!, Int(count)) == 0)
    }
}
