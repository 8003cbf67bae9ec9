import BrokerModel
import Foundation
import TestSupport
import Testing

@testable import BrokerStore

/// Gathered frames are in the WAL whenever it is read, with the checksums by which a new process finds them.
@Suite(.timeLimit(.minutes(5))) struct GatheredWALTests {
    /// Writes at random through a connection that gathers: pages that do not fit into its cache, so that they are written and read
    /// within a transaction, parts that are rolled back, and transactions of another connection in between.
    private struct Work {
        let path: String
        let gathering: Connection
        let other: Connection
        var generator: SeededGenerator
        /// The rows that are committed.
        var rows: [Int: Int] = [:]

        init(at path: String, seed: UInt64) throws {
            self.path = path
            generator = SeededGenerator(seed: seed)
            gathering = try Connection(store: path)
            other = try Connection(store: path)
            let pageBytes = [512, 4_096, 65_536].randomElement(using: &generator)!
            try gathering.execute("PRAGMA page_size = \(pageBytes)")
            try gathering.execute("PRAGMA journal_mode = WAL")
            for connection in [gathering, other] {
                // Without a sync, nothing else writes what is gathered.
                try connection.execute(
                    "PRAGMA synchronous = \(["OFF", "NORMAL", "FULL"].randomElement(using: &generator)!)")
                // The other program's own SQLite loses transactions after a part that did not fit was rolled back.
                if connection === gathering {
                    try connection.execute("PRAGMA cache_size = \(Int.random(in: 1...20, using: &generator))")
                }
                try connection.execute("PRAGMA wal_autocheckpoint = \(Int.random(in: 5...200, using: &generator))")
            }
            try gathering.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, value INTEGER, content BLOB)")
            gathering.gatherWAL()
        }

        mutating func transaction() throws {
            let connection = Int.random(in: 0..<4, using: &generator) == 0 ? other : gathering
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
        var options = StoreOptions()
        options.cacheBytes = 64 << 10
        let model = #"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64", "text": "string"}}}}"#
        let test = try TestStore(model, options: options)
        func records(_ ids: ClosedRange<Int>, _ text: String) -> String {
            ids.map { #"{"id": \#($0), "text": "\#(text)\#(String(repeating: "x", count: 500))"}"# }.joined(
                separator: ",")
        }
        // The second step changes pages that did not fit into the cache.
        let operations = """
            {"entity": "A", "json": [\(records(1...2_000, "a"))]}, {"op": "delete", "entity": "A", "where": "id > 1500"}
            """
        let large = try test.job(operations: operations, wantsKeys: false).with(isDryRun: true)
        guard case .completed = try test.apply(large) else { throw Fault(.internal, "the large job failed") }
        for id in 3_001...3_010 { try test.apply(#"{"A": {"id": \#(id)}}"#) }
        let copy = TemporaryFolder()
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: test.path + suffix, toPath: copy.path("copy" + suffix))
        }
        #expect(try SQLRows.of("SELECT count(*) FROM A", in: copy.path("copy")) == ["10"])
        #expect(try SQLRows.of("PRAGMA integrity_check", in: copy.path("copy")) == ["ok"])
    }

    /// A connection that gathers, after these statements.
    private func gathering(_ path: String, on disk: FaultyDisk, _ statements: String) throws -> Connection {
        let connection = try Connection(store: path, vfs: disk.name)
        try connection.execute("PRAGMA journal_mode = WAL; \(statements)")
        connection.gatherWAL()
        return connection
    }

    @Test func `a transaction of many pages is written in few pieces`() throws {
        let folder = TemporaryFolder()
        try FaultyDisk.with { disk in
            let connection = try gathering(folder.path("database"), on: disk, "CREATE TABLE t (content BLOB)")
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
                let connection = try gathering(
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
                let connection = try gathering(
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
