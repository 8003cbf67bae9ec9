import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

@Suite(.timeLimit(.minutes(5))) struct FetchSelectTests {
    private func store() throws -> TestStore {
        let store = try TestStore(company)
        try store.apply(
            """
            {"Employee": [{"id": 1, "name": "A", "department": {"id": 5, "name": "R&D"}, "tool": "hammer",
                           "seat": {"row": "a", "number": 3}, "notes": [{"text": "x"}]},
                          {"id": 2, "name": "B", "manager": 1}, {"id": 3, "manager": 2}]}
            """)
        return store
    }

    @Test func `objects have the selected values alone, in their order and by their names`() throws {
        let store = try store()
        #expect(
            try store.fetch("Employee") {
                $0.select = ["manager.department.name", "id", "department", "seat", "manager.seat"]
            }
                == """
                [{"manager.department.name":null,"id":1,"department":5,"seat":{"row":"a","number":3},"manager.seat":null},\
                {"manager.department.name":"R&D","id":2,"department":null,"seat":null,\
                "manager.seat":{"row":"a","number":3}},\
                {"manager.department.name":null,"id":3,"department":null,"seat":null,"manager.seat":null}]
                """)
        #expect(
            try store.fetch("Employee") {
                $0.select = ["manager.name"]
                $0.sort = ["-id"]
                $0.limit = 2
                $0.offset = 1
            } == #"[{"manager.name":"A"},{"manager.name":null}]"#)
        #expect(
            try store.fetch("Employee") {
                $0.select = ["name"]
                $0.result = .dictionary
                $0.predicate = "id < 3"
            } == #"{"1":{"name":"A"},"2":{"name":"B"}}"#)
    }

    @Test func `a selected value has the form of its attribute, and an object without identity its row key`() throws {
        let store = try TestStore(
            """
            {"entities": {"Thing": {"identity": "id", "attributes": {"id": "integer64", "price": "decimal",
                "at": {"type": "date", "format": "yyyy-MM-dd"}, "any": "transformable", "raw": "binary"},
                "relationships": {"note": {"entity": "Note"}, "of": {"entity": "Thing"}}},
              "Note": {"attributes": {"text": "string"}}}}
            """)
        try store.apply(
            #"{"Thing": [{"id": 1, "price": 1.50, "at": "2011-12-22", "any": {"a": [1]}, "raw": "AAE=", "note": {"text": "n"}}, {"id": 2, "of": 1}]}"#
        )
        let names = ["price", "at", "any", "raw", "note", "note.text"]
        #expect(
            try store.fetch("Thing", object: "1") { $0.select = names }
                == #"[{"price":1.50,"at":"2011-12-22","any":{"a":[1]},"raw":"AAE=","note":1,"note.text":"n"}]"#)
        #expect(
            try store.fetch("Thing", object: "2") {
                $0.select = names.map { "of." + $0 }
                $0.dates = .iso8601
            }
                == #"[{"of.price":1.50,"of.at":"2011-12-22T00:00:00.000Z","of.any":{"a":[1]},"of.raw":"AAE=","of.note":1,"of.note.text":"n"}]"#
        )
    }

    @Test(arguments: [
        (["nam"], "did you mean \"name\"?"), (["departmnt.name"], "did you mean \"department\"?"),
        (["name.x"], "is an attribute and no relationship"),
        (["projects"], "Employee.projects is a to-many relationship"),
        (["projects.id"], "nest its objects by `include`"), (["id", "name", "id"], "names \"id\" twice"),
        ([""], "\"\""),
        ([String(repeating: "manager.", count: 17) + "id"], "at most 16 relationships"),
        ((0...1_000).map { "a\($0)" }, "1000 are the most"),
    ])
    func `a name that selects no value is refused with its place`(names: [String], message: String) throws {
        let store = try store()
        do {
            _ = try store.fetch("Employee") { $0.select = names }
            Issue.record("\(names) are selected")
        } catch let fault as Fault {
            #expect(fault.code == .unsupportedMessage && fault.path?.hasPrefix("/select") == true)
            #expect(fault.message.contains(message), "\(fault)")
        }
        #expect(throws: Fault.self) {
            try store.fetch("Employee") {
                $0.select = ["id"]
                $0.include = ["department"]
            }
        }
    }

    @Test func `the links of all selected key paths are limited`() throws {
        let store = try store()
        func select(_ count: Int) throws -> String {
            let path = String(repeating: "manager.", count: 16)
            let ends = ["id", "name", "department", "desk", "spouse", "tool", "seat", "manager", "badge"]
            return try store.fetch("Employee") { $0.select = ends.prefix(count).map { path + $0 } }
        }
        #expect(try select(8).hasPrefix("[{"))
        #expect(throws: Fault.self) { try select(9) }
    }

    @Test func `a count is the number of the objects that would come`() throws {
        let store = try store()
        func count(_ adjust: (inout FetchDescription) -> Void = { _ in }) throws -> String {
            try store.fetch("Employee") {
                $0.result = .count
                adjust(&$0)
            }
        }
        #expect(try count() == "3")
        #expect(try count { $0.predicate = "manager != nil" } == "2")
        #expect(try count { $0.limit = 2 } == "2")
        #expect(try count { $0.limit = 0 } == "0")
        #expect(try count { $0.offset = 2 } == "1")
        #expect(try count { $0.limit = 1_000_000 } == "3", "a count holds no objects, so it has no limit")
        #expect(
            try count {
                $0.sort = ["name"]
                $0.include = ["department"]
            } == "3")
        #expect(try store.fetch("Employee", object: "7") { $0.result = .count } == "0")
    }
}
