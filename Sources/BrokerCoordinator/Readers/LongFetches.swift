/// The sources that have so many long fetches that their next one is not tried briefly. A pure value.
struct LongFetches {
    /// The number that one source may have and still be answered quickly: a client that shows a long list and looks up
    /// single objects at the same time.
    static let besideBrief = 4

    /// The long fetches of each source that wait or run; never 0.
    private var counts: [Int: Int] = [:]

    /// Whether the source's next fetch is tried briefly. If not, it counts as a long one at once.
    func triesBriefly(_ source: Int) -> Bool { counts[source, default: 0] < Self.besideBrief }

    /// A fetch turned out to be long, or was not tried briefly.
    mutating func began(from source: Int) { counts[source, default: 0] += 1 }

    /// A long fetch has ended.
    mutating func ended(from source: Int) {
        let rest = counts[source, default: 1] - 1
        counts[source] = rest > 0 ? rest : nil
    }

    /// Whether no long fetch waits or runs.
    var isEmpty: Bool { counts.isEmpty }
}
