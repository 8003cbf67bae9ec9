import BrokerJournal

/// A segment of a journal that is not what it was: what is read is a beginning of what was written, and never anything else.
///
/// The first byte chooses: arbitrary bytes after a good header, or entries of the input's own of which one byte is changed
/// and the end is cut; and whether the segment's mark says that all of it is durable. Then no change is taken for a torn tail.
final class JournalTarget: FuzzTarget {
    private let identity = JournalIdentity("000102030405060708090a0b0c0d0e0f")!

    init() {}

    func run(_ input: UnsafeRawBufferPointer) throws {
        var input = FuzzInput(input)
        let choice = input.byte()
        guard choice % 2 == 0 else { return try spoil(&input, isMarked: choice & 2 != 0) }
        let bytes = SegmentBytes.make([], identity, before: 0) + input.rest
        guard let found = bytes.withUnsafeBytes({ SegmentBytes.read($0) }) else {
            throw FuzzFinding(description: "a good header is not read")
        }
        let again = SegmentBytes.make(found.entries, identity, before: 0)
        try require(found.entries.isEmpty || again.count <= bytes.count, "more was read than there is")
    }

    private func spoil(_ input: inout FuzzInput, isMarked: Bool) throws {
        let (place, change, cut) = (Int(input.byte()) << 8 | Int(input.byte()), input.byte(), Int(input.byte()))
        var entries: [LogEntry] = []
        for part in Array(input.rest).split(separator: 0, maxSplits: 20, omittingEmptySubsequences: false) {
            let number = Int64(entries.count + 1)
            let kind: LogEntry.Kind = number % 5 == 0 ? .cancellation : .job
            entries.append(
                LogEntry(
                    kind, position: number, id: "job-\(number)", isIDMade: number % 2 == 0, user: 7, time: number,
                    payload: Array(part)))
        }
        let whole = SegmentBytes.make(entries, identity, before: 0, isMarked: isMarked)
        let intact = whole.withUnsafeBytes { SegmentBytes.read($0) }
        try require(intact?.entries == entries && intact?.end == .whole, "what was written is not read")
        var bytes = Array(whole.dropLast(min(cut, whole.count)))
        if !bytes.isEmpty { bytes[place % bytes.count] ^= change }
        guard let found = bytes.withUnsafeBytes({ SegmentBytes.read($0) }) else { return }
        try require(
            found.entries.elementsEqual(entries.prefix(found.entries.count)), "what is read was never written")
        let isChanged = bytes != whole
        try require(!isChanged || found.entries.count < entries.count, "what was changed is read as if it were whole")
        try require(!isChanged || !isMarked || found.end == .damaged, "what was durable is taken for a torn tail")
    }
}

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
        _ entries: [LogEntry], _ identity: JournalIdentity, before: Int64, isMarked: Bool = false
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
    static func read(_ bytes: UnsafeRawBufferPointer) -> (entries: [LogEntry], end: End)? {
        guard let segment = try? JournalSegment(bytes, number: 1, path: "") else { return nil }
        var scan = SegmentScan(segment, bytes)
        var entries: [LogEntry] = []
        while let entry = scan.next() { entries.append(entry) }
        switch scan.end(isLast: true) {
        case .whole: return (entries, .whole)
        case .torn: return (entries, .torn)
        case .damaged: return (entries, .damaged)
        case .unknownRecord: return (entries, .unknownRecord)
        }
    }
}
