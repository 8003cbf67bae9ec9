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
    /// The digest at one position, which servers that share a log compare.
    package struct Checkpoint: Sendable, Equatable {
        package let position: Int64
        /// As ``StateDigest/digits``.
        package let digits: String

        package init(position: Int64, digits: String) {
            self.position = position
            self.digits = digits
        }
    }

    /// Positions from one checkpoint to the next.
    package static let checkpointInterval: Int64 = 1_000

    package internal(set) var position: Int64
    private(set) var hash: [UInt8]
    /// The time of the entry there, in milliseconds since 1970: no later entry has an earlier one. Nil for a journal, which
    /// stores rising times.
    package private(set) var time: Int64?
    /// The newest since the store was opened; nil for none, and for a journal.
    package private(set) var checkpoint: Checkpoint?

    init(position: Int64, hash: [UInt8] = Array(repeating: 0, count: 16), time: Int64? = nil) {
        self.position = position
        self.hash = hash
        self.time = time
    }

    /// Parses ``text``; nil for anything else.
    init?(_ text: String) {
        let parts = text.split(separator: " ")
        guard 2...3 ~= parts.count, let position = Int64(parts[0]), parts[1].utf8.count == 32 else { return nil }
        let time = parts.count == 3 ? Int64(parts[2]) : nil
        guard parts.count == 2 || time != nil else { return nil }
        let digits = Array(parts[1].utf8)
        let hash = stride(from: 0, to: 32, by: 2).compactMap {
            UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)
        }
        guard hash.count == 16 else { return nil }
        self.init(position: position, hash: hash, time: time)
    }

    /// The position, 32 hexadecimal digits, and the time if there is one.
    package var text: String { "\(position) \(digits)" + (time.map { " \($0)" } ?? "") }

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
        moved(to: job.sequence, at: job.now, bytes)
    }

    /// Adds an entry that is no job.
    mutating func extend(_ mark: LogMark) {
        var bytes = hash
        withUnsafeBytes(of: mark.position.littleEndian) { bytes += $0 }
        bytes += mark.content
        moved(to: mark.position, at: mark.time, bytes)
    }

    private mutating func moved(to position: Int64, at time: Int64, _ bytes: [UInt8]) {
        hash = bytes.withUnsafeBytes { ContentHash.hash($0) }
        self.position = position
        guard let earlier = self.time else { return }
        self.time = max(earlier, time)
        guard position % Self.checkpointInterval == 0 else { return }
        checkpoint = Checkpoint(position: position, digits: digits)
    }
}
