/// Whether jobs are worth a try together. Where one is at fault, the work on all of them is done twice; so after such a
/// transaction some go by one by one, more each time. A pure value.
struct BatchBackoff {
    /// Transactions that are not tried, at most: jobs at fault are rare again some day.
    static let longest = 32

    private var length = 0
    private var left = 0

    /// Asked once for each transaction.
    mutating func allows() -> Bool {
        guard left > 0 else { return true }
        left -= 1
        return false
    }

    mutating func note(isTogether: Bool) {
        length = isTogether ? 0 : min(Self.longest, max(1, 2 * length))
        left = length
    }
}
