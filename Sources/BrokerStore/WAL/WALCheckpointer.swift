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

    /// - Parameter name: the name of the WAL's file.
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

    /// To be called after COMMIT. A failure here does not affect the committed transaction, so it is reported as a
    /// notice and not thrown.
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

    /// See ``WALWatch/isLong``.
    var isLong: Bool { watch.isLong }

    func notedLong() { watch.notedLong() }

    /// The first bytes of the WAL, which are others after each restart (sqlite.org/fileformat2.html, 4.1); nil without a
    /// WAL.
    func header() -> [UInt8]? {
        guard let file = fopen(name, "r") else { return nil }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 32)
        return fread(&bytes, bytes.count, 1, file) == 1 ? bytes : nil
    }

    /// Copies the WAL, however long it is. The one that a new connection finds may fill the disk, so that there would be
    /// no room for what opening a store writes.
    func copyAll() {
        checkpoint()
        status.bytes = fileSize(name) ?? 0
    }

    /// Copies the WAL if the last COMMIT has made it long.
    ///
    /// - Returns: whether it was due.
    @discardableResult
    func copyIfDue() -> Bool {
        guard isCopyDue else { return false }
        isCopyDue = false
        if watch.isOverdue { watch.notedOverdue() }
        checkpoint()
        return true
    }

    /// Copies the WAL after a transaction found no room and was rolled back, so that the next one overwrites it.
    ///
    /// - Returns: whether the next transaction may find more room.
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

    /// - Parameter result: SQLite's, of a checkpoint.
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

    /// Pages written to the WAL since the last call.
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
    /// The size of its file.
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
    /// Pages in the WAL after the last commit.
    private var pages = 0
    private var copiedPages = 0
    /// Pages that the last transaction wrote.
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

    /// The WAL was due before the last transaction, which was appended to it: a reader uses it. False again until the
    /// WAL has grown by a working size.
    var isOverdue: Bool { pages - written >= dueLength && pages >= overdueAt + workingPages }

    /// Records that the caller has handled ``isOverdue``.
    mutating func notedOverdue() { overdueAt = pages }

    /// The WAL is as long as one that a reader holds. False again until it has grown by that length.
    var isLong: Bool { pages > waitedAt + workingPages * Self.heldFactor }

    /// Records that the caller has handled ``isLong``.
    mutating func notedLong() { waitedAt = pages }
    var wantsCheckpointWhenIdle: Bool { uncheckpointedPages >= max(1, workingPages / Self.idleShare) }
    var uncheckpointedPages: Int { max(0, pages - copiedPages) }

    /// Records that a transaction was committed.
    ///
    /// - Parameters:
    ///   - pages: in the WAL now.
    ///   - written: by this transaction.
    /// - Returns: whether a reader holds the WAL, when that has changed.
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

    /// - Parameters:
    ///   - copied: pages of the WAL that are in the database.
    ///   - pages: in the WAL.
    mutating func checkpointed(copied: Int, of pages: Int) {
        copiedPages = copied
        self.pages = pages
    }
}
