internal import BrokerJSON
internal import BrokerJournal
internal import BrokerStaging
package import BrokerStore
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

/// Checks that a store and the journal beside it belong together, before anything is written to either.
enum JournalOpening {
    /// A server without a journal, which would migrate the store: leaves the journal beside it with the model in force, since no
    /// refusal may follow a migration.
    static func leaveBeforeMigration(
        to plan: StagingPlan, _ options: CoordinatorOptions, _ logger: Logger
    ) throws(StoreError) {
        guard !options.keepsJournal, try Store.hasJournal(path: options.storePath),
            let inForce = try Store.planInForce(path: options.storePath, unlike: plan)
        else { return }
        var opening = options.store
        // Parts of the file that are not in that model may be in the wanted one.
        opening.removal = .keep
        _ = try open(for: Store(path: options.storePath, plan: inForce, options: opening), options, logger)
    }

    /// The number of accepted jobs that the store, which is not open, has not applied. Opening the store copies its WAL, which a
    /// refused start must not have done. Changes nothing. Throws as ``open(for:_:_:)``.
    static func pendingJobs(_ store: String, isKept: Bool) throws(StoreError) -> Int {
        let position = try Store.logPosition(path: store)
        let path = try Store.journal(path: store).location + ".journal"
        guard isKept || position != nil, try exists(path, isExpected: position != nil) else { return 0 }
        return try onJournal { () throws(JournalError) in
            try Journal.pendingJobs(
                path: path, expected: position?.identity.flatMap { JournalIdentity($0) },
                applied: position?.applied ?? 0, idOfApplied: position?.id)
        }
    }

    /// - Throws: ``StoreError`` when the start would be refused because of the journal.
    static func check(_ options: CoordinatorOptions) throws(StoreError) {
        let jobs = try pendingJobs(options.storePath, isKept: options.keepsJournal)
        guard jobs > 0, !options.keepsJournal else { return }
        throw StoreError(
            .incompatible,
            "The journal of \(options.storePath) holds \(jobs) jobs that were accepted, and that the store has not applied. Start "
                + "with --journal, which applies them; or, to give them up, move the journal away. Nothing was touched."
        )
    }

    /// - Returns: the journal with the jobs that the store has not applied; nil when none is wanted.
    /// - Throws: ``StoreError`` when they do not belong together, something is damaged, or jobs would be lost.
    static func open(
        for store: Store, _ options: CoordinatorOptions, _ logger: Logger
    ) throws(StoreError) -> Journal? {
        let path = store.location + ".journal"
        let remembered = try store.logPosition()
        let expected = remembered.identity.flatMap { JournalIdentity($0) }
        guard options.keepsJournal else {
            if expected != nil {
                try leave(path, expected: expected, after: remembered, options, of: store, logger: logger)
            }
            return nil
        }
        let isThere = try exists(path, isExpected: expected != nil)
        let journal = try opened(path, expected: expected, after: remembered, options, logger: logger)
        if journal.identity != expected {
            if expected != nil, !isThere {
                logger.warning(
                    """
                    The store was fed from a journal that is missing; a new one is begun. Jobs that were accepted, and \
                    that the store has not applied, are lost with the old one.
                    """,
                    metadata: ["applied": "\(remembered.applied)"])
            }
            try store.beginLog(journal.identity.description, after: journal.lastPosition)
        }
        return journal
    }

    /// - Parameter isExpected: the store was fed from a journal.
    /// - Throws: also when the journal's folder is there without its files. (A copy of the store alone has no folder.)
    fileprivate static func exists(_ path: String, isExpected: Bool) throws(StoreError) -> Bool {
        let presence = try onJournal { () throws(JournalError) in try Journal.presence(path) }
        if presence == .emptyFolder, isExpected {
            throw StoreError(
                .incompatible,
                "The journal \(path) lacks its files, and jobs that were accepted may be in them. Put them back; or, to give such "
                    + "jobs up, delete the folder. Nothing was touched.")
        }
        return presence == .present
    }

    private static func opened(
        _ path: String, expected: JournalIdentity?, after remembered: JournalPosition, _ options: CoordinatorOptions,
        logger: Logger
    ) throws(StoreError) -> Journal {
        let journal = try onJournal { () throws(JournalError) in
            try Journal(
                path: path, expected: expected, applied: remembered.applied, idOfApplied: remembered.id,
                mode: options.store.fileMode ?? StoreLock.defaultMode, system: options.journalSystem)
        }
        if let tail = journal.tail {
            logger.warning(
                """
                The end of the journal was being written when the server or the machine stopped, and was cut off. \
                No client was answered for the jobs in it.
                """, metadata: ["file": "\(tail.file)", "byte": "\(tail.offset)", "bytes": "\(tail.bytes)"])
        }
        return journal
    }

    /// The server runs without a journal, and the store was fed from one: deletes it, if it is not needed any more.
    private static func leave(
        _ path: String, expected: JournalIdentity?, after remembered: JournalPosition, _ options: CoordinatorOptions,
        of store: Store, logger: Logger
    ) throws(StoreError) {
        let isThere = try exists(path, isExpected: true)
        if isThere {
            let journal = try opened(path, expected: expected, after: remembered, options, logger: logger)
            try onJournal { () throws(JournalError) in try journal.remove() }
        }
        try store.endLog()
        guard isThere else {
            return logger.warning(
                """
                The store was fed from a journal that is missing, and continues without one. Jobs that were accepted, and \
                that the store has not applied, are lost with it.
                """,
                metadata: ["applied": "\(remembered.applied)"])
        }
        logger.notice("The store continues without its journal, all of whose jobs are applied.")
    }
}

extension StoreError {
    init(_ error: JournalError) {
        self.init(error.code == .full ? .full : .unavailable, error.message)
    }
}

/// Runs what may fail because of the journal: to clients and operators it is a part of the store.
func onJournal<Value>(_ body: () throws(JournalError) -> Value) throws(StoreError) -> Value {
    do throws(JournalError) {
        return try body()
    } catch {
        throw StoreError(error)
    }
}

/// The journal beside a store, as a start would find it.
package struct JournalFinding: Sendable {
    package enum State: Sendable {
        /// The store was not fed from a journal, and the server uses none.
        case unused
        /// A journal would be begun.
        case new
        /// The folder has the journal that the store was fed from.
        case present
        /// The store was fed from a journal that is not there.
        case missing
    }

    /// The path of the journal's folder.
    package let path: String
    package let state: State
}

extension JournalFinding {
    /// The journal beside a store, which may be absent, as a start would find it. Changes nothing.
    ///
    /// - Parameter isKept: the server would keep a journal.
    /// - Throws: ``StoreError`` when the start would fail because of the journal, but for jobs that wait in one that is not kept.
    package init(store: String, isKept: Bool) throws(StoreError) {
        let (location, known) = try Store.journal(path: store)
        try SharedLogSource.refuse(known, at: store)
        path = location + ".journal"
        let isFed = known.flatMap { JournalIdentity($0) } != nil
        guard isKept || isFed else {
            state = .unused
            return
        }
        guard try JournalOpening.exists(path, isExpected: isFed) else {
            state = isFed ? .missing : .new
            return
        }
        try Self.read(store, isKept: isKept, attempts: 3)
        state = isFed ? .present : .new
    }

    /// Beside a server that runs, a fault counts if no job was applied meanwhile: files are deleted with the jobs in them.
    private static func read(_ store: String, isKept: Bool, attempts: Int) throws(StoreError) {
        let position = try Store.logPosition(path: store)
        do throws(StoreError) {
            _ = try JournalOpening.pendingJobs(store, isKept: isKept)
        } catch {
            guard attempts > 1, try Store.logPosition(path: store) != position else { throw error }
            try read(store, isKept: isKept, attempts: attempts - 1)
        }
    }

    /// The number of accepted jobs in the journal beside a store that it has not applied. Changes nothing.
    ///
    /// - Throws: ``StoreError`` when the journal cannot be read, or is not that of the store.
    package static func pendingJobs(store: String) throws(StoreError) -> Int {
        try JournalOpening.pendingJobs(store, isKept: true)
    }
}
