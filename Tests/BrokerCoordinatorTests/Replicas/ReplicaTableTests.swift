import BrokerJournal
import BrokerStore
import Testing

@testable import BrokerCoordinator

/// The consequences of entries about all servers for one of them.
@Suite(.timeLimit(.minutes(5))) struct ReplicaTableTests {
    private var table = ReplicaTable()
    private var position: Int64 = 0

    private mutating func note(_ note: ReplicaNote, as own: String = "a", at time: Int64 = 0, joined: Bool = true)
        -> [ReplicaTable.Consequence]
    {
        position += 1
        return table.note(
            note, at: LogMark(position: position, time: time, content: []), own: own, hasJoined: joined)
    }

    private mutating func checkpoint(
        _ replica: String, _ position: Int64, _ digest: String, durable: Int64 = 0, backup: Int64 = 0,
        at time: Int64 = 0
    ) -> [ReplicaTable.Consequence] {
        self.position = max(self.position, position)
        return note(
            .checkpoint(
                ReplicaCheckpoint(
                    replica: replica, position: position, digest: digest, fingerprint: "f", durable: durable,
                    backup: backup)), at: time)
    }

    private mutating func join(_ names: String...) { for name in names { _ = note(.joined(name)) } }

    private static func halts(_ consequences: [ReplicaTable.Consequence]) -> Bool {
        consequences.contains { if case .halt = $0 { true } else { false } }
    }

    @Test mutating func `servers with one digest go on`() {
        join("a", "b", "c")
        for position in stride(from: Int64(1_000), through: 9_000, by: 1_000) {
            for name in ["b", "a", "c"] { #expect(checkpoint(name, position, "\(position)").isEmpty) }
        }
    }

    @Test mutating func `a server that differs from most halts, in any order of checkpoints`() {
        for order in [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]] {
            table = ReplicaTable()
            join("a", "b", "c")
            let halts = order.map { Self.halts(checkpoint($0, 1_000, $0 == "a" ? "x" : "y")) }
            #expect(halts == [false, false, true], "\(order)")
        }
    }

    @Test mutating func `a server of the majority goes on beside one that differs`() {
        join("a", "b", "c")
        for (name, digest) in [("a", "x"), ("b", "y"), ("c", "x")] { #expect(checkpoint(name, 1_000, digest).isEmpty) }
    }

    @Test mutating func `of two servers that differ, both halt`() {
        join("a", "b")
        #expect(checkpoint("a", 1_000, "x").isEmpty)
        #expect(Self.halts(checkpoint("b", 1_000, "y")))
    }

    @Test mutating func `servers that differ do not wait for ever for one that is silent`() {
        join("a", "b", "c")
        #expect(checkpoint("a", 1_000, "x").isEmpty)
        #expect(checkpoint("b", 1_000, "y").isEmpty)
        #expect(checkpoint("b", 2_000, "y").isEmpty)
        #expect(Self.halts(checkpoint("b", 4_000, "y")))
    }

    @Test mutating func `a server that has begun later is not compared with what it did not see`() {
        join("b", "c")
        _ = checkpoint("b", 1_000, "y")
        join("a")
        #expect(checkpoint("c", 1_000, "y").isEmpty)
        #expect(checkpoint("b", 9_000, "z").isEmpty)
    }

    @Test mutating func `a server that is removed halts, and not at the entries of an earlier run`() {
        join("a", "b")
        #expect(note(.left("a"), joined: false).isEmpty)
        join("a")
        #expect(note(.left("b")).isEmpty)
        #expect(Self.halts(note(.left("a"))))
        #expect(table.members.isEmpty)
    }

    @Test mutating func `what all have applied and a backup contains is trimmed, by the server of that backup`() {
        join("a", "b", "c")
        let margin = ReplicaTable.margin
        #expect(checkpoint("b", 100_000, "x", durable: 90_000).isEmpty)
        #expect(checkpoint("c", 100_000, "x", durable: 80_000, backup: 10_000).isEmpty)
        #expect(checkpoint("a", 100_000, "x", durable: 95_000, backup: 70_000) == [.trim(70_000 - margin)])
        // Nothing new, then a newer backup of another server.
        #expect(checkpoint("a", 101_000, "x", durable: 96_000, backup: 70_000).isEmpty)
        #expect(checkpoint("c", 101_000, "x", durable: 99_000, backup: 98_000).isEmpty)
        #expect(checkpoint("a", 102_000, "x", durable: 97_000, backup: 70_000).isEmpty)
        // The slowest server decides.
        #expect(checkpoint("b", 102_000, "x", durable: 91_000).isEmpty)
        #expect(checkpoint("a", 103_000, "x", durable: 99_000, backup: 99_000) == [.trim(91_000 - margin)])
    }

    @Test mutating func `nothing is trimmed without a backup`() {
        join("a")
        #expect(checkpoint("a", 100_000, "x", durable: 100_000).isEmpty)
    }

    @Test mutating func `a server that is silent for a week is removed`() {
        join("a", "b", "c")
        let week = ReplicaTable.longestSilence
        #expect(checkpoint("c", 1_000, "x", at: week / 2).isEmpty)
        #expect(checkpoint("a", 1_000, "x", at: week) == [])
        #expect(checkpoint("a", 1_000, "x", at: week + 1) == [.remove("b")])
    }

    @Test mutating func `the table survives as text, without the digests that are compared`() throws {
        join("a", "b \"c\"")
        _ = checkpoint("a", 1_000, "x", durable: 5, backup: 4, at: 77)
        let read = try #require(ReplicaTable(table.text))
        #expect(read.members == table.members && read.text == table.text)
        #expect(ReplicaTable("[") == nil && ReplicaTable(#"{"a":{}}"#) == nil)
    }

    @Test func `notes are read as they were written, and nothing else is`() {
        let notes: [ReplicaNote] = [
            .joined("a"), .left("b\n\"é"), .upgrade(fingerprint: "0123"),
            .checkpoint(
                ReplicaCheckpoint(
                    replica: "a", position: 1_000, digest: "d", fingerprint: "f", durable: 12, backup: 0)),
        ]
        for note in notes { #expect(ReplicaNote(note.entry) == note) }
        for text in ["", "{}", "[]", #"{"joined":1}"#, #"{"replica":"a"}"#] {
            for kind in [LogEntry.Kind.replica, .checkpoint, .upgrade] {
                #expect(ReplicaNote(LogEntry(kind, payload: Array(text.utf8))) == nil)
            }
        }
    }
}
