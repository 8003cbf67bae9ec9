import Foundation
import Testing

/// `broker fetch`, as a user at a shell runs it.
@Suite(.timeLimit(.minutes(5))) struct FetchCommandTests {
    private func started() throws -> Programs {
        let programs = try Programs()
        _ = try programs.startServer()
        let input = #"[{"id": 1, "name": "a,\"b\""}, {"id": 2}, {"id": 3, "name": "c\u001b[2J"}]"#
        let result = try programs.run(
            "broker", ["submit", "--socket", "broker.sock", "--entity", "Employee"], input: input)
        #expect(result.status == 0, "\(result.complaints)")
        return programs
    }

    private func fetch(_ programs: Programs, _ arguments: [String]) throws -> Programs.Result {
        try programs.run("broker", ["fetch", "--socket", "broker.sock"] + arguments)
    }

    @Test func `objects are NDJSON when standard output is no terminal, or in the requested form`() throws {
        let programs = try started()
        let lines = try fetch(programs, ["--entity", "Employee"]).output.split(separator: "\n")
        #expect(lines.count == 3)
        #expect(lines[0].hasPrefix(#"{"id":1,"name":"a,\"b\"""#))
        let json = try fetch(programs, ["Employee", "--json"]).output
        let objects = try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [[String: Any]]
        #expect(objects?.map { $0["id"] as? Int } == [1, 2, 3])
        let csv = try fetch(programs, ["Employee", "--format", "csv"]).output
        #expect(csv.hasPrefix("id,name"))
        #expect(csv.contains("\r\n1,\"a,\"\"b\"\"\""))
        let table = try fetch(programs, ["Employee", "--format", "table"]).output
        #expect(table.hasPrefix("id  name"))
        #expect(!table.utf8.contains(0x1B), "a terminal's own commands do not get through")
    }

    @Test func `a predicate, an order and a limit choose the objects`() throws {
        let programs = try started()
        let chosen = try fetch(
            programs,
            ["Employee", "--where", "id != %@ AND name != %@", "--argument", "3", "--argument", "x", "--sort=-id"])
        #expect(chosen.output.split(separator: "\n").map { $0.prefix(7) } == [#"{"id":2"#, #"{"id":1"#])
        #expect(try fetch(programs, ["Employee", "--limit", "2"]).output.split(separator: "\n").count == 2)
        #expect(try fetch(programs, ["Employee", "--object", "2"]).output.hasPrefix(#"{"id":2"#))
        #expect(try fetch(programs, ["Employee", "--count", "--where", "id > 1"]).output == "2\n")
    }

    @Test func `the objects of several keys are printed, and those that do not exist are named`() throws {
        let programs = try started()
        let some = try fetch(programs, ["Employee", "--object", "9", "--object", "2", "--object", "x"])
        #expect(some.output.hasPrefix(#"{"id":2"#) && some.status == 1, "\(some)")
        #expect(some.complaints.contains("invalidValue"), "the text is no key of this entity")
        let missing = try fetch(programs, ["Employee", "--object", "9", "--object", "2", "--object", "8", "--json"])
        #expect(missing.status == 1 && missing.output.contains(#""id":2"#) && missing.output.hasSuffix("]\n"))
        #expect(missing.complaints.split(separator: "\n").count == 2)
        #expect(missing.complaints.contains("no object with the key 9."))
        let table = try fetch(programs, ["Employee", "--object", "9", "--object", "2", "--csv"])
        #expect(table.output.hasPrefix("id,name") && table.output.contains("\r\n2,"), "\(table.output)")
        let counted = try fetch(programs, ["Employee", "--object", "9", "--count"])
        #expect(counted.output == "0\n" && counted.status == 1)
    }

    @Test func `selected values are columns, also of an input without objects`() throws {
        let programs = try started()
        let select = ["Employee", "--select", "name,department.name", "--select", "id"]
        #expect(
            try fetch(programs, select + ["--csv"]).output
                == "name,department.name,id\r\n\"a,\"\"b\"\"\",,1\r\n,,2\r\nc\u{1B}[2J,,3\r\n")
        #expect(try fetch(programs, select + ["--csv", "--where", "id < 0"]).output == "name,department.name,id\r\n")
        #expect(
            try fetch(programs, select + ["--limit", "1"]).output
                == #"{"name":"a,\"b\"","department.name":null,"id":1}"# + "\n")
        #expect(
            try fetch(programs, select + ["-x", "--sort=-id", "--limit", "1"]).output.hasPrefix(
                "-[ 1 ]-\nname             c\\u{1B}[2J\n"))
        let unknown = try fetch(programs, ["Employee", "--select", "nmae"])
        #expect(unknown.status == 1 && unknown.complaints.contains("did you mean \"name\"?"))
        #expect(try fetch(programs, select + ["--include", "department"]).status == 2)
    }

    @Test func `a table begins with the identity, then with what was included, under the names that are printed`()
        throws
    {
        let programs = try Programs()
        try programs.write(
            """
            {"entities": {
              "Thing": {"identity": "zid", "attributes": {"at": "string", "zid": {"type": "integer64", "key": "z.id"}}},
              "Event": {"parent": "Thing", "attributes": {"kind": "string"},
                "relationships": {"who": {"entity": "Actor", "key": "actor"}}},
              "Actor": {"identity": "login", "attributes": {"avatar": "string", "login": "string"}}
            }}
            """, to: "model.json")
        _ = try programs.startServer()
        let record = #"{"z": {"id": 1}, "at": "t", "kind": "k", "actor": {"login": "l", "avatar": "a"}}"#
        _ = try programs.run("broker", ["submit", "--socket", "broker.sock", "--entity", "Event"], input: record)
        let include = ["Event", "--include", "who"]
        let remote = try fetch(programs, include + ["--table"]).output.split(separator: "\n")
        #expect(remote == ["z.id  actor.login  actor.avatar  at  kind", "   1  l            a             t   k"])
        let local = try fetch(programs, include + ["--table", "--local"]).output
        #expect(local.hasPrefix("zid  who.login  who.avatar  at  kind  entity\n"), "\(local)")
        #expect(
            !(try fetch(programs, include + ["--csv"]).output.hasPrefix("z.id")), "CSV has the order of the objects")
    }

    @Test func `a reader that goes early ends a command quietly`() throws {
        let programs = try started()
        let broker = programs.executable("broker").path
        let commands = [
            "fetch Employee --socket broker.sock", "watch --after 0 --socket broker.sock", "model show model.json",
            "unframe < frames",
        ]
        _ = try programs.shell("for n in 1 2 3; do echo '{\"a\": 1}' | '\(broker)' frame; done > frames")
        for command in commands {
            let result = try programs.shell(
                "rm -f pipe; mkfifo pipe; exec 4<>pipe 5>pipe 4<&-; '\(broker)' \(command) >&5; echo $?")
            #expect(result.output == "0\n" && result.complaints.isEmpty, "\(command): \(result)")
        }
    }

    @Test func `a fault is reported with its exit status`() throws {
        let programs = try started()
        let unknown = try fetch(programs, ["Employe"])
        #expect(unknown.status == 1)
        #expect(unknown.complaints.contains("unknownEntity at /entity"))
        #expect(try fetch(programs, ["Employee", "--where", "nam == 1"]).complaints.contains("invalidPredicate"))
        #expect(try fetch(programs, []).complaints.contains("--entity E"))
        #expect(try fetch(programs, []).status == 2)
        #expect(try fetch(programs, ["Employee", "--entity", "Employee"]).status == 2)
        #expect(try fetch(programs, ["Employee", "--json", "--format", "csv"]).status == 2)
        #expect(try programs.run("broker", ["fetch", "--socket", "none.sock", "Employee"]).status == 4)
    }
}
