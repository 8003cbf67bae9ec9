/// The position that a store has reached in the journal whose jobs are applied to it.
package struct JournalPosition: Sendable, Equatable {
    /// The identity of the journal; nil when there is none.
    package var identity: String?
    /// The last position that was applied; without a journal, the highest sequence of all.
    package var applied: Int64
    /// The id of the job there; nil when that is not known, or no job is there.
    package var id: String?
}

/// A digest of all jobs of the journal that were applied: each job's position, id, content and outcome, and the rows
/// that it wrote, are hashed with the digest before. Two stores with the same digest at one position applied the same
/// jobs, and wrote the same rows.
package struct StateDigest: Sendable, Equatable {
    package internal(set) var position: Int64
    private(set) var hash: [UInt8]

    init(position: Int64, hash: [UInt8] = Array(repeating: 0, count: 16)) {
        self.position = position
        self.hash = hash
    }

    /// Parses ``text``; nil for anything else.
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
    package var text: String { "\(position) \(digits)" }

    package var digits: String { hash.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() }

    /// Adds a job that has been applied.
    ///
    /// - Parameters:
    ///   - outcome: the outcome in the ledger; for a duplicate, the earlier one.
    ///   - rows: the rows that it wrote; nil for a job that wrote nothing.
    mutating func extend(_ job: StoreJob, _ outcome: [UInt8], _ rows: RowDigest?) {
        var bytes = hash
        bytes.reserveCapacity(96 + outcome.count)
        withUnsafeBytes(of: job.sequence.littleEndian) { bytes += $0 }
        bytes += job.id.utf8
        (job.contentDigest ?? job.contentHash)?.withBytes { bytes += $0 }
        bytes += outcome
        let sums = rows?.sums ?? (0, 0)
        for sum in [sums.0, sums.1] { withUnsafeBytes(of: sum.littleEndian) { bytes += $0 } }
        hash = bytes.withUnsafeBytes { ContentHash.hash($0) }
        position = job.sequence
    }

    /// Adds an entry that is no job.
    mutating func extend(_ mark: LogMark) {
        var bytes = hash
        withUnsafeBytes(of: mark.position.littleEndian) { bytes += $0 }
        bytes += mark.content
        hash = bytes.withUnsafeBytes { ContentHash.hash($0) }
        position = mark.position
    }
}
