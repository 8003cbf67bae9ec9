internal import CSQLite
internal import Glibc

extension Connection {
    /// Bytes that are rewritten at a time: of a write of 128 KiB and more, SQLite's VFS passes on the remainder of its
    /// length modulo 2¹⁷ (os_unix.c, `seekAndWriteFd`), and treats the rest as a full disk.
    private static let walPieceBytes = 64 << 10

    /// Writes the WAL's bytes over themselves and syncs them, so that the WAL that was found is on the disk before
    /// anything depends on it. Runs inside a transaction that may write, so that no other connection appends to the WAL
    /// meanwhile.
    ///
    /// The process before may have ended because a sync of the WAL failed. The system then treats the lost pages as
    /// written: they can be read, a sync succeeds without effect, and a power failure loses them. The database would
    /// then have pages copied from them, beside older ones in the remaining WAL.
    func rewriteWAL() throws(StoreError) {
        guard let (wal, methods) = walFile else { return }
        let piece = UnsafeMutableRawPointer.allocate(byteCount: Self.walPieceBytes, alignment: 16)
        defer { piece.deallocate() }
        var size: sqlite3_int64 = 0
        var result = methods.xFileSize(wal, &size)
        guard size > 0 || result != SQLITE_OK else { return }
        var offset: sqlite3_int64 = 0
        while result == SQLITE_OK, offset < size {
            let count = Int32(min(sqlite3_int64(Self.walPieceBytes), size - offset))
            result = methods.xRead(wal, piece, count, offset)
            if result == SQLITE_OK { result = methods.xWrite(wal, piece, count, offset) }
            offset += sqlite3_int64(count)
        }
        if result == SQLITE_OK { result = methods.xSync(wal, SQLITE_SYNC_NORMAL) }
        try checkWAL(result)
    }

    /// Waits until the disk has all transactions that were committed, where COMMIT does not wait for it (`PRAGMA synchronous`).
    ///
    /// - Throws: ``StoreError``; when the disk has failed, the connection has a ``failure``.
    func syncWAL() throws(StoreError) {
        guard let (wal, methods) = walFile else { return }
        try checkWAL(methods.xSync(wal, SQLITE_SYNC_NORMAL))
    }

    /// The WAL's file, as SQLite has opened it, and its methods.
    private var walFile: (UnsafeMutablePointer<sqlite3_file>, sqlite3_io_methods)? {
        var wal: UnsafeMutablePointer<sqlite3_file>?
        let known = sqlite3_file_control(handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal)
        guard known == SQLITE_OK, let wal, let methods = wal.pointee.pMethods?.pointee else { return nil }
        return (wal, methods)
    }

    /// - Parameter result: that of a method of the WAL's file.
    private func checkWAL(_ result: Int32) throws(StoreError) {
        guard result != SQLITE_OK else { return }
        let path = sqlite3_db_filename(handle, "main").map { String(cString: $0) }
        let error = StoreError(result, on: nil, path: path, cause: errno)
        if error.isDiskFailure { fail(error) }
        throw error
    }
}
