/// How many scans may be in the order of jobs at a time, learned from those that ended. A pure value.
///
/// One is always allowed; several, when even the slowest of the recent ones would have done all of them in a short
/// time, but not before the first ``firstScans`` have ended. So cheap scans share a COMMIT, and expensive ones go one by one.
struct ScanConcurrency {
    /// The time that the scans in the order may take together.
    static let microseconds: Int64 = 20_000
    /// After this time the slowest counts for half of what it took.
    static let halfLifeMicroseconds: Int64 = 10_000_000
    /// Fewer say little about later ones.
    static let firstScans = 8

    /// The time of the slowest recent scan. At first, high enough to allow one at a time.
    private var slowest = microseconds
    private var notedAt: Int64?
    /// The slowest of the first scans, and how many of them have not ended.
    private var first = (slowest: Int64(0), left: firstScans)

    /// Even the slowest recent scan took so long that no other may be in the order beside one.
    var isSlow: Bool { slowest > Self.microseconds / 2 }

    /// The number of scans that may be in the order, 1 at least.
    func width(atMost widest: Int) -> Int { Int(max(1, min(Int64(widest), Self.microseconds / max(1, slowest)))) }

    /// A scan has ended.
    ///
    /// - Parameter now: the time of a clock that never goes back.
    mutating func note(_ microseconds: Int64, at now: Int64) {
        if first.left > 0 {
            first = (max(first.slowest, microseconds), first.left - 1)
            if first.left == 0 { slowest = min(slowest, first.slowest) }
        }
        let halvings = (now - (notedAt ?? now)) / Self.halfLifeMicroseconds
        // Halved once for each period; a part of a period is not lost.
        notedAt = (notedAt ?? now) + halvings * Self.halfLifeMicroseconds
        slowest = max(slowest >> min(halvings, 62), microseconds)
        if microseconds == slowest { notedAt = now }
    }
}
