internal import Glibc
internal import Synchronization

/// The locks by which one server owns a store: two, held until this object is released.
///
/// 1. On a file beside the database, `<store>.lock`, at the place to which every symbolic link of the store's path
///    leads. It locks the *name*, and so the WAL that SQLite finds by it, even if another file replaces the database.
/// 2. On the database itself, so that another name of it (a hard link, a mount) does not circumvent the first. The
///    kernel separates these locks (`flock`) from SQLite's (`fcntl`). But closing *any* descriptor of a file ends
///    SQLite's locks on it in this process. So the descriptor stays open for the life of this object, which must be
///    longer than that of every connection to the store; and a file that this process has locked already is not even
///    opened.
///
/// A database that does not exist yet is created, empty, because only an existing file can be locked; see
/// ``abandon()``.
package final class StoreLock: Sendable {
    private let beside: HeldFile
    private let store: HeldFile
    private let hadWAL: Bool

    private static let held = Mutex<[FileIdentity]>([])

    /// Whether this process has locked that store. To close another descriptor of its file would end SQLite's locks.
    static func isHeld(_ identity: FileIdentity) -> Bool { held.withLock { $0.contains(identity) } }

    /// Permissions of new files, less the umask: users in the file's group may read the store, and other users may not.
    package static let defaultMode: UInt32 = 0o640

    /// - Parameter mode: permissions of the files that are created, whatever the umask is; nil for ``defaultMode``.
    ///   SQLite gives the WAL the permissions of the database.
    /// - Throws: ``StoreError`` `unavailable`, naming the process that owns the store.
    package init(storePath: String, mode: UInt32? = nil) throws(StoreError) {
        let file = try StoreFile(path: storePath)
        hadWAL = fileSize(file.location + "-wal") != nil
        beside = try Self.hold(file.location + ".lock", beside: storePath, mode)
        do throws(StoreError) {
            if let identity = FileIdentity(ofFileAt: file.location), Self.held.withLock({ $0.contains(identity) }) {
                throw Self.belongs(storePath, to: getpid())
            }
            store = try Self.hold(file, mode)
        } catch {
            beside.discardIfNew()
            throw error
        }
        // Thrown now, before anything is changed.
        if let mode, let file = [store, beside].first(where: { !$0.maySetMode(mode) }) {
            beside.discardIfNew()
            throw Self.unchangeable(file.path, mode, EPERM)
        }
        Self.held.withLock { $0.append(store.identity) }
        // Only for people: the lock is valid without the line that names its owner.
        let line = "\(getpid())\n"
        if pwrite(beside.descriptor, line, line.utf8.count, 0) > 0 {
            ftruncate(beside.descriptor, off_t(line.utf8.count))
        }
    }

    deinit { Self.held.withLock { $0.removeAll { $0 == store.identity } } }

    /// Deletes the files that it created, after a failed start in which no job was accepted. No connection may be open any more.
    package func abandon() {
        if store.isNew, !hadWAL {
            for suffix in ["-wal", "-shm"] { unlink(store.path + suffix) }
        }
        store.discardIfNew()
        beside.discardIfNew()
    }

    func discardLockFile() { beside.discardIfNew() }

    /// Gives the store, which is open, its WAL and its lock file these permissions, if they have others.
    package func setMode(_ mode: UInt32) throws(StoreError) {
        for file in [store, beside] {
            guard file.setMode(mode) else { throw Self.unchangeable(file.path, mode, errno) }
        }
        // Not opened, because of SQLite's locks; they are beside the database, in a folder that this process may write.
        for path in ["-wal", "-shm"].map({ store.path + $0 }) {
            var status = stat()
            guard lstat(path, &status) == 0, status.kind == S_IFREG, status.permissions != mode else { continue }
            guard chmod(path, mode) == 0 else { throw Self.unchangeable(path, mode, errno) }
        }
    }

    private static func unchangeable(_ path: String, _ mode: UInt32, _ cause: Int32) -> StoreError {
        StoreError.unavailable(
            "The permissions of \(path) cannot be made 0\(String(mode, radix: 8)): \(String(cString: strerror(cause))). "
                + "Run the server as the file's owner, or leave the mode as it is.")
    }

    private static func hold(
        _ path: String, beside storePath: String, _ mode: UInt32?
    ) throws(StoreError) -> HeldFile {
        let file = try hold(
            path, "The lock file \(path)", of: storePath, mode, otherwise: "Move it away, or name another store.",
            check: "Check that the folder exists and may be written.", namesOwner: true)
        guard file.linkCount == 1, isOurs(file.descriptor) else {
            throw StoreError.unavailable(
                "\(path) is there and is no lock file of Broker's. Move it away, or name another store.")
        }
        return file
    }

    private static func hold(_ store: StoreFile, _ mode: UInt32?) throws(StoreError) -> HeldFile {
        let file = try hold(
            store.location, "The store \(store.path)", of: store.path, mode, otherwise: "Name a file for the store.",
            check: "Check the file, and that its folder exists and may be written.", namesOwner: false)
        guard file.linkCount == 1 else {
            throw StoreError.unavailable(
                "The store \(store.path) has \(file.linkCount) names (hard links), but its WAL is beside one of them "
                    + "alone. Remove the other names, or copy the file.")
        }
        return file
    }

    private static func hold(
        _ path: String, _ name: String, of storePath: String, _ mode: UInt32?, otherwise remedy: String, check: String,
        namesOwner: Bool
    ) throws(StoreError) -> HeldFile {
        do throws(HeldFile.Failure) {
            return try HeldFile(path: path, mode: mode, or: defaultMode)
        } catch {
            switch error {
            case .held(let owner):
                throw belongs(storePath, to: owner ?? (namesOwner ? Self.owner(inFileAt: path) : nil))
            case .noFile(let kind): throw StoreError.unavailable("\(name) is \(kind), and no file. \(remedy)")
            case .system(let cause):
                throw StoreError.unavailable("\(name) cannot be opened: \(String(cString: strerror(cause))). \(check)")
            }
        }
    }

    private static func belongs(_ path: String, to owner: Int32?) -> StoreError {
        var error = StoreError.unavailable(
            "The store \(path) belongs to another broker\(owner.map { ", process \($0)" } ?? ""). "
                + "Use that one, stop it, or give this one another store.")
        error.isInUse = true
        return error
    }

    // MARK: - The lock file: the owner's number, and a line's end

    /// A file with any other content was not written by Broker, and is not overwritten. (A kill may have left two
    /// lines. A power failure may have left zeros: the line is not synced, and a file may get its size before its content.)
    private static func isOurs(_ descriptor: Int32) -> Bool {
        let bytes = contents(descriptor)
        return bytes.count <= longestLine
            && bytes.allSatisfy {
                (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) || $0 == UInt8(ascii: "\n") || $0 == 0
            }
    }

    private static let longestLine = 11

    private static func owner(inFileAt path: String) -> Int32? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        return Int32(String(decoding: contents(descriptor).prefix { $0 != 10 }, as: UTF8.self))
    }

    private static func contents(_ descriptor: Int32) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: longestLine + 1)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        return Array(bytes.prefix(max(0, count)))
    }
}

/// A file that this process has locked, created if it did not exist.
///
/// The lock is the kernel's (flock(2)), so it ends with its process, however that ends. It belongs to the file and not
/// to the name: when the lock was taken, the name led to that very file.
final class HeldFile: Sendable {
    enum Failure: Error {
        /// Another process has locked it, if the kernel reports which.
        case held(by: Int32?)
        /// The name leads to something other than a file: its kind.
        case noFile(String)
        case system(Int32)
    }

    let path: String
    let descriptor: Int32
    let identity: FileIdentity
    let isNew: Bool
    let linkCount: Int

    /// - Parameter path: a symbolic link there is not followed. A new file gets `mode` whatever the umask is, or `defaultMode` less it.
    init(path: String, mode: mode_t?, or defaultMode: mode_t) throws(Failure) {
        self.path = path
        while true {
            let (descriptor, isNew) = try Self.open(path, mode ?? defaultMode)
            if isNew, let mode { fchmod(descriptor, mode) }
            var status = stat()
            fstat(descriptor, &status)
            do throws(Failure) {
                guard status.kind == S_IFREG else { throw .noFile(status.kindName) }
                guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
                    throw errno == EWOULDBLOCK ? .held(by: Self.owner(status)) : .system(errno)
                }
            } catch {
                close(descriptor)
                throw error
            }
            // Between opening and locking, its last owner may have deleted the file.
            if FileIdentity(ofFileAt: path) == FileIdentity(status) {
                self.descriptor = descriptor
                self.isNew = isNew
                identity = FileIdentity(status)
                linkCount = Int(status.st_nlink)
                return
            }
            close(descriptor)
        }
    }

    deinit { close(descriptor) }

    /// Whether the file has these permissions, or this process may set them (chmod(2)).
    func maySetMode(_ mode: mode_t) -> Bool {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return false }
        return status.permissions == mode || [status.st_uid, 0].contains(geteuid())
    }

    /// - Returns: whether the file has these permissions now; otherwise `errno` has the cause.
    func setMode(_ mode: mode_t) -> Bool {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return false }
        return status.permissions == mode || fchmod(descriptor, mode) == 0
    }

    func discardIfNew() {
        if isNew, FileIdentity(ofFileAt: path) == identity { unlink(path) }
    }

    private static func open(_ path: String, _ mode: mode_t) throws(Failure) -> (descriptor: Int32, isNew: Bool) {
        while true {
            var status = stat()
            // Opening a device may have effects, and opening a FIFO may block.
            if lstat(path, &status) == 0, status.kind != S_IFREG { throw .noFile(status.kindName) }
            let flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY
            let existing = Glibc.open(path, flags)
            if existing >= 0 { return (existing, false) }
            guard errno == ENOENT else { throw .system(errno) }
            let made = Glibc.open(path, flags | O_CREAT | O_EXCL, mode)
            if made >= 0 { return (made, true) }
            guard errno == EEXIST else { throw .system(errno) }
        }
    }

    /// The number of readings of the kernel's list, which may omit locks while others come and go.
    private static let ownerReadings = 20

    /// The process that has locked the file: proc_locks(5). Nil when the kernel does not report it, or not clearly.
    private static func owner(_ status: stat) -> Int32? {
        for _ in 0..<ownerReadings {
            if let owner = readOwner(status) { return owner }
        }
        return nil
    }

    private static func readOwner(_ status: stat) -> Int32? {
        guard let file = fopen("/proc/locks", "r") else { return nil }
        defer { fclose(file) }
        var owners: Set<Int32> = []
        var line = [CChar](repeating: 0, count: 256)
        while fgets(&line, Int32(line.count), file) != nil {
            let text = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
            let fields = text.split { $0 == " " || $0 == "\n" }
            // 7: FLOCK ADVISORY WRITE 1234 fe:01:5678 0 EOF
            guard fields.count >= 6, fields[1] == "FLOCK", let process = Int32(fields[4]), process > 0,
                fields[5].split(separator: ":").last.flatMap({ UInt64($0) }) == UInt64(status.st_ino)
            else { continue }
            owners.insert(process)
        }
        return owners.count == 1 ? owners.first : nil
    }
}
