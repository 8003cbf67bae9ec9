internal import CZlib

/// One file of a journal: a header, then records.
///
/// | offset | bytes | the header |
/// |---|---|---|
/// | 0 | 8 | `BrokerJ2` |
/// | 8 | 4 | CRC-32 of bytes 12 to 47 |
/// | 12 | 4 | the format's number, 2 |
/// | 16 | 16 | the journal's identity |
/// | 32 | 8 | the segment's number |
/// | 40 | 8 | the newest position before this segment, 0 for none |
/// | 48 | 16 | ``SegmentMark`` |
package struct JournalSegment {
    static let currentFormat: UInt32 = 2
    package static let headerCount = markOffset + SegmentMark.count
    package static let markOffset = 48
    private static let magic: UInt64 = 0x324A_7265_6B6F_7242

    let number: UInt64
    let path: String
    let identity: JournalIdentity
    /// The newest position before this segment.
    let before: Int64
    let headerChecksum: UInt32
    let mark: SegmentMark

    static func path(_ number: UInt64, in folder: String) -> String {
        let digits = String(number)
        return "\(folder)/\(String(repeating: "0", count: 16 - min(16, digits.count)))\(digits).jobs"
    }

    /// The number in a file's name; nil for any other file.
    static func number(ofFile name: String) -> UInt64? {
        name.hasSuffix(".jobs") && name.utf8.count == 21 ? UInt64(name.dropLast(5)) : nil
    }

    package static func header(
        _ number: UInt64, _ identity: JournalIdentity, before: Int64, format: UInt32? = nil
    ) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(number: format ?? currentFormat)
        bytes += identity.bytes
        bytes.append(number: number)
        bytes.append(number: UInt64(bitPattern: before))
        let checksum = bytes.withUnsafeBytes { JournalRecord.checksum($0, seed: 0) }
        var header: [UInt8] = []
        header.append(number: magic)
        header.append(number: checksum)
        header += bytes
        return header + SegmentMark(synced: headerCount).bytes(seed: identity.seed)
    }

    /// Throws when the bytes are no segment, or one that a later version wrote.
    package init(_ bytes: UnsafeRawBufferPointer, number: UInt64, path: String) throws(JournalError) {
        guard bytes.count >= Self.markOffset, bytes.number(0, UInt64.self) == Self.magic else {
            throw .damaged(path, at: 0)
        }
        headerChecksum = bytes.number(8, UInt32.self)
        let rest = UnsafeRawBufferPointer(rebasing: bytes[12..<Self.markOffset])
        guard JournalRecord.checksum(rest, seed: 0) == headerChecksum, bytes.number(32, UInt64.self) == number else {
            throw .damaged(path, at: 0)
        }
        self.number = number
        self.path = path
        identity = JournalIdentity(Array(bytes[16..<32]))!
        before = Int64(bitPattern: bytes.number(40, UInt64.self))
        let written = bytes.number(12, UInt32.self)
        guard written == Self.currentFormat else { throw .unknownFormat(written, path) }
        guard bytes.count >= Self.headerCount,
            let mark = SegmentMark(
                UnsafeRawBufferPointer(rebasing: bytes[Self.markOffset..<Self.headerCount]), seed: identity.seed)
        else { throw .damaged(path, at: Self.markOffset) }
        self.mark = mark
    }
}

/// The synced length of a segment, in its header:
///
/// | offset | bytes | |
/// |---|---|---|
/// | 0 | 8 | the offset up to which the segment is on the disk |
/// | 8 | 4 | 1 if another segment follows, else 0 |
/// | 12 | 4 | CRC-32 of bytes 0 to 11, beginning with the journal's identity |
///
/// The mark is written after each sync of records, and reaches the disk with the next sync or with the kernel's
/// write-back. It never exceeds the synced records: an unreadable record before `synced` is damaged, and no torn tail.
package struct SegmentMark: Equatable {
    static let count = 16

    var synced: Int
    /// No record follows in this segment, and the next segment is on the disk.
    var isClosed = false

    package init(synced: Int, isClosed: Bool = false) {
        self.synced = synced
        self.isClosed = isClosed
    }

    /// Nil when the checksum does not match.
    init?(_ bytes: UnsafeRawBufferPointer, seed: UInt32) {
        let content = UnsafeRawBufferPointer(rebasing: bytes[..<12])
        guard JournalRecord.checksum(content, seed: seed) == bytes.number(12, UInt32.self) else { return nil }
        synced = Int(truncatingIfNeeded: bytes.number(0, UInt64.self))
        isClosed = bytes.number(8, UInt32.self) & 1 != 0
    }

    package func bytes(seed: UInt32) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(number: UInt64(synced))
        bytes.append(number: UInt32(isClosed ? 1 : 0))
        let checksum = bytes.withUnsafeBytes { JournalRecord.checksum($0, seed: seed) }
        bytes.append(number: checksum)
        return bytes
    }
}

/// Reads the records of one segment, one after the other.
package struct SegmentScan: @unchecked Sendable {
    // No thread writes to the bytes of the file; the owner of the scan keeps them mapped.
    /// Why there is no further record.
    package enum End: Equatable {
        /// The file ends with the last record.
        case whole
        /// The rest was being written when the machine or the process stopped.
        case torn
        /// The rest was durable once, and has changed.
        case damaged
        /// A complete record follows that this version of the server cannot read, of that kind.
        case unknownRecord(kind: UInt8)
    }

    let segment: JournalSegment
    private let bytes: UnsafeRawBufferPointer
    private let seed: UInt32
    /// The offset after the last record.
    private(set) var offset: Int
    /// The checksum of the last record, or of the header.
    private(set) var checksum: UInt32
    private var unknownKind: UInt8?

    package init(_ segment: JournalSegment, _ bytes: UnsafeRawBufferPointer) {
        self.segment = segment
        self.bytes = bytes
        seed = segment.identity.seed
        offset = JournalSegment.headerCount
        checksum = segment.headerChecksum
    }

    /// Nil at the end; ``end(isLast:)`` then gives the cause.
    package mutating func next() -> LogEntry? {
        guard let header = header(at: offset), header.previous == checksum else { return nil }
        let start = offset + JournalRecord.headerCount
        let end = start + header.bodyCount
        guard end <= bytes.count else { return nil }
        let body = UnsafeRawBufferPointer(rebasing: bytes[start..<end])
        guard JournalRecord.isIntact(header, body, seed: seed) else { return nil }
        guard let entry = JournalRecord.entry(header, body) else {
            unknownKind = header.kind
            return nil
        }
        offset = end
        checksum = header.checksum
        return entry
    }

    /// - Parameter isLast: no segment follows. Only the last segment can have a torn tail.
    package func end(isLast: Bool) -> End {
        if let unknownKind { return .unknownRecord(kind: unknownKind) }
        if offset < segment.mark.synced { return .damaged }
        if offset == bytes.count { return .whole }
        guard isLast else { return .damaged }
        // Each record has the length to which the file was durable when it was written.
        var position = offset + 1
        while position + JournalRecord.headerCount <= bytes.count {
            if bytes[position] == UInt8(truncatingIfNeeded: JournalRecord.magic),
                let header = header(at: position), header.durable > offset
            {
                return .damaged
            }
            position += 1
        }
        return .torn
    }

    private func header(at offset: Int) -> JournalRecord.Header? {
        guard offset < bytes.count else { return nil }
        return JournalRecord.header(of: UnsafeRawBufferPointer(rebasing: bytes[offset...]), seed: seed)
    }
}

/// An entry as bytes, little-endian:
///
/// | offset | bytes | |
/// |---|---|---|
/// | 0 | 4 | `BjR1` |
/// | 4 | 4 | bytes of id and payload together |
/// | 8 | 4 | the header's checksum, of bytes 12 to 55 |
/// | 12 | 4 | the header's checksum of the record before, or the segment's |
/// | 16 | 1, 1, 2 | kind; ``LogEntry/flags``; bytes of the id |
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
    /// The numbers of the kinds, from 1.
    private static let kinds: [LogEntry.Kind] = [.job, .cancellation, .model, .limits]
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

    /// Appends the record of an entry, and returns its header's checksum. Checksums begin with the seed; the one before is that of
    /// the previous record's header, and `durable` how far the segment is durable.
    package static func write(
        _ entry: LogEntry, seed: UInt32, after previous: UInt32, durable: Int, to bytes: inout [UInt8]
    ) -> UInt32 {
        let start = bytes.count
        let id = Array(entry.id.utf8)
        bytes.reserveCapacity(start + headerCount + id.count + entry.payload.count)
        bytes.append(number: magic)
        bytes.append(number: UInt32(id.count + entry.payload.count))
        bytes.append(number: UInt32(0))
        bytes.append(number: previous)
        guard let kind = kinds.firstIndex(of: entry.kind) else { preconditionFailure("a journal has no \(entry.kind)") }
        bytes.append(UInt8(kind + 1))
        bytes.append(entry.flags)
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

    /// The entry of an intact record with its complete body; nil when its kind or its flags are unknown, because a later version
    /// wrote it.
    static func entry(_ header: Header, _ body: UnsafeRawBufferPointer) -> LogEntry? {
        guard header.kind > 0, header.kind <= kinds.count,
            let id = String(validating: body.prefix(header.idCount), as: UTF8.self)
        else { return nil }
        return LogEntry(
            kinds[Int(header.kind) - 1], position: header.position, id: id, flags: header.flags, user: header.user,
            time: header.time, payload: Array(body.dropFirst(header.idCount)))
    }

    package static func checksum(_ bytes: UnsafeRawBufferPointer, seed: UInt32) -> UInt32 {
        UInt32(crc32_z(UInt(seed), bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), bytes.count))
    }
}

extension [UInt8] {
    package mutating func append(number: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: number.littleEndian) { append(contentsOf: $0) }
    }
}

extension UnsafeRawBufferPointer {
    package func number<Number: FixedWidthInteger>(_ offset: Int, _: Number.Type) -> Number {
        Number(littleEndian: loadUnaligned(fromByteOffset: offset, as: Number.self))
    }
}
