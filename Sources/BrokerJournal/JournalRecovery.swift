/// What is found in a journal's folder at its opening: everything is read and checked once.
struct JournalRecovery {
    private(set) var segments: [Journal.Segment] = []
    private(set) var cancelled: Set<Int64> = []
    private(set) var pendingCount = 0
    private(set) var byteCount = 0
    /// Of the last segment, behind its last whole record; and that one's checksum.
    private(set) var end = 0
    private(set) var checksum: UInt32 = 0

    /// No job was ever in it.
    var isEmpty: Bool { segments.allSatisfy { $0.last == $0.head.before } && segments.count < 2 }

    /// Nothing is there.
    init() {}

    /// - Parameters:
    ///   - expected: whose it is to be; another's is not held against the store.
    ///   - applied: the newest position that the store has applied.
    ///   - id: of the job there, as the store has it; nil when it does not know.
    init(
        _ folder: JournalFolder, expected: JournalIdentity?, applied: Int64, idOfApplied id: String?
    ) throws(JournalError) {
        let numbers = try folder.segmentNumbers()
        for number in numbers {
            let path = JournalSegment.path(number, in: folder.path)
            let file = try folder.map(path)
            let isLast = number == numbers.last
            guard let head = JournalSegment(file.bytes, number: number, path: path) else {
                guard isLast, file.bytes.count <= JournalSegment.headerCount else {
                    throw folder.damaged(path, at: 0)
                }
                // Its making was not finished, so nothing was ever in it.
                _ = try folder.remove(path)
                break
            }
            let isOurs = head.identity == expected
            if isOurs, head.before <= applied { try forgetApplied(upTo: head, folder) }
            try check(head, isOurs ? applied : .max, folder)
            try read(head, file.bytes, isLast: isLast, applied, isOurs ? id : nil, folder)
        }
        if let last = segments.last, last.head.identity == expected, last.last < applied {
            throw folder.cutShort(last: last.last, applied: applied)
        }
    }

    /// Of segments that were taken away one after the other, a loss of power may leave any: those before a gap are removed
    /// when all that is missing was applied.
    private mutating func forgetApplied(upTo head: JournalSegment, _ folder: JournalFolder) throws(JournalError) {
        guard let before = segments.last, before.head.identity == head.identity,
            before.head.number + 1 < head.number, before.last < head.before
        else { return }
        for segment in segments { byteCount -= try folder.remove(segment.head.path) }
        segments = []
    }

    /// Whether the segment goes on where the one before it ended, and the journal where the store did.
    private func check(_ head: JournalSegment, _ applied: Int64, _ folder: JournalFolder) throws(JournalError) {
        guard let before = segments.last else {
            guard head.before <= applied else { throw folder.isTooYoung(from: head.before, applied: applied) }
            return
        }
        guard before.head.number + 1 == head.number, before.head.identity == head.identity,
            before.last == head.before
        else { throw folder.hasGap(before: head.path) }
    }

    private mutating func read(
        _ head: JournalSegment, _ bytes: UnsafeRawBufferPointer, isLast: Bool, _ applied: Int64, _ id: String?,
        _ folder: JournalFolder
    ) throws(JournalError) {
        var scan = SegmentScan(head, bytes)
        var last = head.before
        while let entry = scan.next() {
            switch entry.kind {
            case .job:
                guard entry.position > last else { throw folder.damaged(head.path, at: scan.offset) }
                last = entry.position
                if last > applied { pendingCount += 1 }
                if last == applied, let id, id != entry.id { throw folder.isExchanged(at: applied) }
            case .cancellation: cancelled.insert(entry.position)
            }
        }
        if scan.end(isLast: isLast) == .damaged { throw folder.damaged(head.path, at: scan.offset) }
        (end, checksum) = (scan.offset, scan.checksum)
        byteCount += scan.offset
        segments.append(Journal.Segment(head: head, last: last))
    }
}
