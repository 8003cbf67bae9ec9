/// How many scans may be in the order of jobs at a time, learned from those that ended. A pure value.
///
/// One is always allowed; several, when even the slowest of the recent ones would have done all of them in a short
/// time. So cheap scans share a COMMIT, and expensive ones go one by one.
struct ScanConcurrency {
    /// The time that the scans in the order may take together.
    static let microseconds: Int64 = 20_000
    /// More would share a COMMIT at little further gain, and would be too many if they suddenly took long: past costs
    /// say little about future ones.
    static let widest = 4
    /// After this time the slowest counts for half of what it took.
    static let halfLifeMicroseconds: Int64 = 10_000_000

    /// The time of the slowest recent scan. At first, high enough to allow one at a time.
    private var slowest = microseconds
    private var notedAt: Int64?

    /// The number of scans that may be in the order, 1 at least.
    var width: Int { Int(max(1, min(Int64(Self.widest), Self.microseconds / max(1, slowest)))) }

    /// A scan has ended.
    ///
    /// - Parameter now: the time of a clock that never goes back.
    mutating func note(_ microseconds: Int64, at now: Int64) {
        let halvings = (now - (notedAt ?? now)) / Self.halfLifeMicroseconds
        // Halved once for each period; a part of a period is not lost.
        notedAt = (notedAt ?? now) + halvings * Self.halfLifeMicroseconds
        slowest = max(slowest >> min(halvings, 62), microseconds)
        if microseconds == slowest { notedAt = now }
    }
}
