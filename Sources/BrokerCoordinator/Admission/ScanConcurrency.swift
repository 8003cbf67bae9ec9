/// How many searches may be in the order of jobs at a time, learned from those that ended. A pure value.
///
/// One always may; several, when even the slowest of late would have them done in no time together. So cheap ones share a
/// COMMIT, and dear ones go one by one.
struct ScanConcurrency {
    /// What those in the order may take together.
    static let microseconds: Int64 = 20_000
    /// More share a COMMIT at little further gain, and would be much if they suddenly took long: what was cheap says
    /// little about what comes.
    static let widest = 4
    /// After such a time, the slowest counts for half of what it took.
    static let halfLifeMicroseconds: Int64 = 10_000_000

    /// The slowest of late. At first, as much as lets one go on alone.
    private var slowest = microseconds
    private var notedAt: Int64?

    /// Searches that may be in the order: 1 at least.
    var width: Int { Int(max(1, min(Int64(Self.widest), Self.microseconds / max(1, slowest)))) }

    /// A search took so long.
    ///
    /// - Parameter now: of a clock that never goes back.
    mutating func note(_ microseconds: Int64, at now: Int64) {
        let halvings = (now - (notedAt ?? now)) / Self.halfLifeMicroseconds
        // Not halved twice for one time, and nothing is lost of a part of one.
        notedAt = (notedAt ?? now) + halvings * Self.halfLifeMicroseconds
        slowest = max(slowest >> min(halvings, 62), microseconds)
        if microseconds == slowest { notedAt = now }
    }
}
