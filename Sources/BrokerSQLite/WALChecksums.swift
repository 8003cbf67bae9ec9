internal import CSQLite

/// Adds the checksums of frames that SQLite omits, after which a new process would not find the transaction, nor any later one.
///
/// When a page is written again within its transaction, which happens to pages that do not fit into the cache, SQLite overwrites its
/// frame, writes all later headers without salts and checksums, and at the COMMIT corrects the headers from the first overwritten
/// frame on (wal.c, `walRewriteChecksums`). After `ROLLBACK TO`, frames are written again that may precede that one, also where
/// the transaction then ends before it: their headers stay as they are, and so does the checksum with which the next transaction
/// begins. This was seen with SQLite 3.40.1.
///
/// The format: sqlite.org/fileformat2.html, 4.1 to 4.3.
struct WALChecksums {
    /// Bytes of two sums. SQLite reads them by themselves only before it corrects the headers.
    static let count: Int32 = 8
    static let frameHeaderBytes = 24
    private static let walHeaderBytes: sqlite3_int64 = 32

    /// The offset of the first header of the transaction that has no checksum; nil when all have.
    private var first: sqlite3_int64?
    /// The end of the transaction's last frame.
    var end: sqlite3_int64 = 0
    var pageBytes = 0

    /// A header was written; each frame after it became void with that.
    mutating func note(header: UnsafeRawPointer, at offset: sqlite3_int64) {
        let salts = header.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
        let sums = header.loadUnaligned(fromByteOffset: 16, as: UInt64.self)
        let isBare = salts == 0 && sums == 0
        if isBare {
            first = min(first ?? offset, offset)
        } else if let known = first, offset <= known {
            first = nil
        }
    }

    /// Reads the sums before the first header that SQLite corrects, after those that it would omit are added.
    func read(_ wal: WALFile, _ bytes: UnsafeMutableRawPointer, _ offset: sqlite3_int64) -> Int32 {
        guard let first else { return wal.read(bytes, Self.count, offset) }
        let result = add(to: wal, from: first)
        guard result == SQLITE_OK else { return result }
        let last = end - sqlite3_int64(pageBytes) - sqlite3_int64(Self.count)
        return wal.read(bytes, Self.count, min(offset, last))
    }

    private func add(to wal: WALFile, from first: sqlite3_int64) -> Int32 {
        let frameBytes = Self.frameHeaderBytes + pageBytes
        let bytes = UnsafeMutableRawPointer.allocate(byteCount: frameBytes, alignment: 16)
        defer { bytes.deallocate() }
        var result = wal.read(bytes, Int32(Self.walHeaderBytes), 0)
        guard result == SQLITE_OK else { return result }
        let isBigEndian = bytes.load(fromByteOffset: 3, as: UInt8.self) & 1 == 1
        let salts = bytes.load(fromByteOffset: 16, as: UInt64.self)
        let before = first == Self.walHeaderBytes ? first : first - sqlite3_int64(pageBytes)
        result = wal.read(bytes, Self.count, before - sqlite3_int64(Self.count))
        var sums = Sums(
            first: UInt32(bigEndian: bytes.load(as: UInt32.self)),
            second: UInt32(bigEndian: bytes.load(fromByteOffset: 4, as: UInt32.self)), isBigEndian: isBigEndian)
        var offset = first
        while result == SQLITE_OK, offset < end {
            result = wal.read(bytes, Int32(frameBytes), offset)
            guard result == SQLITE_OK else { break }
            sums.add(UnsafeRawBufferPointer(start: bytes, count: 8))
            sums.add(UnsafeRawBufferPointer(start: bytes + Self.frameHeaderBytes, count: pageBytes))
            bytes.storeBytes(of: salts, toByteOffset: 8, as: UInt64.self)
            bytes.storeBytes(of: sums.first.bigEndian, toByteOffset: 16, as: UInt32.self)
            bytes.storeBytes(of: sums.second.bigEndian, toByteOffset: 20, as: UInt32.self)
            result = wal.write(bytes, Int32(Self.frameHeaderBytes), offset)
            offset += sqlite3_int64(frameBytes)
        }
        return result
    }

    /// The checksum of all frames up to one.
    private struct Sums {
        var first: UInt32
        var second: UInt32
        let isBigEndian: Bool

        /// - Parameter bytes: a multiple of 8.
        mutating func add(_ bytes: UnsafeRawBufferPointer) {
            for offset in stride(from: 0, to: bytes.count, by: 8) {
                first &+= word(bytes, offset) &+ second
                second &+= word(bytes, offset + 4) &+ first
            }
        }

        private func word(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> UInt32 {
            let word = bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
            return isBigEndian ? UInt32(bigEndian: word) : UInt32(littleEndian: word)
        }
    }
}

/// A WAL below the layer that gathers.
struct WALFile {
    let file: UnsafeMutablePointer<sqlite3_file>
    let methods: sqlite3_io_methods

    func read(_ bytes: UnsafeMutableRawPointer, _ count: Int32, _ offset: sqlite3_int64) -> Int32 {
        methods.xRead(file, bytes, count, offset)
    }

    func write(_ bytes: UnsafeRawPointer, _ count: Int32, _ offset: sqlite3_int64) -> Int32 {
        methods.xWrite(file, bytes, count, offset)
    }
}
