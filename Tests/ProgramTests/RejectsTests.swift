import Broker
import Foundation
import Testing

@testable import BrokerCommand

/// `--rejects`, `--check` and `--resume` of `broker submit`.
@Suite(.timeLimit(.minutes(5))) struct RejectsTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    private func submit(_ arguments: [String], _ input: String = "") throws -> Programs.Result {
        try programs.run(
            "broker", ["submit", "--store", "app.sqlite", "--model", "model.json", "--entity", "Employee"] + arguments,
            input: input)
    }

    private func names() throws -> [String] {
        try Database(programs.path("app.sqlite")).rows("SELECT name FROM Employee ORDER BY id")
    }

    private func lines(_ file: String) throws -> [[String: Any]] {
        try String(contentsOfFile: programs.path(file), encoding: .utf8).split(separator: "\n").map {
            try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any] ?? [:]
        }
    }

    private static let records = """
        [{"id": 1, "name": "a"},
         {"id": "x",
          "name": 5},
         {"id": 3, "department": {"id": {}}}]
        """

    @Test func `rejected records are in a file with their places, and are submitted from it`() throws {
        try programs.write(Self.records, to: "e.json")
        let first = try submit(["--on-invalid", "skip", "--rejects", "r.ndjson", "--json", "e.json"])
        #expect(first.status == 3, "\(first.complaints)")
        #expect(first.output.contains(#""file":"e.json","line":2,"record":2"#), "\(first.output)")
        let lines = try lines("r.ndjson")
        try #require(lines.count == 2)
        #expect(lines.map { $0["line"] as? Int } == [2, 4] && lines.map { $0["index"] as? Int } == [2, 3])
        #expect(lines[0]["code"] as? String == "invalidValue" && lines[0]["path"] as? String == "/id")
        #expect(lines[1]["path"] as? String == "/department/id")
        #expect((lines[0]["record"] as? [String: Any])?["name"] as? Int == 5)
        #expect(try submit(["--rejects", "r.ndjson"], "[]").complaints.contains("is not empty"))

        let text = try String(contentsOfFile: programs.path("r.ndjson"), encoding: .utf8)
        try programs.write(
            text.replacing(#""x""#, with: "2").replacing(#""name": 5"#, with: #""name": "b""#)
                .replacing(#"{"id": {}}"#, with: "7"), to: "r.ndjson")
        let again = try submit(["--root", "record", "r.ndjson"])
        #expect(again.status == 0, "\(again.complaints)")
        #expect(try names() == ["a", "b", "NULL"])
    }

    @Test
    func `all records of a failed job are in the file, the one at fault with its error, and an empty file is removed`()
        throws
    {
        let input = "[\n" + (1...5).map { #"{"id": \#($0 == 4 ? "\"x\"" : "\($0)")}"# }.joined(separator: ",\n") + "]"
        let failed = try submit(["--batch-records", "2", "--rejects", "r.ndjson"], input)
        #expect(failed.status == 1)
        #expect(failed.complaints.contains("2 records in r.ndjson, 1 of them at fault; when"), "\(failed.complaints)")
        let lines = try lines("r.ndjson")
        #expect(lines.map { $0["index"] as? Int } == [3, 4] && lines.map { $0["line"] as? Int } == [4, 5])
        #expect(lines.map { $0["code"] as? String } == [nil, "invalidValue"])
        let text = try String(contentsOfFile: programs.path("r.ndjson"), encoding: .utf8)
        try programs.write(text.replacing(#""x""#, with: "4"), to: "r.ndjson")
        #expect(try submit(["--root", "record", "r.ndjson"]).status == 0)
        #expect(try Database(programs.path("app.sqlite")).rows("SELECT id FROM Employee") == ["1", "2", "3", "4", "5"])
        #expect(try submit(["--rejects", "s.ndjson"], #"{"id": 1}"#).status == 0)
        #expect(!FileManager.default.fileExists(atPath: programs.path("s.ndjson")))
    }

    @Test func `a check finds all faults of all jobs, and writes nothing`() throws {
        let check = try submit(["--check", "--batch-records", "1"], Self.records)
        #expect(check.status == 1)
        #expect(check.complaints.contains("standard input, line 2 (record 2): invalidValue"), "\(check.complaints)")
        #expect(check.complaints.contains("standard input, line 4 (record 3): invalidValue"))
        #expect(check.output == "3 records in 3 jobs checked: 2 faults; nothing was written\n")
        #expect(!FileManager.default.fileExists(atPath: programs.path("app.sqlite")))
        #expect(try submit(["--check"], #"{"id": 1}"#).status == 0)
    }

    @Test func `a check finds every fault of a record, and none that only the others cause`() throws {
        let model = """
            {"entities": {
              "Employee": {"identity": "id", "attributes": {"id": "integer64", "hired": "date", "salary": "decimal",
                "active": "boolean", "level": {"type": "integer16", "optional": false}},
                "relationships": {"department": {"entity": "Department"}}},
              "Department": {"identity": "id", "attributes": {"id": "integer64", "since": "date"}}}}
            """
        try programs.write(model, to: "model.json")
        let records = """
            {"id": 1, "hired": "soon", "salary": "much", "active": "maybe", "level": 1, "department": {"id": 7, "since": "?"}}
            {"id": 2, "level": 3}
            {"id": "x", "level": 3, "salary": "much"}
            {"id": 4, "salary": "much"}
            """
        let check = try submit(["--check", "--rejects", "bad.ndjson"], records)
        #expect(check.status == 1)
        #expect(check.output == "4 records in 1 job checked: 7 faults; nothing was written\n", "\(check.complaints)")
        let found = check.complaints.matches(of: /\(record (\d)\): (\w+) at \/json\/\d([\w\/]*):/).map {
            "\($0.1) \($0.2) \($0.3)"
        }
        #expect(
            found == [
                "1 invalidValue /hired", "1 invalidValue /salary", "1 invalidValue /active",
                "1 invalidValue /department/since", "3 invalidValue /id", "4 invalidValue /salary", "4 missingValue ",
            ], "\(check.complaints)")
        let rejected = try lines("bad.ndjson")
        #expect(rejected.count == 3)
        #expect((rejected[0]["others"] as? [Any])?.count == 3)
    }

    @Test func `a resumed submission skips what is committed, and sends what was corrected`() throws {
        func run(_ second: String) throws -> String {
            try programs.write(
                #"{"id": 1, "name": "a"}"# + "\n\(second)\n" + #"{"id": 3, "name": "c"}"#, to: "e.ndjson")
            return try submit(["--resume", "--batch-records", "1", "e.ndjson"]).output
        }
        #expect(try run(#"{"id": "x"}"#).hasSuffix("2 records in 2 jobs committed\n"))
        let changed = try Database(programs.path("app.sqlite")).rows("SELECT max(sequence) FROM _broker_jobs")
        #expect(
            try run(#"{"id": 2, "name": "b"}"#).hasSuffix("3 records in 3 jobs committed, 2 of them applied before\n"))
        #expect(try run(#"{"id": 2, "name": "b"}"#).hasSuffix("3 of them applied before\n"))
        #expect(try names() == ["a", "b", "c"])
        #expect(changed != ["0"])
    }

    @Test func `a resumed submission warns where a changed job would insert its records again`() throws {
        try programs.write(
            """
            {"entities": {"Line": {"attributes": {"text": "string"}}, "Note": {"parent": "Line", "attributes": {}},
              "Key": {"identity": "id", "attributes": {"id": "integer64"}}, "Sub": {"parent": "Key", "attributes": {}}}}
            """, to: "lines.json")
        for (entity, isWarned) in [("Line", true), ("Note", true), ("Key", false), ("Sub", false)] {
            let result = try programs.run(
                "broker",
                ["submit", "--store", "l.sqlite", "--model", "lines.json", "--entity", entity, "--resume"],
                input: #"{"id": 1, "text": "a"}"#)
            #expect(result.status == 0, "\(result.complaints)")
            #expect(result.complaints.contains("objects of \(entity) may have no identity") == isWarned)
        }
    }

    @Test func `an id follows from the options, the input, the position and the records`() {
        let jobs = ResumedJobs(options: ["E", "skip"])
        let records = Array(#"[{"id":1}]"#.utf8)
        let ids = [
            jobs.id(of: records, from: "e.json", at: 1), jobs.id(of: records, from: "e.json", at: 2),
            jobs.id(of: records, from: "f.json", at: 1), jobs.id(of: [], from: "e.json", at: 1),
            ResumedJobs(options: ["E", "fail"]).id(of: records, from: "e.json", at: 1),
            ResumedJobs(options: ["Es", "kip"]).id(of: records, from: "e.json", at: 1),
        ]
        #expect(Set(ids).count == ids.count)
        #expect(jobs.id(of: records, from: "./e.json", at: 1) == ids[0])
        #expect(ids.allSatisfy { $0.text.utf8.count <= 128 })
    }
}
