internal import CSQLite
internal import Glibc

/// Counts, copies and measures the WAL of the writing connection.
final class WALCheckpointer {
    private let connection: Connection
    private let name: String
    private var watch: WALWatch
    private var hasFailed = false
    private var triedIdly = false
    private var isCopyDue = false
    /// Pages in the WAL after the last COMMIT that wrote, otherwise negative: SQLite's hook writes to it.
    private let pages: UnsafeMutablePointer<Int32>
    private(set) var status = WALStatus()
    private(set) var notices: [WALNotice] = []

    init(of connection: Connection, file name: String, workingPages: Int) throws(StoreError) {
        self.connection = connection
        self.name = name
        watch = WALWatch(workingPages: workingPages)
        pages = .allocate(capacity: 1)
        pages.initialize(to: -1)
        status.bytes = fileSize(name) ?? 0
        // Replaces SQLite's own hook, which copies without reporting its progress.
        sqlite3_wal_hook(
            connection.handle,
            { context, _, _, pages in
                context?.assumingMemoryBound(to: Int32.self).pointee = pages
                return SQLITE_OK
            }, pages)
        _ = writtenPages()
    }

    deinit {
        sqlite3_wal_hook(connection.handle, nil, nil)
        pages.deallocate()
    }

    func takeNotices() -> [WALNotice] {
        defer { notices = [] }
        return notices
    }

    /// To be called after COMMIT. A failure here does not affect the transaction, so it is reported as a notice.
    func committed() {
        let written = writtenPages()
        guard pages.pointee >= 0 else { return }
        triedIdly = false
        let changed = watch.committed(pages: Int(pages.pointee), written: written)
        pages.pointee = -1
        isCopyDue = watch.wantsCheckpoint
        status.bytes = fileSize(name) ?? 0
        status.uncheckpointedPages = watch.uncheckpointedPages
        if let changed { notices.append(changed ? .held(bytes: status.bytes) : .released(bytes: status.bytes)) }
    }

    /// The WAL was due before the last COMMIT, which was appended to it, and has grown by a working size since this was
    /// last true. So the writer does not wait again at each COMMIT for readers that stay.
    var isOverdue: Bool { isCopyDue && watch.isOverdue }

    var isLong: Bool { watch.isLong }

    func notedLong() { watch.notedLong() }

    /// The first bytes of the WAL, which are others after each restart (sqlite.org/fileformat2.html, 4.1); nil without one.
    func header() -> [UInt8]? {
        guard let file = fopen(name, "r") else { return nil }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 32)
        return fread(&bytes, bytes.count, 1, file) == 1 ? bytes : nil
    }

    /// Copies the WAL, however long: one that a new connection finds may leave no room for what opening a store writes.
    func copyAll() {
        checkpoint()
        status.bytes = fileSize(name) ?? 0
    }

    /// Copies the WAL if the last COMMIT has made it long. Returns whether it was due.
    @discardableResult
    func copyIfDue() -> Bool {
        guard isCopyDue else { return false }
        isCopyDue = false
        if watch.isOverdue { watch.notedOverdue() }
        checkpoint()
        return true
    }

    /// Copies the WAL after a transaction found no room, so that the next overwrites it. Returns whether that may find more.
    func makeRoom() -> Bool {
        watch.isShort = true
        let before = watch
        checkpoint()
        // Pages that were copied before gain no room. Another connection may have written more than the watch has seen.
        return watch.uncheckpointedPages == 0 && watch != before
    }

    var hasIdleWork: Bool { watch.wantsCheckpointWhenIdle && !triedIdly }

    /// To be called while no client waits for a transaction.
    func idle() {
        // Pages that a reader holds cannot be copied; the writer tries again only when there are more.
        triedIdly = true
        checkpoint()
    }

    /// Copies the WAL, and truncates its file unless a reader uses it.
    func empty() throws(StoreError) {
        var inLog: Int32 = 0
        var copied: Int32 = 0
        let result = sqlite3_wal_checkpoint_v2(connection.handle, nil, SQLITE_CHECKPOINT_TRUNCATE, &inLog, &copied)
        // A reader holds the WAL: SQLite copied the pages that it could.
        guard result == SQLITE_OK || result & 0xFF == SQLITE_BUSY else {
            throw connection.error(result)
        }
        if inLog >= 0 { watch.checkpointed(copied: Int(copied), of: Int(inLog)) }
        if result == SQLITE_OK, inLog == 0 { watch.emptied() }
        status.bytes = fileSize(name) ?? 0
        noteCheckpoint(result)
    }

    private func noteCheckpoint(_ result: Int32) {
        status.uncheckpointedPages = watch.uncheckpointedPages
        guard result == SQLITE_OK, watch.uncheckpointedPages == 0 else { return }
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        status.checkpointedAt = Int64(now.tv_sec) * 1_000 + Int64(now.tv_nsec) / 1_000_000
    }

    private func checkpoint() {
        var inLog: Int32 = 0
        var copied: Int32 = 0
        let result = sqlite3_wal_checkpoint_v2(connection.handle, nil, SQLITE_CHECKPOINT_PASSIVE, &inLog, &copied)
        if result == SQLITE_OK, inLog >= 0 { watch.checkpointed(copied: Int(copied), of: Int(inLog)) }
        noteCheckpoint(result)
        // Another connection copies it at the moment.
        let hasFailedNow = result != SQLITE_OK && result & 0xFF != SQLITE_BUSY
        if hasFailedNow {
            let error = connection.error(result)
            // A failed disk ends the writer, and is reported as that.
            if !hasFailed, !error.isDiskFailure { notices.append(.uncopied(error)) }
        }
        if !hasFailedNow, hasFailed { notices.append(.copied) }
        hasFailed = hasFailedNow
    }

    private func writtenPages() -> Int {
        var current: Int32 = 0
        var highest: Int32 = 0
        sqlite3_db_status(connection.handle, SQLITE_DBSTATUS_CACHE_WRITE, &current, &highest, 1)
        return Int(current)
    }
}

/// An event of the WAL that an operator should know: reported once when it begins, and once when it ends.
package enum WALNotice: Sendable {
    /// The WAL grows, because a reader's transaction stays open and needs its pages.
    case held(bytes: Int)
    /// The WAL has been truncated to its working size.
    case released(bytes: Int)
    /// The WAL could not be copied into the database, and so grows; committed transactions are safe in it.
    case uncopied(StoreError)
    case copied
}

/// The state of SQLite's write-ahead log (WAL), beside the database.
package struct WALStatus: Sendable, Equatable {
    package var bytes = 0
    /// Pages in it that are not in the database yet.
    package var uncheckpointedPages = 0
    /// When all of it was last copied into the database, in milliseconds since 1970; nil for not since the store was opened.
    package var checkpointedAt: Int64?

    package init() {}
}

/// Follows the WAL from COMMIT to COMMIT: its length, whether it can restart, and when to copy it.
///
/// SQLite copies the WAL into the database (a checkpoint) once it has its working size, and then restarts at its
/// beginning, unless a reader still needs its pages. So when the WAL exceeded its size before a transaction, and that
/// transaction was appended, a reader holds it.
///
/// While transactions are long, the WAL may get longer: each transaction writes the same leaves of an index whose keys
/// arrive in no order, and one checkpoint copies them once for several transactions. (Measured: the last tenth of three
/// million records is a tenth faster.)
struct WALWatch: Equatable {
    /// In units of the working size: the maximum length of the WAL before it is copied, while transactions are long.
    static let longestFactor = 4
    /// In units of a transaction's size: the length at which the WAL is copied, within the limits above.
    static let transactionsInLog = 8
    /// In units of the working size; more than the longest, because a reader may hold the WAL for a moment.
    static let heldFactor = 8
    /// The share of the working size at which an idle writer copies the WAL: so little that the next job hardly waits
    /// for it. Under a light load, the WAL never reaches its working size, and no long checkpoint is needed.
    static let idleShare = 8

    let workingPages: Int
    /// A transaction found no room: the WAL no longer exceeds its working size.
    var isShort = false
    private(set) var isHeld = false
    private var pages = 0
    private var copiedPages = 0
    private var written = 0
    /// Pages in the WAL when it was last overdue; 0 when it has restarted since.
    private var overdueAt = 0
    /// Pages in the WAL when the writer last waited for a backup tool; 0 when it has restarted since.
    private var waitedAt = 0

    init(workingPages: Int) { self.workingPages = workingPages }

    var wantsCheckpoint: Bool { pages >= dueLength }

    private var dueLength: Int {
        let longest = isShort ? workingPages : workingPages * Self.longestFactor
        return min(max(workingPages, written * Self.transactionsInLog), longest)
    }

    /// The WAL was due before the last transaction: a reader uses it. False again until it has grown by a working size.
    var isOverdue: Bool { pages - written >= dueLength && pages >= overdueAt + workingPages }

    mutating func notedOverdue() { overdueAt = pages }

    /// The WAL is as long as one that a reader holds. False again until it has grown by that length.
    var isLong: Bool { pages > waitedAt + workingPages * Self.heldFactor }

    mutating func notedLong() { waitedAt = pages }
    var wantsCheckpointWhenIdle: Bool { uncheckpointedPages >= max(1, workingPages / Self.idleShare) }
    var uncheckpointedPages: Int { max(0, pages - copiedPages) }

    /// Records a transaction with its pages. Returns whether a reader holds the WAL, when that has changed.
    mutating func committed(pages: Int, written: Int) -> Bool? {
        // The WAL restarted: it has only this transaction, or it is shorter, and another program wrote to it before.
        let isRestarted = pages <= written || pages < self.pages
        if isRestarted {
            copiedPages = 0
            overdueAt = 0
            waitedAt = 0
        }
        self.pages = pages
        self.written = written
        let isHeldNow = pages - written > workingPages * Self.heldFactor || (isHeld && !isRestarted)
        defer { isHeld = isHeldNow }
        return isHeldNow == isHeld ? nil : isHeldNow
    }

    mutating func emptied() {
        pages = 0
        copiedPages = 0
        waitedAt = 0
    }

    mutating func checkpointed(copied: Int, of pages: Int) {
        copiedPages = copied
        self.pages = pages
    }
}

/// Another process that has a read transaction open on the store, which may hold the WAL.
package struct WALReader: Sendable, Equatable {
    /// Nil for a process that this one cannot see, such as one in another container.
    package let pid: Int32?
    /// The name of its program (proc(5), comm); nil where the kernel does not report it.
    package let process: String?

    /// A program that copies the WAL all the time, and holds it until it has copied and checkpointed it (litestream.io).
    package var isBackupTool: Bool { process == "litestream" }

    /// SQLite's locks of readers in the file `-shm`, a byte each (sqlite.org/walformat.html, section 2.3).
    private static let lockOffsets: ClosedRange<off_t> = 123...127

    /// The readers of the store at that path, at most one for each of SQLite's locks.
    ///
    /// `F_GETLK` asks through a descriptor that SQLite has open. A descriptor of our own would end all of SQLite's locks
    /// in this process when it is closed (fcntl_locking(2)); and `/proc/locks` is not there under `ProcSubset=pid`.
    package static func others(ofStoreAt path: String) -> [WALReader] {
        // The file is where the symbolic links of the store's path lead.
        guard let location = realpath(path, nil) else { return [] }
        defer { free(location) }
        guard let descriptor = openDescriptor(ofFileAt: String(cString: location) + "-shm") else { return [] }
        var readers: [WALReader] = []
        for offset in lockOffsets {
            var lock = flock()
            lock.l_type = Int16(F_WRLCK)
            lock.l_whence = Int16(SEEK_SET)
            lock.l_start = offset
            lock.l_len = 1
            guard fcntl(descriptor, F_GETLK, &lock) == 0, lock.l_type == Int16(F_RDLCK) else { continue }
            let pid = lock.l_pid > 0 ? lock.l_pid : nil
            let reader = WALReader(pid: pid, process: pid.flatMap(name))
            if !readers.contains(reader) { readers.append(reader) }
        }
        return readers
    }

    /// A descriptor by which this process has the file open.
    private static func openDescriptor(ofFileAt path: String) -> Int32? {
        var file = stat()
        guard stat(path, &file) == 0, let folder = opendir("/proc/self/fd") else { return nil }
        defer { closedir(folder) }
        while let entry = readdir(folder) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            var status = stat()
            guard let descriptor = Int32(name), fstat(descriptor, &status) == 0 else { continue }
            if status.st_ino == file.st_ino, status.st_dev == file.st_dev { return descriptor }
        }
        return nil
    }

    private static func name(of pid: Int32) -> String? {
        guard let file = fopen("/proc/\(pid)/comm", "r") else { return nil }
        defer { fclose(file) }
        // The kernel's names have at most 15 bytes, and a newline after them.
        var line = [CChar](repeating: 0, count: 64)
        guard fgets(&line, Int32(line.count), file) != nil else { return nil }
        let name = line.map(UInt8.init(bitPattern:)).prefix { $0 != 0 && $0 != UInt8(ascii: "\n") }
        return String(decoding: name, as: UTF8.self)
    }
}

/// SQLite's write-ahead log (WAL) beside the store.
extension Store {
    /// Copies the WAL into the database if it has reached its working size. To be called after every `commit()`, when
    /// the replies to its jobs have been sent: it may take as long as the disk does.
    package func copyWALIfDue() {
        guard loss == nil, failure == nil, walCheckpointer.copyIfDue(), ledger.history != nil else { return }
        noteCopied()
        // A reader may hold the WAL for hours; the jobs that the disk has can leave the journal meanwhile. A failure of the
        // disk is in ``failure``.
        if walCheckpointer.status.uncheckpointedPages > 0 { try? syncWAL() }
    }

    /// The WAL was due for a checkpoint before the last transaction, and that one was appended to it: a reader uses it.
    package var isWALOverdue: Bool { loss == nil && failure == nil && walCheckpointer.isOverdue }

    /// Whether a backup tool holds a long WAL, and copies it by itself. False again until it has grown by as much.
    package func isWALLeftToBackupTool() -> Bool {
        guard loss == nil, failure == nil, walCheckpointer.isLong else { return false }
        walCheckpointer.notedLong()
        return isReadByBackupTool
    }

    /// Whether a backup tool has a read transaction open. One in another container is recognised by the tables that it made.
    var isReadByBackupTool: Bool {
        WALReader.others(ofStoreAt: location).contains { $0.isBackupTool || $0.process == nil && hasBackupToolTables }
    }

    private var hasBackupToolTables: Bool {
        (try? connection.integer("SELECT 1 FROM sqlite_schema WHERE name = '_litestream_lock'")) == 1
    }

    /// The first bytes of the WAL, which change when it restarts.
    package var walHeader: [UInt8]? { walCheckpointer.header() }

    package func copyLog() {
        guard loss == nil, failure == nil else { return }
        walCheckpointer.copyAll()
        noteCopied()
    }

    /// Copies the WAL because a transaction found no room (`full`). Returns whether the next one may find more.
    package func makeRoom() -> Bool { loss == nil && failure == nil && walCheckpointer.makeRoom() }

    /// Whether there is work that is better done now, while no client waits for a transaction.
    package var hasIdleWork: Bool { loss == nil && failure == nil && walCheckpointer.hasIdleWork }

    package func idle() {
        guard hasIdleWork else { return }
        walCheckpointer.idle()
        noteCopied()
    }

    package var wal: WALStatus { walCheckpointer.status }

    /// The events of the WAL since the last call that an operator should know.
    package func takeWALNotices() -> [WALNotice] { walCheckpointer.takeNotices() }
}
