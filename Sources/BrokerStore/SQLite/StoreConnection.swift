internal import BrokerModel
package import BrokerSQLite
internal import BrokerSchema
internal import BrokerStaging
internal import CSQLite
internal import Glibc

extension Connection {
    /// Bytes that are rewritten at a time: of a write of 128 KiB and more, SQLite's VFS passes on the remainder of its
    /// length modulo 2¹⁷ (os_unix.c, `seekAndWriteFd`), and treats the rest as a full disk.
    private static let walPieceBytes = 64 << 10

    /// Writes the WAL's bytes over themselves and syncs them, so that the WAL that was found is on the disk before
    /// anything depends on it. Runs inside a transaction that may write, so that no other connection appends to the WAL
    /// meanwhile.
    ///
    /// The process before may have ended because a sync of the WAL failed. The system then treats the lost pages as
    /// written: they can be read, a sync succeeds without effect, and a power failure loses them. The database would
    /// then have pages copied from them, beside older ones in the remaining WAL.
    func rewriteWAL() throws(StoreError) {
        guard let (wal, methods) = walFile else { return }
        let piece = UnsafeMutableRawPointer.allocate(byteCount: Self.walPieceBytes, alignment: 16)
        defer { piece.deallocate() }
        var size: sqlite3_int64 = 0
        var result = methods.xFileSize(wal, &size)
        guard size > 0 || result != SQLITE_OK else { return }
        var offset: sqlite3_int64 = 0
        while result == SQLITE_OK, offset < size {
            let count = Int32(min(sqlite3_int64(Self.walPieceBytes), size - offset))
            result = methods.xRead(wal, piece, count, offset)
            if result == SQLITE_OK { result = methods.xWrite(wal, piece, count, offset) }
            offset += sqlite3_int64(count)
        }
        if result == SQLITE_OK { result = methods.xSync(wal, SQLITE_SYNC_NORMAL) }
        try checkWAL(result)
    }

    /// Waits until the disk has all transactions that were committed, where COMMIT does not wait for it (`PRAGMA synchronous`).
    func syncWAL() throws(StoreError) {
        guard let (wal, methods) = walFile else { return }
        try checkWAL(methods.xSync(wal, SQLITE_SYNC_NORMAL))
    }

    /// The WAL's file, as SQLite has opened it, and its methods.
    private var walFile: (UnsafeMutablePointer<sqlite3_file>, sqlite3_io_methods)? {
        var wal: UnsafeMutablePointer<sqlite3_file>?
        let known = sqlite3_file_control(handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal)
        guard known == SQLITE_OK, let wal, let methods = wal.pointee.pMethods?.pointee else { return nil }
        return (wal, methods)
    }

    private func checkWAL(_ result: Int32) throws(StoreError) {
        guard result != SQLITE_OK else { return }
        let path = sqlite3_db_filename(handle, "main").map { String(cString: $0) }
        let error = StoreError(result, on: nil, path: path, cause: errno)
        if error.isDiskFailure { fail(error) }
        throw error
    }
}

/// Part of the store's interface: other targets name it without importing BrokerSQLite.
package typealias StoreError = BrokerSQLite.StoreError
typealias Connection = BrokerSQLite.Connection
typealias Statement = BrokerSQLite.Statement

extension Connection {
    /// A connection whose work is counted, with the functions of predicates.
    convenience init(store path: String, _ access: Access = .write, vfs: String? = nil) throws(StoreError) {
        try self.init(path: path, access, vfs: vfs)
        meter = WorkMeter()
        try PredicateFunctions.install(on: self)
    }

    /// Bounds what is read before the owner of the file is known: the model in a store is the largest value, and a
    /// table of 2,000 columns with the longest names and comments is the longest statement.
    func bounded() -> Connection { bounded(valueBytes: 64 << 20, schemaBytes: 16 << 20, memory: 256 << 20) }

    var work: WorkMeter { unsafeDowncast(meter!, to: WorkMeter.self) }
}

extension Connection {
    typealias Function = @convention(c) (OpaquePointer?, Int32, UnsafeMutablePointer<OpaquePointer?>?) -> Void

    /// Registers an SQL function with so many arguments; -1 are any.
    func addFunction(
        _ name: String, _ count: Int32, _ flags: Int32, _ object: UnsafeMutableRawPointer?,
        release: (@convention(c) (UnsafeMutableRawPointer?) -> Void)? = nil, _ body: Function
    ) throws(StoreError) {
        let result = sqlite3_create_function_v2(
            handle, name, count, SQLITE_UTF8 | flags, object, body, nil, nil, release)
        guard result == SQLITE_OK else { throw error(result) }
    }
}

enum SQLiteLibrary {
    /// `sqlite3_libversion_number` of the oldest library that works, 3.38.0: it has the JSON functions without a build option.
    /// `pragma_table_list` and `sqlite3_changes64` need 3.37.0, `RETURNING` 3.35.0 (sqlite.org/changes.html).
    static let oldestVersion: Int32 = 3_038_000
    /// Counting a job's changes needs the preupdate hook, which the library has with this build option only.
    static let neededOption = "ENABLE_PREUPDATE_HOOK"

    /// - Throws: ``StoreError`` `unavailable` when the library cannot be used.
    static func check(
        version: Int32 = sqlite3_libversion_number(), name: String = String(cString: sqlite3_libversion()),
        hasPreupdateHook: Bool = sqlite3_compileoption_used(neededOption) != 0
    ) throws(StoreError) {
        let fault: String
        if version < oldestVersion {
            fault = "has version \(name), and Broker needs 3.38.0 or later"
        } else if !hasPreupdateHook {
            fault = "(version \(name)) was built without SQLITE_\(neededOption), which Broker needs"
        } else {
            return
        }
        throw StoreError.unavailable(
            "The SQLite library \(fault). Install another libsqlite3, as Debian 12 has it, and start again; nothing was "
                + "touched.")
    }
}

struct TableColumns {
    private(set) var positions: [String: Int32] = [:]
    private(set) var realColumns: Set<Int32> = []
    private(set) var long = LongColumns()
    /// Whether the key is the number of the row (sqlite.org/lang_createtable.html#rowid).
    let isNumbered: Bool

    init(of table: String, on connection: Connection) throws(StoreError) {
        let columns = try connection.prepare(
            "SELECT name, cid, type, hidden, pk FROM pragma_table_xinfo(?1) ORDER BY cid", table)
        var keyTypes: [String] = []
        while try columns.step() {
            let position = Int32(columns.integer(1))
            positions[columns.text(0)] = position
            let affinity = Affinity(declaredType: columns.text(2))
            if affinity == .real { realColumns.insert(position) }
            if columns.integer(4) > 0 { keyTypes.append(columns.text(2).uppercased()) }
            // SQLite calculates those whose `hidden` is 2 when it reads them.
            long.note(columns.text(0), position, affinity, isStored: columns.integer(3) != 2)
        }
        isNumbered = keyTypes == ["INTEGER"]
    }

    static func long(of model: Model, on connection: Connection) throws(StoreError) -> [LongColumns] {
        var long = Array(repeating: LongColumns(), count: model.entities.count)
        for index in model.tableEntities {
            let columns = try TableColumns(of: model.table(of: index), on: connection).long
            for member in model.subentities(of: index) { long[member] = columns }
        }
        return long
    }
}

/// The columns of a table that may hold long values, in the order of the stored row.
///
/// SQLite reads a row from its beginning: to reach a column, it follows the pages of all values before it.
struct LongColumns {
    private(set) var names: [String] = []
    private var positions: [String: Int32] = [:]

    mutating func note(_ name: String, _ position: Int32, _ affinity: Affinity, isStored: Bool) {
        positions[name] = position
        if isStored, affinity == .text || affinity == .blob { names.append(name) }
    }

    /// Those that SQLite reads, or follows, to read some columns.
    func names(through read: [String]) -> [String] {
        guard let last = read.compactMap({ positions[$0] }).max() else { return [] }
        return names.filter { positions[$0]! <= last }
    }
}

/// The conversions of a migration, for the SQL function of that name. The connection owns it.
final class ValueConversions {
    private var conversions: [ValueConversion] = []

    init(on connection: Connection) throws(StoreError) {
        try connection.addFunction(
            conversionFunction, 2, SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, Unmanaged.passRetained(self).toOpaque(),
            release: { Unmanaged<ValueConversions>.fromOpaque($0!).release() }
        ) { context, _, values in
            let all = Unmanaged<ValueConversions>.fromOpaque(sqlite3_user_data(context)).takeUnretainedValue()
            all.conversions[Int(sqlite3_value_int(values![0]))].convert(Cell(values![1])) { $0.copy(to: context) }
        }
        try connection.addFunction(
            extraFunction, 3, SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, Unmanaged.passUnretained(self).toOpaque()
        ) { context, _, values in
            let all = Unmanaged<ValueConversions>.fromOpaque(sqlite3_user_data(context)).takeUnretainedValue()
            let column = Cell(values![1])
            do throws(TooManyExtraKeys) {
                let conversion = all.conversions[Int(sqlite3_value_int(values![0]))]
                guard let extra = try conversion.extra(column, taking: Cell(values![2])) else {
                    return column.copy(to: context)
                }
                extra.withUnsafeBufferPointer { Cell.text($0).copy(to: context) }
            } catch {
                sqlite3_result_error(context, "an object would have too many extra values", -1)
            }
        }
    }

    func number(_ old: Attribute, _ new: Attribute) -> Int {
        conversions.append(ValueConversion(from: old, to: new))
        return conversions.count - 1
    }
}

extension Cell {
    fileprivate func copy(to context: OpaquePointer?) {
        guard kind == .text, count > 0 else { return give(to: context) }
        bytes.withMemoryRebound(to: CChar.self) {
            broker_sqlite_result_text(context, $0.baseAddress, UInt64($0.count))
        }
    }
}

extension Statement {
    /// Binds without a copy: the cell's bytes must stay valid until the statement is reset or bound again.
    func bind(_ cell: Cell, at index: Int) {
        let index = Int32(index)
        switch cell.kind {
        case .integer: sqlite3_bind_int64(handle, index, cell.integer)
        case .real: sqlite3_bind_double(handle, index, cell.real)
        case .text:
            cell.bytes.withMemoryRebound(to: CChar.self) {
                _ = broker_sqlite_bind_static_text(handle, index, $0.baseAddress, UInt64($0.count))
            }
        case .blob: broker_sqlite_bind_static_blob(handle, index, cell.bytes.baseAddress, UInt64(cell.count))
        case .null, .absent: sqlite3_bind_null(handle, index)
        case .object: preconditionFailure("a link is bound by its destination's key")
        }
    }

    /// Binds a copy: the cell's bytes may be released before the statement.
    func bind(copying cell: Cell, at index: Int) {
        switch cell.kind {
        case .text: bind(text: Array(cell.bytes), at: index)
        case .blob: bind(blob: Array(cell.bytes), at: index)
        default: bind(cell, at: index)
        }
    }

    /// Valid as ``bytes(_:)`` is.
    func cell(_ column: Int) -> Cell {
        switch sqlite3_column_type(handle, Int32(column)) {
        case SQLITE_INTEGER: .integer(integer(column))
        case SQLITE_FLOAT: .real(sqlite3_column_double(handle, Int32(column)))
        case SQLITE_TEXT: .text(bytes(column))
        case SQLITE_BLOB: .blob(bytes(column))
        default: .null
        }
    }
}

extension Statement {
    func run(_ parameters: Int64...) throws(StoreError) {
        for (position, parameter) in parameters.enumerated() { bind(parameter, at: position + 1) }
        try run()
    }

    /// Returns what `read` finds in the first row; nil without a row. The parameters are bound from the first on.
    func first<Value>(_ parameters: Int64..., read: (Statement) -> Value) throws(StoreError) -> Value? {
        for (position, parameter) in parameters.enumerated() { bind(parameter, at: position + 1) }
        defer { reset() }
        return try step() ? read(self) : nil
    }
}

extension Cell {
    var literal: String {
        switch kind {
        case .integer: "\(integer)"
        // Swift writes the shortest text that reads as the same number, always with a point or an exponent.
        case .real: "\(real)"
        // The literal of a text ends at the character U+0000.
        case .text:
            bytes.contains(0)
                ? "CAST(x'\(hexadecimal)' AS TEXT)" : textLiteral(String(decoding: bytes, as: UTF8.self))
        case .blob: "x'\(hexadecimal)'"
        case .null, .absent, .object: "NULL"
        }
    }

    private var hexadecimal: String {
        let digits = Array("0123456789ABCDEF".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}

extension StagingPlan {
    /// Returns the default of an attribute as an SQL literal; nil without a default.
    func defaultLiteral(entity: Int, attribute: Int) -> String? {
        defaultCell(entity: entity, attribute: attribute)?.literal
    }
}

extension Cell {
    /// A value of SQLite's, valid as long as that one; nil is one of a generated column that is not stored.
    init(_ value: OpaquePointer?) {
        guard value != nil else {
            self = .null
            return
        }
        func bytes() -> UnsafeBufferPointer<UInt8> {
            let start = sqlite3_value_blob(value)?.assumingMemoryBound(to: UInt8.self)
            return UnsafeBufferPointer(start: start, count: Int(sqlite3_value_bytes(value)))
        }
        self =
            switch sqlite3_value_type(value) {
            case SQLITE_INTEGER: .integer(sqlite3_value_int64(value))
            case SQLITE_FLOAT: .real(sqlite3_value_double(value))
            case SQLITE_TEXT: .text(bytes())
            case SQLITE_BLOB: .blob(bytes())
            default: .null
            }
    }

    /// A column of real numbers stores 5.0 as the integer 5, and returns the real number. The hook reports either form.
    func stored(asReal isReal: Bool) -> Cell { kind == .integer && isReal ? .real(Double(integer)) : self }

    func hash(into hasher: inout Hasher) {
        hasher.combine(kind)
        switch kind {
        case .integer: hasher.combine(integer)
        case .real: hasher.combine(real)
        case .text, .blob:
            hasher.combine(count)
            hasher.combine(bytes: UnsafeRawBufferPointer(bytes))
        case .null, .absent, .object: break
        }
    }
}

/// The functions and the collation that predicates need besides SQLite's own. Every connection registers them.
enum PredicateFunctions {
    /// `broker_matches(value, test)`: 1 where the test holds, otherwise 0; never NULL.
    static let matches = "broker_matches"
    /// A collation that orders decimals by their value: 1.5 equals 1.50, and 9 is less than 10.
    static let decimalOrder = "broker_decimal"

    /// `broker_work(units, times, value…)`: charges the units and the bytes of the values `times` times, and returns 1;
    /// an error when the budget is spent. Predicates of jobs call it for each row that they examine.
    private static let work = "broker_work"
    /// Bytes that SQLite reads and compares for one unit.
    private static let bytesPerUnit = 32
    /// Such bytes of a long value, which SQLite collects from many pages: reading one of 25 MB took 57 ms.
    private static let longBytesPerUnit = 4
    /// Bytes of a value that is not long: about a page.
    private static let shortBytes = 4_096
    /// Making a key and looking it up takes 100 ns.
    private static let unitsPerKey = 5

    /// A call of `broker_work` for one row, charged with the bytes of these columns. SQLite allows 127 arguments.
    static func work(_ units: Int, times: Int = 1, for columns: [String]) -> String {
        "\(work)(\((["\(units)", "\(times)"] + columns.prefix(100)).joined(separator: ", ")))"
    }

    static func install(on connection: Connection) throws(StoreError) {
        let meter = Unmanaged.passUnretained(connection.work).toOpaque()
        let result = sqlite3_create_collation_v2(
            connection.handle, decimalOrder, SQLITE_UTF8, meter,
            { meter, leftCount, left, rightCount, right in
                let first = UnsafeBufferPointer(start: left?.assumingMemoryBound(to: UInt8.self), count: Int(leftCount))
                let second = UnsafeBufferPointer(
                    start: right?.assumingMemoryBound(to: UInt8.self), count: Int(rightCount))
                WorkMeter.of(meter).budget.charge(2 + (first.count + second.count) / 8)
                return Int32(DecimalText.order(first, second))
            }, nil)
        guard result == SQLITE_OK else { throw connection.error(result) }
        try connection.addFunction(matches, 2, SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, meter) { context, _, values in
            BoundTest.call(context, values)
        }
        // Not deterministic, so that SQLite calls it for each row.
        try connection.addFunction(work, -1, SQLITE_DIRECTONLY, meter) { context, count, values in
            PredicateFunctions.charge(context, UnsafeBufferPointer(start: values, count: Int(count)))
        }
    }

    private static func charge(_ context: OpaquePointer?, _ values: UnsafeBufferPointer<OpaquePointer?>) {
        let meter = WorkMeter.of(sqlite3_user_data(context))
        let times = Int(sqlite3_value_int64(values[1]))
        let units = Int(sqlite3_value_int64(values[0])) + units(for: values.dropFirst(2), times)
        if charge(context, meter, units) { sqlite3_result_int(context, 1) }
    }

    /// Charges a key that a function builds from columns and looks up. Returns false when the function has to end with its error.
    static func charge(
        _ context: OpaquePointer?, _ meter: WorkMeter, forKeyOf values: UnsafeBufferPointer<OpaquePointer?>
    ) -> Bool {
        charge(context, meter, unitsPerKey + units(for: values[...]))
    }

    private static func charge(_ context: OpaquePointer?, _ meter: WorkMeter, _ units: Int) -> Bool {
        meter.budget.charge(units)
        guard meter.isOver else { return true }
        sqlite3_result_error(context, "the work budget of the job is spent", -1)
        return false
    }

    private static func units(for values: Slice<UnsafeBufferPointer<OpaquePointer?>>, _ times: Int = 1) -> Int {
        var (short, long) = (0, 0)
        for value in values {
            let type = sqlite3_value_type(value)
            guard type == SQLITE_TEXT || type == SQLITE_BLOB else { continue }
            let count = Int(sqlite3_value_bytes(value))
            if count > shortBytes { long += count } else { short += count }
        }
        return short * times / bytesPerUnit + long * times / longBytesPerUnit
    }
}

/// A test as a statement's parameter, which the statement owns until it is bound again or finalized.
final class BoundTest {
    private let test: ValueTest
    private let run: MatchRun

    init(_ test: ValueTest, _ run: MatchRun) {
        self.test = test
        self.run = run
    }

    func bind(to statement: Statement, at index: Int) {
        // The statement releases it, also when binding fails.
        let reference = Unmanaged.passRetained(self).toOpaque()
        _ = broker_sqlite_bind_object(statement.handle, Int32(index), reference) { reference in
            if let reference { Unmanaged<BoundTest>.fromOpaque(reference).release() }
        }
    }

    static func call(
        _ context: OpaquePointer?, _ values: UnsafeMutablePointer<OpaquePointer?>?
    ) {
        guard let values, let reference = broker_sqlite_object(values[1]) else {
            sqlite3_result_error(context, "no test is bound", -1)
            return
        }
        let bound = Unmanaged<BoundTest>.fromOpaque(reference).takeUnretainedValue()
        guard !bound.run.isOver() else { return sqlite3_result_error_code(context, SQLITE_INTERRUPT) }
        let meter = WorkMeter.of(sqlite3_user_data(context))
        do throws(Fault) {
            let isMet = try bound.test.isMet(by: cell(values[0]), budget: &meter.budget)
            guard !meter.isOver else { return sqlite3_result_error(context, "the work budget of the job is spent", -1) }
            sqlite3_result_int(context, isMet ? 1 : 0)
        } catch {
            bound.run.giveUp(error)
            sqlite3_result_error(context, error.message, -1)
        }
    }

    /// Valid during the call of the function. A text is in UTF-8, whatever the encoding of the database is.
    private static func cell(_ value: OpaquePointer?) -> Cell {
        guard sqlite3_value_type(value) == SQLITE_TEXT else { return Cell(value) }
        let start = sqlite3_value_text(value)
        return .text(UnsafeBufferPointer(start: start, count: Int(sqlite3_value_bytes(value))))
    }
}

final class MatchRun {
    private(set) var fault: Fault?
    /// Whether no further test may run.
    let isOver: () -> Bool

    init(isOver: @escaping () -> Bool) { self.isOver = isOver }

    func begin() { fault = nil }

    func giveUp(_ fault: Fault) { self.fault = fault }
}
