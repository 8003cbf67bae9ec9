/// Whether the values at a key are distinct. It stops counting when they are not, and when the budget ends.
struct DistinctValues {
    /// So many repetitions are enough.
    private static let mostRepetitions = 64

    private var values: Set<Int> = []
    private(set) var repetitions = 0
    /// More values than are compared.
    private var isCut = false

    /// All values differ from each other.
    var areUnique: Bool { repetitions == 0 && !isCut && !values.isEmpty }

    mutating func insert(_ hash: Int, _ budget: EvidenceBudget) {
        guard repetitions <= Self.mostRepetitions, !isCut else { return }
        if !values.insert(hash).inserted { repetitions += 1 } else { isCut = !budget.takeValue() }
        if repetitions > Self.mostRepetitions || isCut { values = [] }
    }

    func merged(with other: DistinctValues) -> DistinctValues {
        var merged = self
        merged.repetitions += other.repetitions
        for value in other.values where !merged.values.insert(value).inserted { merged.repetitions += 1 }
        merged.isCut = merged.isCut || other.isCut
        return merged
    }
}
