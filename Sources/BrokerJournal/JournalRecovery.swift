/// The contents of a journal's folder at its opening: everything is read and checked once, and nothing is changed.
struct JournalRecovery {
    /// Files that the journal does not need: a segment that was not finished, or those before a gap of applied jobs.
    private(set) var unneeded: [String] = []
    private(set) var segments: [Journal.Segment] = []
    private(set) var cancelled: Set<Int64> = []
    private(set) var pendingCount = 0
    private(set) var pendingJobCount = 0
    /// The latest time of an entry.
    private(set) var lastTime: Int64 = 0
    private(set) var byteCount = 0
    /// The torn tail of the last segment; nil when there is none.
    private(set) var tail: JournalTail?
    /// The offset after the last segment's last whole record, and that record's checksum.
    private(set) var end = 0
    private(set) var checksum: UInt32 = 0

    /// No job was ever appended to it.
    var isEmpty: Bool { segments.allSatisfy { $0.last == $0.head.before } && segments.count < 2 }

    /// There is no journal.
    init() {}

    /// - Parameters:
    ///   - expected: the required identity; a journal with another one is not this store's.
    ///   - applied: the newest position that the store has applied.
    ///   - id: the id of the job there in the store; nil when the store does not have it.
    init(
        _ folder: JournalFolder, expected: JournalIdentity?, applied: Int64, idOfApplied id: String?
    ) throws(JournalError) {
        let numbers = try folder.segmentNumbers()
        for number in numbers {
            let path = JournalSegment.path(number, in: folder.path)
            let file = try folder.map(path)
            let isLast = number == numbers.last
            let head = try JournalSegment(file.bytes, number: number, path: path)
            let isOurs = head.identity == expected
            if isOurs, head.before <= applied { forgetApplied(upTo: head) }
            try check(head, after: isOurs ? applied : .max, in: folder)
            try read(head, file.bytes, isLast: isLast, after: applied, id: isOurs ? id : nil, in: folder)
        }
        guard let last = segments.last else { return }
        if last.head.identity == expected, last.last < applied {
            throw folder.cutShort(last: last.last, applied: applied)
        }
        if last.head.mark.isClosed { throw folder.incomplete("the file after \(last.head.path)") }
    }

    /// A power failure may leave any of the segments that were being deleted one after the other: those before a gap
    /// are deleted when all missing jobs were applied.
    private mutating func forgetApplied(upTo head: JournalSegment) {
        guard let before = segments.last, before.head.identity == head.identity,
            before.head.number + 1 < head.number, before.last < head.before
        else { return }
        unneeded += segments.map(\.head.path)
        segments = []
        byteCount = 0
    }

    /// Whether the segment continues at the end of the previous one, and the journal at the position of the store.
    private func check(_ head: JournalSegment, after applied: Int64, in folder: JournalFolder) throws(JournalError) {
        guard let before = segments.last else {
            guard head.before <= applied else { throw folder.tooYoung(from: head.before, applied: applied) }
            return
        }
        guard before.head.number + 1 == head.number, before.head.identity == head.identity,
            before.last == head.before
        else { throw folder.incomplete("what comes before \(head.path)") }
    }

    private mutating func read(
        _ head: JournalSegment, _ bytes: UnsafeRawBufferPointer, isLast: Bool, after applied: Int64, id: String?,
        in folder: JournalFolder
    ) throws(JournalError) {
        var scan = SegmentScan(head, bytes)
        var last = head.before
        while let entry = scan.next() {
            guard entry.kind.hasPosition else {
                cancelled.insert(entry.position)
                continue
            }
            guard entry.position > last else { throw .damaged(head.path, at: scan.offset) }
            last = entry.position
            lastTime = max(lastTime, entry.time)
            if last > applied {
                pendingCount += 1
                if entry.kind == .job { pendingJobCount += 1 }
            }
            if last == applied, let id, id != entry.id { throw folder.exchanged(at: applied) }
        }
        switch scan.end(isLast: isLast) {
        case .whole: break
        case .torn:
            tail = JournalTail(file: head.path, offset: scan.offset, bytes: bytes.count - scan.offset)
        case .damaged: throw .damaged(head.path, at: scan.offset)
        case .unknownRecord(let kind): throw folder.unknownRecord(kind: kind, head.path, at: scan.offset)
        }
        (end, checksum) = (scan.offset, scan.checksum)
        byteCount += scan.offset
        segments.append(Journal.Segment(head: head, last: last))
    }
}

/// The end of a journal that was being written when the server or the machine stopped, and that the next start
/// truncated.
package struct JournalTail: Sendable, Equatable {
    package let file: String
    /// The present end of the file.
    package let offset: Int
    /// The number of truncated bytes.
    package let bytes: Int
}
