internal import Glibc

/// One file of a journal: a header, and records behind it.
///
/// | offset | bytes | the header |
/// |---|---|---|
/// | 0 | 8 | `BrokerJ1` |
/// | 8 | 4 | CRC-32 of what follows, to the end of the header |
/// | 12 | 4 | zero |
/// | 16 | 16 | the journal's identity |
/// | 32 | 8 | the segment's number |
/// | 40 | 8 | the newest position before this segment, 0 for none |
struct JournalSegment {
    static let magic: UInt64 = 0x314A_7265_6B6F_7242
    static let headerCount = 48

    let number: UInt64
    let path: String
    let identity: JournalIdentity
    /// The newest position before this segment.
    let before: Int64
    let headerChecksum: UInt32

    static func path(_ number: UInt64, in folder: String) -> String {
        let digits = String(number)
        return "\(folder)/\(String(repeating: "0", count: 16 - min(16, digits.count)))\(digits).jobs"
    }

    /// The number in a file's name; nil when it is no segment's.
    static func number(ofFile name: String) -> UInt64? {
        name.hasSuffix(".jobs") && name.utf8.count == 21 ? UInt64(name.dropLast(5)) : nil
    }

    static func header(_ number: UInt64, _ identity: JournalIdentity, before: Int64) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(number: UInt32(0))
        bytes += identity.bytes
        bytes.append(number: number)
        bytes.append(number: UInt64(bitPattern: before))
        let checksum = bytes.withUnsafeBytes { JournalRecord.checksum($0, seed: 0) }
        var header: [UInt8] = []
        header.append(number: magic)
        header.append(number: checksum)
        return header + bytes
    }

    /// Nil when the bytes are no header.
    init?(_ bytes: UnsafeRawBufferPointer, number: UInt64, path: String) {
        guard bytes.count >= Self.headerCount, bytes.number(0, UInt64.self) == Self.magic else { return nil }
        headerChecksum = bytes.number(8, UInt32.self)
        let rest = UnsafeRawBufferPointer(rebasing: bytes[12..<Self.headerCount])
        guard JournalRecord.checksum(rest, seed: 0) == headerChecksum, bytes.number(32, UInt64.self) == number else {
            return nil
        }
        self.number = number
        self.path = path
        identity = JournalIdentity(Array(bytes[16..<32]))!
        before = Int64(bitPattern: bytes.number(40, UInt64.self))
    }
}

/// Which journal it is, for good.
public struct JournalIdentity: Sendable, Hashable, CustomStringConvertible {
    let bytes: [UInt8]

    /// What the checksums of its records begin with.
    var seed: UInt32 { bytes.withUnsafeBytes { JournalRecord.checksum($0, seed: 0) } }

    /// A new one, which no other has.
    public init() {
        var generator = SystemRandomNumberGenerator()
        bytes = (0..<16).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }

    init?(_ bytes: [UInt8]) {
        guard bytes.count == 16 else { return nil }
        self.bytes = bytes
    }

    /// From ``description``; nil for anything else.
    public init?(_ text: String) {
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
    public var description: String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}

/// Reads the records of one segment, one after the other.
struct SegmentScan: @unchecked Sendable {
    // The bytes are a file's that nobody writes to; whoever scans them keeps them mapped.
    /// Why there is no further record.
    enum End: Equatable {
        /// The file ends with the last one.
        case whole
        /// What follows was being written when the machine or the process stopped.
        case torn
        /// What follows was durable once, and is not what it was.
        case damaged
    }

    let segment: JournalSegment
    private let bytes: UnsafeRawBufferPointer
    private let seed: UInt32
    /// Behind the last record.
    private(set) var offset = JournalSegment.headerCount
    /// The checksum of the last record, or of the header.
    private(set) var checksum: UInt32

    init(_ segment: JournalSegment, _ bytes: UnsafeRawBufferPointer, at offset: Int, checksum: UInt32) {
        self.segment = segment
        self.bytes = bytes
        seed = segment.identity.seed
        self.offset = offset
        self.checksum = checksum
    }

    init(_ segment: JournalSegment, _ bytes: UnsafeRawBufferPointer) {
        self.init(segment, bytes, at: JournalSegment.headerCount, checksum: segment.headerChecksum)
    }

    /// Nil at the end; ``end(isLast:)`` then tells of which kind.
    mutating func next() -> JournalEntry? {
        guard let (header, entry) = record(at: offset), header.previous == checksum else { return nil }
        offset += JournalRecord.headerCount + header.bodyCount
        checksum = header.checksum
        return entry
    }

    /// - Parameter isLast: no segment follows. Only there can something have been in the middle of being written.
    func end(isLast: Bool) -> End {
        if offset == bytes.count { return .whole }
        guard isLast else { return .damaged }
        // A later record tells how far the file was durable when it was written.
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

    private func record(at offset: Int) -> (JournalRecord.Header, JournalEntry)? {
        guard let header = header(at: offset) else { return nil }
        let start = offset + JournalRecord.headerCount
        let end = start + header.bodyCount
        guard end <= bytes.count,
            let entry = JournalRecord.entry(
                header, UnsafeRawBufferPointer(rebasing: bytes[start..<end]), seed: seed)
        else { return nil }
        return (header, entry)
    }
}

/// A segment's bytes without files, for whoever tries what reading makes of them.
package enum SegmentBytes {
    /// Where reading ended.
    package enum End: Sendable {
        case whole, torn, damaged
    }

    /// A segment with these entries, each made durable by itself.
    package static func make(_ entries: [JournalEntry], _ identity: JournalIdentity, before: Int64) -> [UInt8] {
        var bytes = JournalSegment.header(1, identity, before: before)
        var checksum = bytes.withUnsafeBytes { JournalSegment($0, number: 1, path: "")!.headerChecksum }
        for entry in entries {
            checksum = JournalRecord.write(
                entry, seed: identity.seed, after: checksum, durable: bytes.count, to: &bytes)
        }
        return bytes
    }

    /// What is read of the last segment of a journal; nil when it has no header.
    package static func read(_ bytes: UnsafeRawBufferPointer) -> (entries: [JournalEntry], end: End)? {
        guard let segment = JournalSegment(bytes, number: 1, path: "") else { return nil }
        var scan = SegmentScan(segment, bytes)
        var entries: [JournalEntry] = []
        while let entry = scan.next() { entries.append(entry) }
        switch scan.end(isLast: true) {
        case .whole: return (entries, .whole)
        case .torn: return (entries, .torn)
        case .damaged: return (entries, .damaged)
        }
    }
}
