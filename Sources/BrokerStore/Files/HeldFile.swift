internal import Glibc

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
        /// An error of the system, by `errno`.
        case system(Int32)
    }

    let path: String
    let descriptor: Int32
    let identity: FileIdentity
    /// This object created the file.
    let isNew: Bool
    /// The number of its names.
    let linkCount: Int

    /// - Parameters:
    ///   - path: a symbolic link there is not followed.
    ///   - mode: permissions of a file that is created, whatever the umask is.
    ///   - defaultMode: used if `mode` is nil, less the umask.
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

    /// Deletes the file if this object created it.
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
