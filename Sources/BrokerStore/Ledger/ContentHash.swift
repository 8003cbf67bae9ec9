internal import BrokerJSON
package import BrokerStaging
internal import CSQLite

/// SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, 2012), under a fixed key.
///
/// It detects whether a repeated job has the same content. It does not resist deliberate collisions; a sender who finds
/// one could only harm the jobs whose ids it knows.
package enum ContentHash {
    package static let byteCount = 16

    package static func hash(_ bytes: UnsafeRawBufferPointer, key: (UInt64, UInt64) = (0x6272_6F6B_6572, 0x6A6F_6273))
        -> [UInt8]
    {
        var state = SipState(key, isLong: true)
        state.absorb(bytes, last: UInt64(bytes.count & 0xFF) << 56)
        let (low, high) = state.finish()
        return withUnsafeBytes(of: (low.littleEndian, high.littleEndian), Array.init)
    }

    fileprivate struct SipState {
        /// Two rounds for each word and four at the end; otherwise one and three.
        private let isLong: Bool
        private var v0: UInt64
        private var v1: UInt64
        private var v2: UInt64
        private var v3: UInt64

        init(_ key: (UInt64, UInt64), isLong: Bool) {
            self.isLong = isLong
            v0 = key.0 ^ 0x736F_6D65_7073_6575
            v1 = key.1 ^ 0x646F_7261_6E64_6F6D ^ 0xEE
            v2 = key.0 ^ 0x6C79_6765_6E65_7261
            v3 = key.1 ^ 0x7465_6462_7974_6573
        }

        mutating func absorb(_ word: UInt64) { absorb(word, isLong: isLong) }

        @inline(__always)
        private mutating func absorb(_ word: UInt64, isLong: Bool) {
            v3 ^= word
            round()
            if isLong { round() }
            v0 ^= word
        }

        /// In registers, and without a test for each word.
        @inline(__always)
        private mutating func absorb(words bytes: UnsafeRawBufferPointer, isLong: Bool) {
            var state = self
            for word in 0..<bytes.count / 8 {
                let word = bytes.loadUnaligned(fromByteOffset: word * 8, as: UInt64.self)
                state.absorb(UInt64(littleEndian: word), isLong: isLong)
            }
            self = state
        }

        /// - Parameter last: the beginning of the last word, which has the bytes after the last whole word.
        mutating func absorb(_ bytes: UnsafeRawBufferPointer, last: UInt64) {
            if isLong { absorb(words: bytes, isLong: true) } else { absorb(words: bytes, isLong: false) }
            var last = last
            for (position, byte) in bytes.dropFirst(bytes.count & ~7).enumerated() {
                last |= UInt64(byte) << (8 * UInt64(position))
            }
            absorb(last)
        }

        mutating func finish() -> (UInt64, UInt64) {
            v2 ^= 0xEE
            for _ in 0..<(isLong ? 4 : 3) { round() }
            let low = v0 ^ v1 ^ v2 ^ v3
            v1 ^= 0xDD
            for _ in 0..<(isLong ? 4 : 3) { round() }
            return (low, v0 ^ v1 ^ v2 ^ v3)
        }

        @inline(__always)
        private mutating func round() {
            v0 &+= v1
            v1 = rotate(v1, 13) ^ v0
            v0 = rotate(v0, 32)
            v2 &+= v3
            v3 = rotate(v3, 16) ^ v2
            v0 &+= v3
            v3 = rotate(v3, 21) ^ v0
            v2 &+= v1
            v1 = rotate(v1, 17) ^ v2
            v2 = rotate(v2, 32)
        }

        @inline(__always)
        private func rotate(_ word: UInt64, _ count: UInt64) -> UInt64 { word << count | word >> (64 - count) }
    }
}

/// Hashes fields with 128 bits of output, each with its length, so that no two sequences of fields are the same bytes.
package struct FieldHasher {
    /// The first byte of each hash that ``finish()`` returns.
    private static let marker: UInt8 = 3

    /// SipHash-1-3: a job's content is hashed byte by byte, which with SipHash-2-4 took 5 % of a load that changes nothing.
    private var state = ContentHash.SipState((0x6272_6F6B_6572, 0x6669_656C_6473), isLong: false)

    package init() {}

    package mutating func add(_ number: UInt64) { state.absorb(number) }

    package mutating func add(_ bytes: UnsafeRawBufferPointer) {
        state.absorb(UInt64(bytes.count))
        state.absorb(bytes, last: 0)
    }

    package mutating func add(_ text: String) {
        var text = text
        text.withUTF8 { add(UnsafeRawBufferPointer($0)) }
    }

    /// 32 hexadecimal digits.
    func digits() -> String {
        var state = state
        let (low, high) = state.finish()
        return [low, high].map(\.hexadecimalText).joined()
    }

    /// The marker and 16 bytes.
    package func finish() -> JobHash {
        var state = state
        let (low, high) = state.finish()
        return withUnsafeTemporaryAllocation(byteCount: 17, alignment: 1) { bytes in
            bytes[0] = Self.marker
            bytes.storeBytes(of: low.littleEndian, toByteOffset: 1, as: UInt64.self)
            bytes.storeBytes(of: high.littleEndian, toByteOffset: 9, as: UInt64.self)
            return JobHash(UnsafeRawBufferPointer(bytes))
        }
    }
}

/// The versions of all that decides outcomes besides jobs, model and limits: equal stores stay equal while these are.
package struct ApplicationFingerprint: Sendable, Equatable {
    private struct Fact: Sendable, Equatable {
        let name: String
        let text: String
    }

    private let facts: [Fact]

    /// - Parameter statistics: those of ANALYZE in the store, on which SQLite's plans depend; nil for none.
    package init(_ plan: StagingPlan, statistics: String? = nil) {
        var facts = [
            Fact(name: "broker", text: "\(JobOperation.rules)"),
            Fact(name: "sqlite", text: String(cString: sqlite3_sourceid())),
        ]
        for (name, text) in ConversionFacts.of(plan.model) {
            // The changes of a time zone are some hundred.
            facts.append(Fact(name: name, text: text.utf8.count > 64 ? Self.digits(text, count: 16) : text))
        }
        if let statistics { facts.append(Fact(name: "statistics", text: Self.digits(statistics, count: 16))) }
        self.facts = facts
    }

    /// Another server's, of which nothing else is known.
    package init(digits: String) { facts = [Fact(name: Self.unknown, text: digits)] }

    private static let unknown = "digits"

    package init?(_ text: String) {
        var facts: [Fact] = []
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { return nil }
            facts.append(Fact(name: String(parts[0]), text: String(parts[1])))
        }
        self.facts = facts
    }

    package var text: String { facts.map { "\($0.name)=\($0.text)" }.joined(separator: "\n") }

    package var digits: String {
        if facts.count == 1, facts[0].name == Self.unknown { return facts[0].text }
        return Self.digits(text, count: 16)
    }

    /// The parts that differ: `sqlite was A, is B`.
    package func differences(from earlier: ApplicationFingerprint) -> [String] {
        func texts(_ fingerprint: ApplicationFingerprint) -> [String: String] {
            Dictionary(fingerprint.facts.map { ($0.name, $0.text) }) { $1 }
        }
        guard earlier.facts.first?.name != Self.unknown else { return [] }
        let (before, now) = (texts(earlier), texts(self))
        return Set(before.keys).union(now.keys).sorted().compactMap { name in
            guard before[name] != now[name] else { return nil }
            return "\(name) was \(before[name] ?? "absent"), is \(now[name] ?? "absent")"
        }
    }

    private static func digits(_ text: String, count: Int) -> String {
        let hash = Array(text.utf8).withUnsafeBytes { ContentHash.hash($0) }
        return String(hash.map(\.hexadecimalText).joined().prefix(count))
    }
}

/// The position that a store has reached in the journal whose jobs are applied to it.
package struct JournalPosition: Sendable, Equatable {
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
        package let digits: String
    }

    package static let checkpointInterval: Int64 = 1_000

    package internal(set) var position: Int64
    private(set) var hash: [UInt8]
    /// The time of the entry, in milliseconds since 1970, never before that of an earlier one; nil for a journal.
    package private(set) var time: Int64?
    /// The newest since the store was opened; nil for none, and for a journal.
    package private(set) var checkpoint: Checkpoint?

    init(position: Int64, hash: [UInt8] = Array(repeating: 0, count: 16), time: Int64? = nil) {
        self.position = position
        self.hash = hash
        self.time = time
    }

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

    package var digits: String { hash.map(\.hexadecimalText).joined() }

    /// Adds a job that has been applied, with its outcome in the ledger (of a duplicate, the earlier one) and the rows that it wrote.
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

/// An entry of a log that is no job: a store that applies it, or refuses it, moves to its position.
package struct LogMark: Sendable {
    package let position: Int64
    package let time: Int64
    package let content: [UInt8]

    package init(position: Int64, time: Int64, content: [UInt8]) {
        self.position = position
        self.time = time
        self.content = content
    }
}

/// A digest of the rows that a job writes. It does not depend on the order of the rows, so it does not depend on which
/// jobs share a statement.
///
/// - For a first step that merges: each staged row with its values, its state, and its row key; the links that end, and
///   positions in ordered relationships.
/// - For other steps: each row and each link that changes, also by foreign keys, with its key and its values after the
///   change.
///
/// It detects stores that have diverged. It does not resist deliberate collisions.
struct RowDigest: Equatable, Sendable {
    private(set) var sums: (low: UInt64, high: UInt64) = (0, 0)

    static func == (left: RowDigest, right: RowDigest) -> Bool { left.sums == right.sums }

    mutating func add(_ row: UInt64) {
        sums.low &+= row
        sums.high &+= RowHash.mixed(row, 0x9E37_79B9_7F4A_7C15)
    }

    mutating func add(_ other: RowDigest) {
        sums.low &+= other.sums.low
        sums.high &+= other.sums.high
    }
}

/// A hash of the values of one row, in their order: the same on every machine.
struct RowHash {
    private(set) var value: UInt64

    init(_ seed: UInt64) { value = Self.mixed(seed, 0xD6E8_FEB8_6659_FD93) }

    @inline(__always)
    static func mixed(_ one: UInt64, _ other: UInt64) -> UInt64 {
        let (high, low) = (one ^ 0xA076_1D64_78BD_642F).multipliedFullWidth(by: other ^ 0xE703_7ED1_A0B4_28DB)
        return high ^ low
    }

    @inline(__always)
    mutating func add(_ word: UInt64) { value = Self.mixed(value, word) &+ word }

    @inline(__always)
    mutating func add(_ cell: Cell) {
        switch cell.kind {
        case .integer: add(UInt64(bitPattern: cell.integer))
        case .real: add(cell.real.bitPattern)
        case .text, .blob: add(cell.bytes)
        case .object: add(UInt64(cell.row))
        case .null, .absent: break
        }
        add(UInt64(cell.kind.rawValue))
    }

    private mutating func add(_ bytes: UnsafeBufferPointer<UInt8>) {
        let bytes = UnsafeRawBufferPointer(bytes)
        var place = 0
        while place + 8 <= bytes.count {
            add(UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self)))
            place += 8
        }
        var last = UInt64(bytes.count) << 56
        while place < bytes.count {
            last = last << 8 | UInt64(bytes[place])
            place += 1
        }
        add(last)
    }
}
