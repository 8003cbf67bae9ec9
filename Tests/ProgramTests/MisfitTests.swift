import Foundation
import TestSupport
import Testing

/// What a model that was inferred has no place for: it is said where it is, kept, or refused.
@Suite(.timeLimit(.minutes(5))) struct MisfitTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    private func run(_ command: String, _ arguments: [String], _ input: String = "") throws -> Programs.Result {
        try programs.run("broker", [command, "Signup", "--store", "s.sqlite"] + arguments, input: input)
    }

    private func rows(_ sql: String) throws -> [String] { try Database(programs.path("s.sqlite")).rows(sql) }

    private static let first = #"[{"id": 1, "amount": 10}, {"id": 2, "amount": 20}]"#

    @Test func `values that do not fit are named with their lines and their type`() throws {
        #expect(try run("submit", [], Self.first).status == 0)
        try programs.write(
            """
            {"id": 3, "amount": "abc"}

            {"id": 4, "amount": 5}
            {"id": 5, "amount": []}
            """, to: "a.ndjson")
        try programs.write("id,amount\n6,x\n7,y\n", to: "b.csv")
        let result = try run("submit", ["a.ndjson", "b.csv"])
        #expect(result.status == 0, "\(result)")
        #expect(
            result.complaints.contains(
                "4 values of Signup.amount do not fit integer64: kept in _extra (a.ndjson, lines 1, 4; b.csv, line 2, …); "
                    + "`broker model retype Signup.amount TYPE` changes the type"), "\(result)")
        #expect(try rows("SELECT id, amount, _extra FROM Signup WHERE id = 6") == [#"6|NULL|{"amount":"x"}"#])
        let json = try run("submit", ["--json"], #"{"id": 8, "amount": 1.5}"#)
        #expect(
            json.output.contains(
                #""key":"amount","count":1,"places":[{"file":"standard input","line":1,"record":1}]"#), "\(json)")
        // In a record of another, and in a job that another command sent.
        #expect(try run("submit", [], #"{"id": 9, "lines": [{"n": 1}]}"#).status == 0)
        let nested = try run("submit", ["--id", "n"], "\n" + #"{"id": 9, "lines": [{"n": 2}, {"n": "x"}]}"#)
        #expect(
            nested.complaints.contains(
                "1 value of Line.n does not fit integer64: kept in _extra (standard input, line 2);"))
        let awaited = try programs.run("broker", ["await", "--store", "s.sqlite", "n-1"])
        #expect(awaited.complaints.contains("(job n-1, /json/0/lines/1/n)"), "\(awaited)")
    }

    @Test(arguments: ["submit", "sync", "load"])
    func `with --strict, a record that needs _extra is rejected, and the model stays`(command: String) throws {
        #expect(try run("submit", [], Self.first).status == 0)
        let model = try String(contentsOfFile: programs.path("s.model.json"), encoding: .utf8)
        let records = #"[{"id": 3, "amount": "abc"}, {"id": 4, "amount": 5}, {"id": 5, "amount": 5, "new": 1}]"#
        let server = try PageServer { _ in PageServer.response(200, [], records) }
        defer { server.stop() }
        try programs.write(records, to: "r.json")
        let result = try run(
            command, ["--strict", "--rejects", "bad.ndjson", command == "load" ? server.url("/") : "r.json"])
        #expect(result.status == 3, "\(result)")
        let rejects = try String(contentsOfFile: programs.path("bad.ndjson"), encoding: .utf8)
        #expect(
            rejects.contains(#"{"record":{"id": 3, "amount": "abc"},"code":"invalidValue","path":"/amount""#)
                && rejects.contains(#""code":"unknownKey""#) && rejects.split(separator: "\n").count == 2, "\(rejects)")
        #expect(!result.complaints.contains("_extra has"), "\(result)")
        #expect(try rows("SELECT id FROM Signup WHERE id > 2") == ["4"])
        #expect(try String(contentsOfFile: programs.path("s.model.json"), encoding: .utf8) == model)
        #expect(try rows("SELECT count(*) FROM Signup WHERE _extra IS NOT NULL") == ["0"])
    }

    @Test(arguments: ["submit", "load"])
    func `a record without the guessed identity is not loaded, and it is said how to go on`(command: String) throws {
        #expect(try run("submit", [], Self.first).status == 0)
        let records = #"[{"id": 3, "amount": 1}, {"amount": 2}, {"id": null, "amount": 3}]"#
        let server = try PageServer { request in
            request.target == "/1"
                ? PageServer.response(200, ["Link: </2>; rel=\"next\""], #"[{"id": 7, "amount": 7}]"#)
                : PageServer.response(200, [], records)
        }
        defer { server.stop() }
        try programs.write(records, to: "r.json")
        let result = try run(command, [command == "load" ? server.url("/1") : "r.json"])
        #expect(result.status == 3 && result.complaints.contains("2 records of this input have no id"), "\(result)")
        for remedy in [
            "broker model set-key --store s.sqlite Signup KEY", "--identity none", "--append", "--on-invalid skip",
        ] {
            #expect(result.complaints.contains(remedy), "\(result)")
        }
        #expect(try rows("SELECT count(*) FROM Signup WHERE id = 3") == ["0"])
        let skipped = try run("submit", ["--on-invalid", "skip", "r.json"])
        #expect(skipped.status == 3 && skipped.complaints.contains("missingIdentity"), "\(skipped)")
        #expect(try rows("SELECT amount FROM Signup WHERE id = 3") == ["1"])
    }

    @Test func `a record with none of the known keys is stored in _extra`() throws {
        #expect(try run("submit", ["--append"], #"{"a": 1}"#).status == 0)
        let result = try run("submit", ["--no-evolve"], #"[{"a": 2}, {"b": 3}]"#)
        #expect(result.status == 0, "\(result)")
        #expect(try rows("SELECT a, _extra FROM Signup") == ["1|NULL", "2|NULL", #"NULL|{"b":3}"#])
    }

    @Test func `CSV has a column for _extra from the start, which is read again`() throws {
        let long = String(repeating: "x", count: 1_000)
        let many = (1...3_000).map { #"{"id": \#($0), "text": "\#(long)", "n": 1}"# }.joined(separator: "\n")
        #expect(try run("submit", [], many).status == 0)
        #expect(try run("submit", ["--no-evolve"], #"{"id": 3000, "n": "many", "k": {"a": [1]}}"#).status == 0)
        let csv = try run("fetch", ["--csv"])
        #expect(csv.status == 0, "\(csv.complaints)")
        #expect(csv.output.hasPrefix("id,text,n,_extra\r\n1,"))
        #expect(csv.output.hasSuffix(#",,"{""k"":{""a"":[1]},""n"":""many""}""# + "\r\n"))
        try programs.write(csv.output, to: "s.csv")
        #expect(try run("delete", ["3000"]).status == 0)
        let again = try run("submit", ["--no-evolve", "s.csv"])
        #expect(again.status == 0, "\(again)")
        #expect(
            try rows("SELECT n, _extra FROM Signup WHERE id = 3000") == [#"NULL|{"k":{"a":[1]},"n":"many"}"#])
        let fresh = try programs.run("broker", ["submit", "Copy", "--store", "copy.sqlite", "s.csv"])
        #expect(fresh.status == 0, "\(fresh)")
        #expect(
            try Database(programs.path("copy.sqlite")).rows("SELECT group_concat(name) FROM pragma_table_info('Copy')")
                == ["id,text,n,_extra"])
        let table = try run("fetch", ["--table", "--object", "3000"])
        #expect(table.output.contains("_extra") && table.output.contains(#"{"k":{"a":[1]}"#), "\(table)")
    }

    @Test(arguments: [
        ("snake", ["customer_order", "groups", "line"], "order_box"),
        ("plural", ["customer_orders", "groups", "lines"], "order_boxes"),
    ])
    func `tables are named as it is asked, and entities in the singular`(
        style: String, names: [String], later: String
    ) throws {
        let submit = ["submit", "--store", "s.sqlite", "--entity"]
        let first = try programs.run(
            "broker", submit + ["CustomerOrder", "--name-style", style],
            input: #"{"id": 1, "lines": [{"n": 1}], "group": {"id": 7}}"#)
        #expect(first.status == 0, "\(first)")
        let tables =
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\' ORDER BY name"
        #expect(try rows(tables) == names)
        // The tables of later entities are named as the others.
        #expect(try programs.run("broker", submit + ["OrderBox"], input: #"{"id": 1}"#).status == 0)
        #expect(try rows(tables).contains(later))
        let fetched = try programs.run(
            "broker", ["fetch", "CustomerOrder", "--store", "s.sqlite", "--include", "lines"])
        #expect(fetched.output.contains(#""lines":[{"n":1"#), "\(fetched)")
        #expect(try rows("SELECT name FROM sqlite_schema WHERE type = 'view'") == [])
    }
}
