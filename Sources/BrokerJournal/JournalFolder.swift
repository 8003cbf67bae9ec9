internal import Glibc

/// The folder of a journal: all that is asked of the system, and what is said when it fails.
struct JournalFolder: Sendable {
    let path: String
    let mode: mode_t
    let system: any JournalSystem

    init(path: String, mode: UInt32 = 0o640, system: any JournalSystem = PosixSystem()) {
        self.path = path
        self.mode = mode_t(mode)
        self.system = system
    }

    /// Makes the folder if it is not there.
    func make() throws(JournalError) {
        // Who may read its files must be able to look for them.
        let folderMode = mode | (mode & 0o444) >> 2
        guard mkdir(path, folderMode) != 0 else { return try syncFolder(parent) }
        guard errno == EEXIST else { throw failed("cannot be made", errno) }
    }

    /// Something of that name is there, as far as can be told.
    var isThere: Bool { access(path, F_OK) == 0 || errno != ENOENT }

    /// Of the segments, in their order.
    func segmentNumbers() throws(JournalError) -> [UInt64] {
        guard let folder = opendir(path) else { throw failed("cannot be read", errno) }
        defer { closedir(folder) }
        var numbers: [UInt64] = []
        while let entry = readdir(folder) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if let number = JournalSegment.number(ofFile: name) { numbers.append(number) }
        }
        return numbers.sorted()
    }

    func map(_ file: String) throws(JournalError) -> MappedFile {
        guard let mapped = MappedFile(file) else { throw failed("cannot be read", errno, file) }
        return mapped
    }

    func open(_ file: String) throws(JournalError) -> Int32 {
        let descriptor = Glibc.open(file, O_RDWR | O_CLOEXEC)
        guard descriptor >= 0 else { throw failed("cannot be opened", errno, file) }
        return descriptor
    }

    /// Makes a file with these bytes in it, durable with its name.
    func create(_ file: String, _ bytes: [UInt8]) throws(JournalError) -> Int32 {
        let descriptor = Glibc.open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode)
        guard descriptor >= 0 else { throw failed("cannot be made", errno, file) }
        do throws(JournalError) {
            try write(bytes, to: descriptor, at: 0)
            try sync(descriptor)
            try syncFolder(path)
            return descriptor
        } catch {
            close(descriptor)
            unlink(file)
            throw error
        }
    }

    func write(_ bytes: [UInt8], to file: Int32, at offset: Int) throws(JournalError) {
        // A closure that throws such an error is one too many for `withUnsafeBytes` of an array.
        let result = bytes.withUnsafeBytes { bytes in
            Result { () throws(JournalError) in try write(bytes, to: file, at: offset) }
        }
        try result.get()
    }

    private func write(_ bytes: UnsafeRawBufferPointer, to file: Int32, at offset: Int) throws(JournalError) {
        var written = 0
        while written < bytes.count {
            let count = system.write(file, UnsafeRawBufferPointer(rebasing: bytes[written...]), offset + written)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw failed("cannot be written", count < 0 ? errno : ENOSPC) }
            written += count
        }
    }

    /// Writes a file's first bytes over themselves and syncs them, so that what was found in it is on the disk before anything
    /// is built on it.
    ///
    /// The process before may have ended because a sync failed. The system then takes what it could not write for written: it
    /// can be read, a sync succeeds without doing anything, and a loss of power takes it away.
    func rewrite(_ path: String, _ file: Int32, to end: Int) throws(JournalError) {
        let mapped = try map(path)
        try write(UnsafeRawBufferPointer(rebasing: mapped.bytes[..<end]), to: file, at: 0)
        try sync(file)
    }

    func sync(_ file: Int32) throws(JournalError) {
        guard system.sync(file) == 0 else { throw broken("cannot be made durable", errno) }
    }

    /// Takes away what is behind, so that it is never read again.
    func cut(_ file: Int32, to size: Int) throws(JournalError) {
        var status = stat()
        if fstat(file, &status) == 0, status.st_size == size { return }
        guard system.truncate(file, size) == 0 else { throw broken("cannot be cut", errno) }
        try sync(file)
    }

    /// - Returns: how many bytes it had.
    func remove(_ file: String) throws(JournalError) -> Int {
        var status = stat()
        stat(file, &status)
        guard unlink(file) == 0 else { throw failed("cannot be removed", errno, file) }
        return Int(status.st_size)
    }

    /// What else lies there is not the journal's.
    func removeIfEmpty() { rmdir(path) }

    private func syncFolder(_ folder: String) throws(JournalError) {
        let descriptor = Glibc.open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw broken("cannot be made durable", errno) }
        defer { close(descriptor) }
        try sync(descriptor)
    }

    private var parent: String { String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)]) }

    // MARK: - What is said

    private func failed(_ what: String, _ cause: Int32, _ file: String? = nil) -> JournalError {
        if [ENOSPC, EDQUOT, EFBIG].contains(cause) {
            return JournalError(
                .full,
                "The disk of the journal \(path) is full (\(String(cString: strerror(cause)))). Nothing of this is in "
                    + "the journal: free some space, then try again.")
        }
        return broken(what, cause, file)
    }

    private func broken(_ what: String, _ cause: Int32, _ file: String? = nil) -> JournalError {
        JournalError(
            .broken,
            "The journal \(file ?? path) \(what): \(String(cString: strerror(cause))). Check its folder's permissions and the "
                + "disk, then start the server again.")
    }

    func damaged(_ file: String, at offset: Int) -> JournalError {
        JournalError(
            .unusable,
            "The journal's file \(file) is damaged at byte \(offset): what was durable there is not what it was. Put a good "
                + "copy in its place; or, to give up the jobs from there on that the store has not applied, move the journal "
                + "away.")
    }

    func hasGap(before file: String) -> JournalError {
        JournalError(
            .unusable,
            "The journal \(path) is not whole: what comes before \(file) is missing. Put its files back, or move the journal "
                + "away to give up what the store has not applied.")
    }

    func stranger(isFed: Bool) -> JournalError {
        JournalError(
            .unusable,
            "The journal \(path) is not that of the store beside it: "
                + (isFed ? "the store was fed from another one" : "the store was never fed from it")
                + ". Put the store's own journal there, or move this one away.")
    }

    func cutShort(last: Int64, applied: Int64) -> JournalError {
        JournalError(
            .unusable,
            "The journal \(path) ends at job \(last), and the store has applied job \(applied): the journal was cut short, or "
                + "is an older copy. Put the newest one there, or move it away to begin a new one.")
    }

    func isExchanged(at position: Int64) -> JournalError {
        JournalError(
            .unusable,
            "The journal \(path) holds another job at \(position) than the store has applied. Put the store's own journal "
                + "there, or move this one away.")
    }

    func isTooYoung(from position: Int64, applied: Int64) -> JournalError {
        JournalError(
            .unusable,
            "The store is older than its journal \(path): it has applied job \(applied), and the journal begins behind job "
                + "\(position). Use a newer copy of the store; or move the journal away, to go on without the jobs between."
        )
    }
}

/// What a journal asks of the system when it writes: a seam for faults.
package protocol JournalSystem: Sendable {
    /// As pwrite(2).
    func write(_ file: Int32, _ bytes: UnsafeRawBufferPointer, _ offset: Int) -> Int
    /// As fdatasync(2).
    func sync(_ file: Int32) -> Int32
    /// As ftruncate(2).
    func truncate(_ file: Int32, _ size: Int) -> Int32
}

package struct PosixSystem: JournalSystem {
    package init() {}

    package func write(_ file: Int32, _ bytes: UnsafeRawBufferPointer, _ offset: Int) -> Int {
        pwrite(file, bytes.baseAddress, bytes.count, off_t(offset))
    }

    package func sync(_ file: Int32) -> Int32 { fdatasync(file) }

    package func truncate(_ file: Int32, _ size: Int) -> Int32 { ftruncate(file, off_t(size)) }
}

/// A file as memory, to be read while this object lives.
final class MappedFile: @unchecked Sendable {
    // Nobody writes to them: what is mapped is never changed, only cut off behind what was read.
    let bytes: UnsafeRawBufferPointer

    /// Nil when it cannot be read, with the cause in `errno`.
    init?(_ path: String) {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var status = stat()
        guard fstat(file, &status) == 0 else { return nil }
        guard status.st_size > 0 else {
            bytes = UnsafeRawBufferPointer(start: nil, count: 0)
            return
        }
        let memory = mmap(nil, Int(status.st_size), PROT_READ, MAP_PRIVATE, file, 0)
        guard let memory, memory != MAP_FAILED else { return nil }
        bytes = UnsafeRawBufferPointer(start: memory, count: Int(status.st_size))
    }

    deinit {
        if let start = bytes.baseAddress { munmap(UnsafeMutableRawPointer(mutating: start), bytes.count) }
    }
}
