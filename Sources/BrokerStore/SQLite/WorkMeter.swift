internal import BrokerStaging
internal import CSQLite

/// Counts the work of one connection, and ends statements that exceed the budget. Belongs to the connection's thread.
///
/// ```
/// a statement ends      its instructions, exact (SQLITE_STMTSTATUS_VM_STEP), are charged
/// while it runs         the progress handler adds what it has taken at least, so that ``isOver`` is true in time
/// functions, collations charge the bytes that they read themselves
/// ```
///
/// A statement is not interrupted by SQLITE_INTERRUPT: SQLite would undo the whole transaction, with the jobs before
/// (sqlite.org/c3ref/interrupt.html). Predicates call ``PredicateFunctions/work`` for each row instead, which fails
/// when the budget is spent, and an error of a function undoes its statement alone.
///
/// Whether a job exceeds its budget depends on the exact sums only, so it is the same when the job is replayed.
final class WorkMeter {
    /// Instructions between two calls of the progress handler.
    private static let instructionsPerLook = 1_000

    var budget = WorkBudget.unlimited
    /// Of statements that have not ended; a lower bound.
    private var running = 0

    /// Nothing more may be done for the job.
    var isOver: Bool { budget.isSpent || running > 0 && running > budget.remaining }

    /// Units that one job may take; tests lower it.
    var jobLimit = JobWork.maximum
    /// Units that the newest job took.
    private(set) var newest = 0

    /// From now on the work of another job is counted, or of none.
    func begin(_ budget: WorkBudget) {
        if self.budget.limit != .max { newest = self.budget.spent }
        self.budget = budget
        running = 0
    }

    /// A statement has ended.
    func charge(ended instructions: Int) {
        running = 0
        budget.charge(instructions)
    }

    /// Counts statements while they run. This object must outlive the connection's last statement.
    func watch(_ database: OpaquePointer) {
        sqlite3_progress_handler(
            database, Int32(Self.instructionsPerLook),
            { meter in
                Unmanaged<WorkMeter>.fromOpaque(meter!).takeUnretainedValue().running += WorkMeter.instructionsPerLook
                return 0
            }, Unmanaged.passUnretained(self).toOpaque())
    }
}

extension WorkMeter {
    /// The meter that was given to SQLite with a function.
    static func of(_ context: UnsafeMutableRawPointer?) -> WorkMeter {
        Unmanaged<WorkMeter>.fromOpaque(context!).takeUnretainedValue()
    }
}
