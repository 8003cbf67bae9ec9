internal import CGlibc
internal import CSQLite
internal import Glibc

/// Lets the disk begin with what is written to a file before the file is synced, so that the sync waits for less.
///
/// That is only advice to the kernel (sync_file_range(2) without waiting): what is durable, and which errors a sync reports, stay as
/// they are, since the kernel keeps errors for each opening of a file until its next sync. Without a file of that name nothing is done.
struct EarlyWriting {
    /// So many bytes are begun at a time: each call takes longer than to copy a page, and what a small job writes is less.
    static let pieceBytes: sqlite3_int64 = 512 << 10

    /// An opening of the file that only this uses; negative without one.
    private let descriptor: Int32
    /// Bytes that were written, in one piece, and are not begun.
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

    /// - Returns: what is to be begun now.
    mutating func take(_ count: Int, at offset: sqlite3_int64) -> Range<sqlite3_int64>? {
        let end = offset + sqlite3_int64(count)
        range = range.upperBound == offset ? range.lowerBound..<end : offset..<end
        guard range.upperBound - range.lowerBound >= Self.pieceBytes else { return nil }
        defer { range = end..<end }
        return range
    }

    func close() {
        if descriptor >= 0 { Glibc.close(descriptor) }
    }
}
