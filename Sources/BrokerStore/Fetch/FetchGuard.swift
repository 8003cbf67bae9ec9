internal import BrokerStaging
internal import CSQLite
internal import Glibc

/// Interrupts a statement of a fetch that takes too long, or whose client is gone. Belongs to the connection's thread.
final class FetchGuard {
    /// Steps of SQLite's virtual machine between two checks: some ten microseconds, except for the time of patterns,
    /// which check themselves.
    private static let stepsPerLook = 1_000

    private let connection: Connection
    private let limits: FetchLimits
    private var looks = 0
    private let allowance: ProcessorTime?
    private let isWanted: () -> Bool
    /// Why the statement was interrupted; nil when it was not.
    private(set) var failure: FetchFailure?

    init(_ connection: Connection, _ limits: FetchLimits, isWanted: @escaping () -> Bool) {
        self.connection = connection
        self.limits = limits
        allowance = limits.microseconds.map(ProcessorTime.init(microseconds:))
        self.isWanted = isWanted
    }

    /// Runs `body` under guard. The limits hold for each call.
    func watch<Result>(_ body: () throws(FetchFailure) -> Result) throws(FetchFailure) -> Result {
        looks = limits.steps / Self.stepsPerLook
        connection.work.begin(WorkBudget(limit: limits.work))
        let own = Unmanaged.passUnretained(self).toOpaque()
        sqlite3_progress_handler(
            connection.handle, Int32(Self.stepsPerLook),
            { Unmanaged<FetchGuard>.fromOpaque($0!).takeUnretainedValue().look() ? 1 : 0 }, own)
        defer { sqlite3_progress_handler(connection.handle, 0, nil, nil) }
        do throws(FetchFailure) {
            return try body()
        } catch {
            throw failure ?? (connection.work.budget.isSpent ? .tooLong : error)
        }
    }

    /// Whether the fetch has used its time, or is not wanted any more. Called before every pattern, because one alone may
    /// take longer than a thousand steps.
    func mustEnd() -> Bool {
        if !isWanted() { failure = .stopped }
        if allowance?.isSpent() == true || connection.work.budget.isSpent { failure = failure ?? .tooLong }
        return failure != nil
    }

    /// - Returns: whether to interrupt.
    private func look() -> Bool {
        looks -= 1
        if looks < 0 { failure = failure ?? .tooLong }
        return mustEnd()
    }
}

/// Processor time that the calling thread may spend: on a busy machine, a fetch with little work is not interrupted.
private struct ProcessorTime {
    private let spentAt: Int64
    /// In time of a clock that costs next to nothing to read: the processor time cannot be spent before this moment.
    private let notSpentBefore: Int64

    init(microseconds: Int64) {
        spentAt = Self.now(CLOCK_THREAD_CPUTIME_ID) + microseconds
        notSpentBefore = Self.now(CLOCK_MONOTONIC) + microseconds
    }

    func isSpent() -> Bool {
        Self.now(CLOCK_MONOTONIC) >= notSpentBefore && Self.now(CLOCK_THREAD_CPUTIME_ID) >= spentAt
    }

    private static func now(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1_000
    }
}
