import Foundation
import Testing

/// A database of SQLite in WAL mode on the disk.
@Suite(.enabled(if: MountedDisk.isPossible, "only root can mount"), .timeLimit(.minutes(5))) struct SQLiteTests {
    private static let count = 200

    @Test(arguments: [0, 1, 2, 3, 4, 5] as [UInt64])
    func `Committed transactions survive with synchronous FULL`(seed: UInt64) throws {
        let disk = try MountedDisk(seed: seed, unsynced: seed == 0 ? "none" : "some")
        for round in 1...3 {
            try Self.insert(Self.count, on: disk, synchronous: "FULL")
            try disk.cut()
            #expect(try Self.query("PRAGMA integrity_check", on: disk) == "ok")
            #expect(try Self.query("SELECT count(*) FROM row", on: disk) == "\(round * Self.count)")
        }
    }

    @Test func `Committed transactions are lost with synchronous OFF`() throws {
        let disk = try MountedDisk(unsynced: "none")
        try Self.insert(Self.count, on: disk, synchronous: "FULL")
        try disk.cut()
        try Self.insert(Self.count, on: disk, synchronous: "OFF")
        try disk.cut()
        let rows = try #require(Int(try Self.query("SELECT count(*) FROM row", on: disk)))
        #expect(rows < 2 * Self.count)
        #expect(rows >= Self.count)
    }

    /// Commits so many transactions, then ends the program as a power cut does.
    private static func insert(_ count: Int, on disk: MountedDisk, synchronous: String) throws {
        let (input, output) = (Pipe(), Pipe())
        let program = try disk.start(
            ["sqlite3", "-bail", "\(disk.mountPoint)/store.sqlite"], output: output, input: input)
        let lines = LineReader(output.fileHandleForReading.fileDescriptor, owner: output)
        func send(_ text: String) throws { try input.fileHandleForWriting.write(contentsOf: Data((text + "\n").utf8)) }
        try send("PRAGMA journal_mode = WAL; PRAGMA synchronous = \(synchronous);")
        #expect(lines.next() == "wal")
        try send("CREATE TABLE IF NOT EXISTS row(id INTEGER PRIMARY KEY, text); PRAGMA wal_autocheckpoint = 50;")
        #expect(lines.next() == "50")
        for number in 0..<count {
            try send("INSERT INTO row(text) VALUES (hex(randomblob(500))); SELECT 'committed \(number)';")
            try #require(lines.next() == "committed \(number)")
        }
        program.strike()
    }

    private static func query(_ statement: String, on disk: MountedDisk) throws -> String {
        let output = Pipe()
        let program = try disk.start(["sqlite3", "\(disk.mountPoint)/store.sqlite", statement], output: output)
        let line = LineReader(output.fileHandleForReading.fileDescriptor, owner: output).next()
        program.waitUntilExit()
        return try #require(line)
    }
}
