import BrokerJSON
import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

extension TestStore {
    /// The result of a fetch, as JSON text.
    func fetch(_ entity: String, _ adjust: (inout FetchDescription) -> Void = { _ in }) throws -> String {
        let objects = try fetched(entity, adjust)
        return String(decoding: objects.bytes, as: UTF8.self)
    }

    func fetched(
        _ entity: String, limits: FetchLimits = .long, _ adjust: (inout FetchDescription) -> Void = { _ in }
    ) throws -> FetchedObjects {
        var description = FetchDescription(entity: entity)
        adjust(&description)
        let request = try plan.fetchRequest(description)
        return try StoreReader(path: path, plan: plan).fetch(request, limits: limits)
    }

    /// The result of fetching one object.
    func fetch(_ entity: String, object: String, _ adjust: (inout FetchDescription) -> Void = { _ in }) throws
        -> String
    {
        let document = try JSONDocument(parsing: JSONText(copying: Array(object.utf8)))
        return try withExtendedLifetime(document) {
            try fetch(entity) { description in
                description.object = document.root
                adjust(&description)
            }
        }
    }
}

@Suite(.timeLimit(.minutes(5))) struct FetchTests {
    @Test func `every attribute is there, and an object's links by their keys`() throws {
        let store = try TestStore(company)
        try store.apply(
            """
            {"Employee": [{"id": 2, "name": "B", "department": {"id": 5, "name": "R&D"}, "tool": "hammer",
                           "seat": {"row": "a", "number": 3}, "projects": [1], "manager": 1}, {"id": 1}]}
            """)
        #expect(
            try store.fetch("Employee") == """
                [{"id":1,"name":null,"department":null,"manager":null,"desk":null,"spouse":null,"badge":null,\
                "locker":null,"tool":null,"seat":null},\
                {"id":2,"name":"B","department":5,"manager":1,"desk":null,"spouse":null,"badge":null,\
                "locker":null,"tool":"hammer","seat":{"row":"a","number":3}}]
                """)
    }

    @Test func `relationships of every form are nested, to any depth`() throws {
        let store = try TestStore(company)
        try store.apply(
            """
            {"Employee": [
              {"id": 1, "name": "A", "department": {"id": 5, "name": "R&D"}, "projects": [1, 2], "friends": [2],
               "desk": {"id": 9}, "skills": ["swift", "sql"], "notes": [{"text": "x"}], "seat": {"row": "a", "number": 3}},
              {"id": 2, "name": "B", "department": 5, "manager": 1, "projects": [2]}]}
            """)
        let nested = { (path: String) in
            try store.fetch("Employee", object: "1") {
                $0.include = [path]
                $0.names = .local
            }
        }
        #expect(try nested("department").contains(#""department":{"id":5,"name":"R&D"}"#))
        #expect(try nested("desk").contains(#""desk":{"id":9,"owner":1}"#))
        #expect(try nested("skills").contains(#""skills":[{"name":"sql"},{"name":"swift"}]"#))
        #expect(try nested("seat").contains(#""seat":{"row":"a","number":3}"#))
        #expect(try nested("notes").contains(#""notes":[{"text":"x","about":null}]"#))
        #expect(try nested("tool").contains(#""tool":null"#))
        #expect(try nested("projects.members").contains(#""projects":[{"id":1,"members":[{"id":1,"name":"A""#))
        #expect(try nested("reports").contains(#""reports":[{"id":2,"name":"B","department":5,"manager":1"#))
        #expect(try nested("friends").contains(#""friends":[{"id":2,"name":"B""#))
        // Back and forth: a path may come back to where it began.
        let cycle = try store.fetch("Department") { $0.include = ["employees.department.employees.manager"] }
        #expect(cycle.components(separatedBy: #""name":"R&D""#).count == 4)
        #expect(cycle.contains(#""manager":{"id":1,"name":"A""#))
    }

    @Test func `nested objects of an ordered relationship come in its order`() throws {
        let store = try TestStore(
            """
            {"entities": {
              "List": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
                "items": {"entity": "Item", "toMany": true, "inverse": "list", "ordered": true},
                "tags": {"entity": "Tag", "toMany": true, "inverse": "lists", "ordered": true},
                "words": {"entity": "Tag", "toMany": true, "ordered": true}}},
              "Item": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
                "list": {"entity": "List", "inverse": "items"}}},
              "Tag": {"identity": "name", "attributes": {"name": "string"}, "relationships": {
                "lists": {"entity": "List", "toMany": true, "inverse": "tags", "ordered": true}}}}}
            """)
        try store.apply(
            """
            {"List": [{"id": 1, "items": [3, 1, 2], "tags": ["b", "a"], "words": ["z", "x", "y"]},
                      {"id": 2, "items": [5, 4], "tags": ["a", "c", "b"]}],
             "Tag": {"name": "d", "lists": [2, 1]}}
            """)
        let lists = try store.fetch("List") { $0.include = ["items", "tags", "words"] }
        let found = lists.matches(of: #/"(id|name)":"?(\w)/#).map { $0.2 }.joined()
        #expect(found == "1312bad" + "zxy" + "254acbd")
        #expect(try store.fetch("Tag", object: #""d""#) { $0.include = ["lists"] }.contains(#"[{"id":2},{"id":1}]"#))
        #expect(try store.changes(#"{"List": \#(lists)}"#).allSatisfy { $0.contains("+0 ~0") })
    }

    @Test func `objects come in the order asked for, and then by their identity`() throws {
        let store = try TestStore(
            """
            {"entities": {
              "Item": {"identity": "id", "attributes": {"id": "integer64", "price": "decimal", "name": "string"},
                       "relationships": {"shop": {"entity": "Shop"}}},
              "Shop": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}}}}
            """)
        try store.apply(
            """
            {"Shop": [{"id": 1, "name": "b"}, {"id": 2, "name": "a"}],
             "Item": [{"id": 1, "price": 10, "shop": 1}, {"id": 2, "price": 9.5, "shop": 2},
                      {"id": 3, "price": 123456789012345678901.5, "shop": 1},
                      {"id": 4, "price": 123456789012345678901.25}, {"id": 5, "price": 10.0}, {"id": 6}]}
            """)
        let order = { (sort: [String]) in
            let text = try store.fetch("Item") { $0.sort = sort }
            return text.matches(of: #/"id":(\d)/#).map { $0.1 }.joined()
        }
        #expect(try order([]) == "123456")
        #expect(try order(["price"]) == "621543")
        #expect(try order(["-price"]) == "341526")
        #expect(try order(["shop.name", "-id"]) == "654231")
        #expect(try order(["-id"]) == "654321")
    }

    @Test func `a limit leaves the rest for another fetch, and says so`() throws {
        let store = try TestStore(company)
        try store.apply(#"{"Skill": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}"#)
        let page = { (limit: Int, offset: Int) in
            try store.fetched("Skill") {
                $0.limit = limit
                $0.offset = offset
            }
        }
        #expect(String(decoding: try page(2, 0).bytes, as: UTF8.self) == #"[{"name":"a"},{"name":"b"}]"#)
        #expect(try page(2, 0).hasMore)
        #expect(String(decoding: try page(2, 2).bytes, as: UTF8.self) == #"[{"name":"c"}]"#)
        #expect(try !page(2, 2).hasMore)
        #expect(try !page(3, 0).hasMore)
        #expect(String(decoding: try page(0, 0).bytes, as: UTF8.self) == "[]")
        #expect(try !page(0, 0).hasMore)
        #expect(String(decoding: try page(9, 9).bytes, as: UTF8.self) == "[]")
    }

    @Test func `objects that exceed an answer are left for another fetch, one by one`() throws {
        let store = try TestStore(company)
        let skills = (100..<400).map { #"{"name": "skill \#($0)"}"# }.joined(separator: ",")
        try store.apply(#"{"Skill": [\#(skills)]}"#)
        let limits = FetchLimits(answerBytes: 1_000, certainBytes: 500, gatheredBytes: 1_000)
        let objects = try store.fetched("Skill", limits: limits)
        #expect(objects.hasMore)
        #expect(objects.bytes.count <= 1_001)
        #expect(try count(objects) == 47)
        let shortened = try #require(objects.shortened)
        #expect(shortened.hasMore)
        #expect(shortened.bytes.count <= 501)
        #expect(try count(shortened) == 23)
    }

    private func count(_ objects: FetchedObjects) throws -> Int {
        let document = try JSONDocument(parsing: JSONText(copying: objects.bytes))
        return withExtendedLifetime(document) { Array(document.root.elements).count }
    }

    @Test func `nested objects that are too many together come with fewer of the outer ones`() throws {
        let store = try TestStore(company)
        let employees = (1...400).map { #"{"id": \#($0), "name": "n", "department": \#($0 % 4)}"# }
            .joined(separator: ",")
        try store.apply(#"{"Employee": [\#(employees)]}"#)
        let limits = FetchLimits(answerBytes: 1 << 20, certainBytes: 1 << 20, gatheredBytes: 30_000)
        let objects = try store.fetched("Department", limits: limits) { $0.include = ["employees"] }
        #expect(try objects.bytes == store.fetched("Department") { $0.include = ["employees"] }.bytes)
        let tight = FetchLimits(answerBytes: 1 << 20, certainBytes: 1 << 20, gatheredBytes: 10_000)
        do {
            _ = try store.fetched("Department", limits: tight) { $0.include = ["employees"] }
            Issue.record("one department has more employees than that")
        } catch FetchFailure.fault(let fault) {
            #expect(fault.path == "/include")
        }
    }

    @Test func `the result has the form asked for`() throws {
        let store = try TestStore(company)
        try store.apply(
            """
            {"Skill": [{"name": "b"}, {"name": "a"}], "Seat": [{"row": "x", "number": 2}], "Note": {"text": "n"}}
            """)
        let fetch = { (entity: String, result: FetchResult) in try store.fetch(entity) { $0.result = result } }
        #expect(try fetch("Skill", .object) == #"{"name":"a"}"#)
        #expect(try fetch("Project", .object) == "null")
        #expect(try fetch("Project", .dictionary) == "{}")
        #expect(try fetch("Skill", .dictionary) == #"{"a":{"name":"a"},"b":{"name":"b"}}"#)
        #expect(try fetch("Seat", .dictionary) == #"{"x,2":{"row":"x","number":2}}"#)
        #expect(try fetch("Note", .dictionary) == #"{"1":{"text":"n","about":null}}"#)
    }

    @Test func `one object is found by its key of any form`() throws {
        let store = try TestStore(company)
        try store.apply(
            """
            {"Skill": {"name": "a"}, "Seat": [{"row": "x", "number": 2}, {"row": "x", "number": 3}],
             "Note": [{"text": "n"}, {"text": "m"}]}
            """)
        #expect(try store.fetch("Skill", object: #""a""#) == #"[{"name":"a"}]"#)
        #expect(try store.fetch("Skill", object: #""b""#) == "[]")
        #expect(try store.fetch("Seat", object: #"{"number": 3, "row": "x"}"#) == #"[{"row":"x","number":3}]"#)
        #expect(try store.fetch("Note", object: "2") == #"[{"text":"m","about":null}]"#)
        for (entity, key) in [
            ("Skill", "null"), ("Skill", "{}"), ("Seat", "3"), ("Seat", #"{"row": "x"}"#), ("Note", #""2""#),
        ] {
            do {
                _ = try store.fetch(entity, object: key)
                Issue.record("\(key) is no key of \(entity)")
            } catch let fault as Fault {
                #expect(fault.code == .invalidValue)
                #expect(fault.path == "/object")
            }
        }
    }

    @Test func `a predicate selects the objects, together with a key, an order and a limit`() throws {
        let store = try TestStore(company)
        try store.apply(
            """
            {"Employee": [{"id": 1, "name": "A", "department": {"id": 5, "name": "R&D"}}, {"id": 2, "department": 5},
                          {"id": 3, "name": "C", "department": {"id": 6, "name": "Sales"}}, {"id": 4, "department": 5}]}
            """)
        let arguments = try JSONDocument(parsing: JSONText(copying: Array(#"["R&D", "nobody", 5]"#.utf8)))
        let found = try withExtendedLifetime(arguments) {
            try store.fetched("Employee") {
                $0.predicate = "department.name == %@ AND name != %@ AND department == %@"
                $0.arguments = arguments.root
                $0.sort = ["-id"]
                $0.limit = 2
            }
        }
        let text = String(decoding: found.bytes, as: UTF8.self)
        #expect(text.matches(of: #/"id":(\d)/#).map { $0.1 } == ["4", "2"])
        #expect(found.hasMore)
        #expect(try store.fetch("Employee", object: "3") { $0.predicate = "name == 'C'" } != "[]")
        #expect(try store.fetch("Employee", object: "3") { $0.predicate = "name == 'D'" } == "[]")
        #expect(try store.fetch("Employee") { $0.predicate = "name LIKE[c] 'c'" }.contains(#""id":3"#))
    }

    @Test func `a reader cannot write, and holds no transaction between two fetches`() throws {
        let store = try TestStore(company)
        let reader = try StoreReader(path: store.path, plan: store.plan)
        try store.apply(#"{"Skill": {"name": "a"}}"#)
        let request = try store.plan.fetchRequest(FetchDescription(entity: "Skill"))
        #expect(String(decoding: try reader.fetch(request).bytes, as: UTF8.self) == #"[{"name":"a"}]"#)
        // With an open transaction the checkpoint would say that it was busy.
        #expect(try store.rows("PRAGMA query_only") == ["0"])
        try store.apply(#"{"Skill": {"name": "b"}}"#)
        #expect(String(decoding: try reader.fetch(request).bytes, as: UTF8.self) == #"[{"name":"a"},{"name":"b"}]"#)
        try store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        #expect(try store.logGrowth(#"{"Skill": {"name": "c"}}"#) > 0)
    }

    @Test func `a fetch that takes too long or is not wanted is interrupted`() throws {
        let store = try TestStore(company)
        let skills = (1..<20_000).map { #"{"name": "skill \#($0)"}"# }.joined(separator: ",")
        try store.apply(#"{"Skill": [\#(skills)]}"#)
        var description = FetchDescription(entity: "Skill")
        description.limit = 100_000
        let request = try store.plan.fetchRequest(description)
        let reader = try StoreReader(path: store.path, plan: store.plan)
        var limits = FetchLimits.long
        limits.steps = 10_000
        #expect(throws: FetchFailure.self) { try reader.fetch(request, limits: limits) }
        #expect(throws: FetchFailure.self) { try reader.fetch(request) { false } }
        #expect(try reader.fetch(request).bytes.count > 400_000)
    }

    @Test(arguments: ["name MATCHES 'skill [0-9]'", "name LIKE[cd] 's*k*'"])
    func `patterns are interrupted when the time is over, in the middle of few rows`(pattern: String) throws {
        let store = try TestStore(company)
        try store.apply(#"{"Skill": [{"name": "skill 1"}, {"name": "skill 2"}]}"#)
        var description = FetchDescription(entity: "Skill")
        description.predicate = pattern
        let request = try store.plan.fetchRequest(description)
        let reader = try StoreReader(path: store.path, plan: store.plan)
        var limits = FetchLimits.long
        limits.microseconds = 0
        let failure = #expect(throws: FetchFailure.self) { try reader.fetch(request, limits: limits) }
        guard case .tooLong? = failure else {
            Issue.record("\(String(describing: failure))")
            return
        }
        #expect(try reader.fetch(request).bytes.count > 20, "the same reader goes on")
    }

    @Test func `a pattern of a fetch that is not wanted is not begun`() throws {
        let store = try TestStore(company)
        try store.apply(#"{"Skill": [{"name": "skill 1"}, {"name": "skill 2"}]}"#)
        var description = FetchDescription(entity: "Skill")
        description.predicate = "name MATCHES 'skill [0-9]'"
        let request = try store.plan.fetchRequest(description)
        let reader = try StoreReader(path: store.path, plan: store.plan)
        for limits in [FetchLimits.brief, .long, .part] {
            let failure = #expect(throws: FetchFailure.self) { try reader.fetch(request, limits: limits) { false } }
            guard case .stopped? = failure else {
                Issue.record("\(String(describing: failure))")
                return
            }
        }
    }

    @Test func `a pattern that takes too long for a brief fetch is not begun`() throws {
        let store = try TestStore(company)
        let name = String(repeating: "s", count: 1 << 20)
        try store.apply(#"{"Skill": [{"name": "\#(name)"}]}"#)
        var description = FetchDescription(entity: "Skill")
        description.predicate = "name MATCHES '[a-z]{1,50}s*'"
        let request = try store.plan.fetchRequest(description)
        let reader = try StoreReader(path: store.path, plan: store.plan)
        var limits = FetchLimits.brief
        limits.microseconds = nil
        let failure = #expect(throws: FetchFailure.self) { try reader.fetch(request, limits: limits) }
        guard case .tooLong? = failure else {
            Issue.record("\(String(describing: failure))")
            return
        }
        #expect(try reader.fetch(request).bytes.count > 1 << 20, "a long fetch has no such limit")
    }
}
