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
    private static let work = "broker_work"
    /// Bytes that SQLite reads and compares for one unit.
    private static let bytesPerUnit = 32
    /// Such bytes of a long value: SQLite collects them from many pages, in memory that it allocates. Reading a value of
    /// 25 MB took 57 ms, and reading a column after it 20 ms.
    private static let longBytesPerUnit = 4
    /// Bytes of a value that is not long: about a page.
    private static let shortBytes = 4_096
    /// Making a key and looking it up takes 100 ns.
    private static let unitsPerKey = 5

    /// A call of `broker_work` for one row.
    ///
    /// - Parameter columns: the SQL of columns whose bytes are charged. SQLite allows 127 arguments.
    static func work(_ units: Int, times: Int = 1, for columns: [String]) -> String {
        "\(work)(\((["\(units)", "\(times)"] + columns.prefix(100)).joined(separator: ", ")))"
    }

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
        let units = Int(sqlite3_value_int64(values[0])) + units(for: values.dropFirst(2), times)
        if charge(context, meter, units) { sqlite3_result_int(context, 1) }
    }

    /// Charges a key that a function builds from columns and looks up.
    ///
    /// - Returns: false when the budget is spent; the function has reported its error then.
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
