internal import BrokerModel
package import BrokerSchema
package import BrokerStaging
internal import CSQLite
internal import Glibc

/// The one connection that writes. Belongs to one thread; synchronous; starts no thread.
///
/// A transaction has the jobs that were ready: `begin()`, `apply(_:)` for each in the order of their sequences,
/// `commit()`.
package final class Store {
    let connection: Connection
    package let migration: StoreMigration
    let merger: Merger
    let ledger: Ledger
    var feed: FeedKeys
    private let bookmarks: Bookmarks
    private var rejects: RejectedRecords
    let beginning: Statement
    private let committing: Statement
    let savepoints: Savepoints
    let syncParts: SyncParts
    package let files: OpenedFiles
    package let isForeign: Bool
    let walCheckpointer: WALCheckpointer
    /// The outcome of the job with that sequence, whose first attempt cost a transaction.
    var overworked: (sequence: Int64, fault: Fault)?
    private let synchronous: Synchronous
    let limits: LoggedLimits
    /// The contents of ANALYZE's tables when the store was opened, on which SQLite's plans depend; nil for none.
    let planStatistics: String?
    /// The open transaction must be on the disk when ``commit()`` returns, whatever ``StoreOptions/synchronous`` says.
    var mustSync = false
    /// The last position of the journal that was certainly on the disk.
    private var syncedPosition: Int64?
    /// Foreign keys of another program's database are checked at the end of a job, like Broker's own.
    private let defersForeignKeys: Bool
    /// Why nothing can be stored any more: the files are no longer those that were opened.
    package private(set) var loss: StoreError?

    /// The disk has failed, or the file is damaged, and the store accepts no more jobs. Jobs applied since the last
    /// `commit()` that returned, and no others, may or may not be in the file: the server must report neither before
    /// the store has been opened again.
    package var failure: StoreError? { connection.failure }

    /// Records that the disk has failed under another connection to the same files.
    package func fail(_ error: StoreError) { connection.fail(error) }

    /// Opens the database, creates or migrates its schema, and sets the modes that Broker needs. A file with other contents is
    /// `incompatible`, and unchanged.
    ///
    /// - Parameters:
    ///   - mark: the entry of the store's log that changes the model or the limits; nil for none.
    ///   - isOpen: another connection of this process has opened this store of Broker's own, so it is not looked at before.
    package init(
        path: String, plan: StagingPlan, options: StoreOptions = StoreOptions(), applying mark: LogMark? = nil,
        isOpen: Bool = false
    ) throws(StoreError) {
        let file = try StoreFile(path: path)
        location = file.location
        synchronous = options.synchronous
        limits = LoggedLimits(options)
        if !isOpen { try Self.check(file, plan, options.removal, vfs: options.vfs) }
        connection = try Connection(store: file.location, vfs: options.vfs)
        connection.work.activity = options.activity
        connection.work.watch(connection.handle)
        connection.work.jobLimit = options.jobWork
        walCheckpointer = try WALCheckpointer(
            of: connection, file: file.location + "-wal", workingPages: options.walPages)
        migration = try Self.migrate(connection, path, plan, options, walCheckpointer, mark)
        try connection.execute("PRAGMA temp_store = MEMORY")
        try connection.execute("PRAGMA foreign_keys = ON")
        planStatistics = try Self.planStatistics(of: connection)
        isForeign = try StoreFormat.isForeign(connection)
        defersForeignKeys = try isForeign ? Self.hasForeignKeys(connection) : false
        merger = try Merger(plan, on: connection, isForeign: isForeign)
        merger.interpretsAll = options.interpretsAll
        syncParts = try SyncParts(on: connection, expirationSeconds: options.retention.seconds)
        ledger = try Ledger(on: connection, options.retention)
        feed = try FeedKeys(on: connection, maximumBytes: options.feedBytes)
        merger.keepsFeedKeys = feed.isKept
        bookmarks = try Bookmarks(on: connection)
        rejects = try RejectedRecords(on: connection, maximumBytes: options.rejectBytes)
        beginning = try connection.prepare("BEGIN IMMEDIATE")
        committing = try connection.prepare("COMMIT")
        savepoints = try Savepoints(on: connection)
        files = try OpenedFiles(file)
    }

    deinit {
        // Where the WAL alone was deleted, the database gets what is in it.
        guard loss != nil, failure == nil, files.hasDatabase else { return }
        rollback()
        walCheckpointer.copyAll()
    }

    /// Makes the database a store of the model, in one transaction.
    private static func migrate(
        _ connection: Connection, _ path: String, _ plan: StagingPlan, _ options: StoreOptions,
        _ walCheckpointer: WALCheckpointer, _ mark: LogMark?
    ) throws(StoreError) -> StoreMigration {
        try configureFile(connection, options)
        let start = ContinuousClock.now
        try connection.execute("PRAGMA foreign_keys = OFF")
        try connection.execute("PRAGMA temp_store = FILE")
        if options.synchronous != .off {
            try connection.execute("BEGIN IMMEDIATE")
            try connection.rewriteWAL()
            try connection.execute("COMMIT")
        }
        walCheckpointer.copyAll()
        if let failure = connection.failure { throw failure }
        connection.prepareWAL()
        try connection.execute("BEGIN IMMEDIATE")
        let opening = try opening(connection, path, plan, options.removal)
        try opening.refuseDifferences()
        try opening.refuseLackOfSpace(freeBytes: freeBytes(ofDiskOf: path))
        var notes = try opening.run(on: connection, at: mark?.time)
        if !opening.changes.isEmpty { notes += try ExtraMigration(plan, on: connection).run() }
        if let mark { try note(mark, options, on: connection) }
        try connection.execute("COMMIT")
        // Jobs that a journal applies again must find the model that they were accepted under.
        if options.synchronous == .normal { try connection.syncWAL() }
        walCheckpointer.committed()
        walCheckpointer.copyIfDue()
        let milliseconds = (ContinuousClock.now - start) / .milliseconds(1)
        return StoreMigration(
            changes: opening.changes, milliseconds: Int(milliseconds),
            notes: try notes + opening.notes(on: connection))
    }

    /// Nil where the file system does not say it. Some blocks are reserved for root.
    static func freeBytes(ofDiskOf path: String) -> Int64? {
        var system = statvfs()
        guard statvfs(path, &system) == 0, system.f_blocks > 0 else { return nil }
        return Int64(clamping: UInt64(geteuid() == 0 ? system.f_bfree : system.f_bavail) * UInt64(system.f_frsize))
    }

    private static func configureFile(_ connection: Connection, _ options: StoreOptions) throws(StoreError) {
        // For a new file alone: SQLite cannot change it in WAL mode.
        try connection.execute("PRAGMA page_size = \(options.pageBytes)")
        // Readers keep reading while the writer writes.
        try connection.execute("PRAGMA journal_mode = WAL")
        try connection.execute("PRAGMA synchronous = \(options.synchronous.rawValue)")
        try connection.execute("PRAGMA cache_size = -\(options.cacheBytes / 1024)")
        // Debian's default overwrites deleted content, which costs a write for each page.
        try connection.execute("PRAGMA secure_delete = FAST")
        // The WAL keeps its file, which is overwritten again and again; the growth caused by a long reader is
        // truncated.
        let pageSize = try connection.integer("PRAGMA page_size") ?? 4096
        let walPages = Int64(options.walPages * WALWatch.longestFactor)
        let walBytes = walPages * (pageSize + Self.walFrameHeader) + Self.walHeader
        try connection.execute("PRAGMA journal_size_limit = \(walBytes)")
        if let pages = options.maximumPages { try connection.execute("PRAGMA max_page_count = \(pages)") }
        try connection.ignoreTriggers()
    }

    private static func hasForeignKeys(_ connection: Connection) throws(StoreError) -> Bool {
        try connection.integer(
            "SELECT 1 FROM pragma_table_list AS t, pragma_foreign_key_list(t.name) WHERE t.schema = 'main' LIMIT 1")
            != nil
    }

    /// Bytes before the WAL's first page and before each (sqlite.org/fileformat2.html, 4.1 and 4.2).
    private static let walHeader: Int64 = 32
    private static let walFrameHeader: Int64 = 24

    /// Checks whether a store of that model exists or can be created there. Changes nothing.
    package static func check(
        path: String, plan: StagingPlan, removal: RemovalPolicy = .refuse
    ) throws(StoreError) {
        try check(StoreFile(path: path), plan, removal)
    }

    private static func check(
        _ file: StoreFile, _ plan: StagingPlan, _ removal: RemovalPolicy, vfs: String? = nil
    ) throws(StoreError) {
        try SQLiteLibrary.check()
        try file.checkAccess()
        try file.checkWAL()
        guard file.exists else { return }
        let connection = try look(at: file, vfs: vfs)
        try connection.execute("PRAGMA foreign_keys = ON")
        try opening(connection, file.path, plan, removal).refuseDifferences()
    }

    static func opening(
        _ connection: Connection, _ path: String, _ plan: StagingPlan, _ removal: RemovalPolicy
    ) throws(StoreError) -> StoreOpening {
        try StoreOpening(
            of: connection, path: path, to: plan.model, removal: removal, defaults: plan.defaultLiteral,
            convert: ValueConversions(on: connection).number)
    }

    /// A connection that changes nothing.
    static func look(at file: StoreFile, vfs: String? = nil) throws(StoreError) -> Connection {
        if fileSize(file.location + "-journal") ?? 0 > 0 {
            // A transaction that a crash interrupted is first rolled back by the next connection, which must be able to
            // write.
            _ = try Connection(store: file.location, vfs: vfs).bounded().integer("SELECT count(*) FROM sqlite_schema")
        }
        return try Connection(store: file.location, .look, vfs: vfs).bounded()
    }

    // MARK: - The journal

    /// The path of the store, without symbolic links; the WAL's files are beside it.
    package let location: String

    /// The last position of the journal whose job is certainly on the disk, even after a power failure; nil if unknown.
    package var durablePosition: Int64? {
        let isSynced = synchronous == .full || walCheckpointer.status.uncheckpointedPages == 0
        return isSynced ? ledger.history?.position : syncedPosition
    }

    /// After the WAL was copied. SQLite syncs the WAL before it copies it: the disk has everything that was committed, also when later
    /// transactions are in the WAL.
    func noteCopied() {
        guard failure == nil, walCheckpointer.status.uncheckpointedPages == 0 else { return }
        syncedPosition = ledger.history?.position
    }

    /// Waits until the disk has everything that was committed, where COMMIT does not wait for it.
    func syncWAL() throws(StoreError) {
        guard synchronous == .normal else { return }
        try connection.syncWAL()
        syncedPosition = ledger.history?.position
    }

    /// The digest of the jobs of its journal; nil without one.
    package var history: StateDigest? { ledger.history }

    // MARK: - Transactions

    /// Begins a transaction. When another program has locked the store it fails at once, with an error that
    /// ``/BrokerSQLite/StoreError/isLocked``: nothing has happened then, and the caller keeps its jobs and tries again.
    package func begin() throws(StoreError) {
        try checkUsable()
        connection.waitForLocks(milliseconds: 0)
        try beginning.run()
        // The setting lasts until COMMIT or ROLLBACK, and SQLite then compiles its statements again.
        if defersForeignKeys { try connection.execute("PRAGMA defer_foreign_keys = ON") }
    }

    /// Makes everything applied since `begin()` durable and visible to readers.
    ///
    /// - Throws: ``StoreError``; `unavailable` permanently when the store's files were deleted, moved or replaced,
    ///   because no other process would find what is written to them. If there is a `failure` then, the transaction
    ///   may be durable all the same.
    package func commit() throws(StoreError) {
        try checkFiles()
        try merger.writeRowKeys()
        try ledger.finish()
        try feed.finish(first: ledger.firstSequence)
        try rejects.finish()
        try connection.commit(by: committing)
        if mustSync { try syncWAL() }
        mustSync = false
        ledger.transactionEnded(isDurable: true)
        feed.transactionEnded(isDurable: true)
        rejects.transactionEnded(isDurable: true)
        walCheckpointer.committed()
    }

    func checkUsable() throws(StoreError) {
        if let error = loss ?? failure { throw error }
    }

    /// - Throws: ``StoreError``; `unavailable` permanently when the store's files were deleted, moved or replaced. From then on
    ///   nothing is written, and closing the store deletes no file.
    package func checkFiles() throws(StoreError) {
        try checkUsable()
        do throws(StoreError) {
            try files.check()
        } catch {
            loss = error
            // SQLite would delete a file of the WAL's name, which may be another one.
            connection.leaveWAL()
            throw error
        }
    }

    /// Rolls back everything applied since `begin()`; does nothing when SQLite did that by itself.
    package func rollback() {
        mustSync = false
        merger.resetRowKeys()
        ledger.transactionEnded(isDurable: false)
        feed.transactionEnded(isDurable: false)
        rejects.transactionEnded(isDurable: false)
        guard !connection.isAutocommit else { return }
        // If the rollback fails, the transaction stays open, and the next `begin()` throws.
        _ = sqlite3_exec(connection.handle, "ROLLBACK", nil, nil, nil)
    }

    /// Copies the WAL into the database and empties it, as far as readers allow.
    package func checkpoint() throws(StoreError) {
        // Files that were moved must not be written any more.
        try checkFiles()
        // A read transaction may stay open for hours: the next start copies what it holds.
        connection.waitForLocks(milliseconds: isReadByBackupTool ? 0 : Self.closingMilliseconds)
        try connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    }

    private static let closingMilliseconds: Int32 = 1_000

    /// Copies the WAL into the database and empties its file, as far as readers allow it now; does not wait.
    package func checkpointAtOnce() throws(StoreError) -> WALStatus {
        try checkFiles()
        connection.waitForLocks(milliseconds: 0)
        try walCheckpointer.empty()
        noteCopied()
        return walCheckpointer.status
    }

    /// The outcome of a job in the ledger; nil for an unknown id.
    package func outcome(ofJob id: String) throws(StoreError) -> StoredOutcome? { try ledger.outcome(ofJob: id) }

    /// Applies one job inside the open transaction: its rows and its line in the ledger, or only the line if it fails.
    /// A dry run leaves neither; one whose id is committed is answered as that job sent again would be.
    ///
    /// A later job with the same id, committed or failed, replaces the line of a failed job.
    ///
    /// - Returns: the job's outcome; a job that fails has changed nothing.
    /// - Throws: when the store fails; SQLite may then have rolled back the whole transaction.
    ///   `overworked` when the job was interrupted, and the transaction with it: its next attempt, in another
    ///   transaction, ends with its fault.
    package func apply(_ job: StoreJob) throws(StoreError) -> JobOutcome {
        let (known, end) = try find(job)
        if let end {
            try extendDigest(end, of: job, nil)
            return end
        }
        switch job.work {
        case .refused(let fault): return try record(.failed(fault), of: job, known, nil)
        case .merge, .steps:
            let steps = job.work.steps
            if let fault = takeOverworked(job.sequence) { return try record(.failed(fault), of: job, known, nil) }
            merger.digest = ledger.history == nil ? nil : RowDigest()
            let end = try run(steps, job)
            return try record(end, of: job, known, merger.digest)
        }
    }

    private func takeOverworked(_ sequence: Int64) -> Fault? {
        guard let overworked, overworked.sequence == sequence else { return nil }
        self.overworked = nil
        return overworked.fault
    }

    /// The line of the job's id in the ledger, and the job's outcome if the line determines it.
    func find(_ job: StoreJob) throws(StoreError) -> (known: StoredOutcome?, end: JobOutcome?) {
        let known = job.contentHash == nil ? nil : try ledger.outcome(ofJob: job.id)
        guard let known, !known.isFailure else { return (known, nil) }
        return (
            known,
            job.isRepetition(of: known) ? .duplicate(known) : .conflict(Self.idConflict(job.id), committed: known)
        )
    }

    package var rejectTally: RejectTally { rejects.counts }

    /// Deletes rejected records that the asker may see, in a transaction of its own.
    ///
    /// - Returns: how many there were.
    package func drop(_ selection: RejectSelection, as asker: JobOwner) throws(StoreError) -> Int {
        let before = rejects.counts.count
        try inTransaction { () throws(StoreError) in try rejects.drop(selection, as: asker) }
        return before - rejects.counts.count
    }

    /// Writes the job's line, its bookmark, and the records that it rejected.
    ///
    /// - Parameters:
    ///   - known: the failure in the ledger with the same id.
    ///   - feedKeys: the keys for the feed, if the outcome does not have them.
    ///   - isWritten: false if the caller writes the line, with others.
    func record(
        _ end: JobOutcome, of job: StoreJob, _ known: StoredOutcome?, _ rows: RowDigest?, feedKeys: [UInt8]? = nil,
        isWritten: Bool = true
    ) throws(StoreError) -> JobOutcome {
        try extendDigest(end, of: job, rows)
        // A failure that a client is sent stays: memory that was short may be there when the journal is applied again.
        if end.isFailure, ledger.history != nil { mustSync = true }
        // The ledger has no line of it, also if it failed: its id is free, and the feed does not mention it.
        if job.terms.isDryRun { return end }
        if let known, end.isFailure, known.sequence > job.sequence { return end }
        if let bookmark = job.terms.bookmark, case .completed = end {
            try bookmarks.set(bookmark, by: job.sequence)
        }
        if case .completed(let outcome) = end, !outcome.rejected.isEmpty { try rejects.add(outcome.rejected, of: job) }
        var (end, feedKeys) = (end, feedKeys)
        if feedKeys == nil { feedKeys = end.takeFeedKeys() }
        if let feedKeys { try feed.add(feedKeys, of: job.sequence) }
        let outcome = StoredOutcome(
            sequence: job.sequence, owner: job.owner, contentHash: job.contentHash, isFailure: end.isFailure,
            body: end.body(of: job))
        try ledger.record(outcome, ofJob: job.id, replacing: known, now: job.now)
        if isWritten { try ledger.write() }
        return end
    }

    private static func idConflict(_ id: String) -> Fault {
        Fault(
            .idConflict,
            "The job id \"\(id)\" was used before, for a job with other content or of another user. Give every job an id "
                + "of its own. The content is compared byte by byte: another encoder, another order of keys or white space "
                + "make other content. To repeat a job, keep the text that was sent, and send it again.")
    }
}

extension Store {
    /// Copies a database, as it is at this moment, to a file that does not exist. Unlike a ``StoreBackup`` it may be of
    /// another program, and the copy is not synced: it is for a moment.
    package static func copy(_ path: String, to copy: String) throws(StoreError) {
        let source = try look(at: StoreFile(path: path))
        let target = try Connection(store: copy)
        guard let backup = sqlite3_backup_init(target.handle, "main", source.handle, "main") else {
            throw target.error(sqlite3_errcode(target.handle))
        }
        let result = sqlite3_backup_step(backup, -1)
        sqlite3_backup_finish(backup)
        guard result == SQLITE_DONE else { throw target.error(result) }
    }
}

extension Store {
    /// The staging plan of the model in force in an existing store; nil when there is none, or that is the model of `plan`.
    package static func planInForce(
        path: String, unlike plan: StagingPlan? = nil
    ) throws(StoreError) -> StagingPlan? {
        guard let model = try modelInForce(path: path), model.text != plan?.model.text else { return nil }
        do throws(ModelError) {
            return try StagingPlan(model)
        } catch {
            throw StoreOpening.unreadable(error, path)
        }
    }

    private static func modelInForce(path: String) throws(StoreError) -> Model? {
        guard let connection = try look(path), let text = try StoreFormat.modelInForce(of: connection, path: path)
        else {
            return nil
        }
        return try StoreOpening.read(text, path)
    }
}

extension Store {
    /// Calls `body` with the name of the entity, by the model in force, and the `_extra` of each object that has one.
    package static func forEachExtra(
        path: String, _ body: (_ entity: String, _ json: UnsafeBufferPointer<UInt8>) -> Void
    ) throws(StoreError) {
        guard let plan = try planInForce(path: path) else { return }
        let connection = try look(at: StoreFile(path: path))
        try ExtraMigration(plan, on: connection).forEachValue { _, entity, value, _ in
            body(plan.model.entities[entity].name, value.bytes)
        }
    }
}

/// When SQLite waits for the disk.
package enum Synchronous: String, Sendable, CaseIterable {
    /// At every COMMIT: an answered job survives a power failure.
    case full
    /// At checkpoints: an answered job survives a crash of the process, not of the machine.
    case normal
    case off
}

package struct StoreOptions: Sendable {
    /// The keys of some millions of changed objects.
    package static let defaultFeedBytes = 64 << 20
    package static let defaultRejectBytes = 64 << 20

    package var synchronous = Synchronous.full
    package var retention = LedgerRetention()
    /// Bytes of changed objects' keys that are stored for followers of the feed; 0 stores none.
    package var feedBytes = defaultFeedBytes
    /// Bytes of rejected records that are kept, the oldest deleted first; 0 keeps none.
    package var rejectBytes = defaultRejectBytes
    /// Bytes of database pages cached in memory; with SQLite's own 2 MB, the rate is halved as soon as there is an index.
    package var cacheBytes = 64 << 20
    /// The maximum number of pages of the database, for tests and quotas; nil is SQLite's limit.
    package var maximumPages: Int?
    /// Bytes of a page of a new store: with twice SQLite's own, bulk loads write 15 % less, scattered keys 20 %.
    package var pageBytes = 8192
    /// The WAL's working size: the number of pages at which it is copied to the database; up to four times as many
    /// while transactions are long. 16 MiB of pages, so that a bulk load copies a page less often.
    package var walPages = 2048
    /// The treatment of parts that the model no longer has.
    package var removal = RemovalPolicy.refuse
    /// Permissions of the store's files, whatever the umask is; nil is ``StoreLock/defaultMode``, and changes no existing ones.
    package var fileMode: UInt32?
    /// Observes the thread that works on the store; nil where nothing does.
    package var activity: WriterActivity?
    /// Bytes that the merge of one job may take besides its staged rows; nil leaves that to the job's own allowance.
    package var mergeMemory: Int?
    /// Units of work that one job may take; tests lower it.
    package var jobWork = JobWork.maximum
    /// For tests: every job is applied record by record.
    package var interpretsAll = false
    /// For tests: SQLite's name for a VFS between it and the files, which must outlive the store.
    package var vfs: String?

    package init() {}
}

/// The options that decide, with jobs and model, how the jobs of a log end. A change of them is an entry of the log.
package struct LoggedLimits: Sendable, Equatable {
    /// Whether a job repeats an earlier one depends on it.
    package let retention: LedgerRetention
    package let mergeMemory: Int?

    package init(_ options: StoreOptions) {
        retention = options.retention
        mergeMemory = options.mergeMemory
    }

    /// Parses ``text``; nil for anything else, which a later version may have written.
    package init?(_ text: String) {
        var numbers: [Substring: Int] = [:]
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: "=")
            guard parts.count == 2, let number = Int(parts[1]), number >= 0 else { return nil }
            numbers[parts[0]] = number
        }
        guard let count = numbers.removeValue(forKey: "outcomesKept"),
            let seconds = numbers.removeValue(forKey: "outcomesKeptSeconds")
        else { return nil }
        // Earlier versions did not limit the merges of their journals.
        mergeMemory = numbers.removeValue(forKey: "mergeMemory")
        guard numbers.isEmpty else { return nil }
        retention = LedgerRetention(count: count, seconds: seconds)
    }

    /// A line for each limit: `outcomesKept=1000000`.
    package var text: String {
        "outcomesKept=\(retention.count)\noutcomesKeptSeconds=\(retention.seconds)"
            + (mergeMemory.map { "\nmergeMemory=\($0)" } ?? "")
    }

    package func set(in options: inout StoreOptions) {
        options.retention = retention
        options.mergeMemory = mergeMemory
    }
}
