internal import BrokerSchema
internal import BrokerModel
internal import BrokerStaging
internal import CSQLite

/// The functions and the collation that predicates need besides SQLite's own. Every connection registers them.
enum PredicateFunctions {
    /// `broker_matches(value, test)`: 1 where the test holds, otherwise 0; never NULL.
    static let matches = "broker_matches"
    /// A collation that orders decimals by their value: 1.5 equals 1.50, and 9 is less than 10.
    static let decimalOrder = "broker_decimal"

    /// `broker_work(units, times, value…)`: charges the units and the bytes of the values `times` times, and returns 1;
    /// an error when the budget is spent. Predicates of jobs call it for each row that they examine.
    static let work = "broker_work"
    /// Bytes that SQLite reads and compares for one unit.
    private static let bytesPerUnit = 32
    /// Making a key and looking it up takes 100 ns.
    private static let unitsPerKey = 5

    static func install(on connection: Connection) throws(StoreError) {
        let meter = Unmanaged.passUnretained(connection.work).toOpaque()
        var result = sqlite3_create_collation_v2(
            connection.handle, decimalOrder, SQLITE_UTF8, meter,
            { meter, leftCount, left, rightCount, right in
                let first = UnsafeBufferPointer(start: left?.assumingMemoryBound(to: UInt8.self), count: Int(leftCount))
                let second = UnsafeBufferPointer(
                    start: right?.assumingMemoryBound(to: UInt8.self), count: Int(rightCount))
                WorkMeter.of(meter).budget.charge(2 + (first.count + second.count) / 8)
                return Int32(DecimalText.order(first, second))
            }, nil)
        if result == SQLITE_OK {
            result = sqlite3_create_function_v2(
                connection.handle, matches, 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, meter,
                { context, _, values in BoundTest.call(context, values) }, nil, nil, nil)
        }
        if result == SQLITE_OK {
            // Not deterministic, so that SQLite calls it for each row.
            result = sqlite3_create_function_v2(
                connection.handle, work, -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, meter,
                { context, count, values in
                    PredicateFunctions.charge(context, UnsafeBufferPointer(start: values, count: Int(count)))
                },
                nil, nil, nil)
        }
        guard result == SQLITE_OK else { throw connection.error(result) }
    }

    private static func charge(_ context: OpaquePointer?, _ values: UnsafeBufferPointer<OpaquePointer?>) {
        let meter = WorkMeter.of(sqlite3_user_data(context))
        let times = Int(sqlite3_value_int64(values[1]))
        let units = Int(sqlite3_value_int64(values[0])) + bytes(of: values.dropFirst(2)) * times / bytesPerUnit
        if charge(context, meter, units) { sqlite3_result_int(context, 1) }
    }

    /// Charges a key that a function builds from columns and looks up.
    ///
    /// - Returns: false when the budget is spent; the function has reported its error then.
    static func charge(
        _ context: OpaquePointer?, _ meter: WorkMeter, forKeyOf values: UnsafeBufferPointer<OpaquePointer?>
    ) -> Bool {
        charge(context, meter, unitsPerKey + bytes(of: values[...]) / bytesPerUnit)
    }

    private static func charge(_ context: OpaquePointer?, _ meter: WorkMeter, _ units: Int) -> Bool {
        meter.budget.charge(units)
        guard meter.isOver else { return true }
        sqlite3_result_error(context, "the work budget of the job is spent", -1)
        return false
    }

    private static func bytes(of values: Slice<UnsafeBufferPointer<OpaquePointer?>>) -> Int {
        values.reduce(0) { sum, value in
            let type = sqlite3_value_type(value)
            return type == SQLITE_TEXT || type == SQLITE_BLOB ? sum + Int(sqlite3_value_bytes(value)) : sum
        }
    }
}

/// Why an execution of a predicate ended early.
final class MatchRun {
    private(set) var fault: Fault?
    /// Whether no further test may run.
    fileprivate let isOver: () -> Bool

    init(isOver: @escaping () -> Bool) { self.isOver = isOver }

    func begin() { fault = nil }

    fileprivate func giveUp(_ fault: Fault) { self.fault = fault }
}

/// A test as a statement's parameter. The statement owns it until the parameter is bound again or the statement is
/// finalized.
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

    fileprivate static func call(
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

    /// Valid during the call of the function.
    private static func cell(_ value: OpaquePointer?) -> Cell {
        switch sqlite3_value_type(value) {
        case SQLITE_INTEGER: return .integer(sqlite3_value_int64(value))
        case SQLITE_FLOAT: return .real(sqlite3_value_double(value))
        case SQLITE_TEXT:
            let start = sqlite3_value_text(value)
            return .text(UnsafeBufferPointer(start: start, count: Int(sqlite3_value_bytes(value))))
        case SQLITE_BLOB:
            let start = sqlite3_value_blob(value)?.assumingMemoryBound(to: UInt8.self)
            return .blob(UnsafeBufferPointer(start: start, count: Int(sqlite3_value_bytes(value))))
        default: return .null
        }
    }
}
