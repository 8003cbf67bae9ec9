import BrokerJournal

/// A segment's bytes without files, for tests of what is read from them.
enum SegmentBytes {
    /// Where reading ended.
    enum End: Sendable {
        case whole, torn, damaged, unknownRecord
    }

    /// A segment with these entries, each made durable by itself.
    ///
    /// - Parameter isMarked: its mark says that all of it is durable; otherwise the mark says so of the header alone.
    static func make(
        _ entries: [JournalEntry], _ identity: JournalIdentity, before: Int64, isMarked: Bool = false
    ) -> [UInt8] {
        var bytes = JournalSegment.header(1, identity, before: before)
        var checksum = bytes.withUnsafeBytes { $0.number(8, UInt32.self) }
        for entry in entries {
            checksum = JournalRecord.write(
                entry, seed: identity.seed, after: checksum, durable: bytes.count, to: &bytes)
        }
        if isMarked {
            bytes.replaceSubrange(
                JournalSegment.markOffset..<JournalSegment.headerCount,
                with: SegmentMark(synced: bytes.count).bytes(seed: identity.seed))
        }
        return bytes
    }

    /// The entries that are read from the last segment of a journal; nil when it has no header.
    static func read(_ bytes: UnsafeRawBufferPointer) -> (entries: [JournalEntry], end: End)? {
        let segment: JournalSegment
        do throws(JournalSegment.HeaderFault) {
            segment = try JournalSegment(bytes, number: 1, path: "")
        } catch {
            return nil
        }
        var scan = SegmentScan(segment, bytes)
        var entries: [JournalEntry] = []
        while let entry = scan.next() { entries.append(entry) }
        switch scan.end(isLast: true) {
        case .whole: return (entries, .whole)
        case .torn: return (entries, .torn)
        case .damaged: return (entries, .damaged)
        case .unknownRecord: return (entries, .unknownRecord)
        }
    }
}
