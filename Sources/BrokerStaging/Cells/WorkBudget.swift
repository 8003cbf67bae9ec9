/// A limit on work, in units that are the same on every machine.
///
/// A unit is about one instruction of SQLite's virtual machine, 10 to 20 ns. Work is counted, not timed: a job that is
/// replayed from the journal must end as it did before.
package struct WorkBudget: Sendable {
    /// Compiling a regular expression takes 5 us for each of its instructions.
    package static let unitsPerCompiledInstruction = 250

    package let limit: Int
    package private(set) var spent = 0

    package init(limit: Int) { self.limit = limit }

    /// For work with another limit, such as the time allowance of a fetch.
    package static var unlimited: WorkBudget { WorkBudget(limit: .max) }

    /// The budget for patterns and tombstones while a job is staged: some seconds of a worker.
    static var staging: WorkBudget { WorkBudget(limit: 250_000_000) }

    /// The share of one part of a job. Parts are staged at the same time and in any order, so each has a limit of its
    /// own, and together they have the limit of the job.
    ///
    /// - Parameters:
    ///   - bytes: size of the part's text.
    ///   - total: size of the job's text.
    static func staging(_ bytes: Int, of total: Int) -> WorkBudget {
        guard bytes < total else { return staging }
        return WorkBudget(limit: total.dividingFullWidth(bytes.multipliedFullWidth(by: staging.limit)).quotient)
    }

    package var isSpent: Bool { spent > limit }

    package var remaining: Int { max(0, limit - spent) }

    package mutating func charge(_ units: Int) {
        let (sum, isBeyondCounting) = spent.addingReportingOverflow(units)
        spent = isBeyondCounting ? .max : sum
    }

    /// Adds the units for the bytes of the job itself.
    package mutating func raise(by units: Int) { self = WorkBudget(limit: limit.saturatingAdd(units), spent: spent) }

    private init(limit: Int, spent: Int) {
        self.limit = limit
        self.spent = spent
    }
}

extension Int {
    fileprivate func saturatingAdd(_ other: Int) -> Int {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? .max : sum
    }
}
