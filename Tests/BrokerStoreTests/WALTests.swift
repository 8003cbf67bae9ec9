import BrokerModel
import Foundation
import TestSupport
import Testing

@testable import BrokerSQLite
@testable import BrokerStore

/// The write-ahead log: its working size, and what a long reader does to it.
@Suite(.timeLimit(.minutes(5))) struct WALTests {
    private static let workingPages = 16
    /// Pages of 8,192 bytes, each with a header of 24, after one of 32.
    private static let workingBytes = 32 + workingPages * (8192 + 24)
    private static let longestBytes = 32 + workingPages * WALWatch.longestFactor * (8192 + 24)
    private let store: TestStore

    init() throws {
        store = try TestStore(
            #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "text": "string"}}}}"#
        ) { ($0.walPages, $0.synchronous) = (Self.workingPages, .off) }
    }

    private func write(_ id: Int, bytes: Int = 3_000) throws {
        try store.apply("{\"Row\": {\"id\": \(id), \"text\": \"\(String(repeating: "x", count: bytes))\"}}")
    }

    private var logBytes: Int { fileSize(store.path + "-wal") ?? -1 }

    @Test func `without readers the WAL stays at its working size, and no reader holds it`() throws {
        for id in 0..<200 {
            try write(id)
            #expect(store.store.wal.bytes == logBytes)
            #expect(logBytes < 2 * Self.workingBytes)
        }
        #expect(store.store.takeWALNotices().isEmpty)
        try store.store.begin()
        try store.store.commit()
        #expect(logBytes >= Self.workingBytes / 2, "it is not emptied in service")
    }

    @Test func `a COMMIT copies nothing, and what is due is copied once`() throws {
        func commit(_ id: Int, bytes: Int) throws {
            try store.store.begin()
            let text = String(repeating: "x", count: bytes)
            _ = try store.store.apply(store.job("{\"Row\": {\"id\": \(id), \"text\": \"\(text)\"}}"))
            try store.store.commit()
        }
        try commit(1, bytes: 10)
        store.store.copyWALIfDue()
        let few = store.store.wal.uncheckpointedPages
        #expect((1..<Self.workingPages).contains(few), "it has not its size yet")
        try commit(2, bytes: 600_000)
        #expect(store.store.wal.uncheckpointedPages > Self.workingPages)
        store.store.copyWALIfDue()
        #expect(store.store.wal.uncheckpointedPages == 0)
        try commit(3, bytes: 10)
        #expect(store.store.wal.uncheckpointedPages <= few, "it began again")
    }

    @Test func `the WAL is copied while no job waits, and restarts`() throws {
        var longest = 0
        for id in 0..<100 {
            try write(id)
            longest = max(longest, store.store.wal.uncheckpointedPages)
            store.store.idle()
            #expect(store.store.wal.uncheckpointedPages < max(1, Self.workingPages / WALWatch.idleShare))
        }
        #expect(longest < Self.workingPages)
        #expect(logBytes < Self.workingBytes)
    }

    @Test func `a long reader's growth of the WAL is reported once, and truncated when it has ended`() throws {
        let reader = try Connection(store: store.path, .read)
        try reader.execute("BEGIN")
        _ = try reader.integer("SELECT count(*) FROM Row")
        var notices: [WALNotice] = []
        for id in 0..<200 {
            try write(id)
            notices += store.store.takeWALNotices()
        }
        guard case .held(let bytes)? = notices.first, notices.count == 1 else {
            Issue.record("not reported once: \(notices)")
            return
        }
        #expect(bytes > WALWatch.heldFactor * Self.workingBytes)
        #expect(store.store.wal.bytes == logBytes)
        #expect(store.store.wal.uncheckpointedPages > WALWatch.heldFactor * Self.workingPages)
        try reader.execute("COMMIT")
        notices = []
        for id in 200..<210 {
            try write(id)
            notices += store.store.takeWALNotices()
        }
        guard case .released(let rest)? = notices.first, notices.count == 1 else {
            Issue.record("not reported once: \(notices)")
            return
        }
        #expect(rest <= Self.longestBytes)
        #expect(logBytes <= Self.longestBytes)
        #expect(store.store.wal.uncheckpointedPages < Self.workingPages)
        #expect(try store.isSound())
    }

    @Test
    func
        `the length of a log that another connection made is known from the opening on, and it is copied as far as it can be`()
        throws
    {
        for id in 0..<5 { try write(id) }
        let reader = try Connection(store: store.path, .read)
        try reader.execute("BEGIN")
        _ = try reader.integer("SELECT count(*) FROM Row")
        for id in 5..<10 { try write(id) }
        let few = store.store.wal.uncheckpointedPages
        try store.reopen()
        #expect(store.store.wal.uncheckpointedPages == few, "what the reader sees was copied before")
        #expect(!store.store.makeRoom(), "a reader is there")
        try reader.execute("COMMIT")
        #expect(store.store.makeRoom())
        #expect(store.store.wal.uncheckpointedPages == 0)
        #expect(!store.store.makeRoom(), "there is nothing more to copy")
        try store.execute("UPDATE Row SET text = 'another program wrote this'")
        #expect(store.store.makeRoom() && !store.store.makeRoom())
        try write(10)
        let some = store.store.wal.uncheckpointedPages
        #expect((1..<few).contains(some))
        try store.reopen()
        #expect(store.store.wal.uncheckpointedPages == 0)
    }

    @Test func `a store whose WAL has no room left is opened, and the WAL is overwritten`() throws {
        let reader = try Connection(store: store.path, .read)
        try reader.execute("BEGIN")
        _ = try reader.integer("SELECT count(*) FROM Row")
        for id in 0..<100 { try write(id % 2) }
        let crashed = TemporaryFolder()
        for name in ["store.sqlite", "store.sqlite-wal"] {
            try FileManager.default.copyItem(atPath: store.folder.path(name), toPath: crashed.path(name))
        }
        try FaultyDisk.with { disk in
            disk.limitFiles(to: logBytes)
            var options = StoreOptions()
            options.vfs = disk.name
            let opened = try Store(path: crashed.path("store.sqlite"), plan: store.plan, options: options)
            _ = try opened.openSequences(10)
        }
        #expect(fileSize(crashed.path("store.sqlite-wal")) ?? 0 <= logBytes)
        #expect(try SQLRows.of("SELECT count(*) FROM Row", in: crashed.path("store.sqlite")) == ["2"])
    }

    @Test func `the growth of the WAL by large transactions is not reported as a reader's`() throws {
        for id in 0..<4 { try write(id, bytes: (id + 1) << 20) }
        #expect(store.store.takeWALNotices().isEmpty)
        #expect(store.store.wal.bytes > WALWatch.heldFactor * Self.workingBytes)
        try write(5)
        #expect(logBytes <= Self.longestBytes)
    }

    @Test func `the watch reports the beginning and the end of a reader that holds the WAL, once each`() {
        var watch = WALWatch(workingPages: 10)
        #expect(watch.committed(pages: 9, written: 9) == nil)
        #expect(!watch.wantsCheckpoint)
        #expect(watch.committed(pages: 12, written: 1) == nil)
        #expect(watch.wantsCheckpoint)
        watch.checkpointed(copied: 5, of: 12)
        #expect(watch.uncheckpointedPages == 7)
        #expect(watch.committed(pages: 82, written: 70) == nil, "what was there before is not beyond the threshold")
        #expect(watch.committed(pages: 85, written: 3) == true)
        #expect(watch.committed(pages: 88, written: 3) == nil)
        watch.checkpointed(copied: 88, of: 88)
        #expect(watch.committed(pages: 2, written: 2) == false)
        #expect(watch.uncheckpointedPages == 2)
        #expect(watch.committed(pages: 100, written: 100) == nil)
    }

    @Test func `a WAL that another program restarts, and writes to first, has restarted for the watch`() {
        var watch = WALWatch(workingPages: 10)
        #expect(watch.committed(pages: 85, written: 3) == true)
        watch.checkpointed(copied: 87, of: 87)
        #expect(watch.committed(pages: 5, written: 3) == false)
        #expect(watch.uncheckpointedPages == 5)
    }

    @Test func `the WAL is long from eight times its working size on, and again after as much growth or a restart`() {
        var watch = WALWatch(workingPages: 10)
        func isLong(_ pages: Int) -> Bool {
            _ = watch.committed(pages: pages, written: 1)
            defer { if watch.isLong { watch.notedLong() } }
            return watch.isLong
        }
        #expect([80, 81, 82, 161, 162, 163].map(isLong) == [false, true, false, false, true, false])
        #expect([1, 80, 81].map(isLong) == [false, false, true])
    }

    @Test func `the WAL grows while transactions are long, to at most four times its working size`() {
        // Pages in the log and of the newest transaction, of a log of ten pages, and whether it is copied.
        for (pages, written, isDue) in [
            (9, 1, false), (10, 1, true), (15, 2, false), (16, 2, true), (39, 5, false), (40, 5, true), (39, 30, false),
            (40, 30, true), (90, 90, true),
        ] {
            var watch = WALWatch(workingPages: 10)
            _ = watch.committed(pages: pages, written: written)
            #expect(watch.wantsCheckpoint == isDue, "\(pages) pages, \(written) of them new")
            watch.isShort = true
            #expect(watch.wantsCheckpoint == (pages >= 10), "\(pages) pages, where there is little room")
        }
    }

    @Test func `long transactions are copied together, from a WAL of four times its working size`() throws {
        var copies = 0
        var most = 0
        for id in 0..<40 {
            try store.store.begin()
            let text = String(repeating: "x", count: 50_000)
            _ = try store.store.apply(store.job("{\"Row\": {\"id\": \(id), \"text\": \"\(text)\"}}"))
            try store.store.commit()
            most = max(most, store.store.wal.uncheckpointedPages)
            store.store.copyWALIfDue()
            if store.store.wal.uncheckpointedPages == 0 { copies += 1 }
        }
        // Each is seven pages of text, and some others.
        let longest = Self.workingPages * WALWatch.longestFactor
        #expect((longest..<longest + 16).contains(most))
        #expect((3...8).contains(copies))
        #expect(logBytes >= Self.longestBytes && logBytes < 2 * Self.longestBytes)
        #expect(store.store.takeWALNotices().isEmpty)
    }
}

/// Frames are in the WAL with the checksums by which a new process finds them.
@Suite(.timeLimit(.minutes(5))) struct WALChecksumTests {
    /// Writes at random through a connection with our methods: pages that do not fit into its cache, so that they are written and read
    /// within a transaction, parts that are rolled back, and transactions of another connection in between.
    private struct Work {
        let path: String
        let own: Connection
        let other: Connection
        var generator: SeededGenerator
        /// The rows that are committed.
        var rows: [Int: Int] = [:]

        init(at path: String, seed: UInt64) throws {
            self.path = path
            generator = SeededGenerator(seed: seed)
            own = try Connection(store: path)
            other = try Connection(store: path)
            let pageBytes = [512, 4_096, 65_536].randomElement(using: &generator)!
            try own.execute("PRAGMA page_size = \(pageBytes)")
            try own.execute("PRAGMA journal_mode = WAL")
            for connection in [own, other] {
                try connection.execute(
                    "PRAGMA synchronous = \(["OFF", "NORMAL", "FULL"].randomElement(using: &generator)!)")
                // The other program's own SQLite loses transactions after a part that did not fit was rolled back.
                if connection === own {
                    try connection.execute("PRAGMA cache_size = \(Int.random(in: 1...20, using: &generator))")
                }
                try connection.execute("PRAGMA wal_autocheckpoint = \(Int.random(in: 5...200, using: &generator))")
            }
            try own.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, value INTEGER, content BLOB)")
            own.prepareWAL()
        }

        mutating func transaction() throws {
            let connection = Int.random(in: 0..<4, using: &generator) == 0 ? other : own
            var changed = rows
            try connection.execute("BEGIN IMMEDIATE")
            for _ in 0..<Int.random(in: 0...3, using: &generator) {
                try connection.execute("SAVEPOINT part")
                let before = changed
                for _ in 0..<Int.random(in: 0...40, using: &generator) { try change(&changed, by: connection) }
                guard Int.random(in: 0..<3, using: &generator) == 0 else { continue }
                try connection.execute("ROLLBACK TO part")
                changed = before
            }
            if Int.random(in: 0..<4, using: &generator) == 0 {
                try connection.execute("ROLLBACK")
            } else {
                try connection.execute("COMMIT")
                rows = changed
            }
        }

        private mutating func change(_ rows: inout [Int: Int], by connection: Connection) throws {
            let id = Int.random(in: 1...200, using: &generator)
            let value = Int.random(in: 0...1_000_000, using: &generator)
            let bytes = Int.random(in: 0...3_000, using: &generator)
            try connection.execute("INSERT OR REPLACE INTO t VALUES (\(id), \(value), zeroblob(\(bytes)))")
            rows[id] = value
        }

        /// Compares the rows with those that a new process finds when this one is killed now.
        func check(_ comment: String) throws {
            let copy = TemporaryFolder()
            for suffix in ["", "-wal"] {
                try FileManager.default.copyItem(atPath: path + suffix, toPath: copy.path("copy" + suffix))
            }
            for (name, path) in [("the files", path), ("a copy", copy.path("copy"))] {
                let isSound = try SQLRows.of("PRAGMA integrity_check", in: path) == ["ok"]
                let found = try SQLRows.of("SELECT id, value FROM t ORDER BY id", in: path)
                let isWhole = found == rows.sorted { $0.key < $1.key }.map { "\($0.key)|\($0.value)" }
                #expect(isSound && isWhole, "\(name), \(comment)")
            }
        }
    }

    @Test func `others read each transaction once it is committed, and after a kill too`() throws {
        var seeds = SeededGenerator(for: "others read each transaction once it is committed, and after a kill too")
        for _ in 0..<Cases.count(20, of: 200) {
            let seed = seeds.next()
            let folder = TemporaryFolder()
            var work = try Work(at: folder.path("database"), seed: seed)
            for number in 1...30 {
                try work.transaction()
                try work.check("seed \(seed), transaction \(number)")
            }
        }
    }

    @Test func `what is committed after a large job was undone is there after a kill`() throws {
        let model = #"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64", "text": "string"}}}}"#
        let test = try TestStore(model) { $0.cacheBytes = 64 << 10 }
        func records(_ ids: ClosedRange<Int>, _ text: String) -> String {
            ids.map { #"{"id": \#($0), "text": "\#(text)\#(String(repeating: "x", count: 500))"}"# }.joined(
                separator: ",")
        }
        // The second step changes pages that did not fit into the cache.
        let operations = """
            {"entity": "A", "json": [\(records(1...2_000, "a"))]}, {"op": "delete", "entity": "A", "where": "id > 1500"}
            """
        let large = try test.job(operations: operations, wantsKeys: false).with(isDryRun: true)
        #expect(try test.apply(large).outcome != nil)
        for id in 3_001...3_010 { try test.apply(#"{"A": {"id": \#(id)}}"#) }
        let copy = TemporaryFolder()
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: test.path + suffix, toPath: copy.path("copy" + suffix))
        }
        #expect(try SQLRows.of("SELECT count(*) FROM A", in: copy.path("copy")) == ["10"])
        #expect(try SQLRows.of("PRAGMA integrity_check", in: copy.path("copy")) == ["ok"])
    }

    /// A connection with our methods, after these statements.
    private func prepared(_ path: String, on disk: FaultyDisk, _ statements: String) throws -> Connection {
        let connection = try Connection(store: path, vfs: disk.name)
        try connection.execute("PRAGMA journal_mode = WAL; \(statements)")
        connection.prepareWAL()
        return connection
    }

    @Test func `a transaction of many pages is written in few pieces`() throws {
        let folder = TemporaryFolder()
        try FaultyDisk.with { disk in
            let connection = try prepared(folder.path("database"), on: disk, "CREATE TABLE t (content BLOB)")
            // 256 pages are 512 writes of SQLite, and 17 pieces of 64 KiB.
            disk.fail(.write, number: 24, with: .ioError)
            try connection.execute("INSERT INTO t VALUES (zeroblob(\(256 * 4_096)))")
            #expect(!disk.isStruck)
        }
    }

    @Test func `a write that fails before a page is read undoes the transaction, whatever follows in it`() throws {
        for number in 1...12 {
            let folder = TemporaryFolder()
            let path = folder.path("database")
            try FaultyDisk.with { disk in
                let connection = try prepared(
                    path, on: disk,
                    """
                    PRAGMA cache_size = 5;
                    CREATE TABLE t (id INTEGER PRIMARY KEY, number INTEGER NOT NULL CHECK (number >= 0), content BLOB);
                    WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids LIMIT 300)
                    INSERT INTO t SELECT id, 0, zeroblob(1500) FROM ids
                    """)
                try connection.execute("BEGIN")
                disk.fail(.write, number: number, with: .noSpace)
                // When the disk is full in a statement that may fail for a row, SQLite undoes the statement alone.
                for part in 0..<60 {
                    let rows =
                        "SELECT id + \(1_000 * (part + 1)), number, content FROM t WHERE id % 60 = \(part) AND id < 1000"
                    try? connection.execute("INSERT INTO t \(rows)")
                }
                #expect(disk.isStruck)
                disk.mend()
                try? connection.execute("COMMIT")
                if !connection.isAutocommit { try connection.execute("ROLLBACK") }
                #expect(try SQLRows.of("PRAGMA integrity_check", in: path) == ["ok"], "write \(number)")
                #expect(
                    try SQLRows.of("SELECT count(*) FROM t WHERE id < 1000 AND length(content) = 1500", in: path) == [
                        "300"
                    ])
            }
        }
    }

    @Test func `a write that fails at the COMMIT commits nothing, and the next one does`() throws {
        for number in 1...6 {
            let folder = TemporaryFolder()
            let path = folder.path("database")
            try FaultyDisk.with { disk in
                let connection = try prepared(
                    path, on: disk,
                    "PRAGMA synchronous = OFF; CREATE TABLE t (id INTEGER PRIMARY KEY, content BLOB)")
                disk.fail(.write, number: number, with: .noSpace)
                #expect(throws: StoreError.self) {
                    try connection.execute("INSERT INTO t VALUES (1, zeroblob(400000))")
                }
                #expect(disk.isStruck)
                disk.mend()
                #expect(try SQLRows.of("SELECT count(*) FROM t", in: path) == ["0"])
                try connection.execute("INSERT INTO t VALUES (2, zeroblob(100000))")
                #expect(try SQLRows.of("SELECT id FROM t", in: path) == ["2"])
                #expect(try SQLRows.of("PRAGMA integrity_check", in: path) == ["ok"])
            }
        }
    }
}

/// The disk begins once with each large piece of the WAL, without an effect on locks.
@Suite(.timeLimit(.minutes(5))) struct EarlyWritingTests {
    @Test func `each byte of a long transaction is begun once, in order, but for an end shorter than a piece`() {
        var seeds = SeededGenerator(for: "each byte of a long transaction is begun once")
        var early = EarlyWriting(path: nil)
        for _ in 0..<Cases.count(20, of: 1_000) {
            let seed = seeds.next()
            var generator = SeededGenerator(seed: seed)
            var offset = Int64.random(in: 0...(100 << 20), using: &generator)
            var begun = offset
            for _ in 0..<Int.random(in: 1...100, using: &generator) {
                let count = Int.random(in: 1...(64 << 10), using: &generator)
                if let piece = early.take(count, at: offset) {
                    #expect(piece.lowerBound == begun && piece.upperBound == offset + Int64(count), "seed \(seed)")
                    #expect(piece.upperBound - piece.lowerBound >= EarlyWriting.pieceBytes, "seed \(seed)")
                    begun = piece.upperBound
                }
                offset += Int64(count)
                #expect(offset - begun < EarlyWriting.pieceBytes, "seed \(seed)")
            }
        }
    }

    /// Each follows the one before in the WAL without a gap.
    @Test func `small transactions are left to their syncs, however many follow each other`() {
        var early = EarlyWriting(path: nil)
        for number in 0..<1_000 {
            #expect(early.take(48 << 10, at: Int64(number * (48 << 10))) == nil)
            early.endTransaction()
        }
    }

    @Test func `closing a connection releases no lock of another one`() throws {
        let folder = TemporaryFolder()
        let path = folder.path("store")
        var writer: Connection? = try Connection(store: path)
        try writer?.execute("PRAGMA journal_mode = WAL")
        try writer?.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, content BLOB)")
        writer?.prepareWAL()
        let reader = try Connection(store: path)
        try reader.execute("BEGIN")
        try reader.execute("SELECT count(*) FROM t")
        try writer?.execute("INSERT INTO t VALUES (1, zeroblob(2000000))")
        let held = try locks(on: path)
        #expect(!held.isEmpty)
        writer = nil
        #expect(try locks(on: path) == held)
        try reader.execute("COMMIT")
    }

    /// The locks of this process on the file: proc_locks(5). `1: POSIX ADVISORY READ 1234 fe:01:5678 10 20`
    private func locks(on path: String) throws -> Set<String> {
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        let number = try #require(attributes[.systemFileNumber] as? Int)
        let lines = try String(contentsOfFile: "/proc/locks", encoding: .utf8).split(separator: "\n")
        return Set(
            lines.compactMap { line in
                let fields = line.split(separator: " ")
                guard fields.count >= 8, fields[4] == "\(getpid())", fields[5].hasSuffix(":\(number)") else {
                    return nil
                }
                return fields[1...].joined(separator: " ")
            })
    }
}
