internal import Glibc

/// Lines of the ledger that are not written yet, in memory that is used again.
struct PendingLines {
    struct Line {
        let sequence: Int64
        let isFailure: Bool
        let ended: Int64
        let owner: Int64?
        let id: Range<Int>
        let hash: Range<Int>?
        let body: Range<Int>
    }

    private(set) var lines: [Line] = []
    /// The bytes of the ranges of the lines.
    private(set) var bytes: [UInt8] = []

    var isEmpty: Bool { lines.isEmpty }
    var count: Int { lines.count }

    /// More bytes than usual are not retained.
    private static let usualBytes = 64 << 10

    mutating func removeAll() {
        lines.removeAll(keepingCapacity: true)
        bytes.removeAll(keepingCapacity: bytes.count <= Self.usualBytes)
    }

    mutating func add(_ outcome: StoredOutcome, ofJob id: String, now: Int64) {
        var id = id
        let idRange = id.withUTF8 { append($0) }
        let hashRange = outcome.contentHash?.withBytes { append($0.bindMemory(to: UInt8.self)) }
        // Similar jobs have one body.
        let last = lines.last?.body
        let isSame = last.map { hasBytes(outcome.body, at: $0) } ?? false
        lines.append(
            Line(
                sequence: outcome.sequence, isFailure: outcome.isFailure, ended: now,
                owner: outcome.owner.map { Int64($0.user) }, id: idRange, hash: hashRange,
                body: isSame ? last! : outcome.body.withUnsafeBufferPointer { append($0) }))
    }

    private func hasBytes(_ body: [UInt8], at range: Range<Int>) -> Bool {
        guard body.count == range.count else { return false }
        return body.withUnsafeBytes { body in
            bytes.withUnsafeBytes { bytes in
                range.isEmpty || memcmp(body.baseAddress!, bytes.baseAddress! + range.lowerBound, range.count) == 0
            }
        }
    }

    private mutating func append(_ added: UnsafeBufferPointer<UInt8>) -> Range<Int> {
        bytes.append(contentsOf: added)
        return bytes.count - added.count..<bytes.count
    }
}
