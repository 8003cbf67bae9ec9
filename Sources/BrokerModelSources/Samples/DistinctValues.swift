/// Whether the values at a key are distinct. Bounded: it stops counting when they are not.
struct DistinctValues {
    private static let mostValues = 1 << 20
    /// So many repetitions are enough.
    private static let mostRepetitions = 64

    private var values: Set<Int> = []
    private(set) var repetitions = 0
    /// More values than are compared.
    private var isCut = false

    /// All values differ from each other.
    var areUnique: Bool { repetitions == 0 && !isCut && !values.isEmpty }

    mutating func insert(_ hash: Int) {
        guard repetitions <= Self.mostRepetitions, !isCut else { return }
        if !values.insert(hash).inserted { repetitions += 1 }
        isCut = values.count > Self.mostValues
        if repetitions > Self.mostRepetitions || isCut { values = [] }
    }

    func merged(with other: DistinctValues) -> DistinctValues {
        var merged = self
        merged.repetitions += other.repetitions
        for value in other.values { merged.insert(value) }
        merged.isCut = merged.isCut || other.isCut
        return merged
    }
}
