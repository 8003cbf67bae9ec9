internal import CSQLite

/// The methods of a connection's WAL, which write its frames in pieces of up to ``capacity`` bytes.
///
/// SQLite writes the header and the page of each frame by calls of their own, and each call of the system takes longer than to copy
/// a page. So frames are gathered. They are written with the last frame of a COMMIT, before anything is read or synced, and when there
/// is no more room; so every frame is in the file when the call that commits returns, also where nothing is synced.
///
/// Checksums that SQLite omits are added: see ``WALChecksums``.
///
/// Belongs to the connection's thread. The format of frames is in sqlite.org/fileformat2.html, 4.2; the order of calls in wal.c,
/// `walFrames`.
struct GatheredWAL {
    /// The longest page, which is the longest write; less than 2¹⁷, as `Connection.rewriteWAL()` explains.
    private static let capacity = 64 << 10

    private enum Phase {
        case gathering
        /// The header of a COMMIT's last frame has come.
        case committing
        /// The last frame is written. Until the next transaction nothing is gathered: checksums of earlier frames may be corrected,
        /// and no call follows after which they would be written.
        case committed
    }

    /// First: SQLite's pointer to the methods of the file leads to it, and so to the rest.
    private var methods: sqlite3_io_methods
    private let below: UnsafePointer<sqlite3_io_methods>
    private let bytes = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
    private var count = 0
    /// The offset of the first byte in the file.
    private var offset: sqlite3_int64 = 0
    private var phase = Phase.gathering
    /// That of a write that failed, which ends the transaction: frames that SQLite takes for written are missing.
    private var failure = SQLITE_OK
    private var early: EarlyWriting
    /// The headers of frames without checksums.
    private var checksums = WALChecksums()
    private let database: UnsafeMutablePointer<DatabaseOfGatheredWAL>

    /// Gathers from now on what a connection writes to its WAL, which is open. It works over any VFS.
    static func install(on connection: OpaquePointer) {
        guard let wal = file(SQLITE_FCNTL_JOURNAL_POINTER, of: connection), let below = wal.pointee.pMethods,
            let database = file(SQLITE_FCNTL_FILE_POINTER, of: connection),
            let locked = DatabaseOfGatheredWAL.install(on: database)
        else { return }
        let gathered = UnsafeMutablePointer<GatheredWAL>.allocate(capacity: 1)
        let name = sqlite3_db_filename(connection, "main").flatMap { sqlite3_filename_wal($0) }
        let early = EarlyWriting(path: name.map { String(cString: $0) })
        gathered.initialize(to: GatheredWAL(over: below, of: locked, early))
        locked.pointee.wal = gathered
        wal.pointee.pMethods = UnsafePointer(OpaquePointer(gathered))
    }

    private static func file(_ control: Int32, of connection: OpaquePointer) -> UnsafeMutablePointer<sqlite3_file>? {
        var file: UnsafeMutablePointer<sqlite3_file>?
        return sqlite3_file_control(connection, "main", control, &file) == SQLITE_OK ? file : nil
    }

    private init(
        over below: UnsafePointer<sqlite3_io_methods>, of database: UnsafeMutablePointer<DatabaseOfGatheredWAL>,
        _ early: EarlyWriting
    ) {
        self.below = below
        self.early = early
        self.database = database
        methods = below.pointee
        methods.xWrite = { file, bytes, count, offset in
            GatheredWAL.of(file!).pointee.write(file!, bytes!, count, offset)
        }
        methods.xRead = { file, bytes, count, offset in
            GatheredWAL.of(file!).pointee.read(file!, bytes!, count, offset)
        }
        methods.xSync = { file, flags in
            GatheredWAL.of(file!).pointee.flushed(file!) { below in below.xSync(file, flags) }
        }
        methods.xTruncate = { file, size in
            GatheredWAL.of(file!).pointee.flushed(file!) { below in below.xTruncate(file, size) }
        }
        methods.xFileSize = { file, size in
            GatheredWAL.of(file!).pointee.flushed(file!) { below in below.xFileSize(file, size) }
        }
        methods.xClose = { file in
            let gathered = GatheredWAL.of(file!)
            let below = gathered.pointee.below
            gathered.pointee.database.pointee.wal = nil
            gathered.pointee.early.close()
            gathered.pointee.bytes.deallocate()
            gathered.deallocate()
            file!.pointee.pMethods = below
            return below.pointee.xClose(file)
        }
    }

    private static func of(_ file: UnsafeMutablePointer<sqlite3_file>) -> UnsafeMutablePointer<GatheredWAL> {
        UnsafeMutablePointer(mutating: UnsafePointer(OpaquePointer(file.pointee.pMethods)))
    }

    private mutating func write(
        _ file: UnsafeMutablePointer<sqlite3_file>, _ new: UnsafeRawPointer, _ newCount: Int32,
        _ newOffset: sqlite3_int64
    ) -> Int32 {
        if phase == .committed { return below.pointee.xWrite(file, new, newCount, newOffset) }
        let isHeader = Int(newCount) == WALChecksums.frameHeaderBytes
        if isHeader {
            checksums.note(header: new, at: newOffset)
            // The pages of the database after the COMMIT; 0 in all frames but its last.
            if new.loadUnaligned(fromByteOffset: 4, as: UInt32.self) != 0 { phase = .committing }
        }
        if newOffset != offset + sqlite3_int64(count) || count + Int(newCount) > Self.capacity {
            let result = flush(file)
            guard result == SQLITE_OK else { return result }
            offset = newOffset
        }
        precondition(newCount <= Self.capacity, "no write is longer than a page")
        (bytes + count).copyMemory(from: new, byteCount: Int(newCount))
        count += Int(newCount)
        guard phase == .committing, !isHeader else { return SQLITE_OK }
        phase = .committed
        checksums.end = newOffset + sqlite3_int64(newCount)
        checksums.pageBytes = Int(newCount)
        return flush(file)
    }

    private mutating func read(
        _ file: UnsafeMutablePointer<sqlite3_file>, _ bytes: UnsafeMutableRawPointer, _ count: Int32,
        _ offset: sqlite3_int64
    ) -> Int32 {
        guard phase == .committed, count == WALChecksums.count else {
            return flushed(file) { below in below.xRead(file, bytes, count, offset) }
        }
        // SQLite corrects the checksums of the transaction, beginning with the one after this.
        return checksums.read(WALFile(file: file, methods: below.pointee), bytes, offset)
    }

    private mutating func flush(_ file: UnsafeMutablePointer<sqlite3_file>) -> Int32 {
        guard failure == SQLITE_OK, count > 0 else { return failure }
        failure = below.pointee.xWrite(file, bytes, Int32(count), offset)
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
        count = 0
        phase = .gathering
        failure = SQLITE_OK
        early.endTransaction()
        checksums = WALChecksums()
    }
}

/// The methods of the database beside such a WAL, which see that a transaction ends.
struct DatabaseOfGatheredWAL {
    /// The lock of the one that writes the WAL (sqlite.org/walformat.html, 2.3.1).
    private static let writeLock: Int32 = 0

    /// First, as in ``GatheredWAL``.
    private var methods: sqlite3_io_methods
    private let below: UnsafePointer<sqlite3_io_methods>
    /// Nil after the WAL's file was closed.
    fileprivate var wal: UnsafeMutablePointer<GatheredWAL>?

    fileprivate static func install(on file: UnsafeMutablePointer<sqlite3_file>) -> UnsafeMutablePointer<Self>? {
        guard let below = file.pointee.pMethods, below.pointee.iVersion >= 2 else { return nil }
        let database = UnsafeMutablePointer<Self>.allocate(capacity: 1)
        database.initialize(to: Self(over: below))
        file.pointee.pMethods = UnsafePointer(OpaquePointer(database))
        return database
    }

    private init(over below: UnsafePointer<sqlite3_io_methods>) {
        self.below = below
        methods = below.pointee
        methods.xShmLock = { file, first, count, flags in
            let database = Self.of(file!)
            if first == Self.writeLock, flags == SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE {
                database.pointee.wal?.pointee.endTransaction()
            }
            return database.pointee.below.pointee.xShmLock(file, first, count, flags)
        }
        methods.xClose = { file in
            let database = Self.of(file!)
            let below = database.pointee.below
            database.deallocate()
            file!.pointee.pMethods = below
            return below.pointee.xClose(file)
        }
    }

    private static func of(_ file: UnsafeMutablePointer<sqlite3_file>) -> UnsafeMutablePointer<Self> {
        UnsafeMutablePointer(mutating: UnsafePointer(OpaquePointer(file.pointee.pMethods)))
    }
}
