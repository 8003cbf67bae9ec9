internal import CGlibc
internal import CSQLite
internal import Glibc

/// Begins to write a long transaction to the disk before it is synced, so that the sync waits for less.
///
/// That is only advice to the kernel (sync_file_range(2) without waiting): what is durable, and which errors a sync reports, stay as
/// they are, since the kernel keeps errors for each opening of a file until its next sync. Without a file of that name nothing is done.
struct EarlyWriting {
    /// Bytes of a transaction for which the kernel is called: more than small jobs write, which are left to their sync.
    static let pieceBytes: sqlite3_int64 = 512 << 10

    /// An opening of the file that only this uses; negative without one.
    private let descriptor: Int32
    /// The newest bytes of the transaction, without a gap, for which the kernel was not called.
    private var range: Range<sqlite3_int64> = 0..<0

    /// - Parameter path: of a file on which SQLite holds no locks, because to close it would release all locks of this process on it
    ///   (fcntl(2)); it has none on the WAL.
    init(path: String?) {
        descriptor = path.map { open($0, O_RDONLY | O_CLOEXEC) } ?? -1
    }

    /// Bytes were written to the file.
    mutating func wrote(_ count: Int, at offset: sqlite3_int64) {
        guard descriptor >= 0, let piece = take(count, at: offset) else { return }
        broker_begin_writing(descriptor, piece.lowerBound, piece.upperBound - piece.lowerBound)
    }

    /// - Returns: the bytes for which the kernel is to be called now.
    mutating func take(_ count: Int, at offset: sqlite3_int64) -> Range<sqlite3_int64>? {
        let end = offset + sqlite3_int64(count)
        range = range.upperBound == offset ? range.lowerBound..<end : offset..<end
        guard range.upperBound - range.lowerBound >= Self.pieceBytes else { return nil }
        defer { range = end..<end }
        return range
    }

    /// The next transaction may follow without a gap.
    mutating func endTransaction() { range = 0..<0 }

    func close() {
        if descriptor >= 0 { Glibc.close(descriptor) }
    }
}
