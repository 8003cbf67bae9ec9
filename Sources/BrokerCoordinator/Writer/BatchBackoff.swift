/// Whether the next transaction should merge its jobs as a batch. When one job of a batch is at fault, all of them are
/// merged twice; so after such a transaction some are merged job by job, more each time. A pure value.
struct BatchBackoff {
    /// The most transactions in a row that are merged job by job: faults may become rare again.
    static let longest = 32

    private var length = 0
    private var left = 0

    /// Called once for each transaction.
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
