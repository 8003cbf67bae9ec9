internal import BrokerSchema
internal import BrokerModel
internal import BrokerStaging
internal import CSQLite

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
