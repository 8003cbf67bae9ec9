internal import CSQLite
internal import Glibc

extension Connection {
    /// Bytes that are rewritten at a time: of a write of 128 KiB and more, SQLite's VFS passes on what is left of its length by 17
    /// bits (os_unix.c, `seekAndWriteFd`), and takes the rest for a full disk.
    private static let logPieceBytes = 64 << 10

    /// Writes the log's bytes over themselves and syncs them, so that what is found in it is on the disk before anything is
    /// built on it. Inside a transaction that may write, so that nobody appends to it meanwhile.
    ///
    /// The process before may have ended because a sync of the log failed. The system then takes what it could not write for
    /// written: it can be read, a sync succeeds without doing anything, and a loss of power takes it away. Pages that were
    /// copied from it into the database would then stand beside older ones in the log that is left.
    func rewriteLog() throws(StoreError) {
        var log: UnsafeMutablePointer<sqlite3_file>?
        let known = sqlite3_file_control(handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log)
        guard known == SQLITE_OK, let log, let methods = log.pointee.pMethods?.pointee else { return }
        let piece = UnsafeMutableRawPointer.allocate(byteCount: Self.logPieceBytes, alignment: 16)
        defer { piece.deallocate() }
        var size: sqlite3_int64 = 0
        var result = methods.xFileSize(log, &size)
        guard size > 0 || result != SQLITE_OK else { return }
        var offset: sqlite3_int64 = 0
        while result == SQLITE_OK, offset < size {
            let count = Int32(min(sqlite3_int64(Self.logPieceBytes), size - offset))
            result = methods.xRead(log, piece, count, offset)
            if result == SQLITE_OK { result = methods.xWrite(log, piece, count, offset) }
            offset += sqlite3_int64(count)
        }
        if result == SQLITE_OK { result = methods.xSync(log, SQLITE_SYNC_NORMAL) }
        guard result != SQLITE_OK else { return }
        let path = sqlite3_db_filename(handle, "main").map { String(cString: $0) }
        let error = StoreError(result, on: nil, path: path, cause: errno)
        if error.isDiskFailure { fail(error) }
        throw error
    }
}
