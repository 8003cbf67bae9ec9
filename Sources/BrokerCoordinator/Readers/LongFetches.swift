/// Which sources have asked for so much that nothing of theirs is tried briefly. A pure value.
struct LongFetches {
    /// What one source may have waiting and still be answered quickly beside it: a client that shows a long list and looks
    /// up single objects at the same time.
    static let besideBrief = 4

    /// By source: long ones that wait or run; never 0.
    private var counts: [Int: Int] = [:]

    /// Whether the source's next fetch is tried briefly. If not, it counts among the long ones at once.
    func triesBriefly(_ source: Int) -> Bool { counts[source, default: 0] < Self.besideBrief }

    /// A fetch turned out to be long, or was not tried.
    mutating func began(from source: Int) { counts[source, default: 0] += 1 }

    /// A long fetch is done.
    mutating func ended(from source: Int) {
        let rest = counts[source, default: 1] - 1
        counts[source] = rest > 0 ? rest : nil
    }

    /// No long fetch waits or runs.
    var isEmpty: Bool { counts.isEmpty }
}
