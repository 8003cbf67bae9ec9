import Foundation
import Testing

/// `broker` and the scripts, as a user at a shell runs them.
@Suite(.timeLimit(.minutes(5))) struct BrokerTests {
    private func submit(_ programs: Programs, _ input: String, _ arguments: [String] = []) throws -> Programs.Result {
        try programs.run(
            "broker", ["submit", "--socket", "broker.sock", "--entity", "Employee"] + arguments, input: input)
    }

    @Test func `an array, NDJSON and a single object are submitted alike`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        for (input, id) in [
            (#"[{"id": 1, "name": "a]}"}, {"id": 2}]"#, 2), ("{\"id\": 3}\n{\"id\": 4}\n", 4), (#"{"id": 5}"#, 5),
        ] {
            let result = try submit(programs, input)
            #expect(result.status == 0, "\(result.complaints)")
            let count = try Database(programs.path("store.sqlite")).rows("SELECT count(*) FROM Employee")
            #expect(count == ["\(id)"])
        }
    }

    @Test func `a large input is cut into jobs that are applied in order`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let input = (0..<1_000).map { #"{"id": \#($0 % 10), "name": "\#($0)"}"# }.joined(separator: "\n")
        let result = try submit(programs, input, ["--batch-records", "7", "--json"])
        #expect(result.status == 0)
        #expect(result.output.contains(#""jobs":143"#))
        let names = try Database(programs.path("store.sqlite")).rows("SELECT id, name FROM Employee ORDER BY id")
        #expect(names == (0..<10).map { "\($0)|\(990 + $0)" })
    }

    @Test func `the records below a key path are submitted, and a wrong path names the keys there are`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let input = #"{"3166-1": {"list": [{"id": 1}, {"id": 2, "name": "x\ny"}]}}"#
        #expect(try submit(programs, input, ["--root", "3166-1.list"]).status == 0)
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT count(*) FROM Employee") == ["2"])
        let wrong = try submit(programs, input, ["--root", "3166-2"])
        #expect(wrong.status == 1)
        #expect(wrong.complaints.contains("3166-1"))
    }

    @Test func `the exit status distinguishes failed, rejected, usage and no connection`() throws {
        let programs = try Programs()
        let bad = #"[{"id": 1}, {"id": "x"}]"#
        #expect(try submit(programs, bad).status == 4)
        _ = try programs.startServer()
        let failed = try submit(programs, bad)
        #expect(failed.status == 1)
        #expect(failed.complaints.contains("/json/1/id"))
        let rejected = try submit(programs, bad, ["--on-invalid", "skip"])
        #expect(rejected.status == 3)
        #expect(rejected.output.contains("Employee"))
        #expect(try programs.run("broker", ["submit", "--socket", "broker.sock", "--entity"]).status == 2)
        let cut = try submit(programs, #"[{"id": 1}, {"id": 2"#)
        #expect(cut.status == 1)
        #expect(cut.complaints.contains("byte"))
    }

    @Test func `a submission with an id is applied once however often it is sent`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let input = (0..<30).map { #"{"id": \#($0)}"# }.joined(separator: "\n")
        _ = try submit(programs, input, ["--batch-records", "10", "--id", "load"])
        let again = try submit(programs, input, ["--batch-records", "10", "--id", "load", "--json"])
        #expect(again.status == 0)
        #expect(again.output.contains(#""duplicates":3"#))
    }

    @Test func `frame and unframe are each other's inverse`() throws {
        let programs = try Programs()
        let server = try programs.startServer()
        try programs.write(#"{"type": "ping", "n": [1, 2]}"#, to: "ping.json")
        let bin = "\(server.executableURL?.deletingLastPathComponent().path ?? "")/broker"
        let result = try programs.shell(
            "\(bin) frame <ping.json | socat -t 30 - UNIX-CONNECT:broker.sock | \(bin) unframe")
        #expect(result.output == "{\"type\":\"pong\",\"n\":[1, 2]}\n")
    }

    @Test func `submit_sh sends a job with socat and lz4 and prints its outcome`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let done = try programs.runScript(
            "submit.sh", ["broker.sock"], input: #"{"entity": "Employee", "json": {"id": 1}}"#)
        #expect(done.status == 0, "\(done.complaints)")
        #expect(done.output.contains(#""type":"completed""#))
        let failed = try programs.runScript("submit.sh", ["broker.sock"], input: #"{"entity": "Nobody", "json": {}}"#)
        #expect(failed.status == 1)
        #expect(failed.output.contains("unknownEntity"))
        let skipped = try programs.runScript(
            "submit.sh", ["broker.sock"], input: #"{"onInvalid": "skip", "entity": "Employee", "json": [{"id": "x"}]}"#)
        #expect(skipped.status == 3)
        #expect(try programs.runScript("submit.sh", ["nowhere.sock"], input: "{}").status == 4)
        #expect(try programs.runScript("submit.sh", []).status == 2)
    }

    @Test func `model check lists every fault, and schema prints SQL that SQLite takes`() throws {
        let programs = try Programs()
        try programs.write(
            #"{"entities": {"A": {"identity": "nope", "attributes": {"a": "strin", "b": {"type": "date", "default": "x"}}}}}"#,
            to: "bad.json")
        let bad = try programs.run("broker", ["model", "check", "bad.json"])
        #expect(bad.status == 1)
        #expect(bad.complaints.contains("nope") && bad.complaints.contains("strin"))
        #expect(try programs.run("broker", ["model", "check", "model.json"]).status == 0)
        let schema = try programs.run("broker", ["model", "schema", "model.json"])
        #expect(try programs.shell("sqlite3 :memory:", input: schema.output + "SELECT 'good';").output == "good\n")
    }

    @Test func `model check refuses what RE2 lacks, with the place, in JSON and in Core Data's form`() throws {
        let programs = try Programs()
        let json = #"{"type": "string", "pattern": "^(?=.*[0-9]).{8,}$"}"#
        try programs.write("{\"entities\": {\"A\": {\"attributes\": {\n\"a\": \(json)}}}}", to: "lookahead.json")
        try FileManager.default.createDirectory(
            atPath: programs.path("A.xcdatamodel"), withIntermediateDirectories: true)
        try programs.write(
            """
            <?xml version="1.0"?>
            <model type="com.apple.IDECoreDataModeler.DataModel"><entity name="A">
            <attribute name="a" optional="YES" attributeType="String" regularExpressionString="(a)\\1"/>
            </entity></model>
            """, to: "A.xcdatamodel/contents")
        for (file, line) in [("lookahead.json", "2"), ("A.xcdatamodel", "3")] {
            let checked = try programs.run("broker", ["model", "check", file])
            #expect(checked.status == 1)
            let complaint = try #require(checked.complaints.split(separator: "\n").first)
            #expect(complaint.contains(": line \(line)") && complaint.contains("lookaround"), "\(checked.complaints)")
        }
    }

    @Test func `stats are printed a line each`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let stats = try programs.run("broker", ["stats", "--socket", "broker.sock"])
        #expect(stats.output.split(separator: "\n").contains("jobs.completed 0"))
    }
}
