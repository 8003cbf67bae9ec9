/// One column's value of one staged row: sixteen bytes, no ownership.
///
/// Text and blobs point into memory that the staged rows own: the job's text, its unescaped strings or the context's
/// own `ByteArena`. A cell is therefore valid exactly as long as its ``StagedRows``.
///
/// A link's cell also has the source offset of its record, so that the later assertion wins in whichever order staging
/// reads them.
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
