internal import Glibc

/// The folder of a journal: all its system calls, and the messages for their failures.
struct JournalFolder: Sendable {
    let path: String
    let mode: mode_t
    let system: any JournalSystem

    init(path: String, mode: UInt32 = 0o640, system: any JournalSystem = PosixSystem()) {
        self.path = path
        self.mode = mode_t(mode)
        self.system = system
    }

    /// Creates the folder if it does not exist.
    func make() throws(JournalError) {
        // Users who may read its files must be able to list them.
        let folderMode = mode | (mode & 0o444) >> 2
        guard mkdir(path, folderMode) != 0 else { return try syncFolder(parent) }
        guard errno == EEXIST else { throw failed("cannot be made", errno) }
    }

    /// Whether a file of that name exists, as far as the system reports it.
    var isThere: Bool { access(path, F_OK) == 0 || errno != ENOENT }

    /// Checks whether the folder and its files can be read and written; changes nothing.
    func checkAccess() throws(JournalError) {
        guard access(path, R_OK | W_OK | X_OK) == 0 else { throw failed("cannot be read and written", errno) }
        for file in try segmentNumbers().map({ JournalSegment.path($0, in: path) }) where access(file, R_OK | W_OK) != 0
        {
            throw failed("cannot be read and written", errno, of: file)
        }
    }

    /// The segments' numbers, ascending.
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
        let descriptor = try open(file, O_RDONLY, orFail: "cannot be read")
        defer { close(descriptor) }
        guard let mapped = MappedFile(descriptor) else { throw failed("cannot be read", errno, of: file) }
        return mapped
    }

    func open(_ file: String) throws(JournalError) -> Int32 { try open(file, O_RDWR, orFail: "cannot be opened") }

    /// Opens a regular file. Opening a FIFO would wait for its other end, and opening a device may have effects.
    private func open(_ file: String, _ access: Int32, orFail failure: String) throws(JournalError) -> Int32 {
        var status = stat()
        if lstat(file, &status) == 0, status.st_mode & S_IFMT != S_IFREG { throw noFile(file) }
        let descriptor = Glibc.open(file, access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { throw failed(failure, errno, of: file) }
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            close(descriptor)
            throw noFile(file)
        }
        return descriptor
    }

    /// The name of a segment's file until it is complete.
    private static let unfinishedSuffix = ".new"

    /// Creates a file with these bytes, durable with its name. The name never leads to an incomplete file.
    func create(_ file: String, _ bytes: [UInt8]) throws(JournalError) -> Int32 {
        let unfinished = file + Self.unfinishedSuffix
        // A process that ended while it created the file may have left it.
        unlink(unfinished)
        let descriptor = Glibc.open(unfinished, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode)
        guard descriptor >= 0 else { throw failed("cannot be made", errno, of: file) }
        do throws(JournalError) {
            try write(bytes, to: descriptor, at: 0)
            try sync(descriptor)
            var status = stat()
            guard lstat(file, &status) != 0 else { throw failed("cannot be made", EEXIST, of: file) }
            guard rename(unfinished, file) == 0 else { throw failed("cannot be made", errno, of: file) }
            try syncFolder(path)
            return descriptor
        } catch {
            close(descriptor)
            unlink(unfinished)
            throw error
        }
    }

    /// Deletes the files of segments that were not completed.
    func removeUnfinished(_ number: UInt64) {
        unlink(JournalSegment.path(number, in: path) + Self.unfinishedSuffix)
    }

    func write(_ bytes: [UInt8], to file: Int32, at offset: Int) throws(JournalError) {
        try bytes.span.withUnsafeBytes { bytes throws(JournalError) in try write(bytes, to: file, at: offset) }
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

    /// Writes a file's first bytes again and syncs them, so that the bytes that were read are on the disk before the
    /// journal depends on them.
    ///
    /// The previous process may have ended because a sync failed. The kernel then treats the unwritten bytes as
    /// written: they can be read, another sync succeeds without writing them, and a power failure loses them.
    func rewrite(_ path: String, _ file: Int32, to end: Int) throws(JournalError) {
        let mapped = try map(path)
        try write(UnsafeRawBufferPointer(rebasing: mapped.bytes[..<end]), to: file, at: 0)
        try sync(file)
    }

    func sync(_ file: Int32) throws(JournalError) {
        guard system.sync(file) == 0 else { throw broken("cannot be made durable", errno) }
    }

    /// Truncates the rest, so that it is never read again.
    func cut(_ file: Int32, to size: Int) throws(JournalError) {
        var status = stat()
        if fstat(file, &status) == 0, status.st_size == size { return }
        guard system.truncate(file, size) == 0 else { throw broken("cannot be cut", errno) }
        try sync(file)
    }

    /// - Returns: the number of bytes that the file had.
    func remove(_ file: String) throws(JournalError) -> Int {
        var status = stat()
        stat(file, &status)
        guard unlink(file) == 0 else { throw failed("cannot be removed", errno, of: file) }
        return Int(status.st_size)
    }

    /// Other files in the folder do not belong to the journal.
    func removeIfEmpty() { rmdir(path) }

    private func syncFolder(_ folder: String) throws(JournalError) {
        let descriptor = Glibc.open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw broken("cannot be made durable", errno) }
        defer { close(descriptor) }
        try sync(descriptor)
    }

    private var parent: String { String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)]) }

    // MARK: - Messages

    private func failed(_ what: String, _ cause: Int32, of file: String? = nil) -> JournalError {
        if [ENOSPC, EDQUOT, EFBIG].contains(cause) {
            return JournalError(
                .full,
                "The disk of the journal \(path) is full (\(String(cString: strerror(cause)))). Nothing of this is in "
                    + "the journal: free some space, then try again.")
        }
        return broken(what, cause, of: file)
    }

    private func broken(_ what: String, _ cause: Int32, of file: String? = nil) -> JournalError {
        JournalError(
            .broken,
            "The journal \(file ?? path) \(what): \(String(cString: strerror(cause))). Check its folder's permissions "
                + "and the disk, then start the server again.")
    }

    private func unusable(_ message: String) -> JournalError { JournalError(.unusable, message) }

    private func noFile(_ file: String) -> JournalError {
        unusable(
            "The journal's file \(file) is no regular file. Put the journal's own file in its place; or, to give up "
                + "the jobs that the store has not applied, move the journal away.")
    }

    func unknownRecord(kind: UInt8, _ file: String, at offset: Int) -> JournalError {
        unusable(
            "The journal's file \(file) holds at byte \(offset) a record of kind \(kind), which this version of the "
                + "server cannot read. Start the version that wrote it.")
    }

    /// - Parameter missing: what is not there.
    func incomplete(_ missing: String) -> JournalError {
        unusable(
            "The journal \(path) is not whole: \(missing) is missing. Put its files back, or move the "
                + "journal away to give up what the store has not applied.")
    }

    func stranger(isFed: Bool) -> JournalError {
        unusable(
            "The journal \(path) is not that of the store beside it: "
                + (isFed ? "the store was fed from another one" : "the store was never fed from it")
                + ". Put the store's own journal there, or move this one away.")
    }

    func cutShort(last: Int64, applied: Int64) -> JournalError {
        unusable(
            "The journal \(path) ends at job \(last), and the store has applied job \(applied): the journal was cut "
                + "short, or is an older copy. Put the newest one there, or move it away to begin a new one.")
    }

    func exchanged(at position: Int64) -> JournalError {
        unusable(
            "The journal \(path) holds another job at \(position) than the store has applied. Put the store's own "
                + "journal there, or move this one away.")
    }

    func tooYoung(from position: Int64, applied: Int64) -> JournalError {
        unusable(
            "The store is older than its journal \(path): it has applied job \(applied), and the journal begins after "
                + "job \(position). Use a newer copy of the store; or move the journal away, to go on without the jobs between."
        )
    }
}

/// The file to which entries are appended, and where its name leads.
package struct JournalFile: Sendable {
    package let path: String
    private let device: dev_t
    private let inode: ino_t

    init(_ descriptor: Int32, at path: String) {
        var status = stat()
        fstat(descriptor, &status)
        (self.path, device, inode) = (path, status.st_dev, status.st_ino)
    }

    /// - Throws: ``JournalError`` `lost` when the file or its folder was deleted, moved or replaced: no later start would find
    ///   what is written to it.
    package func check() throws(JournalError) {
        var status = stat()
        let isThere = lstat(path, &status) == 0
        guard isThere, status.st_dev == device, status.st_ino == inode else {
            throw JournalError(
                .lost,
                "The journal's file \(path) was \(isThere ? "replaced" : "deleted or moved") while the journal was open. No more "
                    + "jobs are accepted, and nothing was deleted: stop the server, and put the files back; or move away the rest "
                    + "of the journal, to give up the jobs that the store has not applied. Then start it again.")
        }
    }
}

/// A file mapped into memory, readable as long as this object.
final class MappedFile: @unchecked Sendable {
    // No thread writes to them: mapped bytes never change; a file is only truncated after the bytes that were read.
    let bytes: UnsafeRawBufferPointer

    /// Nil when it cannot be read, with the cause in `errno`.
    init?(_ file: Int32) {
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

/// The system calls by which a journal writes; tests replace them to inject faults.
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

/// A fault of a journal, or of its disk.
package struct JournalError: Error, Sendable, CustomStringConvertible {
    package enum Code: Sendable {
        /// The disk is full: the entries are not in the journal, and may be appended again later.
        case full
        /// A system call failed. The contents of the disk are not known any more, and no entry may be appended until
        /// the journal has been opened again.
        case broken
        /// Its file or folder was deleted, moved or replaced while it was open: the entries are not in the journal.
        case lost
        /// The journal is damaged, or another store's.
        case unusable
    }

    package let code: Code
    /// What happened, where, and the remedy, in one line.
    package let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    package var description: String { message }

    static func damaged(_ file: String, at offset: Int) -> JournalError {
        JournalError(
            .unusable,
            "The journal's file \(file) is damaged at byte \(offset): durable bytes have changed there. Put a good "
                + "copy in its place; or, to give up the jobs from there on that the store has not applied, move the "
                + "journal away.")
    }

    static func unknownFormat(_ format: UInt32, _ file: String) -> JournalError {
        JournalError(
            .unusable,
            "The journal's file \(file) has format \(format), and this version of the server reads format "
                + "\(JournalSegment.currentFormat). Start the version that wrote it.")
    }
}
