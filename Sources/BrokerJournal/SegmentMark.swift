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
