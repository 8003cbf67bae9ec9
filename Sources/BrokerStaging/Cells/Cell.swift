internal import Glibc

/// One column's value of one staged row: sixteen bytes, no ownership.
///
/// Text and blobs point into memory that the staged rows own: the job's text, its unescaped strings or the context's
/// own `ByteArena`. A cell is therefore valid exactly as long as its ``StagedRows``.
// Public only for speed, like the types of rows and of JSON values: as `package`, a load that changes nothing was 20 % slower.
@frozen public struct Cell {
    @frozen public enum Kind: UInt8 {
        /// The record lacks the value: the column does not change.
        case absent = 0
        case null = 1
        case integer = 2
        case real = 3
        case text = 4
        case blob = 5
        /// A link: the payload is the row of the destination's staged table.
        case object = 6
    }

    public let kind: Kind
    /// Number of bytes of text or blob; for a link, the source offset.
    public let count: UInt32
    @usableFromInline let payload: UInt64

    @inlinable init(kind: Kind, count: UInt32 = 0, payload: UInt64 = 0) {
        self.kind = kind
        self.count = count
        self.payload = payload
    }

    @inlinable public static var absent: Cell { Cell(kind: .absent) }
    @inlinable public static var null: Cell { Cell(kind: .null) }
    @inlinable public static func integer(_ value: Int64) -> Cell {
        Cell(kind: .integer, payload: UInt64(bitPattern: value))
    }
    /// Zero has one form, as in SQLite's comparisons: -0.0 becomes 0.0.
    @inlinable public static func real(_ value: Double) -> Cell {
        Cell(kind: .real, payload: value == 0 ? 0 : value.bitPattern)
    }
    @inlinable public static func text(_ bytes: UnsafeBufferPointer<UInt8>) -> Cell {
        Cell(kind: .text, count: UInt32(bytes.count), payload: UInt64(UInt(bitPattern: bytes.baseAddress)))
    }
    @inlinable public static func blob(_ bytes: UnsafeBufferPointer<UInt8>) -> Cell {
        Cell(kind: .blob, count: UInt32(bytes.count), payload: UInt64(UInt(bitPattern: bytes.baseAddress)))
    }
    /// A link to the destination's staged row.
    @inlinable static func object(row: Int, sourceOffset: UInt32) -> Cell {
        Cell(kind: .object, count: sourceOffset, payload: UInt64(row))
    }
    /// A link that ended.
    @inlinable static func unlinked(sourceOffset: UInt32) -> Cell { Cell(kind: .null, count: sourceOffset) }

    /// Absent or null.
    @inlinable public var isNil: Bool { kind.rawValue <= Kind.null.rawValue }
    @inlinable public var integer: Int64 { Int64(bitPattern: payload) }
    @inlinable public var real: Double { Double(bitPattern: payload) }
    @inlinable public var row: Int { Int(payload) }
    /// For a link: the offset in the text of the record that asserted it.
    @inlinable var sourceOffset: UInt32 { count }
    /// For text and blob only.
    @inlinable public var bytes: UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: UnsafePointer(bitPattern: UInt(payload)), count: Int(count))
    }
}

extension Cell {
    /// A row's worth of cells with these values at some columns.
    static func row(_ values: [Cell], at columns: [Int], width: Int) -> [Cell] {
        var cells = Array(repeating: Cell.absent, count: width)
        for (column, value) in zip(columns, values) { cells[column] = value }
        return cells
    }

    /// SQLite's order of one column's values: NULL first.
    func precedes(_ other: Cell) -> Bool {
        guard kind == other.kind else { return kind.rawValue < other.kind.rawValue }
        switch kind {
        case .text, .blob: return Bytes.precedes(bytes, other.bytes)
        case .integer: return integer < other.integer
        case .real: return real < other.real
        case .absent, .null, .object: return false
        }
    }

    /// Monotonic in the values of one column: equal values have equal prefixes, different values may have equal ones,
    /// too.
    @inlinable public var orderPrefix: UInt64 {
        switch kind {
        case .integer: return UInt64(bitPattern: integer) ^ (1 << 63)
        case .text, .blob:
            if count >= 8 {
                return UInt64(bigEndian: UnsafeRawPointer(bytes.baseAddress!).loadUnaligned(as: UInt64.self))
            }
            var prefix: UInt64 = 0
            for byte in bytes { prefix = prefix << 8 | UInt64(byte) }
            return count == 0 ? 0 : prefix << UInt64(64 - 8 * Int(count))
        case .real, .absent, .null, .object: return 0
        }
    }

    /// Whether the values are equal, for identities: values of one column have one type, or are NULL.
    public func isSame(as other: Cell) -> Bool {
        guard kind == other.kind else { return false }
        return kind == .text || kind == .blob ? Bytes.areEqual(bytes, other.bytes) : payload == other.payload
    }
}

/// A cell that owns the bytes it points to.
package final class OwnedCell: Sendable {
    /// Valid while this object lives.
    package let cell: Cell
    // Immutable after init and freed only in deinit, so it may be read from any thread.
    nonisolated(unsafe) private let start: UnsafeMutablePointer<UInt8>?

    /// Copies the bytes, so that `cell` need not outlive the call.
    package init(copying cell: Cell) {
        guard cell.kind == .text || cell.kind == .blob else {
            self.cell = cell
            start = nil
            return
        }
        // At least one byte, because a null pointer would be bound as NULL.
        guard let memory = malloc(max(Int(cell.count), 1)) else {
            preconditionFailure("out of memory for a constant of \(cell.count) bytes")
        }
        let start = memory.assumingMemoryBound(to: UInt8.self)
        if let source = cell.bytes.baseAddress { start.initialize(from: source, count: Int(cell.count)) }
        let bytes = UnsafeBufferPointer(start: start, count: Int(cell.count))
        self.start = start
        self.cell = cell.kind == .text ? .text(bytes) : .blob(bytes)
    }

    deinit { free(start) }
}

/// A stack of cells for records being converted; an inner record is above the outer ones.
struct ScratchStack: ~Copyable {
    /// Enough for the records of most models.
    private static let firstCount = 64

    private var cells = UnsafeMutableBufferPointer<Cell>(start: nil, count: 0)
    private var depth = 0

    deinit { cells.deallocate() }

    /// Pushes `count` absent cells and returns the index of the first.
    mutating func push(_ count: Int) -> Int {
        let base = depth
        depth += count
        // The cells of a record without attributes have an address, too.
        if cells.count < depth || cells.isEmpty { grow() }
        for index in base..<depth { cells[index] = .absent }
        return base
    }

    mutating func pop(_ count: Int) { depth -= count }

    private mutating func grow() {
        let larger = UnsafeMutableBufferPointer<Cell>.allocate(capacity: max(Self.firstCount, 2 * depth))
        larger.initialize(repeating: .absent)
        _ = larger.update(fromContentsOf: cells)
        cells.deallocate()
        cells = larger
    }

    subscript(index: Int) -> Cell {
        @inline(__always) get { cells[index] }
        @inline(__always) nonmutating set { cells[index] = newValue }
    }

    func withCells<Result, Failure: Error>(
        at base: Int, _ body: (UnsafePointer<Cell>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(UnsafePointer(cells.baseAddress! + base))
    }
}

/// Comparing and hashing byte ranges.
enum Bytes {
    @inline(__always)
    static func areEqual(_ left: UnsafeBufferPointer<UInt8>, _ right: UnsafeBufferPointer<UInt8>) -> Bool {
        let count = left.count
        guard count == right.count else { return false }
        // Keys and identities are mostly short: comparing two overlapping words is faster than a function call.
        if count >= 8, count <= 16 {
            return word(left, 0, UInt64.self) == word(right, 0, UInt64.self)
                && word(left, count - 8, UInt64.self) == word(right, count - 8, UInt64.self)
        }
        if count >= 4, count < 8 {
            return word(left, 0, UInt32.self) == word(right, 0, UInt32.self)
                && word(left, count - 4, UInt32.self) == word(right, count - 4, UInt32.self)
        }
        return count == 0 || memcmp(left.baseAddress!, right.baseAddress!, count) == 0
    }

    @inline(__always)
    private static func word<Word: BitwiseCopyable>(
        _ bytes: UnsafeBufferPointer<UInt8>, _ offset: Int, _ type: Word.Type
    ) -> Word {
        UnsafeRawPointer(bytes.baseAddress!).loadUnaligned(fromByteOffset: offset, as: type)
    }

    /// The eight bytes from that offset on; the first one is the lowest.
    @inline(__always)
    static func word(_ bytes: UnsafeBufferPointer<UInt8>, at offset: Int) -> UInt64 {
        UInt64(littleEndian: word(bytes, offset, UInt64.self))
    }

    /// The four bytes from one offset on, and above them those from another.
    @inline(__always)
    static func halves(_ bytes: UnsafeBufferPointer<UInt8>, at first: Int, _ second: Int) -> UInt64 {
        let (low, high) = (word(bytes, first, UInt32.self), word(bytes, second, UInt32.self))
        return UInt64(UInt32(littleEndian: low)) | UInt64(UInt32(littleEndian: high)) << 32
    }

    /// The order of SQLite's BINARY collation.
    static func precedes(_ left: UnsafeBufferPointer<UInt8>, _ right: UnsafeBufferPointer<UInt8>) -> Bool {
        order(left, right) < 0
    }

    /// Returns a negative number when the left range precedes the right one in that order.
    static func order(_ left: UnsafeBufferPointer<UInt8>, _ right: UnsafeBufferPointer<UInt8>) -> Int {
        let shared = min(left.count, right.count)
        let order = shared == 0 ? 0 : memcmp(left.baseAddress!, right.baseAddress!, shared)
        return order == 0 ? left.count - right.count : Int(order)
    }

    /// Returns a hash that differs between processes, so that no client can provoke collisions.
    @inline(__always)
    static func hash(_ bytes: UnsafeBufferPointer<UInt8>, into state: UInt64) -> UInt64 {
        var state = mix(state, UInt64(bytes.count))
        var rest = UnsafeRawBufferPointer(bytes)
        while rest.count >= 8 {
            state = mix(state, rest.loadUnaligned(as: UInt64.self))
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(8))
        }
        var tail: UInt64 = 0
        for byte in rest { tail = tail << 8 | UInt64(byte) }
        return mix(state, tail)
    }

    @inline(__always)
    static func mix(_ state: UInt64, _ value: UInt64) -> UInt64 {
        let product = (state ^ value).multipliedFullWidth(by: 0x9E37_79B9_7F4A_7C15)
        return product.high ^ product.low
    }

    static let seed = UInt64.random(in: 1...UInt64.max)
}

/// A key that is a range of bytes, compared byte by byte. Its owner must keep the bytes alive.
///
/// External texts are not used as `String` keys: `String` compares by Unicode's normal forms, in quadratic time.
struct BytesKey: Hashable {
    let bytes: UnsafeBufferPointer<UInt8>

    static func == (left: BytesKey, right: BytesKey) -> Bool { Bytes.areEqual(left.bytes, right.bytes) }

    func hash(into hasher: inout Hasher) { hasher.combine(bytes: UnsafeRawBufferPointer(bytes)) }
}
