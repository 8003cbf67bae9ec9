internal import CGlibc
internal import CSQLite
internal import Glibc

/// The methods of a connection's WAL: they write the frames of a transaction in pieces of up to ``capacity`` bytes, add checksums that
/// SQLite omits (``WALChecksums``), and begin early to write long transactions to the disk (``EarlyWriting``). They work over any
/// VFS.
///
/// SQLite writes the header and the page of each frame by two calls. Gathered frames are written with the last one of a COMMIT,
/// before anything is read or synced, and when there is no more room. So every frame is in the file when the call that commits
/// returns, also where nothing is synced.
///
/// Belongs to the connection's thread. The order of SQLite's calls is in wal.c, `walFrames`.
struct WALMethods {
    /// The longest page, which is the longest write; less than 2¹⁷, as `Connection.rewriteWAL()` explains.
    private static let capacity = 64 << 10

    /// First: SQLite's pointer to the methods of the file leads to it, and so to the rest.
    private var methods: sqlite3_io_methods
    private let below: UnsafePointer<sqlite3_io_methods>
    private var early: EarlyWriting
    private var checksums = WALChecksums()
    private let database: UnsafeMutablePointer<DatabaseMethods>
    private let gathered = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
    private var count = 0
    /// That of the first gathered byte in the file.
    private var offset: sqlite3_int64 = 0
    /// The result of a write that failed, until the transaction ends: frames that SQLite takes for written are missing.
    private var failure = SQLITE_OK

    static func install(on connection: OpaquePointer) {
        guard let wal = file(SQLITE_FCNTL_JOURNAL_POINTER, of: connection), let below = wal.pointee.pMethods,
            let database = file(SQLITE_FCNTL_FILE_POINTER, of: connection).flatMap(DatabaseMethods.install)
        else { return }
        let name = sqlite3_db_filename(connection, "main").flatMap { sqlite3_filename_wal($0) }
        let own = UnsafeMutablePointer<WALMethods>.allocate(capacity: 1)
        own.initialize(to: WALMethods(over: below, EarlyWriting(path: name.map { String(cString: $0) }), database))
        database.pointee.wal = own
        wal.pointee.pMethods = UnsafePointer(OpaquePointer(own))
    }

    private static func file(_ control: Int32, of connection: OpaquePointer) -> UnsafeMutablePointer<sqlite3_file>? {
        var file: UnsafeMutablePointer<sqlite3_file>?
        return sqlite3_file_control(connection, "main", control, &file) == SQLITE_OK ? file : nil
    }

    private init(
        over below: UnsafePointer<sqlite3_io_methods>, _ early: EarlyWriting,
        _ database: UnsafeMutablePointer<DatabaseMethods>
    ) {
        self.below = below
        self.early = early
        self.database = database
        methods = below.pointee
        methods.xWrite = { file, bytes, count, offset in
            WALMethods.of(file!).pointee.write(file!, bytes!, count, offset)
        }
        methods.xRead = { file, bytes, count, offset in
            let own = WALMethods.of(file!)
            guard own.pointee.checksums.isBeforeCorrection(reading: count) else {
                return own.pointee.flushed(file!) { below in below.xRead(file, bytes, count, offset) }
            }
            return own.pointee.checksums.read(WALFile(file: file!, methods: own.pointee.below.pointee), bytes!, offset)
        }
        methods.xSync = { file, flags in
            WALMethods.of(file!).pointee.flushed(file!) { below in below.xSync(file, flags) }
        }
        methods.xTruncate = { file, size in
            WALMethods.of(file!).pointee.flushed(file!) { below in below.xTruncate(file, size) }
        }
        methods.xFileSize = { file, size in
            WALMethods.of(file!).pointee.flushed(file!) { below in below.xFileSize(file, size) }
        }
        methods.xClose = { file in
            let own = WALMethods.of(file!)
            let below = own.pointee.below
            own.pointee.database.pointee.wal = nil
            own.pointee.early.close()
            own.pointee.gathered.deallocate()
            own.deallocate()
            file!.pointee.pMethods = below
            return below.pointee.xClose(file)
        }
    }

    private static func of(_ file: UnsafeMutablePointer<sqlite3_file>) -> UnsafeMutablePointer<WALMethods> {
        UnsafeMutablePointer(mutating: UnsafePointer(OpaquePointer(file.pointee.pMethods)))
    }

    private mutating func write(
        _ file: UnsafeMutablePointer<sqlite3_file>, _ new: UnsafeRawPointer, _ newCount: Int32,
        _ newOffset: sqlite3_int64
    ) -> Int32 {
        // Corrected headers overwrite what is written, and no call follows after which they would be.
        if checksums.isCommitted { return below.pointee.xWrite(file, new, newCount, newOffset) }
        checksums.wrote(new, newCount, at: newOffset)
        if newOffset != offset + sqlite3_int64(count) || count + Int(newCount) > Self.capacity {
            guard flush(file) == SQLITE_OK else { return failure }
            offset = newOffset
        }
        precondition(newCount <= Self.capacity, "no write is longer than a page")
        (gathered + count).copyMemory(from: new, byteCount: Int(newCount))
        count += Int(newCount)
        return checksums.isCommitted ? flush(file) : SQLITE_OK
    }

    private mutating func flush(_ file: UnsafeMutablePointer<sqlite3_file>) -> Int32 {
        guard failure == SQLITE_OK, count > 0 else { return failure }
        failure = below.pointee.xWrite(file, gathered, Int32(count), offset)
        if failure == SQLITE_OK { early.wrote(count, at: offset) }
        offset += sqlite3_int64(count)
        count = 0
        return failure
    }

    private mutating func flushed(
        _ file: UnsafeMutablePointer<sqlite3_file>, then call: (sqlite3_io_methods) -> Int32
    ) -> Int32 {
        let result = flush(file)
        return result == SQLITE_OK ? call(below.pointee) : result
    }

    /// Another connection may write the WAL from now on. What is still gathered was rolled back.
    mutating func endTransaction() {
        (count, failure) = (0, SQLITE_OK)
        early.endTransaction()
        checksums = WALChecksums()
    }
}

/// The methods of the database beside such a WAL, which see that a transaction ends.
struct DatabaseMethods {
    /// The lock of the connection that writes the WAL (sqlite.org/walformat.html, 2.3.1).
    private static let writeLock: Int32 = 0

    /// First, as in ``WALMethods``.
    private var methods: sqlite3_io_methods
    private let below: UnsafePointer<sqlite3_io_methods>
    /// Nil after the WAL's file was closed.
    fileprivate var wal: UnsafeMutablePointer<WALMethods>?

    fileprivate static func install(on file: UnsafeMutablePointer<sqlite3_file>) -> UnsafeMutablePointer<Self>? {
        guard let below = file.pointee.pMethods, below.pointee.iVersion >= 2 else { return nil }
        let own = UnsafeMutablePointer<Self>.allocate(capacity: 1)
        own.initialize(to: Self(over: below))
        file.pointee.pMethods = UnsafePointer(OpaquePointer(own))
        return own
    }

    private init(over below: UnsafePointer<sqlite3_io_methods>) {
        self.below = below
        methods = below.pointee
        methods.xShmLock = { file, first, count, flags in
            let own = Self.of(file!)
            if first == Self.writeLock, flags == SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE {
                own.pointee.wal?.pointee.endTransaction()
            }
            return own.pointee.below.pointee.xShmLock(file, first, count, flags)
        }
        methods.xClose = { file in
            let own = Self.of(file!)
            let below = own.pointee.below
            own.deallocate()
            file!.pointee.pMethods = below
            return below.pointee.xClose(file)
        }
    }

    private static func of(_ file: UnsafeMutablePointer<sqlite3_file>) -> UnsafeMutablePointer<Self> {
        UnsafeMutablePointer(mutating: UnsafePointer(OpaquePointer(file.pointee.pMethods)))
    }
}

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

    mutating func wrote(_ count: Int, at offset: sqlite3_int64) {
        guard descriptor >= 0, let piece = take(count, at: offset) else { return }
        broker_begin_writing(descriptor, piece.lowerBound, piece.upperBound - piece.lowerBound)
    }

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
    private static let sumBytes: Int32 = 8
    private static let frameHeaderBytes = 24
    private static let walHeaderBytes: sqlite3_int64 = 32

    private enum Phase {
        case writing
        /// The header of a COMMIT's last frame came.
        case committing
        /// Its page came, too: only corrected headers follow, and copies of that frame.
        case committed
    }

    private var phase = Phase.writing
    /// The offset of the first header of the transaction that has no checksum; nil when all have.
    private var first: sqlite3_int64?
    private var end: sqlite3_int64 = 0
    private var pageBytes = 0

    /// A part of a frame came: its header, or its page.
    mutating func wrote(_ bytes: UnsafeRawPointer, _ count: Int32, at offset: sqlite3_int64) {
        guard phase != .committed else { return }
        if Int(count) == Self.frameHeaderBytes {
            note(header: bytes, at: offset)
            // The pages of the database after the COMMIT; 0 in all frames but its last.
            if bytes.loadUnaligned(fromByteOffset: 4, as: UInt32.self) != 0 { phase = .committing }
        } else if phase == .committing {
            phase = .committed
            (end, pageBytes) = (offset + sqlite3_int64(count), Int(count))
        }
    }

    /// Each frame after a header became void with that.
    private mutating func note(header: UnsafeRawPointer, at offset: sqlite3_int64) {
        let salts = header.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
        let sums = header.loadUnaligned(fromByteOffset: 16, as: UInt64.self)
        if salts == 0, sums == 0 {
            first = min(first ?? offset, offset)
        } else if let known = first, offset <= known {
            first = nil
        }
    }

    /// The last page of the transaction came.
    var isCommitted: Bool { phase == .committed }

    /// Whether SQLite reads so many bytes to correct the headers of the transaction.
    func isBeforeCorrection(reading count: Int32) -> Bool { isCommitted && count == Self.sumBytes }

    /// Reads the sums before the first header that SQLite corrects, after those that it would omit are added.
    func read(_ wal: WALFile, _ bytes: UnsafeMutableRawPointer, _ offset: sqlite3_int64) -> Int32 {
        guard let first else { return wal.read(bytes, Self.sumBytes, offset) }
        let result = add(to: wal, from: first)
        guard result == SQLITE_OK else { return result }
        let last = end - sqlite3_int64(pageBytes) - sqlite3_int64(Self.sumBytes)
        return wal.read(bytes, Self.sumBytes, min(offset, last))
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
        result = wal.read(bytes, Self.sumBytes, before - sqlite3_int64(Self.sumBytes))
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
