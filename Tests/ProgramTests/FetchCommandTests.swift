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
        let none = try fetch(programs, ["Employee", "--object", "9", "--format", "json"])
        #expect(none.output == "[]\n" && none.status == 0)
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
