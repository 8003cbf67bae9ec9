internal import Glibc

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

    /// Why bytes are no segment.
    package enum HeaderFault: Error, Equatable {
        /// The bytes from that offset on are no header.
        case damaged(at: Int)
        /// A later version of the server wrote the segment.
        case unknownFormat(UInt32)
    }

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

    package init(_ bytes: UnsafeRawBufferPointer, number: UInt64, path: String) throws(HeaderFault) {
        guard bytes.count >= Self.markOffset, bytes.number(0, UInt64.self) == Self.magic else { throw .damaged(at: 0) }
        headerChecksum = bytes.number(8, UInt32.self)
        let rest = UnsafeRawBufferPointer(rebasing: bytes[12..<Self.markOffset])
        guard JournalRecord.checksum(rest, seed: 0) == headerChecksum, bytes.number(32, UInt64.self) == number else {
            throw .damaged(at: 0)
        }
        self.number = number
        self.path = path
        identity = JournalIdentity(Array(bytes[16..<32]))!
        before = Int64(bitPattern: bytes.number(40, UInt64.self))
        let written = bytes.number(12, UInt32.self)
        guard written == Self.currentFormat else { throw .unknownFormat(written) }
        guard bytes.count >= Self.headerCount,
            let mark = SegmentMark(
                UnsafeRawBufferPointer(rebasing: bytes[Self.markOffset..<Self.headerCount]), seed: identity.seed)
        else { throw .damaged(at: Self.markOffset) }
        self.mark = mark
    }
}
