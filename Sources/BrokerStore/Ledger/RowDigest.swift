internal import BrokerSchema
internal import BrokerStaging

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

    /// - Parameter row: a hash of one row.
    mutating func add(_ row: UInt64) {
        sums.low &+= row
        sums.high &+= RowHash.mixed(row, 0x9E37_79B9_7F4A_7C15)
    }

    /// Adds the digest of another part of the same job.
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
