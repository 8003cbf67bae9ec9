import Foundation
import TestSupport
import Testing

/// `broker undo`.
@Suite(.timeLimit(.minutes(5))) struct UndoTests {
    private let programs: Programs
    private static let store = ["--store", "s.sqlite", "--model", "model.json"]

    init() throws {
        programs = try Programs()
        try programs.write(
            """
            {"entities": {
              "Employee": {"identity": "id", "attributes": {"id": "integer64", "name": "string"},
                "relationships": {"department": {"entity": "Department"}}},
              "Manager": {"parent": "Employee", "attributes": {"level": "integer64"}},
              "Department": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}},
              "Note": {"attributes": {"text": "string"}},
              "Room": {"identity": ["floor", "number"], "attributes": {"floor": "integer64", "number": "string"}}
            }}
            """, to: "model.json")
    }

    private func broker(_ arguments: [String], _ input: String = "") throws -> Programs.Result {
        try programs.run("broker", arguments + Self.store, input: input)
    }

    private func submit(_ entity: String, _ records: String, _ id: String? = nil, _ options: [String] = []) throws {
        let result = try broker(["submit", entity] + (id.map { ["--id", $0] } ?? []) + options, records)
        #expect(result.status == 0, "\(result)")
    }

    private func count(_ entity: String) throws -> [String] {
        try Database(programs.path("s.sqlite")).rows("SELECT count(*) FROM \(entity)")
    }

    @Test func `what a load has inserted is deleted, by its id or that of a job, and nothing else`() throws {
        try submit("Employee", #"[{"id": 1}]"#, "first")
        try submit("Employee", #"[{"id": 2}, {"id": 3}, {"id": 2, "name": "b"}]"#, "second", ["--batch-records", "1"])
        try submit("Manager", #"[{"id": 4, "department": {"id": 7}}]"#, "third")
        try submit("Note", #"[{"text": "a"}, {"text": "b"}]"#, "notes")
        try submit("Room", #"[{"floor": 1, "number": "a"}]"#, "rooms")
        let list = try broker(["undo"])
        #expect(list.output.contains("second") && list.output.contains("inserted: 2 Note"), "\(list)")
        let tried = try broker(["undo", "second", "--dry-run"])
        #expect(tried.status == 0 && tried.output == "2 Employee would be deleted; nothing was written\n", "\(tried)")
        for (id, said) in [
            ("second", "2 Employee"), ("third-1", "1 Department, 1 Employee"), ("notes", "2 Note"), ("rooms", "1 Room"),
        ] {
            let result = try broker(["undo", id])
            #expect(result.status == 0 && result.output == "\(said) deleted\n", "\(result)")
        }
        #expect(try Database(programs.path("s.sqlite")).rows("SELECT id FROM Employee") == ["1"])
        #expect(try count("Note") == ["0"] && count("Department") == ["0"] && count("Room") == ["0"])
        for id in ["second", "none"] {
            let again = try broker(["undo", id])
            #expect(again.status == 1 && again.output.isEmpty, "\(again)")
        }
    }

    @Test func `what something else has touched, or refers to, is not undone`() throws {
        try submit("Employee", #"[{"id": 1}]"#, "one")
        try submit("Employee", #"[{"id": 1, "name": "x"}, {"id": 2}]"#, "two")
        try submit("Department", #"[{"id": 7}, {"id": 8}]"#, "departments")
        try submit("Employee", #"[{"id": 3, "department": 7}]"#, "three")
        for (id, reason) in [
            ("one", "the later job two-1 has updated Employee 1"), ("two", "its job two-1 has updated Employee 1"),
            ("departments", "1 other object of Employee would be changed"),
        ] {
            let result = try broker(["undo", id, "--yes"])
            #expect(result.status == 1 && result.complaints.contains(reason), "\(result)")
        }
        #expect(try count("Employee") == ["3"] && count("Department") == ["2"])
        let server = try programs.run("broker", ["undo", "--socket", "broker.sock", "one"])
        #expect(server.status == 2 && server.complaints.contains("give --store"), "\(server)")
    }

    @Test func `the pages of a load that is undone are loaded again`() throws {
        let pages = VersionedPages()
        pages.put(#"[{"id": 1}, {"id": 2}]"#, at: "/a")
        let server = try PageServer(pages.answer)
        defer { server.stop() }
        func load() throws -> Programs.Result { try broker(["load", "Employee", server.url("/a")]) }
        #expect(try load().status == 0)
        let ids = try Database(programs.path("s.sqlite")).rows("SELECT id FROM _broker_jobs")
        let id = try #require(ids.last?.split(separator: "-").first.map(String.init))
        #expect(try broker(["undo", id]).output == "2 Employee deleted\n")
        #expect(try load().output.contains("0 of them unchanged"))
        #expect(try count("Employee") == ["2"])
    }
}
