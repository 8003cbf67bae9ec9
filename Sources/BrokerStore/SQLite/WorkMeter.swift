internal import BrokerModel
internal import BrokerSQLite
internal import BrokerStaging
internal import CSQLite
internal import Glibc
internal import Synchronization

/// Counts the work of one connection, and ends statements that exceed the budget. Belongs to the connection's thread.
///
/// ```
/// a statement ends      its instructions, exact (SQLITE_STMTSTATUS_VM_STEP), are charged
/// while it runs         the progress handler adds a lower bound, so that ``isOver`` is true in time
/// functions, collations charge the bytes that they read themselves; so do the net changes
/// ```
///
/// When the budget is spent, the operation ends by the first of these:
///
///  1. Predicates call ``PredicateFunctions/work(_:times:for:)`` for each row, which fails then. An error of a function
///     rolls back its statement alone.
///  2. No other statement is begun (``check()``).
///  3. A statement without such a function (it deletes all rows, or foreign keys change others) is interrupted. SQLite
///     then rolls back the whole transaction (sqlite.org/c3ref/interrupt.html); ``Store/apply(_:)`` describes how the
///     job continues.
///
/// Whether a job exceeds its budget depends on the exact sums only, so it is the same when the job is replayed.
final class WorkMeter: StatementMeter {
    /// Instructions between two calls of the progress handler.
    private static let instructionsPerLook = 1_000
    /// A statement is interrupted so many instructions after the budget is spent, so that a function can fail before.
    private static let grace = 10_000

    var budget = WorkBudget.unlimited
    /// The instructions of running statements; a lower bound.
    private var running = 0

    var isOver: Bool { mustEnd || running > 0 && running > budget.remaining }

    /// Whether the job ends with a fault: its budget is spent, or it may take no more memory.
    var mustEnd: Bool { budget.isSpent || refusal != nil }

    /// Why the job ends although its budget is not spent.
    private(set) var refusal: Fault?

    func refuse(_ fault: Fault) { refusal = refusal ?? fault }

    private var isJudged = false

    func judging<Failure: Error>(_ body: () throws(Failure) -> Void) throws(Failure) {
        running = 0
        isJudged = true
        defer { isJudged = false }
        try body()
    }

    /// Throws `overworked` when the operation must end.
    func check() throws(StoreError) {
        if isJudged, mustEnd { throw .overworked }
    }

    /// Units that one job may take; tests lower it.
    var jobLimit = Int.max
    private(set) var newest = 0

    /// Counts the work of another job from now on, or of none.
    func begin(_ budget: WorkBudget) {
        if self.budget.limit != .max { newest = self.budget.spent }
        self.budget = budget
        running = 0
        refusal = nil
    }

    func charge(ended instructions: Int) {
        running = 0
        budget.charge(instructions)
    }

    var activity: WriterActivity?

    /// Counts statements while they run. This object must outlive the connection's last statement.
    func watch(_ database: OpaquePointer) {
        sqlite3_progress_handler(
            database, Int32(Self.instructionsPerLook),
            { meter in
                let meter = Unmanaged<WorkMeter>.fromOpaque(meter!).takeUnretainedValue()
                meter.running += WorkMeter.instructionsPerLook
                meter.activity?.advance()
                let mustEnd = meter.refusal != nil || meter.running - WorkMeter.grace > meter.budget.remaining
                return meter.isJudged && mustEnd ? 1 : 0
            }, Unmanaged.passUnretained(self).toOpaque())
    }
}

extension WorkMeter {
    static func of(_ context: UnsafeMutableRawPointer?) -> WorkMeter {
        Unmanaged<WorkMeter>.fromOpaque(context!).takeUnretainedValue()
    }
}

/// Whether the thread that writes to a store makes progress, for an observer on another thread, such as a watchdog.
///
/// The thread makes progress when one of these changes:
///
///  1. the steps: a job was applied, an attempt to get a lock has ended, or SQLite has executed some instructions
///     (`WorkMeter`), as in a long statement of a migration;
///  2. the bytes that the thread has read and written, as the kernel counts them, also while SQLite copies the WAL.
///
/// A thread that waits for jobs is healthy without progress.
package final class WriterActivity: Sendable {
    package struct Sample: Sendable, Equatable {
        package var isWaiting: Bool
        package var steps: Int
        package var bytes: Int

        package init(isWaiting: Bool = false, steps: Int = 0, bytes: Int = 0) {
            self.isWaiting = isWaiting
            self.steps = steps
            self.bytes = bytes
        }

        /// Whether the thread is healthy, by an earlier sample.
        package func isHealthy(after earlier: Sample) -> Bool { isWaiting || self != earlier }
    }

    private let steps = Atomic<Int>(0)
    private let isWaiting = Atomic<Bool>(false)
    /// The kernel's file of the thread's counters (proc(5)); empty before ``begin()``.
    private let counters = Mutex("")

    package init() {}

    /// The calling thread is the one that works on the store from now on.
    package func begin() {
        var target = [UInt8](repeating: 0, count: 64)
        let count = target.withUnsafeMutableBytes { buffer in
            readlink("/proc/thread-self", buffer.baseAddress!.assumingMemoryBound(to: CChar.self), buffer.count)
        }
        // Without the counters, the steps alone count.
        let thread = String(decoding: target.prefix(max(0, count)), as: UTF8.self)
        counters.withLock { $0 = "/proc/\(thread)/io" }
        advance()
    }

    package func advance() { steps.add(1, ordering: .relaxed) }

    /// Runs `body`, in which the thread waits for work.
    package func wait<Result>(_ body: () -> Result) -> Result {
        isWaiting.store(true, ordering: .relaxed)
        defer { isWaiting.store(false, ordering: .relaxed) }
        return body()
    }

    package var sample: Sample {
        Sample(
            isWaiting: isWaiting.load(ordering: .relaxed), steps: steps.load(ordering: .relaxed),
            bytes: Self.bytes(counters.withLock { $0 }))
    }

    private static func bytes(_ path: String) -> Int {
        guard let file = fopen(path, "r") else { return 0 }
        defer { fclose(file) }
        var buffer = [UInt8](repeating: 0, count: 512)
        let count = fread(&buffer, 1, buffer.count, file)
        let lines = String(decoding: buffer.prefix(count), as: UTF8.self).split(separator: "\n")
        return lines.filter { $0.hasPrefix("rchar") || $0.hasPrefix("wchar") }
            .reduce(0) { $0 &+ (Int($1.drop { $0 != " " }.dropFirst()) ?? 0) }
    }
}
