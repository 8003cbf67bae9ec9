internal import Glibc

/// A journal of jobs on the disk: segments in a folder of their own, to which groups of entries are appended and
/// synced.
///
/// Belongs to one thread at a time; starts none. All calls block.
///
/// Invariants
/// 1. Entries for which ``append(_:)`` has returned are on the disk, and are read again after any crash.
/// 2. Positions rise.
/// 3. After the system has failed to make an entry durable, no entry is appended any more: a second sync does not show
///    whether the bytes of the first one are on the disk.
package final class Journal {
    /// The bytes after which another segment is begun, so that segments that are not needed can be deleted.
    package static let segmentBytes = 16 << 20

    package let identity: JournalIdentity
    /// The position of the newest entry in it, or before its first segment; 0 for none.
    package private(set) var lastPosition: Int64
    /// The time of the newest entry that it was opened with; 0 for none.
    package let lastTime: Int64
    package let cancelled: Set<Int64>
    /// The number of entries with positions after the one with which it was opened, and of jobs among them.
    package let pendingCount: Int
    package let pendingJobCount: Int
    package private(set) var byteCount: Int
    /// The torn tail that was truncated at the opening; nil when there was none.
    package let tail: JournalTail?

    private let folder: JournalFolder
    private let seed: UInt32
    private let segmentBytes: Int
    /// In the order of their numbers; entries are appended to the last one.
    private var segments: [Segment]
    private var file: Int32
    /// The same file by its name.
    package private(set) var appended: JournalFile
    /// The end of the last segment, and the checksum of its last record.
    private var end: Int
    private var checksum: UInt32
    private var failure: JournalError?

    struct Segment {
        let head: JournalSegment
        /// The newest position in it or before it.
        var last: Int64
    }

    /// Opens the journal of a store, or creates one. A tail that was being written when the machine stopped is truncated; ``tail``
    /// then has its position.
    ///
    /// - Parameters:
    ///   - path: of its folder, beside the store.
    ///   - expected: the identity that the store has; nil when the store has not applied jobs of a journal.
    ///   - applied: the newest position that the store has applied.
    ///   - id: the id of the job at that position in the store; nil when the store does not have it.
    ///   - mode: permissions of new files, less the umask of the process.
    /// - Throws: ``JournalError``: `unusable` when an entry is damaged, or the journal is another store's.
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
        var found = try Self.recover(folder, expected: expected, applied: applied, id: id)
        for path in found.unneeded { _ = try folder.remove(path) }
        var known = found.segments.last?.head.identity
        if known != expected {
            for segment in found.segments { _ = try folder.remove(segment.head.path) }
            found = JournalRecovery()
            known = nil
        }
        identity = known ?? JournalIdentity()
        seed = identity.seed
        segments = found.segments
        lastTime = found.lastTime
        cancelled = found.cancelled
        pendingCount = found.pendingCount
        pendingJobCount = found.pendingJobCount
        byteCount = found.byteCount
        tail = found.tail
        lastPosition = found.segments.last?.last ?? applied
        (file, end, checksum, appended) = (-1, 0, 0, JournalFile(-1, at: folder.path))
        if let last = found.segments.last {
            file = try folder.open(last.head.path)
            appended = JournalFile(file, at: last.head.path)
            (end, checksum) = (found.end, found.checksum)
            try folder.cut(file, to: end)
            try folder.rewrite(last.head.path, file, to: end)
            folder.removeUnfinished(last.head.number + 1)
            try writeMark()
        } else {
            try startSegment(number: 1, before: applied)
        }
    }

    deinit { if file >= 0 { Glibc.close(file) } }

    /// Reads and checks a journal as the opening does, and changes nothing. Returns the number of jobs that the store has not
    /// applied.
    package static func pendingJobs(
        path: String, expected: JournalIdentity?, applied: Int64, idOfApplied id: String?
    ) throws(JournalError) -> Int {
        let folder = JournalFolder(path: path)
        try folder.checkAccess()
        return try recover(folder, expected: expected, applied: applied, id: id).pendingJobCount
    }

    private static func recover(
        _ folder: JournalFolder, expected: JournalIdentity?, applied: Int64, id: String?
    ) throws(JournalError) -> JournalRecovery {
        let found = try JournalRecovery(folder, expected: expected, applied: applied, idOfApplied: id)
        if let last = found.segments.last, last.head.identity != expected, !found.isEmpty {
            throw folder.stranger(isFed: expected != nil)
        }
        // A journal that was created, but not noted in the store before the machine stopped, has no entries.
        return found
    }

    /// Whether a journal is at a path.
    package enum Presence {
        case absent
        /// A folder without a segment.
        case emptyFolder
        /// A journal, or a part of one.
        case present
    }

    package static func presence(_ path: String) throws(JournalError) -> Presence {
        let folder = JournalFolder(path: path)
        guard folder.isThere else { return .absent }
        return try folder.segmentNumbers().isEmpty ? .emptyFolder : .present
    }

    /// Deletes the journal with all its entries.
    package func remove() throws(JournalError) {
        if let last = segments.last { folder.removeUnfinished(last.head.number + 1) }
        for segment in segments { _ = try folder.remove(segment.head.path) }
        segments = []
        folder.removeIfEmpty()
    }

    // MARK: - Appending

    /// Appends the entries, and makes them durable with one sync.
    ///
    /// - Throws: ``JournalError``: `full` when there is no room; then none of them is in the journal, and more may be
    ///   appended later. `lost` is permanent, and none of them is in the journal. `broken` is permanent.
    package func append(_ entries: [LogEntry]) throws(JournalError) {
        guard !entries.isEmpty else { return }
        try checkPlace()
        if end >= segmentBytes { try startSegment(number: segments.last!.head.number + 1, before: lastPosition) }
        var bytes: [UInt8] = []
        var checksum = checksum
        var last = lastPosition
        for entry in entries {
            checksum = JournalRecord.write(entry, seed: seed, after: checksum, durable: end, to: &bytes)
            if entry.kind.hasPosition { last = entry.position }
        }
        do throws(JournalError) {
            try folder.write(bytes, to: file, at: end)
        } catch {
            try cut(after: error)
            throw error
        }
        try orFail { () throws(JournalError) in
            try folder.sync(file)
            do throws(JournalError) {
                try checkPlace()
            } catch {
                // The entries are refused, and a journal that is put back must not have them.
                try folder.cut(file, to: end)
                throw error
            }
            end += bytes.count
            try writeMark()
        }
        byteCount += bytes.count
        self.checksum = checksum
        lastPosition = last
        segments[segments.count - 1].last = last
    }

    private func checkPlace() throws(JournalError) {
        if let failure { throw failure }
        try orFail { () throws(JournalError) in try appended.check() }
    }

    /// Runs what must not fail: after that nothing is appended any more.
    private func orFail(_ body: () throws(JournalError) -> Void) throws(JournalError) {
        do throws(JournalError) {
            try body()
        } catch {
            failure = error
            throw error
        }
    }

    /// Whether a journal whose disk was full has room for that many bytes: they are written, and cut off again.
    package func hasRoom(for bytes: Int) throws(JournalError) -> Bool {
        try checkPlace()
        do throws(JournalError) {
            try folder.write([UInt8](repeating: 0, count: bytes), to: file, at: end)
            try folder.cut(file, to: end)
            return true
        } catch {
            try cut(after: error)
            return false
        }
    }

    /// Truncates the written part of a group for which there is no room.
    private func cut(after cause: JournalError) throws(JournalError) {
        try orFail { () throws(JournalError) in
            guard cause.code == .full else { throw cause }
            try folder.cut(file, to: end)
        }
    }

    /// Writes the synced length of the segment into the header. The header itself is not synced: without it, a start
    /// after a power failure treats damage after the older mark as a torn tail, and nothing else is lost.
    private func writeMark(isClosed: Bool = false) throws(JournalError) {
        let mark = SegmentMark(synced: end, isClosed: isClosed)
        do throws(JournalError) {
            try folder.write(mark.bytes(seed: seed), to: file, at: JournalSegment.markOffset)
        } catch {
            // A file system that never overwrites a block may have no room for another one. The older mark is valid,
            // too.
            guard error.code == .full else { throw error }
        }
    }

    private func startSegment(number: UInt64, before: Int64) throws(JournalError) {
        let path = JournalSegment.path(number, in: folder.path)
        let header = JournalSegment.header(number, identity, before: before)
        let new = try folder.create(path, header)
        if file >= 0 {
            try close(before: new)
            Glibc.close(file)
        }
        file = new
        appended = JournalFile(file, at: path)
        end = header.count
        byteCount += header.count
        let head = try header.span.withUnsafeBytes { bytes throws(JournalError) in
            try JournalSegment(bytes, number: number, path: path)
        }
        checksum = head.headerChecksum
        segments.append(Segment(head: head, last: before))
    }

    /// Marks the last segment as one that has a successor, whose file is on the disk, so that the loss of the successor is
    /// detected.
    private func close(before new: Int32) throws(JournalError) {
        try orFail { () throws(JournalError) in
            do throws(JournalError) {
                try writeMark(isClosed: true)
                try folder.sync(file)
            } catch {
                Glibc.close(new)
                throw error
            }
        }
    }

    // MARK: - Reading, trimming

    /// Reads the entries after a position that have one, in order. Must be called before entries are appended.
    package func entries(after position: Int64) -> JournalReader {
        JournalReader(folder, segments.filter { $0.last > position }.map(\.head), after: position)
    }

    /// Deletes the segments that have no job after that position; the last segment stays.
    package func trim(through position: Int64) throws(JournalError) {
        // Files of these names may belong to another journal now.
        while segments.count > 1, segments[0].last <= position {
            try checkPlace()
            byteCount -= try folder.remove(segments[0].head.path)
            segments.removeFirst()
        }
    }
}

/// The entries of a journal that have positions, one after the other.
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

    /// The next entry; nil at the end.
    package mutating func next() throws(JournalError) -> LogEntry? {
        while true {
            while let entry = scan?.scan.next() {
                guard entry.kind.hasPosition, entry.position > position else { continue }
                position = entry.position
                return entry
            }
            if let ended = scan?.scan, ended.end(isLast: segments.isEmpty) != .whole {
                throw .damaged(ended.segment.path, at: ended.offset)
            }
            scan = nil
            guard let segment = segments.popFirst() else { return nil }
            let bytes = try folder.map(segment.path)
            scan = (SegmentScan(segment, bytes.bytes), bytes)
        }
    }
}

package struct JournalIdentity: Sendable, Hashable, CustomStringConvertible {
    let bytes: [UInt8]

    package var seed: UInt32 { bytes.withUnsafeBytes { JournalRecord.checksum($0, seed: 0) } }

    /// A new, random identity.
    package init() {
        var generator = SystemRandomNumberGenerator()
        bytes = (0..<16).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }

    init?(_ bytes: [UInt8]) {
        guard bytes.count == 16 else { return nil }
        self.bytes = bytes
    }

    /// Parses ``description``; nil for any other text.
    package init?(_ text: String) {
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
    package var description: String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
