internal import Glibc

/// Another process that has a read transaction open on the store, which may hold the WAL.
package struct WALReader: Sendable, Equatable {
    /// Nil for a process that this one cannot see, such as one in another container.
    package let pid: Int32?
    /// The name of its program (proc(5), comm); nil where the kernel does not report it.
    package let process: String?

    /// A program that copies the WAL all the time, and holds it until it has copied and checkpointed it (litestream.io).
    package var isBackupTool: Bool { process == "litestream" }

    /// SQLite's locks of readers in the file `-shm`, a byte each (sqlite.org/walformat.html, section 2.3).
    private static let lockOffsets: ClosedRange<off_t> = 123...127

    /// The readers of the store at that path, at most one for each of SQLite's locks.
    ///
    /// `F_GETLK` asks through a descriptor that SQLite has open. A descriptor of our own would end all of SQLite's locks
    /// in this process when it is closed (fcntl_locking(2)); and `/proc/locks` is not there under `ProcSubset=pid`.
    package static func others(ofStoreAt path: String) -> [WALReader] {
        // The file is where the symbolic links of the store's path lead.
        guard let location = realpath(path, nil) else { return [] }
        defer { free(location) }
        guard let descriptor = openDescriptor(ofFileAt: String(cString: location) + "-shm") else { return [] }
        var readers: [WALReader] = []
        for offset in lockOffsets {
            var lock = flock()
            lock.l_type = Int16(F_WRLCK)
            lock.l_whence = Int16(SEEK_SET)
            lock.l_start = offset
            lock.l_len = 1
            guard fcntl(descriptor, F_GETLK, &lock) == 0, lock.l_type == Int16(F_RDLCK) else { continue }
            let pid = lock.l_pid > 0 ? lock.l_pid : nil
            let reader = WALReader(pid: pid, process: pid.flatMap(name))
            if !readers.contains(reader) { readers.append(reader) }
        }
        return readers
    }

    /// A descriptor by which this process has the file open.
    private static func openDescriptor(ofFileAt path: String) -> Int32? {
        var file = stat()
        guard stat(path, &file) == 0, let folder = opendir("/proc/self/fd") else { return nil }
        defer { closedir(folder) }
        while let entry = readdir(folder) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            var status = stat()
            guard let descriptor = Int32(name), fstat(descriptor, &status) == 0 else { continue }
            if status.st_ino == file.st_ino, status.st_dev == file.st_dev { return descriptor }
        }
        return nil
    }

    private static func name(of pid: Int32) -> String? {
        guard let file = fopen("/proc/\(pid)/comm", "r") else { return nil }
        defer { fclose(file) }
        // The kernel's names have at most 15 bytes, and a newline after them.
        var line = [CChar](repeating: 0, count: 64)
        guard fgets(&line, Int32(line.count), file) != nil else { return nil }
        let name = line.map(UInt8.init(bitPattern:)).prefix { $0 != 0 && $0 != UInt8(ascii: "\n") }
        return String(decoding: name, as: UTF8.self)
    }
}
