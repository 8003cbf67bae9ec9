internal import BrokerStore
internal import Glibc

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
