/// How far a store has come in the log that it is fed from.
public struct JournalPosition: Sendable, Equatable {
    /// Which log; nil when there is none.
    public var identity: String?
    /// The newest position whose job was applied; without a log, the newest sequence of all.
    public var applied: Int64
    /// The id of the job there; nil when that is not known.
    public var id: String?
}

/// What a store has become by the jobs of its log, in a few bytes: each job's place, id, content and outcome, and the rows that it
/// wrote, are hashed with what was before. Two stores with the same at one position were fed alike, and wrote the same rows.
public struct StateDigest: Sendable, Equatable {
    public internal(set) var position: Int64
    private(set) var hash: [UInt8]

    init(position: Int64, hash: [UInt8] = Array(repeating: 0, count: 16)) {
        self.position = position
        self.hash = hash
    }

    /// As ``text`` has it; nil for anything else.
    init?(_ text: String) {
        let parts = text.split(separator: " ")
        guard parts.count == 2, let position = Int64(parts[0]), parts[1].utf8.count == 32 else { return nil }
        let digits = Array(parts[1].utf8)
        let hash = stride(from: 0, to: 32, by: 2).compactMap {
            UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)
        }
        guard hash.count == 16 else { return nil }
        self.init(position: position, hash: hash)
    }

    /// The position and 32 hexadecimal digits.
    public var text: String { "\(position) \(digits)" }

    public var digits: String { hash.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() }

    /// A job has been applied.
    ///
    /// - Parameters:
    ///   - outcome: what the ledger keeps of it; of a duplicate, what it kept before.
    ///   - rows: what it wrote; nil of a job that wrote nothing.
    mutating func extend(_ job: StoreJob, _ outcome: [UInt8], _ rows: RowDigest?) {
        var bytes = hash
        bytes.reserveCapacity(96 + outcome.count)
        withUnsafeBytes(of: job.sequence.littleEndian) { bytes += $0 }
        bytes += job.id.utf8
        bytes += job.contentDigest ?? job.contentHash ?? []
        bytes += outcome
        let sums = rows?.sums ?? (0, 0)
        for sum in [sums.0, sums.1] { withUnsafeBytes(of: sum.littleEndian) { bytes += $0 } }
        hash = bytes.withUnsafeBytes { ContentHash.hash($0) }
        position = job.sequence
    }
}
