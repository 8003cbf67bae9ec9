internal import CZlib

/// An entry as bytes, little-endian:
///
/// | offset | bytes | |
/// |---|---|---|
/// | 0 | 4 | `BjR1` |
/// | 4 | 4 | bytes of id and payload together |
/// | 8 | 4 | the header's checksum, of bytes 12 to 55 |
/// | 12 | 4 | the header's checksum of the record before, or the segment's |
/// | 16 | 1, 1, 2 | kind; flags (1 the id is made, 2 the job may not delete, 4 the sender is privileged); bytes of the id |
/// | 20 | 4 | user |
/// | 24 | 8 | position |
/// | 32 | 8 | time |
/// | 40 | 8 | how far the segment was durable when this was written |
/// | 48 | 4 | checksum of id and payload |
/// | 52 | 4 | zero |
/// | 56 | | id, payload |
///
/// Checksums are CRC-32s that begin with the journal's identity, so that no client can send a frame that looks like a
/// record. The checksum of the previous record links the records: none can be missing, and none from an earlier use of
/// the disk block can be mistaken for one of this journal. The durable length shows whether a damaged record was once
/// durable.
package enum JournalRecord {
    static let magic: UInt32 = 0x3152_6A42
    static let headerCount = 56
    private static let isIDMadeFlag: UInt8 = 1
    private static let mayNotDeleteFlag: UInt8 = 2
    private static let isPrivilegedFlag: UInt8 = 4
    /// The maximum frame, and an id.
    static let largestBody = (16 << 20) + 128

    struct Header: Equatable {
        var bodyCount: Int
        var checksum: UInt32
        var previous: UInt32
        var kind: UInt8
        var flags: UInt8
        var idCount: Int
        var user: UInt32
        var position: Int64
        var time: Int64
        var durable: Int
        var bodyChecksum: UInt32
    }

    /// Appends the record of an entry.
    ///
    /// - Parameters:
    ///   - seed: the initial value of the checksums.
    ///   - previous: the header's checksum of the record before.
    ///   - durable: how far the segment is durable.
    /// - Returns: its header's checksum.
    package static func write(
        _ entry: JournalEntry, seed: UInt32, after previous: UInt32, durable: Int, to bytes: inout [UInt8]
    ) -> UInt32 {
        let start = bytes.count
        let id = Array(entry.id.utf8)
        bytes.reserveCapacity(start + headerCount + id.count + entry.payload.count)
        bytes.append(number: magic)
        bytes.append(number: UInt32(id.count + entry.payload.count))
        bytes.append(number: UInt32(0))
        bytes.append(number: previous)
        bytes.append(entry.kind.rawValue)
        var flags = entry.isIDMade ? isIDMadeFlag : 0
        if !entry.mayDelete { flags |= mayNotDeleteFlag }
        if entry.isPrivileged { flags |= isPrivilegedFlag }
        bytes.append(flags)
        bytes.append(number: UInt16(id.count))
        bytes.append(number: entry.user)
        bytes.append(number: UInt64(bitPattern: entry.position))
        bytes.append(number: UInt64(bitPattern: entry.time))
        bytes.append(number: UInt64(durable))
        let idChecksum = id.withUnsafeBytes { Self.checksum($0, seed: seed) }
        bytes.append(number: entry.payload.withUnsafeBytes { Self.checksum($0, seed: idChecksum) })
        bytes.append(number: UInt32(0))
        let checksum = bytes.withUnsafeBytes {
            Self.checksum(UnsafeRawBufferPointer(rebasing: $0[(start + 12)...]), seed: seed)
        }
        for byte in 0..<4 { bytes[start + 8 + byte] = UInt8(truncatingIfNeeded: checksum >> (8 * UInt32(byte))) }
        bytes += id
        bytes += entry.payload
        return checksum
    }

    /// Reads the header at that offset; nil when there is none. Takes constant time.
    static func header(of bytes: UnsafeRawBufferPointer, seed: UInt32) -> Header? {
        guard bytes.count >= headerCount, bytes.number(0, UInt32.self) == magic else { return nil }
        let header = Header(
            bodyCount: Int(bytes.number(4, UInt32.self)), checksum: bytes.number(8, UInt32.self),
            previous: bytes.number(12, UInt32.self), kind: bytes[16], flags: bytes[17],
            idCount: Int(bytes.number(18, UInt16.self)), user: bytes.number(20, UInt32.self),
            position: Int64(bitPattern: bytes.number(24, UInt64.self)),
            time: Int64(bitPattern: bytes.number(32, UInt64.self)),
            durable: Int(truncatingIfNeeded: bytes.number(40, UInt64.self)),
            bodyChecksum: bytes.number(48, UInt32.self))
        guard header.bodyCount <= largestBody, header.idCount <= header.bodyCount else { return nil }
        let checksum = checksum(UnsafeRawBufferPointer(rebasing: bytes[12..<headerCount]), seed: seed)
        return checksum == header.checksum ? header : nil
    }

    /// Whether the body is the one that was written with the header.
    static func isIntact(_ header: Header, _ body: UnsafeRawBufferPointer, seed: UInt32) -> Bool {
        body.count == header.bodyCount && checksum(body, seed: seed) == header.bodyChecksum
    }

    /// The entry of an intact record; nil when its kind or its flags are unknown, because a later version wrote it.
    ///
    /// - Parameter body: the complete body.
    static func entry(_ header: Header, _ body: UnsafeRawBufferPointer) -> JournalEntry? {
        guard let kind = JournalEntry.Kind(rawValue: header.kind),
            header.flags & ~(isIDMadeFlag | mayNotDeleteFlag | isPrivilegedFlag) == 0,
            let id = String(validating: body.prefix(header.idCount), as: UTF8.self)
        else { return nil }
        return JournalEntry(
            kind, position: header.position, id: id, isIDMade: header.flags & isIDMadeFlag != 0,
            mayDelete: header.flags & mayNotDeleteFlag == 0,
            isPrivileged: header.flags & isPrivilegedFlag != 0, user: header.user, time: header.time,
            payload: Array(body.dropFirst(header.idCount)))
    }

    static func checksum(_ bytes: UnsafeRawBufferPointer, seed: UInt32) -> UInt32 {
        UInt32(crc32_z(UInt(seed), bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), bytes.count))
    }
}

extension [UInt8] {
    mutating func append(number: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: number.littleEndian) { append(contentsOf: $0) }
    }
}

extension UnsafeRawBufferPointer {
    package func number<Number: FixedWidthInteger>(_ offset: Int, _: Number.Type) -> Number {
        Number(littleEndian: loadUnaligned(fromByteOffset: offset, as: Number.self))
    }
}

/// An entry of a journal: a job as it was received, the cancellation of one, or a change of what decides outcomes.
package struct JournalEntry: Sendable, Equatable {
    package enum Kind: UInt8, Sendable {
        case job = 1
        /// The job at that position was cancelled before its merge.
        case cancellation = 2
        /// The model of the entries after it.
        case model = 3
        /// The limits of the entries after it.
        case limits = 4

        /// Whether the entry has a position of its own.
        package var hasPosition: Bool { self != .cancellation }
    }

    package var kind: Kind
    /// The position of the entry; for a cancellation, of the cancelled job.
    package var position: Int64
    /// 1 to 128 bytes; empty for an entry without an id.
    package var id: String
    /// The server made the id, so no client sends the job again.
    package var isIDMade: Bool
    /// Whether the sender could delete objects with the job.
    package var mayDelete: Bool
    /// Whether the sender could see the jobs of all users.
    package var isPrivileged: Bool
    /// The user id of the sender.
    package var user: UInt32
    /// The time of acceptance: milliseconds since 1970.
    package var time: Int64
    /// For a job: its frame without the length, as it was received. For a model, or limits: JSON.
    package var payload: [UInt8]

    package init(
        _ kind: Kind, position: Int64, id: String = "", isIDMade: Bool = false, mayDelete: Bool = true,
        isPrivileged: Bool = false, user: UInt32 = 0, time: Int64, payload: [UInt8] = []
    ) {
        self.kind = kind
        self.position = position
        self.id = id
        self.isIDMade = isIDMade
        self.mayDelete = mayDelete
        self.isPrivileged = isPrivileged
        self.user = user
        self.time = time
        self.payload = payload
    }
}

/// A fault of a journal, or of its disk.
package struct JournalError: Error, Sendable, CustomStringConvertible {
    package enum Code: Sendable {
        /// The disk is full: the entries are not in the journal, and may be appended again later.
        case full
        /// A system call failed. The contents of the disk are not known any more, and no entry may be appended until
        /// the journal has been opened again.
        case broken
        /// Its file or folder was deleted, moved or replaced while it was open: the entries are not in the journal.
        case lost
        /// The journal is damaged, or another store's.
        case unusable
    }

    package let code: Code
    /// What happened, where, and the remedy, in one line.
    package let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    package var description: String { message }
}

package struct JournalIdentity: Sendable, Hashable, CustomStringConvertible {
    let bytes: [UInt8]

    package var seed: UInt32 { bytes.withUnsafeBytes { JournalRecord.checksum($0, seed: 0) } }

    /// A new, random identity.
    package init() {
        var generator = SystemRandomNumberGenerator()
        bytes = (0..<16).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }

    init?(_ bytes: [UInt8]) {
        guard bytes.count == 16 else { return nil }
        self.bytes = bytes
    }

    /// Parses ``description``; nil for any other text.
    package init?(_ text: String) {
        let digits = Array(text.utf8)
        guard digits.count == 32 else { return nil }
        var bytes: [UInt8] = []
        for position in stride(from: 0, to: 32, by: 2) {
            let pair = String(decoding: digits[position..<position + 2], as: UTF8.self)
            guard let byte = UInt8(pair, radix: 16) else { return nil }
            bytes.append(byte)
        }
        self.init(bytes)
    }

    /// 32 hexadecimal digits.
    package var description: String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
