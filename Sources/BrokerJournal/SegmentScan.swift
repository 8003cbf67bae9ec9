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
    package mutating func next() -> JournalEntry? {
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
