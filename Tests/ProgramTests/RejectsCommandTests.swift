import Foundation
import TestSupport
import Testing

/// `broker rejects`, as a user at a shell runs it: with a server, and on a store.
@Suite(.timeLimit(.minutes(5))) struct RejectsCommandTests {
    private static func model(age: String) -> String {
        """
        {"entities": {
          "Person": {"identity": "id", "attributes": {"id": "integer64", "age": "\(age)"},
            "relationships": {"cats": {"entity": "Cat", "toMany": true}}},
          "Cat": {"identity": "id", "attributes": {"id": "integer64"}}}}
        """
    }

    private let programs: Programs

    init() throws {
        programs = try Programs()
        try programs.write(Self.model(age: "integer64"), to: "model.json")
    }

    private static let store = ["--store", "app.sqlite", "--model", "model.json"]
    private static let socket = ["--socket", "broker.sock"]

    private func rejects(_ arguments: [String], at place: [String]) throws -> Programs.Result {
        try programs.run("broker", ["rejects"] + arguments + place)
    }

    private func submit(_ json: String, id: String, at place: [String]) throws {
        let submitted = ["submit", "Person", "--on-invalid", "skip", "--id", id] + place
        #expect(try programs.run("broker", submitted, input: json).status == 3)
    }

    @Test func `records are listed, shown, exported, retried under a better model, and dropped`() throws {
        let place = Self.store
        try submit(#"[{"id": 1, "age": "ten"}, {"id": 2}, {"id": "x"}]"#, id: "a", at: place)
        let list = try rejects([], at: place)
        #expect(
            list.status == 0 && list.output.contains("a-1") && list.output.contains(#""ten" is not a whole number"#),
            "\(list)")
        let shown = try rejects(["show", "1000"], at: place)
        #expect(
            shown.output == "{\"id\": 1, \"age\": \"ten\"}\n" || shown.output == "{\"id\":1,\"age\":\"ten\"}\n",
            "\(shown)")
        #expect(
            shown.complaints.contains("Person of job a-1, sequence 1")
                && shown.complaints.contains("invalidValue at /age: "))

        try programs.write(Self.model(age: "string"), to: "model.json")
        let widened = try programs.run("broker", ["migrate", "--drop"] + place)
        #expect(widened.status == 0, "\(widened)")
        let retried = try rejects(["retry", "--all"], at: place)
        #expect(retried.status == 3 && retried.output == "1 record taken, 1 rejected again\n", "\(retried)")
        #expect(retried.complaints.contains("1001: invalidValue at /json/0/id"), "\(retried)")
        #expect(
            try Database(programs.path("app.sqlite")).rows("SELECT id, age FROM Person ORDER BY id") == [
                "1|ten", "2|NULL",
            ])

        let exported = try rejects(["export", "--entity", "Person"], at: place)
        #expect(exported.output.contains(#""code":"invalidValue","path":"/id""#), "\(exported)")
        #expect(exported.output.split(separator: "\n").count == 1)
        let corrected = exported.output.replacing("\"x\"", with: "3")
        let again = try programs.run("broker", ["submit", "Person", "--root", "record"] + place, input: corrected)
        #expect(again.status == 0, "\(again)")
        #expect(try rejects(["drop", "1001"], at: place).output == "1 record dropped\n")
        #expect(try rejects([], at: place).output == "No rejected record is kept.\n")
    }

    @Test func `a server keeps them, as many bytes as its option allows, and none with 0`() throws {
        let server = try programs.startServer(["--store", "app.sqlite"])
        let socket = Self.socket
        try submit(#"[{"id": 1, "cats": [{"id": "x"}, {"id": 1}]}]"#, id: "b", at: socket)
        let exported = try rejects(["export", "--all"], at: socket)
        #expect(exported.output.contains(#""path":"/cats/0/id""#), "\(exported)")
        // The cat that was rejected is corrected by the sender; the record is not needed any more.
        #expect(try rejects(["retry", "1000"], at: socket).status == 3)
        #expect(try rejects(["drop", "--job", "b-1"], at: socket).output == "1 record dropped\n")
        let missing = try rejects(["show", "1000"], at: socket)
        #expect(missing.status == 1 && missing.complaints.contains("There is no rejected record 1000."), "\(missing)")
        try submit(#"[{"id": "y"}]"#, id: "c", at: socket)
        #expect(try rejects([], at: socket).output.contains("c-1"))
        server.terminate()
        server.waitUntilExit()
        _ = try programs.startServer(["--store", "app.sqlite", "--keep-rejects", "0"])
        #expect(try rejects([], at: socket).output == "No rejected record is kept.\n")
    }

    @Test(arguments: [["retry"], ["drop", "1", "--all"], ["export"]])
    func `what is meant must be said`(arguments: [String]) throws {
        let refused = try rejects(arguments, at: Self.socket)
        #expect(refused.status == 2 && refused.complaints.contains("or --entity, --job or --all"), "\(refused)")
    }
}
