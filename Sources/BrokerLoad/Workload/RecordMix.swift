/// The effect of a record on the store.
package enum RecordKind: String, CaseIterable, Sendable {
    /// With a new identity.
    case new
    /// With an existing identity and other values.
    case changed
    /// Just as it is there.
    case unchanged
    /// One that is refused.
    case invalid
}

/// In which shares the kinds of records come.
///
/// The shares are exact: they hold for each ``period`` of records from the first on, in an order of the seed's.
package struct RecordMix: Sendable, Equatable {
    /// No larger: a block of so many is shuffled at once.
    static let largestPeriod = 10_000

    /// In lowest terms; kinds without a share are omitted.
    package let shares: [RecordKind: Int]

    package static let allNew = RecordMix([.new: 1])

    init(_ shares: [RecordKind: Int]) {
        let divisor = shares.values.reduce(0, Self.greatestCommonDivisor)
        self.shares = shares.filter { $0.value > 0 }.mapValues { $0 / max(1, divisor) }
    }

    /// Reads `new:80,changed:10,unchanged:5,invalid:5`.
    package init(parsing text: String) throws(LoadError) {
        let kinds = RecordKind.allCases.map(\.rawValue).joined(separator: ", ")
        var shares: [RecordKind: Int] = [:]
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let pair = part.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
            guard pair.count == 2, let kind = RecordKind(rawValue: pair[0]), let share = Int(pair[1]), share >= 0 else {
                throw LoadError(
                    .usage,
                    "--mix: \"\(part)\" is no KIND:SHARE, where the kinds are \(kinds) and a share is a whole number.")
            }
            guard shares.updateValue(share, forKey: kind) == nil else {
                throw LoadError(.usage, "--mix: \(kind.rawValue) has two shares; give one.")
            }
        }
        self.init(shares)
        guard period > 0 else { throw LoadError(.usage, "--mix: all shares are 0; give at least one.") }
        guard period <= Self.largestPeriod else {
            throw LoadError(
                .usage, "--mix: the shares add up to \(period) in lowest terms, and at most to \(Self.largestPeriod).")
        }
    }

    /// Records after which the shares are exact again.
    package var period: Int { shares.values.reduce(0) { $0.addingReportingOverflow($1).overflow ? .max : $0 + $1 } }

    package var hasInvalid: Bool { shares[.invalid] != nil }
    /// Some records are of what must be there before.
    package var needsExisting: Bool { shares[.changed] != nil || shares[.unchanged] != nil }

    package var text: String {
        RecordKind.allCases.compactMap { kind in shares[kind].map { "\(kind.rawValue):\($0)" } }.joined(separator: ",")
    }

    private static func greatestCommonDivisor(_ a: Int, _ b: Int) -> Int {
        b == 0 ? a : greatestCommonDivisor(b, a % b)
    }
}

/// The kinds of a mix, one after the other.
struct MixOrder: Sendable {
    private var block: [RecordKind]
    private var random: LoadRandom
    private var place: Int

    init(_ mix: RecordMix, seed: UInt64) {
        block = RecordKind.allCases.flatMap { [RecordKind](repeating: $0, count: mix.shares[$0] ?? 0) }
        random = LoadRandom(seed: seed)
        place = block.count
    }

    mutating func next() -> RecordKind {
        if place == block.count {
            if block.count > 1 { block.shuffle(using: &random) }
            place = 0
        }
        place += 1
        return block[place - 1]
    }
}
