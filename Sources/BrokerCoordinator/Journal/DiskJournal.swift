internal import BrokerJSON
internal import BrokerJournal
internal import BrokerModel
internal import BrokerStore
internal import Glibc
internal import Logging

/// The log on the disk. ``read(after:bytes:)`` also writes it: entries that wait together are made durable together, and are
/// read then.
///
/// It never waits for a timer: while one group is made durable, the next gathers.
final class DiskJournal: JobLog {
    private struct Queue {
        var entries: [PendingEntry] = []
        var appliedThrough: Int64 = 0
        var trimmedThrough: Int64 = 0
        var isStopping = false
        var bytes = 0
        var file: JournalFile
        /// Why there was no room for entries; nil while there is.
        var fullness: StoreError?
    }

    /// The files, and what the reading thread knows of them: it alone touches them.
    private final class Files: @unchecked Sendable {
        let journal: Journal
        /// The entries of earlier runs that were not delivered.
        var earlier: JournalReader
        var earlierCount: Int
        var last: LogPlace
        /// Bytes of the group for which there was no room, and when to look again; nil while there is room.
        var full: (bytes: Int, nextLook: Int64)?

        init(_ journal: Journal, after sequence: Int64, applied: Int64) {
            self.journal = journal
            earlier = journal.entries(after: applied)
            earlierCount = journal.pendingCount
            last = LogPlace(position: max(sequence, journal.lastPosition), time: journal.lastTime)
        }
    }

    let backlog: Int
    let takesCancellations = true
    private static let lookMicroseconds: Int64 = 1_000_000
    /// The bytes of a refused group that must have room, at most.
    private static let lookBytes = 1 << 20
    private let queue: Monitor<Queue>
    private let files: Files
    private let logger: Logger

    /// - Parameters:
    ///   - journal: handed over; the caller does not touch it any more.
    ///   - sequence: the newest that was given before.
    ///   - applied: the newest position that the store has applied.
    init(_ journal: Journal, after sequence: Int64, applied: Int64, logger: Logger) {
        backlog = journal.pendingCount
        queue = Monitor(Queue(bytes: journal.byteCount, file: journal.appended))
        files = Files(journal, after: sequence, applied: applied)
        self.logger = logger
    }

    func append(_ entry: PendingEntry) {
        queue.signal { queue in
            queue.entries.append(entry)
            return queue.entries.count == 1
        }
    }

    func applied(through position: Int64) {
        queue.withLock { $0.appliedThrough = max($0.appliedThrough, position) }
    }

    func write(to writer: inout JSONWriter) {
        let (bytes, waiting) = queue.withLock { ($0.bytes, $0.entries.count) }
        writer.member("bytes", bytes)
        writer.member("waiting", waiting)
    }

    func checkFiles() throws(StoreError) {
        let file = queue.withLock { $0.file }
        try onJournal { () throws(JournalError) in try file.check() }
    }

    var fullness: StoreError? {
        let (file, fullness) = queue.withLock { ($0.file, $0.fullness) }
        return fullness ?? DiskSpace(of: file.path).fullness
    }

    func stop() {
        queue.update { $0.isStopping = true }
    }

    // MARK: - Reading

    func read(after position: Int64, bytes: Int) throws(StoreError) -> [LogItem]? {
        if files.earlierCount > 0 { return try readEarlier(bytes) }
        while let (entries, applied) = take() {
            let items = entries.isEmpty ? [] : try write(entries)
            // Before the file that was appended to before is deleted.
            let file = files.journal.appended
            queue.withLock { $0.file = file }
            trim(through: applied)
            try look()
            let byteCount = files.journal.byteCount
            queue.withLock { $0.bytes = byteCount }
            if !items.isEmpty { return items }
        }
        return nil
    }

    private func readEarlier(_ bytes: Int) throws(StoreError) -> [LogItem] {
        var items: [LogItem] = []
        var count = 0
        while files.earlierCount > 0, count < bytes,
            let entry = try onJournal({ () throws(JournalError) in try files.earlier.next() })
        {
            count += entry.payload.count
            files.earlierCount -= 1
            items.append(
                entry.kind == .job
                    ? .other(entry, isCancelled: files.journal.cancelled.contains(entry.position)) : .change(entry))
        }
        return items
    }

    /// Waits for work, and while the disk is full, for the next look at it; nil when no more will come.
    private func take() -> (entries: [PendingEntry], applied: Int64)? {
        guard let full = files.full else { return queue.wait(Self.takeWork) }
        return queue.wait(until: full.nextLook, Self.takeWork) ?? ([], 0)
    }

    private static let takeWork: @Sendable (inout Queue) -> (entries: [PendingEntry], applied: Int64)?? = { queue in
        let hasWork = !queue.entries.isEmpty || queue.appliedThrough > queue.trimmedThrough
        guard hasWork else { return queue.isStopping ? .some(nil) : nil }
        queue.trimmedThrough = queue.appliedThrough
        defer { queue.entries.removeAll(keepingCapacity: queue.entries.count < 4_096) }
        return (queue.entries, queue.appliedThrough)
    }

    /// Gives the entries their places, except cancellations, and makes all of them durable.
    private func write(_ entries: [PendingEntry]) throws(StoreError) -> [LogItem] {
        var (position, time) = (files.last.position ?? 0, files.last.time)
        var stored: [LogEntry] = []
        stored.reserveCapacity(entries.count)
        let writtenAt = monotonicMicroseconds()
        for pending in entries {
            var entry = pending.whole
            if entry.kind.hasPosition {
                position += 1
                // The clock of the machine may be set back; the time of the log never falls.
                time = max(time, entry.time)
                (entry.position, entry.time) = (position, time)
            }
            stored.append(entry)
        }
        do throws(JournalError) {
            try files.journal.append(stored)
        } catch {
            guard error.code != .broken else { throw StoreError(error) }
            let cause = StoreError(error)
            if error.code == .full { noteFull(cause, stored.reduce(0) { $0 + $1.payload.count }) }
            return entries.map { .refused($0, cause) }
        }
        files.last = LogPlace(position: position, time: time)
        let durableAt = monotonicMicroseconds()
        return zip(entries, stored).map { pending, entry in
            switch entry.kind {
            case .cancellation: .cancellation(pending)
            case .job:
                .job(
                    ticket: pending.ticket,
                    LogPlace(
                        position: entry.position, time: entry.time, writtenAt: writtenAt, durableAt: durableAt))
            case .model, .limits, .replica, .checkpoint, .upgrade: .change(entry, ticket: pending.ticket)
            }
        }
    }

    private func noteFull(_ error: StoreError, _ bytes: Int) {
        if files.full == nil {
            logger.error("New jobs are refused: the journal cannot be written.", metadata: ["cause": "\(error)"])
        }
        files.full = (
            max(files.full?.bytes ?? 0, min(bytes, Self.lookBytes)), monotonicMicroseconds() + Self.lookMicroseconds
        )
        queue.withLock { $0.fullness = error }
    }

    /// Looks once a second whether a full disk has room for what was refused. A smaller job may fit before.
    private func look() throws(StoreError) {
        guard let full = files.full, full.nextLook <= monotonicMicroseconds() else { return }
        do throws(JournalError) {
            guard try files.journal.hasRoom(for: full.bytes) else {
                files.full?.nextLook = monotonicMicroseconds() + Self.lookMicroseconds
                return
            }
        } catch {
            guard error.code != .lost else { return files.full = nil }
            throw StoreError(error)
        }
        logger.notice("The journal has room again; new jobs are accepted.")
        files.full = nil
        queue.withLock { $0.fullness = nil }
    }

    private func trim(through position: Int64) {
        guard position > 0 else { return }
        do throws(JournalError) {
            try files.journal.trim(through: position)
        } catch {
            guard error.code != .lost else { return }
            // It is tried again with the next ones; until then the journal is longer than necessary.
            logger.warning("An old file of the journal could not be deleted.", metadata: ["cause": "\(error)"])
        }
    }
}

/// The room that a file has to grow.
struct DiskSpace {
    /// With less, not even a small job has room.
    private static let fewestBytes: UInt64 = 64 << 10

    /// O_TMPFILE, which Swift does not import.
    private static let temporary = 0o20_000_000 | O_DIRECTORY

    private let path: String

    init(of path: String) { self.path = path }

    /// Why nothing has room; nil while something may have.
    var fullness: StoreError? {
        var system = statvfs()
        // Some file systems report nothing.
        guard statvfs(path, &system) == 0, system.f_blocks > 0 else { return nil }
        // Some blocks are reserved for root.
        let bytes = UInt64(geteuid() == 0 ? system.f_bfree : system.f_bavail) * UInt64(system.f_frsize)
        guard bytes < Self.fewestBytes else { return nil }
        return StoreError(
            .full,
            "The disk of \(path) is full: \(bytes) bytes are free. Free some space; jobs go on then by themselves.")
    }

    /// Whether the file may grow by that many bytes, as far as the system reports it: they are allocated in a file without a name,
    /// at the same offset, so that the limits of quotas and of a file's size count, too.
    func hasRoom(for bytes: Int) -> Bool {
        var status = stat()
        guard stat(path, &status) == 0 else { return true }
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
        let file = open(folder, O_WRONLY | O_CLOEXEC | Self.temporary, 0o600)
        guard file >= 0 else { return errno != ENOSPC && errno != EDQUOT }
        defer { close(file) }
        return ![ENOSPC, EDQUOT, EFBIG].contains(posix_fallocate(file, status.st_size, off_t(max(1, bytes))))
    }
}
