internal import CSQLite

/// SQLite's write-ahead log, beside the database.
public struct WALStatus: Sendable, Equatable {
    /// Of its file.
    public var bytes = 0
    /// Pages in it that are not in the database yet.
    public var uncheckpointedPages = 0

    public init() {}
}

/// Something about the log that an operator should know: told once when it begins, and once when it is over.
public enum WALNotice: Sendable {
    /// It grows, because a reader's transaction stays open and what that sees must be kept.
    case held(bytes: Int)
    /// It has been given back.
    case released(bytes: Int)
    /// It could not be copied into the database, and so grows; what was committed is safe in it.
    case uncopied(StoreError)
    case copied
}

/// Watches the log from COMMIT to COMMIT: how long it is, whether it can begin anew, and when to copy it.
///
/// SQLite copies the log into the database (a checkpoint) once it has its working size, and then begins at its start
/// again, unless a reader still needs what is there. So a log that was beyond its size before a transaction, and to which
/// that transaction was appended, is held by a reader.
///
/// While transactions are long the log may get longer: the leaves of an index whose keys come in no order are in each of
/// them, and are copied once for several. (Measured: the last tenth of three million records is a tenth faster.)
struct WALWatch: Equatable {
    /// In units of the working size: how long the log may get before it is copied, while transactions are long.
    static let longestFactor = 4
    /// In units of a transaction: for how many of its size the log is copied once, within the limits above.
    static let transactionsInLog = 8
    /// In units of the working size; more than the longest, as a reader may be there for a moment.
    static let heldFactor = 8
    /// Of the working size, what is copied already when there is nothing else to do: so little that the next job hardly
    /// waits for it, and under a light load the log never comes to its size, which would take longer at once.
    static let idleShare = 8

    let workingPages: Int
    /// There was no room for a transaction: so the log does not get longer than its working size any more.
    var isShort = false
    private(set) var isHeld = false
    /// Pages in the log when last looked.
    private var pages = 0
    private var copiedPages = 0
    /// By the newest transaction.
    private var written = 0
    /// Pages in the log when it was overdue last; 0 when it was begun anew since.
    private var overdueAt = 0

    init(workingPages: Int) { self.workingPages = workingPages }

    var wantsCheckpoint: Bool { pages >= dueLength }

    private var dueLength: Int {
        let longest = isShort ? workingPages : workingPages * Self.longestFactor
        return min(max(workingPages, written * Self.transactionsInLog), longest)
    }

    /// The log was due before the newest transaction, which was appended to it: a reader uses it. False again until it is
    /// longer by a working size.
    var isOverdue: Bool { pages - written >= dueLength && pages >= overdueAt + workingPages }

    /// ``isOverdue`` was seen.
    mutating func notedOverdue() { overdueAt = pages }
    var wantsCheckpointWhenIdle: Bool { uncheckpointedPages >= max(1, workingPages / Self.idleShare) }
    var uncheckpointedPages: Int { max(0, pages - copiedPages) }

    /// A transaction has been committed.
    ///
    /// - Parameters:
    ///   - pages: in the log now.
    ///   - written: by this transaction.
    /// - Returns: whether a reader holds the log, when that has changed.
    mutating func committed(pages: Int, written: Int) -> Bool? {
        // It began anew: nothing but this transaction is in it.
        if pages <= written {
            copiedPages = 0
            overdueAt = 0
        }
        self.pages = pages
        self.written = written
        let isHeldNow = pages - written > workingPages * Self.heldFactor || (isHeld && pages > written)
        defer { isHeld = isHeldNow }
        return isHeldNow == isHeld ? nil : isHeldNow
    }

    mutating func emptied() {
        pages = 0
        copiedPages = 0
    }

    /// - Parameters:
    ///   - copied: pages of the log that are in the database.
    ///   - pages: in the log.
    mutating func checkpointed(copied: Int, of pages: Int) {
        copiedPages = copied
        self.pages = pages
    }
}

/// Counts, copies and measures the log of the one connection that writes.
final class WALCheckpointer {
    private let connection: Connection
    private let name: String
    private var watch: WALWatch
    private var hasFailed = false
    private var triedIdly = false
    private var isCopyDue = false
    /// Pages in the log after the newest COMMIT that wrote, else negative: SQLite's hook writes to it.
    private let pages: UnsafeMutablePointer<Int32>
    private(set) var log = WALStatus()
    private(set) var notices: [WALNotice] = []

    /// - Parameter name: of the log's file.
    init(of connection: Connection, file name: String, workingPages: Int) throws(StoreError) {
        self.connection = connection
        self.name = name
        watch = WALWatch(workingPages: workingPages)
        pages = .allocate(capacity: 1)
        pages.initialize(to: -1)
        log.bytes = fileSize(name) ?? 0
        // In place of SQLite's own hook, which copies without saying how far it came.
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

    /// After COMMIT. What goes wrong here takes nothing from what is committed, so it is told and not thrown.
    func committed() {
        let written = writtenPages()
        guard pages.pointee >= 0 else { return }
        triedIdly = false
        let changed = watch.committed(pages: Int(pages.pointee), written: written)
        pages.pointee = -1
        isCopyDue = watch.wantsCheckpoint
        log.bytes = fileSize(name) ?? 0
        log.uncheckpointedPages = watch.uncheckpointedPages
        if let changed { notices.append(changed ? .held(bytes: log.bytes) : .released(bytes: log.bytes)) }
    }

    /// The log was due before the newest COMMIT, which was appended to it, and is longer by a working size than when this
    /// was true last. So readers that cannot be waited for are not waited for again at each COMMIT.
    var isOverdue: Bool { isCopyDue && watch.isOverdue }

    /// Copies the log, however long it is.
    func copyAll() {
        checkpoint()
        log.bytes = fileSize(name) ?? 0
    }

    /// Copies the log if the newest COMMIT has made it long.
    func copyIfDue() {
        guard isCopyDue else { return }
        isCopyDue = false
        if watch.isOverdue { watch.notedOverdue() }
        checkpoint()
    }

    /// Copies what a new connection finds in the log, whose length nobody has told it. It may fill the disk, so that there would be
    /// no room for what opening a store writes.
    func copyFound() {
        checkpoint()
        log.bytes = fileSize(name) ?? 0
    }

    /// A transaction found no room, and was undone. Copies the log, so that the next one is written over it.
    ///
    /// - Returns: whether the next one may find more.
    func makeRoom() -> Bool {
        watch.isShort = true
        let before = watch
        checkpoint()
        // Nothing is gained by what was copied before. Another connection may have written more than the watch has seen.
        return watch.uncheckpointedPages == 0 && watch != before
    }

    var hasIdleWork: Bool { watch.wantsCheckpointWhenIdle && !triedIdly }

    /// Nobody waits for a transaction.
    func idle() {
        // What a reader holds cannot be copied; not tried again before there is more.
        triedIdly = true
        checkpoint()
    }

    /// Copies the log, and empties its file unless somebody reads it.
    func empty() throws(StoreError) {
        var inLog: Int32 = 0
        var copied: Int32 = 0
        let result = sqlite3_wal_checkpoint_v2(connection.handle, nil, SQLITE_CHECKPOINT_TRUNCATE, &inLog, &copied)
        // Held by a reader: what could be copied is copied.
        guard result == SQLITE_OK || result & 0xFF == SQLITE_BUSY else {
            throw connection.error(result)
        }
        if inLog >= 0 { watch.checkpointed(copied: Int(copied), of: Int(inLog)) }
        if result == SQLITE_OK, inLog == 0 { watch.emptied() }
        log.bytes = fileSize(name) ?? 0
        log.uncheckpointedPages = watch.uncheckpointedPages
    }

    private func checkpoint() {
        var inLog: Int32 = 0
        var copied: Int32 = 0
        let result = sqlite3_wal_checkpoint_v2(connection.handle, nil, SQLITE_CHECKPOINT_PASSIVE, &inLog, &copied)
        if result == SQLITE_OK, inLog >= 0 { watch.checkpointed(copied: Int(copied), of: Int(inLog)) }
        log.uncheckpointedPages = watch.uncheckpointedPages
        // Somebody else copies it at the moment.
        let hasFailedNow = result != SQLITE_OK && result & 0xFF != SQLITE_BUSY
        if hasFailedNow {
            let error = connection.error(result)
            // A disk that has failed is the end, and told as that.
            if !hasFailed, !error.isDiskFailure { notices.append(.uncopied(error)) }
        }
        if !hasFailedNow, hasFailed { notices.append(.copied) }
        hasFailed = hasFailedNow
    }

    /// Pages written to the log since the last call.
    private func writtenPages() -> Int {
        var current: Int32 = 0
        var highest: Int32 = 0
        sqlite3_db_status(connection.handle, SQLITE_DBSTATUS_CACHE_WRITE, &current, &highest, 1)
        return Int(current)
    }
}
