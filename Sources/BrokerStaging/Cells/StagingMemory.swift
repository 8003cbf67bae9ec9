/// Counts the memory of a staging context, and asks the allowance in steps, so that a row costs no call.
struct StagingMemory {
    /// The first step, and the largest step beyond the memory that is needed: small jobs use little.
    private static let firstStep = 1 << 10
    private static let largestStep = 64 << 10

    private let allowance: (any StagingAllowance)?
    private var granted = 0
    private var used = 0

    /// - Parameter allowance: nil grants all.
    init(_ allowance: (any StagingAllowance)?) { self.allowance = allowance }

    /// Whether so much more may be used.
    @inline(__always)
    mutating func take(_ bytes: Int) -> Bool {
        used += bytes
        return used <= granted || ask()
    }

    private mutating func ask() -> Bool {
        guard let allowance else {
            granted = .max
            return true
        }
        let wanted = max(min(Self.largestStep, max(Self.firstStep, granted)), used - granted)
        guard allowance.take(wanted) else { return false }
        granted += wanted
        return true
    }
}
