internal import Glibc

/// One server owns a store: a lock on a file beside it, held until this object goes.
///
/// The lock is the kernel's (`flock`), so it ends with its process, however that ends. It lies beside the database and
/// not on it, because closing any other descriptor of a file ends SQLite's own locks on that.
public final class StoreLock: Sendable {
    private let descriptor: Int32

    /// - Throws: ``StoreError`` `unavailable`, saying which process owns the store.
    public init(storePath: String) throws(StoreError) {
        let path = storePath + ".lock"
        descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o660)
        guard descriptor >= 0 else {
            throw StoreError(
                .unavailable,
                "The lock file \(path) cannot be opened: \(String(cString: strerror(errno))). "
                    + "Check that the folder exists and may be written.")
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let owner = Self.owner(descriptor)
            close(descriptor)
            throw StoreError(
                .unavailable,
                "The store \(storePath) belongs to another broker\(owner.map { ", process \($0)" } ?? ""). "
                    + "Use that one, stop it, or give this one another --store.")
        }
        let line = "\(getpid())\n"
        ftruncate(descriptor, 0)
        _ = pwrite(descriptor, line, line.utf8.count, 0)
    }

    deinit { close(descriptor) }

    /// The process that a held lock names.
    private static func owner(_ descriptor: Int32) -> Int32? {
        var bytes = [UInt8](repeating: 0, count: 32)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        return count > 0 ? Int32(String(decoding: bytes.prefix(count).prefix { $0 != 10 }, as: UTF8.self)) : nil
    }
}
