internal import CSQLite

/// Copies a store, as it is at one moment, to a file of its own, while the writer continues (sqlite.org/backup.html).
///
/// 1. One read transaction lasts from the first page to the last, so the copy has the state after one COMMIT. Later
///    transactions stay in the WAL, which grows as with any long reader.
/// 2. Only a complete copy on the disk ever has the file's name: the copy is written beside it, as `<file>.partial-<16
///    hexadecimal digits>`, and renamed.
/// 3. However a backup ends, no partial file stays; the next backup to the file removes the partial file of a killed
///    one. No other file is opened for writing or removed.
/// 4. Only an empty file or an SQLite database is replaced, and never a file of the store, its lock or its journal.
/// 5. The copy is one file, without a WAL and not in WAL mode, and an ordinary store: ledger, model, and reserved sequences.
package struct StoreBackup: Sendable {
    /// How far it has come.
    package struct Progress: Sendable, Equatable {
        package let pages: Int
        package let ofPages: Int
    }

    /// The result of a backup.
    package struct Copy: Sendable, Equatable {
        /// The highest sequence in the copy: it has every job up to this one, and no later job. 0 for a store without
        /// jobs.
        package let sequence: Int64
        /// The size of the file.
        package let bytes: Int
    }

    /// Pages between two calls of `isWanted`: a millisecond or two.
    static let stepPages: Int32 = 256
    /// The maximum number of bytes that are not synced yet: with more, the writer's COMMIT would wait until they are
    /// written.
    static let unsyncedBytes = 16 << 20

    private let storePath: String
    private let file: String
    private let replaces: Bool
    /// The maximum number of pages of the copy, for tests; nil is SQLite's limit.
    var maximumPages: Int?
    /// A store that no server has open is read without making files beside it.
    var sourceAccess = Connection.Access.read

    /// - Parameters:
    ///   - storePath: the path of a store that the writer has opened.
    ///   - file: the path of the copy.
    ///   - replaces: whether an existing file is replaced; otherwise it is an error.
    package init(of storePath: String, to file: String, replaces: Bool = false) {
        self.storePath = storePath
        self.file = file
        self.replaces = replaces
    }

    /// Makes the copy. Blocks, on a connection of its own that cannot write the store.
    ///
    /// - Parameters:
    ///   - isWanted: called after every step; when it returns false, the backup stops.
    ///   - progress: called after every step.
    /// - Returns: nil when the backup was stopped.
    /// - Throws: ``StoreError``: `full` when the copy's disk is, `unavailable` when it cannot be created there.
    package func run(
        isWanted: () -> Bool = { true }, progress: (Progress) -> Void = { _ in }
    ) throws(StoreError) -> Copy? {
        let source = try StoreFile(path: storePath)
        let target = try BackupTarget(file, replaces: replaces, of: source)
        guard let sequence = try copy(source, to: target, isWanted, progress) else { return nil }
        try target.leaveWALMode()
        try target.sync()
        guard isWanted() else { return nil }
        try target.publish()
        return Copy(sequence: sequence, bytes: target.bytes)
    }

    /// - Returns: the highest sequence; nil when the backup was stopped.
    private func copy(
        _ source: StoreFile, to target: BackupTarget, _ isWanted: () -> Bool, _ progress: (Progress) -> Void
    ) throws(StoreError) -> Int64? {
        let store = try Connection(store: source.location, sourceAccess)
        try store.execute("PRAGMA query_only = ON")
        let pageBytes = Int(try store.integer("PRAGMA page_size") ?? 4_096)
        try store.execute("BEGIN")
        // The transaction begins with the first read, and sees no later change.
        let sequence = try store.integer("SELECT max(sequence) FROM _broker_jobs") ?? 0
        let copy = try target.open(maximumPages: maximumPages)
        defer { withExtendedLifetime((store, copy)) {} }
        guard let backup = sqlite3_backup_init(copy.handle, "main", store.handle, "main") else {
            throw target.failure(sqlite3_extended_errcode(copy.handle), copy)
        }
        defer { sqlite3_backup_finish(backup) }
        var unsynced = 0
        while isWanted() {
            let result = sqlite3_backup_step(backup, Self.stepPages)
            guard result == SQLITE_OK || result == SQLITE_DONE else { throw target.failure(result, copy) }
            let total = Int(sqlite3_backup_pagecount(backup))
            progress(Progress(pages: total - Int(sqlite3_backup_remaining(backup)), ofPages: total))
            if result == SQLITE_DONE { return sequence }
            unsynced += Int(Self.stepPages) * pageBytes
            if unsynced >= Self.unsyncedBytes {
                try target.sync()
                unsynced = 0
            }
        }
        return nil
    }
}
