internal import Glibc

/// A log of jobs on the disk: segments in a folder of their own, appended to and made durable in groups.
///
/// Belongs to one thread at a time; starts none. Everything blocks.
///
/// Invariants
///  1. What ``append(_:)`` has returned for is on the disk, and is read again after any crash.
///  2. Positions of jobs rise.
///  3. After the system has failed to make something durable, nothing is appended any more: what a second attempt says of
///     the first one's bytes cannot be trusted.
package final class Journal {
    /// Bytes from which a segment is followed by another, so that what is not needed any more can be taken away.
    package static let segmentBytes = 16 << 20

    package let identity: JournalIdentity
    /// Of the newest job in it, or before its first segment; 0 for none.
    package private(set) var lastPosition: Int64
    /// Positions of jobs that were taken back.
    package let cancelled: Set<Int64>
    /// Jobs behind the position that it was opened for.
    package let pendingCount: Int
    /// Bytes of all segments.
    package private(set) var byteCount: Int
    /// The torn tail that was cut off at the opening; nil when there was none.
    package let tail: JournalTail?

    private let folder: JournalFolder
    private let seed: UInt32
    private let segmentBytes: Int
    /// In the order of their numbers; the last one is appended to.
    private var segments: [Segment]
    private var file: Int32
    /// Of the last segment: its end, the last record's checksum.
    private var end: Int
    private var checksum: UInt32
    private var failure: JournalError?

    struct Segment {
        let head: JournalSegment
        /// The newest position in it or before it.
        var last: Int64
    }

    /// Opens the journal of a store, or makes one.
    ///
    /// A tail that was being written when the machine stopped is cut off; ``tail`` then says where.
    ///
    /// - Parameters:
    ///   - path: of its folder, beside the store.
    ///   - expected: the identity that the store remembers; nil when it was not fed from a journal.
    ///   - applied: the newest position that the store has applied.
    ///   - id: of the job at that position, as the store has it; nil when it does not know.
    ///   - mode: permissions of the files that it makes, less the mask of the process.
    ///   - system: what writes; a seam for faults.
    /// - Throws: ``JournalError``: `unusable` with the place when something is damaged, or it is not the store's.
    package convenience init(
        path: String, expected: JournalIdentity?, applied: Int64, idOfApplied id: String?, mode: UInt32,
        system: any JournalSystem
    ) throws(JournalError) {
        try self.init(
            JournalFolder(path: path, mode: mode, system: system), expected: expected, applied: applied, id: id,
            segmentBytes: Self.segmentBytes)
    }

    init(
        _ folder: JournalFolder, expected: JournalIdentity?, applied: Int64, id: String? = nil, segmentBytes: Int
    ) throws(JournalError) {
        self.folder = folder
        self.segmentBytes = segmentBytes
        try folder.make()
        var found = try JournalRecovery(folder, expected: expected, applied: applied, idOfApplied: id)
        var known = found.segments.last?.head.identity
        if let stranger = known, stranger != expected {
            // One that was made, and of which the store was not told before the machine stopped, has nothing in it.
            guard found.isEmpty else { throw folder.stranger(isFed: expected != nil) }
            for segment in found.segments { _ = try folder.remove(segment.head.path) }
            found = JournalRecovery()
            known = nil
        }
        identity = known ?? JournalIdentity()
        seed = identity.seed
        segments = found.segments
        cancelled = found.cancelled
        pendingCount = found.pendingCount
        byteCount = found.byteCount
        tail = found.tail
        lastPosition = found.segments.last?.last ?? applied
        (file, end, checksum) = (-1, 0, 0)
        if let last = found.segments.last {
            file = try folder.open(last.head.path)
            (end, checksum) = (found.end, found.checksum)
            try folder.cut(file, to: end)
            try folder.rewrite(last.head.path, file, to: end)
            folder.removeUnfinished(last.head.number + 1)
            if last.head.format == JournalSegment.currentFormat {
                try writeMark()
            } else {
                try startSegment(number: last.head.number + 1, before: lastPosition)
            }
        } else {
            try startSegment(number: 1, before: applied)
        }
    }

    deinit { if file >= 0 { Glibc.close(file) } }

    /// A journal is there, or what is left of one.
    ///
    /// - Throws: ``JournalError`` when there is something that cannot be looked into.
    package static func exists(_ path: String) throws(JournalError) -> Bool {
        let folder = JournalFolder(path: path)
        guard folder.isThere else { return false }
        return try !folder.segmentNumbers().isEmpty
    }

    /// Takes the journal away, whatever is in it.
    package func remove() throws(JournalError) {
        if let last = segments.last { folder.removeUnfinished(last.head.number + 1) }
        for segment in segments { _ = try folder.remove(segment.head.path) }
        segments = []
        folder.removeIfEmpty()
    }

    // MARK: - Appending

    /// Appends the entries, and makes them durable together.
    ///
    /// - Throws: ``JournalError``: `full` when there is no room, and then none of them is in the journal, and more may be
    ///   appended later; `broken` once and for all.
    package func append(_ entries: [JournalEntry]) throws(JournalError) {
        if let failure { throw failure }
        guard !entries.isEmpty else { return }
        if end >= segmentBytes { try startSegment(number: segments.last!.head.number + 1, before: lastPosition) }
        var bytes: [UInt8] = []
        var checksum = checksum
        var last = lastPosition
        for entry in entries {
            checksum = JournalRecord.write(entry, seed: seed, after: checksum, durable: end, to: &bytes)
            if entry.kind == .job { last = entry.position }
        }
        do throws(JournalError) {
            try folder.write(bytes, to: file, at: end)
        } catch {
            try undo(error)
        }
        do throws(JournalError) {
            try folder.sync(file)
            try folder.check(file, isAt: segments.last!.head.path)
            end += bytes.count
            try writeMark()
        } catch {
            failure = error
            throw error
        }
        byteCount += bytes.count
        self.checksum = checksum
        lastPosition = last
        segments[segments.count - 1].last = last
    }

    /// What was written of a group that has no room is taken away again.
    private func undo(_ cause: JournalError) throws(JournalError) -> Never {
        guard cause.code == .full else {
            failure = cause
            throw cause
        }
        do throws(JournalError) {
            try folder.cut(file, to: end)
        } catch {
            failure = error
            throw error
        }
        throw cause
    }

    /// Writes into the header how far the segment is synced. It is not synced itself: without it, a start after a loss of power
    /// takes damage behind the older mark for a torn tail, and nothing else is lost.
    private func writeMark(isClosed: Bool = false) throws(JournalError) {
        let mark = SegmentMark(synced: end, isClosed: isClosed)
        do throws(JournalError) {
            try folder.write(mark.bytes(seed: seed), to: file, at: JournalSegment.markOffset)
        } catch {
            // A file system that never writes over a block may have no room for another one. The older mark is right, too.
            guard error.code == .full else { throw error }
        }
    }

    private func startSegment(number: UInt64, before: Int64) throws(JournalError) {
        let path = JournalSegment.path(number, in: folder.path)
        let header = JournalSegment.header(number, identity, before: before)
        let new = try folder.create(path, header)
        if file >= 0 {
            // Format 1 has no mark.
            if segments.last!.head.format > 1 { try close(before: new) }
            Glibc.close(file)
        }
        file = new
        end = header.count
        byteCount += header.count
        let head = header.withUnsafeBytes { bytes in
            Result { () throws(JournalSegment.HeaderFault) in try JournalSegment(bytes, number: number, path: path) }
        }
        do throws(JournalSegment.HeaderFault) {
            let head = try head.get()
            checksum = head.headerChecksum
            segments.append(Segment(head: head, last: before))
        } catch {
            preconditionFailure("a header that was just made is whole")
        }
    }

    /// Marks the last segment as one that another follows, so that the loss of that one is noticed.
    ///
    /// - Parameter new: the file of the next segment, which is on the disk.
    private func close(before new: Int32) throws(JournalError) {
        do throws(JournalError) {
            try writeMark(isClosed: true)
            try folder.sync(file)
        } catch {
            Glibc.close(new)
            failure = error
            throw error
        }
    }

    // MARK: - Reading, trimming

    /// Reads the jobs behind a position, in order. To be done before anything is appended.
    package func jobs(after position: Int64) -> JournalReader {
        JournalReader(folder, segments.filter { $0.last > position }.map(\.head), after: position)
    }

    /// Takes away the segments in which there is nothing behind that position; the last one stays.
    package func trim(through position: Int64) throws(JournalError) {
        while segments.count > 1, segments[0].last <= position {
            byteCount -= try folder.remove(segments[0].head.path)
            segments.removeFirst()
        }
    }
}

/// The jobs of a journal, one after the other.
package struct JournalReader: Sendable {
    private let folder: JournalFolder
    private var segments: ArraySlice<JournalSegment>
    private var position: Int64
    private var scan: (scan: SegmentScan, bytes: MappedFile)?

    init(_ folder: JournalFolder, _ segments: [JournalSegment], after position: Int64) {
        self.folder = folder
        self.segments = segments[...]
        self.position = position
    }

    /// The next job; nil at the end.
    package mutating func next() throws(JournalError) -> JournalEntry? {
        while true {
            while let entry = scan?.scan.next() {
                guard entry.kind == .job, entry.position > position else { continue }
                position = entry.position
                return entry
            }
            if let ended = scan?.scan, ended.end(isLast: segments.isEmpty) != .whole {
                throw folder.damaged(ended.segment.path, at: ended.offset)
            }
            scan = nil
            guard let segment = segments.popFirst() else { return nil }
            let bytes = try folder.map(segment.path)
            scan = (SegmentScan(segment, bytes.bytes), bytes)
        }
    }
}
