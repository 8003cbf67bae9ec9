internal import BrokerJSON
internal import BrokerModel

/// How many keys of a list are written.
struct KeyRoom {
    /// Keys that may still be written.
    var count = Int.max
    /// No key is written when the whole text has more bytes.
    var bytes = Int.max

    /// Whether one more key is written.
    mutating func take(after json: JSONWriter) -> Bool {
        guard count > 0, json.count <= bytes else { return false }
        count -= 1
        return true
    }
}

/// The keys in the answer to a dry run.
extension JobTally {
    /// The keys of each entity and change: as many as a person reads.
    static let exampleCount = 10
    /// Bytes of all of them, as long as no single key is longer.
    private static let exampleBytes = 32 << 10

    /// As ``Outcome/keys``, with a few keys in each list, and without empty lists and objects.
    func examples(of changes: [(entity: String, counts: ChangeCounts)]) throws(MergeFailure) -> [UInt8] {
        try changedKeys(
            changes.filter(\.counts.hasChanges), KeyRoom(count: Self.exampleCount, bytes: Self.exampleBytes))
    }
}
