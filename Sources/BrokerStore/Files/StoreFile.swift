internal import BrokerModel
internal import Glibc

/// The file to which a store's path leads: examined, and neither opened nor created.
struct StoreFile {
    let path: String
    /// Absolute and without symbolic links, so that every name of the file leads to one WAL and one lock.
    let location: String
    let exists: Bool

    /// - Throws: ``StoreError`` `unavailable` when no store can be there: an empty path, a folder, a FIFO, memory.
    init(path: String) throws(StoreError) {
        guard !path.isEmpty else { throw StoreError.unavailable("The store has no name. Name a file for the store.") }
        guard path != ":memory:" else {
            throw StoreError.unavailable(
                "A store is a file; one in memory would be lost at the end. Name a file for the store.")
        }
        self.path = path
        location = try Self.resolved(path)
        var status = stat()
        exists = lstat(location, &status) == 0
        if exists, status.kind != S_IFREG {
            throw StoreError.unavailable(
                "The store \(path) is \(status.kindName), and no file. Name a file for the store.")
        }
    }

    /// Checks whether a store can be read, written and have its WAL beside it; creates nothing.
    func checkAccess() throws(StoreError) {
        let folder = Self.folder(of: location)
        for (name, permissions) in [(location, R_OK | W_OK), (folder, W_OK | X_OK)] where name == folder || exists {
            guard access(name, permissions) == 0 else {
                let cause = String(cString: strerror(errno))
                throw StoreError.unavailable(
                    "The store \(path) cannot be used: \(name): \(cause). "
                        + "The server must be able to write the file and its folder.")
            }
        }
    }

    /// Checks that no WAL is beside a database that is not there, or is empty: SQLite would delete it (pager.c,
    /// `pagerOpenWalIfPresent`), and with it the newest transactions of a database that was moved away.
    func checkWAL() throws(StoreError) {
        guard fileSize(location) ?? 0 == 0, let bytes = fileSize(location + "-wal"), bytes > 0 else { return }
        throw StoreError.unavailable(
            "The store \(path) is not there, and its WAL is: \(location)-wal has \(bytes) bytes. Put the database back, which needs "
                + "it; or, to begin with a new store, move the WAL away. Nothing was touched.")
    }

    // MARK: - Names

    /// The maximum that the kernel follows (path_resolution(7)).
    private static let longestChainOfLinks = 40

    /// The path without symbolic links, of a file that need not exist.
    private static func resolved(_ path: String) throws(StoreError) -> String {
        var name = path
        for _ in 0..<longestChainOfLinks {
            if let real = real(name) { return real }
            guard errno == ENOENT else { throw unreachable(path, errno) }
            if let target = linkTarget(name) {
                name = target.utf8.first == UInt8(ascii: "/") ? target : "\(folder(of: name))/\(target)"
                continue
            }
            guard let folder = real(folder(of: name)) else { throw unreachable(path, errno) }
            let last =
                name.utf8.lastIndex(of: UInt8(ascii: "/")).map { name[name.utf8.index(after: $0)...] } ?? name[...]
            guard !last.isEmpty else { throw unreachable(path, ENOENT) }
            return folder == "/" ? "/\(last)" : "\(folder)/\(last)"
        }
        throw unreachable(path, ELOOP)
    }

    static func folder(of name: String) -> String {
        guard let slash = name.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
        return slash == name.startIndex ? "/" : String(name[..<slash])
    }

    /// Nil with the cause in `errno`.
    private static func real(_ name: String) -> String? {
        guard let resolved = realpath(name, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    private static func linkTarget(_ name: String) -> String? {
        var bytes = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = bytes.withUnsafeMutableBytes {
            readlink(name, $0.baseAddress!.assumingMemoryBound(to: CChar.self), $0.count)
        }
        return count > 0 ? String(decoding: bytes.prefix(count), as: UTF8.self) : nil
    }

    private static func unreachable(_ path: String, _ cause: Int32) -> StoreError {
        StoreError.unavailable(
            "The store \(path) cannot be reached: \(String(cString: strerror(cause))). "
                + "Check that its folder exists and may be used.")
    }
}

/// The identity of a file, whatever its names are: stat(2).
struct FileIdentity: Equatable, Sendable {
    let device: dev_t
    let inode: ino_t

    init(_ status: stat) {
        device = status.st_dev
        inode = status.st_ino
    }

    init?(ofFileAt path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        self.init(status)
    }
}

extension stat {
    var kind: mode_t { st_mode & S_IFMT }
    var permissions: mode_t { st_mode & 0o7777 }

    var kindName: String {
        switch kind {
        case S_IFREG: "a file"
        case S_IFDIR: "a folder"
        case S_IFIFO: "a FIFO"
        case S_IFSOCK: "a socket"
        case S_IFLNK: "a symbolic link"
        default: "a device"
        }
    }
}

func fileSize(_ path: String) -> Int? {
    var status = stat()
    return stat(path, &status) == 0 ? Int(status.st_size) : nil
}

/// Names that belong to a store, whether or not there is a file of that name.
extension StoreFile {
    /// Files beside a database that SQLite reads as parts of it.
    static let companions = ["-wal", "-shm", "-journal"]

    /// "belongs to …" for a name of the database, SQLite's files beside it, its lock, and everything in its journal. Folders are
    /// compared by identity, so neither a symbolic link nor a mount circumvents this.
    func owner(of name: String, in folder: String) -> String? {
        guard let identity = FileIdentity(ofFileAt: folder) else { return nil }
        let slash = location.utf8.lastIndex(of: UInt8(ascii: "/"))!
        let storeName = String(location[location.utf8.index(after: slash)...])
        let own = Self.companions + ["", ".lock", ".journal"]
        if identity == FileIdentity(ofFileAt: Self.folder(of: location)),
            own.contains(where: { name.hasSameBytes(as: storeName + $0) })
        {
            return "belongs to the store itself"
        }
        return identity == FileIdentity(ofFileAt: location + ".journal") ? "belongs to the store's journal" : nil
    }
}

/// The identities of the database and of SQLite's two files beside it when they were opened.
///
/// A file that is deleted or replaced continues to exist for the process that has it open: commits would still succeed,
/// but no other process would ever see them; and what is opened by the name is another database, or a new one. So the
/// names are looked up before each COMMIT, which costs three stat(2) a transaction, and before the store is opened again.
package struct OpenedFiles: Sendable {
    package let path: String
    private let files: [(name: String, identity: FileIdentity)]

    /// - Parameter store: open, and in use, so that the WAL exists. The path as it was given is checked, because
    ///   readers use that one, whatever symbolic links it has.
    init(_ store: StoreFile) throws(StoreError) {
        path = store.path
        var files: [(name: String, identity: FileIdentity)] = []
        for name in [store.path, store.location + "-wal", store.location + "-shm"] {
            guard let identity = FileIdentity(ofFileAt: name) else { throw Self.lost(path, name, isReplaced: false) }
            files.append((name, identity))
        }
        self.files = files
    }

    /// A database that another process has open, and that this one reads.
    package init(reading path: String) throws(StoreError) {
        self.path = path
        guard let identity = FileIdentity(ofFileAt: path) else { throw Self.lost(path, path, isReplaced: false) }
        files = [(path, identity)]
    }

    /// - Throws: ``StoreError`` `unavailable` when one of the names now leads to another file, or to none.
    package func check() throws(StoreError) {
        for (name, identity) in files {
            let now = FileIdentity(ofFileAt: name)
            if now != identity { throw Self.lost(path, name, isReplaced: now != nil) }
        }
    }

    /// The path leads to the database still, and no other WAL is beside it.
    var hasDatabase: Bool {
        let now = files.map { FileIdentity(ofFileAt: $0.name) }
        return now[0] == files[0].identity && (now[1] == nil || now[1] == files[1].identity)
    }

    private static func lost(_ path: String, _ name: String, isReplaced: Bool) -> StoreError {
        let what = isReplaced ? "was replaced by another file" : "was deleted or moved"
        return StoreError.unavailable(
            "\(name) \(what) while the store \(path) was open. Nothing is stored any more, and nothing was deleted: stop the "
                + "server, put the files back (the database together with its -wal), or begin with a new store; then start again."
        )
    }
}
