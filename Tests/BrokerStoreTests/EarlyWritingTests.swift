import Foundation
import TestSupport
import Testing

@testable import BrokerSQLite
@testable import BrokerStore

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

    @Test func `closing a connection that gathers releases no lock of another one`() throws {
        let folder = TemporaryFolder()
        let path = folder.path("store")
        var writer: Connection? = try Connection(store: path)
        try writer?.execute("PRAGMA journal_mode = WAL")
        try writer?.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, content BLOB)")
        writer?.gatherWAL()
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
