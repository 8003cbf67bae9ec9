internal import BrokerJSON
internal import CSQLite
internal import Glibc

/// The file of a backup, and the partial file beside it, which belongs to this object alone.
final class BackupTarget {
    private let path: String
    private let store: StoreFile
    private let replaces: Bool
    private let folder: String
    private let location: String
    private let partial: HeldFile
    private var isPublished = false

    /// Creates the partial file, and removes those that killed backups to the same file have left.
    init(_ path: String, replaces: Bool, of store: StoreFile) throws(StoreError) {
        self.path = path
        self.store = store
        self.replaces = replaces
        guard !path.isEmpty, !path.utf8.contains(0) else {
            throw StoreError.unavailable("The backup has no file's name. Name a file.")
        }
        let slash = path.utf8.lastIndex(of: UInt8(ascii: "/"))
        let name = slash.map { String(path[path.utf8.index(after: $0)...]) } ?? path
        guard !["", ".", ".."].contains(name) else { throw Self.refusal(path, "is a folder", "Name a file") }
        let parent = slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        guard let real = realpath(parent, nil) else {
            throw Self.refusal(path, "cannot be made: \(parent): \(reason())", "Make the folder, or name another file")
        }
        folder = String(cString: real)
        free(real)
        location = folder == "/" ? "/\(name)" : "\(folder)/\(name)"
        if let owner = store.owner(of: name, in: folder) { throw Self.refusal(path, owner, "Name another file") }
        try Self.checkName(path, location, replaces, store)
        try Self.removeLeftovers(path, folder, name, store)
        partial = try Self.makePartial(location, store)
    }

    deinit {
        if !isPublished, FileIdentity(ofFileAt: partial.path) == partial.identity { unlink(partial.path) }
    }

    var bytes: Int { fileSize(location) ?? 0 }

    /// Opens the partial file as an empty database for SQLite's backup: without a journal, and without waiting for the disk.
    func open(maximumPages: Int?) throws(StoreError) -> Connection {
        let connection = try Connection(store: partial.path)
        try connection.execute("PRAGMA journal_mode = OFF")
        try connection.execute("PRAGMA synchronous = OFF")
        if let maximumPages { try connection.execute("PRAGMA max_page_count = \(maximumPages)") }
        return connection
    }

    /// Gives the complete copy, whose connection is closed, the journal mode DELETE instead of the store's: the format
    /// versions for reading and writing (sqlite.org/fileformat2.html, 1.3).
    func leaveWALMode() throws(StoreError) {
        let versions: [UInt8] = [1, 1]
        guard pwrite(partial.descriptor, versions, versions.count, 18) == versions.count else { throw failure(errno) }
    }

    func sync() throws(StoreError) {
        guard fdatasync(partial.descriptor) == 0 else { throw failure(errno) }
    }

    func publish() throws(StoreError) {
        guard fsync(partial.descriptor) == 0 else { throw failure(errno) }
        try Self.checkName(path, location, replaces, store)
        if replaces {
            guard rename(partial.path, location) == 0 else { throw failure(errno) }
        } else if link(partial.path, location) == 0 {
            // Unlike a rename, a hard link never overwrites a file that another process creates at this moment.
            unlink(partial.path)
        } else {
            let cause = errno
            guard cause != EEXIST else { throw Self.refusal(path, "is there already", Self.otherName) }
            // Some file systems have no such links.
            guard [EPERM, EOPNOTSUPP, ENOSYS].contains(cause), rename(partial.path, location) == 0 else {
                throw failure(cause)
            }
        }
        isPublished = true
        let descriptor = Glibc.open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(errno) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw failure(errno) }
    }

    // MARK: - Names

    private static func checkName(
        _ path: String, _ location: String, _ replaces: Bool, _ store: StoreFile
    ) throws(StoreError) {
        var status = stat()
        if lstat(location, &status) == 0 {
            guard status.kind == S_IFREG else { throw refusal(path, "is \(status.kindName)", "Name another file") }
            guard replaces else {
                throw refusal(path, "is there already", otherName)
            }
            let identity = FileIdentity(status)
            guard identity != FileIdentity(ofFileAt: store.location) else {
                throw refusal(path, "is the store itself", "Name another file")
            }
            guard !StoreLock.isHeld(identity) else { throw refusal(path, "is a store in use", "Name another file") }
            guard status.st_size == 0 || isDatabase(location) else {
                throw refusal(
                    path, "is there and no SQLite database, and a backup replaces nothing else",
                    "Move it away, or name another file")
            }
        }
        for name in StoreFile.companions.map({ location + $0 }) where lstat(name, &status) == 0 {
            throw refusal(
                path, "would be read together with \(name), which is there and not its own",
                "Move that away, or name another file")
        }
    }

    private static func isDatabase(_ path: String) -> Bool {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        let magic = Array("SQLite format 3\0".utf8)
        var bytes = [UInt8](repeating: 0, count: magic.count)
        return pread(descriptor, &bytes, bytes.count, 0) == magic.count && bytes == magic
    }

    // MARK: - The partial file

    /// `<file>.partial-` and 16 random hexadecimal digits: no other program creates a file with such a name.
    private static func isPartial(_ name: String, of file: String) -> Bool {
        let prefix = file + ".partial-"
        guard name.utf8.count == prefix.utf8.count + 16, name.utf8.starts(with: prefix.utf8) else { return false }
        return name.utf8.suffix(16).allSatisfy { (48...57).contains($0) || (97...102).contains($0) }
    }

    /// Removes the partial files of killed backups to that file. One of a running backup is an error.
    private static func removeLeftovers(
        _ path: String, _ folder: String, _ name: String, _ store: StoreFile
    ) throws(StoreError) {
        guard let directory = opendir(folder) else { throw failure(path, store, errno) }
        defer { closedir(directory) }
        while let entry = readdir(directory) {
            let found = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            guard isPartial(found, of: name) else { continue }
            do throws(HeldFile.Failure) {
                let left = try HeldFile(path: folder == "/" ? "/\(found)" : "\(folder)/\(found)", mode: nil, or: 0)
                if left.linkCount == 1 || left.isNew { unlink(left.path) }
            } catch {
                guard case .held(let owner) = error else { continue }
                throw refusal(
                    path, "is being written by another backup\(owner.map { ", of process \($0)" } ?? "")",
                    "Wait for that, or name another file")
            }
        }
    }

    private static func makePartial(_ location: String, _ store: StoreFile) throws(StoreError) -> HeldFile {
        var status = stat()
        let mode = lstat(store.location, &status) == 0 ? status.permissions & 0o777 : StoreLock.defaultMode
        let path = "\(location).partial-\(UInt64.random(in: .min ... .max).hexadecimalText)"
        do throws(HeldFile.Failure) {
            let file = try HeldFile(path: path, mode: mode, or: mode)
            guard file.isNew else { throw HeldFile.Failure.system(EEXIST) }
            return file
        } catch {
            guard case .system(let cause) = error else { throw failure(path, store, EEXIST) }
            throw failure(path, store, cause)
        }
    }

    // MARK: - Failures

    private static let otherName = "Name another file, move that one away, or have it replaced"

    private static func refusal(_ path: String, _ what: String, _ remedy: String) -> StoreError {
        StoreError.unavailable("The backup \(path) \(what). \(remedy); nothing was written.")
    }

    private func failure(_ cause: Int32) -> StoreError { Self.failure(path, store, cause) }

    private static func failure(_ path: String, _ store: StoreFile, _ cause: Int32) -> StoreError {
        let isFull = [ENOSPC, EDQUOT, EFBIG].contains(cause)
        return StoreError(
            isFull ? .full : .unavailable,
            "The store \(store.path) cannot be backed up to \(path): \(String(cString: strerror(cause))). "
                + (isFull
                    ? "Free some space there, or name a file on another disk"
                    : "The server must be able to write that folder")
                + "; the store is as it was, and the copy is gone.")
    }

    func failure(_ result: Int32, _ copy: Connection) -> StoreError {
        let system = sqlite3_system_errno(copy.handle)
        if result & 0xFF == SQLITE_FULL { return failure(ENOSPC) }
        if result & 0xFF == SQLITE_IOERR, system != 0 { return failure(system) }
        return StoreError.unavailable(
            "The store \(store.path) cannot be backed up to \(path): \(String(cString: sqlite3_errstr(result))). Check both "
                + "disks; the store is as it was, and the copy is gone.", sqliteCode: result)
    }
}

private func reason() -> String { String(cString: strerror(errno)) }

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
    package struct Progress: Sendable, Equatable {
        package let pages: Int
        package let ofPages: Int
    }

    package struct Copy: Sendable, Equatable {
        /// The copy has every job up to this sequence, and no later one; 0 for a store without jobs.
        package let sequence: Int64
        package let bytes: Int
    }

    /// Pages between two calls of `isWanted`: a millisecond or two.
    static let stepPages: Int32 = 256
    /// Bytes that are not synced yet, at most: with more, the writer's COMMIT would wait for them.
    static let unsyncedBytes = 16 << 20

    private let storePath: String
    private let file: String
    private let replaces: Bool
    /// The maximum number of pages of the copy, for tests; nil is SQLite's limit.
    var maximumPages: Int?
    /// A store that no server has open is read without making files beside it.
    var sourceAccess = Connection.Access.read

    /// - Parameter replaces: an existing file is replaced; otherwise it is an error.
    package init(of storePath: String, to file: String, replaces: Bool = false) {
        self.storePath = storePath
        self.file = file
        self.replaces = replaces
    }

    /// Makes the copy. Blocks, on a connection of its own that cannot write the store. Both closures are called after every step.
    ///
    /// - Returns: nil when it was stopped, because `isWanted` returned false.
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
