import Foundation
import TestSupport
import Testing

@testable import BrokerCommandLine

/// The same words at the same places of all commands.
@Suite(.timeLimit(.minutes(5))) struct CommandWordTests {
    private let programs: Programs
    private static let store = ["--store", "s.sqlite"]

    init() throws { programs = try Programs() }

    private func broker(_ arguments: [String], _ input: String = "") throws -> Programs.Result {
        try programs.run("broker", arguments + Self.store, input: input)
    }

    private func ids(_ entity: String = "Event") throws -> String {
        try Database(programs.path("s.sqlite")).rows("SELECT id FROM \(entity) ORDER BY id").joined(separator: " ")
    }

    @Test func `the entity is the first argument, or the option`() throws {
        try programs.write(#"[{"id": 1}, {"id": 2}, {"id": 3}]"#, to: "events.json")
        let first = try broker(["submit", "Event", "events.json"])
        #expect(first.status == 0, "\(first)")
        #expect(try broker(["submit", "Event"], #"{"id": 4}"#).status == 0)
        #expect(try broker(["fetch", "Event", "--count"]).output == "4\n")
        #expect(try broker(["delete", "Event", "4"]).status == 0)
        #expect(try broker(["delete", "--entity", "Event", "3"]).status == 0)
        #expect(try ids() == "1 2")
        #expect(try broker(["sync", "Event", "events.json"]).status == 0)
        #expect(try broker(["sync", "Event"], #"[{"id": 1}, {"id": 3}]"#).status == 0)
        #expect(try ids() == "1 3")
    }

    @Test func `an argument that may be a file, a key or nothing at all is no entity`() throws {
        try programs.write(#"[{"id": 1}]"#, to: "Event")
        for arguments in [["submit", "Event"], ["submit", "event.json"]] {
            #expect(try broker(arguments).status != 0, "\(arguments)")
        }
        for arguments in [["delete", "3", "4"], ["delete"], ["sync", "Event"], ["sync"], ["sync", "event.json"]] {
            let result = try broker(arguments)
            #expect(result.status == 2 && result.complaints.contains("--entity <entity>"), "\(result)")
        }
        // The option decides, and the file is one.
        #expect(try broker(["submit", "--entity", "Event", "Event"]).status == 0)
        #expect(try ids() == "1")
    }

    @Test func `a name that is nearly one of the store makes an entity only when that is said`() throws {
        #expect(try broker(["submit", "Event"], #"{"id": 1, "name": "a"}"#).status == 0)
        for command in ["submit", "sync"] {
            for name in ["Evnt", "event", "Events"] {
                let result = try broker([command, name], #"{"id": 2, "name": "b"}"#)
                #expect(result.status == 2 && result.complaints.contains("no entity \(name), but Event"), "\(result)")
            }
        }
        #expect(try broker(["submit", "Comment"], #"{"id": 7}"#).status == 0)
        let new = try broker(["submit", "Events", "--new"], #"{"id": 2, "name": "b"}"#)
        #expect(new.status == 0, "\(new)")
        #expect(try ids() == "1" && ids("Events") == "2" && ids("Comment") == "7")
    }

    @Test func `a sync makes a store and extends its model as a submission does`() throws {
        let envelope = #"{"items": [{"id": 1}, {"id": 2}], "total": 2}"#
        let tried = try broker(["sync", "Event", "--dry-run"], envelope)
        #expect(tried.status == 0 && !FileManager.default.fileExists(atPath: programs.path("s.sqlite")), "\(tried)")
        #expect(try broker(["sync", "Event"], envelope).status == 0)
        #expect(try broker(["sync", "Event", "--no-evolve"], #"[{"id": 2, "name": "b"}]"#).status == 0)
        #expect(try ids() == "2")
        let extended = try broker(["sync", "Event"], #"[{"id": 2, "name": "b"}, {"id": 3}]"#)
        #expect(extended.status == 0, "\(extended)")
        #expect(
            try Database(programs.path("s.sqlite")).rows("SELECT id, coalesce(name, 0) FROM Event ORDER BY id") == [
                "2|b", "3|0",
            ])
        #expect(try broker(["sync", "Event", "--identity", "id", "--model", "model.json"]).status == 2)
        #expect(try broker(["sync", "Event", "--empty"], "[]").status == 0)
        #expect(try ids() == "")
    }

    @Test func `a sync that outgrows a job is cut into small parts, and a fault has its place in its file`() throws {
        let text = String(repeating: "x", count: 1_000)
        func lines(_ ids: Range<Int>) -> String { ids.map { "{\"id\": \($0), \"name\": \"\(text)\"}\n" }.joined() }
        try programs.write(lines(0..<9_000), to: "a.ndjson")
        try programs.write(lines(9_000..<11_000) + "{\"id\": \"no\"}\n" + lines(11_000..<15_000), to: "b.ndjson")
        try programs.write(
            #"{"entities": {"Event": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}}}}"#,
            to: "model.json")
        let result = try broker(
            ["sync", "Event", "--on-invalid", "skip", "--model", "model.json", "a.ndjson", "b.ndjson"])
        #expect(result.status == 3)
        #expect(result.complaints.contains("skipped, b.ndjson, line 2001 (record 2001): invalidValue"), "\(result)")
        #expect(result.output.contains("15001 records in 4 jobs committed"), "\(result)")
        let rows = try Database(programs.path("s.sqlite")).rows("SELECT count(*), min(id), max(id) FROM Event")
        #expect(rows == ["15000|0|14999"])
    }

    @Test func `messages are divided between words, and a command in one stays whole`() {
        func wrapped(_ line: String, _ columns: Int) -> [String] {
            Terminal.wrapped(line, columns: columns, command: "/bin/broker").components(separatedBy: "\n")
        }
        #expect(wrapped("broker: a short line.", 80) == ["broker: a short line."])
        #expect(wrapped("broker: five words are in it", 14) == ["broker: five", "  words are in", "  it"])
        #expect(wrapped("an abcdefghijklmnopqrst end", 10) == ["an", "  abcdefghijklmnopqrst", "  end"])
        #expect(wrapped("日本語 日本語 日本語", 13) == ["日本語 日本語", "  日本語"])
        let words = "broker: interrupted; to go on, run"
        let command = "/bin/broker load --store s.sqlite http://example.com/a"
        #expect(wrapped("\(words): \(command)", 30) == ["broker: interrupted; to go on,", "  run:", command])
        // Spaces of what fits stay.
        #expect(wrapped("Employee          5", 20) == ["Employee          5"])
        #expect(wrapped("\(words): \(command)", 120) == ["\(words): \(command)"])
        for columns in 10...60 {
            let lines = wrapped("broker: the quick brown fox jumps over the lazy dogs, again and again", columns)
            #expect(lines.allSatisfy { $0.count <= columns }, "\(lines)")
        }
    }
}
