import BrokerJSON
import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

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
        for (path, part) in [
            ("department", #""department":{"id":5,"name":"R&D"}"#), ("desk", #""desk":{"id":9,"owner":1}"#),
            ("skills", #""skills":[{"name":"sql"},{"name":"swift"}]"#), ("seat", #""seat":{"row":"a","number":3}"#),
            ("notes", #""notes":[{"text":"x","about":null}]"#), ("tool", #""tool":null"#),
            ("projects.members", #""projects":[{"id":1,"members":[{"id":1,"name":"A""#),
            ("reports", #""reports":[{"id":2,"name":"B","department":5,"manager":1"#),
            ("friends", #""friends":[{"id":2,"name":"B""#),
        ] {
            let one = try store.fetch("Employee", object: "1") { ($0.include, $0.names) = ([path], .local) }
            #expect(one.contains(part), "\(path): \(one)")
        }
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
                      {"id": 2, "items": [5, 4], "tags": ["a", "c", "b"]}], "Tag": {"name": "d", "lists": [2, 1]}}
            """)
        let lists = try store.fetch("List") { $0.include = ["items", "tags", "words"] }
        let found = lists.matches(of: #/"(id|name)":"?(\w)/#).map { $0.2 }.joined()
        #expect(found == "1312bad" + "zxy" + "254acbd")
        #expect(try store.fetch("Tag", object: #""d""#) { $0.include = ["lists"] }.contains(#"[{"id":2},{"id":1}]"#))
        #expect(try store.changes(#"{"List": \#(lists)}"#).firstMatch(of: /[+~]/) == nil)
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
        for (limit, offset, objects, hasMore) in [
            (2, 0, #"[{"name":"a"},{"name":"b"}]"#, true), (2, 2, #"[{"name":"c"}]"#, false),
            (3, 0, #"[{"name":"a"},{"name":"b"},{"name":"c"}]"#, false), (0, 0, "[]", false), (9, 9, "[]", false),
        ] {
            let page = try store.fetched("Skill") { ($0.limit, $0.offset) = (limit, offset) }
            #expect(page.text == objects && page.hasMore == hasMore, "\(limit) \(offset)")
        }
    }

    @Test func `objects that exceed an answer are left for another fetch, one by one`() throws {
        let store = try TestStore(company)
        let skills = (100..<400).map { #"{"name": "skill \#($0)"}"# }.joined(separator: ",")
        try store.apply(#"{"Skill": [\#(skills)]}"#)
        let limits = FetchLimits(answerBytes: 1_000, certainBytes: 500, gatheredBytes: 1_000)
        let objects = try store.fetched("Skill", limits: limits)
        #expect(objects.hasMore)
        #expect(objects.bytes.count <= 1_001)
        #expect(try objects.count() == 47)
        let shortened = try #require(objects.shortened)
        #expect(shortened.hasMore)
        #expect(shortened.bytes.count <= 501)
        #expect(try shortened.count() == 23)
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
        #expect {
            try store.fetched("Department", limits: tight) { $0.include = ["employees"] }
        } throws: { error in
            if case .fault(let fault)? = error as? FetchFailure { fault.path == "/include" } else { false }
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
            let fault = #expect(throws: Fault.self) { try store.fetch(entity, object: key) }
            #expect(fault?.code == .invalidValue && fault?.path == "/object", "\(key) is no key of \(entity)")
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
        #expect(found.text.matches(of: #/"id":(\d)/#).map { $0.1 } == ["4", "2"])
        #expect(found.hasMore)
        #expect(try store.fetch("Employee", object: "3") { $0.predicate = "name == 'C'" } != "[]")
        #expect(try store.fetch("Employee", object: "3") { $0.predicate = "name == 'D'" } == "[]")
        #expect(try store.fetch("Employee") { $0.predicate = "name LIKE[c] 'c'" }.contains(#""id":3"#))
    }

    @Test func `a reader cannot write, and holds no transaction between two fetches`() throws {
        let store = try TestStore(company)
        let reader = try store.reader()
        try store.apply(#"{"Skill": {"name": "a"}}"#)
        let request = try store.request("Skill")
        #expect(try reader.fetch(request).text == #"[{"name":"a"}]"#)
        // With an open transaction the checkpoint would say that it was busy.
        #expect(try store.rows("PRAGMA query_only") == ["0"])
        try store.apply(#"{"Skill": {"name": "b"}}"#)
        #expect(try reader.fetch(request).text == #"[{"name":"a"},{"name":"b"}]"#)
        try store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        #expect(try store.logGrowth(#"{"Skill": {"name": "c"}}"#) > 0)
    }

    @Test func `a fetch that takes too long or is not wanted is interrupted`() throws {
        let store = try TestStore(company)
        let skills = (1..<20_000).map { #"{"name": "skill \#($0)"}"# }.joined(separator: ",")
        try store.apply(#"{"Skill": [\#(skills)]}"#)
        let (request, reader) = (try store.request("Skill") { $0.limit = 100_000 }, try store.reader())
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
        let (request, reader) = (try store.request("Skill") { $0.predicate = pattern }, try store.reader())
        var limits = FetchLimits.long
        limits.microseconds = 0
        let failure = #expect(throws: FetchFailure.self) { try reader.fetch(request, limits: limits) }
        #expect(failure?.isTooLong == true)
        #expect(try reader.fetch(request).bytes.count > 20, "the same reader goes on")
    }

    @Test func `a pattern of a fetch that is not wanted is not begun`() throws {
        let store = try TestStore(company)
        try store.apply(#"{"Skill": [{"name": "skill 1"}, {"name": "skill 2"}]}"#)
        let (request, reader) = (
            try store.request("Skill") { $0.predicate = "name MATCHES 'skill [0-9]'" }, try store.reader()
        )
        for limits in [FetchLimits.brief, .long, .part] {
            let failure = #expect(throws: FetchFailure.self) { try reader.fetch(request, limits: limits) { false } }
            #expect(failure?.isBecauseStopped == true)
        }
    }

    @Test func `a pattern that takes too long for a brief fetch is not begun`() throws {
        let store = try TestStore(company)
        let name = String(repeating: "s", count: 1 << 20)
        try store.apply(#"{"Skill": [{"name": "\#(name)"}]}"#)
        let (request, reader) = (
            try store.request("Skill") { $0.predicate = "name MATCHES '[a-z]{1,50}s*'" }, try store.reader()
        )
        var limits = FetchLimits.brief
        limits.microseconds = nil
        let failure = #expect(throws: FetchFailure.self) { try reader.fetch(request, limits: limits) }
        #expect(failure?.isTooLong == true)
        #expect(try reader.fetch(request).bytes.count > 1 << 20, "a long fetch has no such limit")
    }
}

extension FetchFailure {
    fileprivate var isTooLong: Bool { if case .tooLong = self { true } else { false } }
    fileprivate var isBecauseStopped: Bool { if case .stopped = self { true } else { false } }
}

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
                ($0.select, $0.sort, $0.limit, $0.offset) = (["manager.name"], ["-id"], 2, 1)
            } == #"[{"manager.name":"A"},{"manager.name":null}]"#)
        #expect(
            try store.fetch("Employee") {
                ($0.select, $0.result, $0.predicate) = (["name"], .dictionary, "id < 3")
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
            try store.fetch("Thing", object: "2") { ($0.select, $0.dates) = (names.map { "of." + $0 }, .iso8601) }
                == #"[{"of.price":1.50,"of.at":"2011-12-22T00:00:00.000Z","of.any":{"a":[1]},"of.raw":"AAE=","of.note":1,"of.note.text":"n"}]"#
        )
    }

    @Test func `JSON of several lines that another program stored is fetched on one`() throws {
        let store = try TestStore(
            #"{"entities": {"Thing": {"identity": "id", "attributes": {"id": "integer64", "any": "transformable"}}}}"#)
        try store.apply(#"{"Thing": [{"id": 1, "any": 0}]}"#)
        try store.execute(#"UPDATE Thing SET "any" = '{"a":' || char(13, 10) || '"b\n"}'"#)
        #expect(try store.fetch("Thing") == #"[{"id":1,"any":{"a":  "b\n"}}]"#)
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
        let fault = #expect(throws: Fault.self) { try store.fetch("Employee") { $0.select = names } }
        let codes: [FaultCode] = [.unsupportedMessage, .unknownAttribute, .unknownRelationship]
        #expect(fault.map { codes.contains($0.code) } == true && fault?.path?.hasPrefix("/select") == true)
        #expect(fault?.message.contains(message) == true, "\(names): \(String(describing: fault))")
        #expect(throws: Fault.self) {
            try store.fetch("Employee") { ($0.select, $0.include) = (["id"], ["department"]) }
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
        let adjustments: [(String, (inout FetchDescription) -> Void)] = [
            ("3", { _ in }), ("2", { $0.predicate = "manager != nil" }), ("2", { $0.limit = 2 }),
            ("0", { $0.limit = 0 }), ("1", { $0.offset = 2 }),
            // A count holds no objects, so it has no limit.
            ("3", { $0.limit = 1_000_000 }), ("3", { ($0.sort, $0.include) = (["name"], ["department"]) }),
        ]
        for (count, adjust) in adjustments {
            let found = try store.fetch("Employee") {
                $0.result = .count
                adjust(&$0)
            }
            #expect(found == count)
        }
        #expect(try store.fetch("Employee", object: "7") { $0.result = .count } == "0")
    }
}

/// Objects that are fetched with remote names and processed again change nothing.
@Suite(.timeLimit(.minutes(5))) struct FetchRoundTripTests {
    private static let model = """
        {"keyStyle": "snakeCase", "entities": {
          "Thing": {"identity": "thingId", "attributes": {"thingId": {"type": "integer64", "key": "id"},
            "email": {"type": "string", "key": ["contact.email", "email"]},
            "phone": {"type": "string", "key": "contact.phone"}, "ownerName": {"type": "string", "key": "owner.name"},
            "price": "decimal", "ratio": "double", "half": "float", "isNew": "boolean", "data": "binary",
            "code": "uuid", "link": "uri", "extra": "transformable",
            "plain": "date", "birthday": "calendarDate", "died": {"type": "calendarDate", "format": "dd/MM/yy"},
            "hiredAt": {"type": "date", "format": "yyyy/MM/dd HH:mm:ss Z"},
            "day": {"type": "date", "format": "yyyy-MM-dd", "timeZone": "Europe/Berlin"},
            "seen": {"type": "date", "format": "EEE, d MMM yy h:mm a", "storage": "unix"},
            "touched": {"type": "date", "formats": ["dd.MM.yyyy", "HH:mm yyyy"], "storage": "coreData"},
            "week": {"type": "date", "format": "YYYY-'W'ww-e"}}, "relationships": {
            "owner": {"entity": "Owner"}, "place": {"entity": "Place"}, "tag": {"entity": "Tag"},
            "parts": {"entity": "Thing", "toMany": true, "inverse": "whole", "assignment": "replace"},
            "whole": {"entity": "Thing", "inverse": "parts", "key": "links.whole"}}},
          "Owner": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}},
          "Place": {"identity": ["rowName", "number"], "attributes": {"rowName": "string", "number": "decimal"}},
          "Tag": {"identity": "label", "identityOptional": true, "attributes": {"label": "string", "note": "string"}}}}
        """

    private static let things = """
        [{"id": 1, "contact": {"email": "a@b", "phone": null}, "price": 12345678901234567890.123456789, "ratio": 0.1,
          "half": 1.5, "is_new": true, "data": "AAEC/w==", "code": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
          "link": "https://example.org/ä", "extra": {"a": [1, null, "\\u0001\\"ü"], "b": 1.0},
          "plain": "2011-12-22T02:24:51.123Z", "birthday": "1985-12-10", "died": "24/12/11",
          "hired_at": "2011/12/22 02:24:51 +0200", "day": "2011-07-01",
          "seen": "Thu, 22 Dec 11 2:24 PM", "touched": "22.12.2011", "week": "2011-W51-5",
          "owner": {"id": 7, "name": "O"}, "place": {"row_name": "a", "number": 1.50}, "tag": {"label": "t"},
          "links": {"whole": 2}},
         {"id": 2, "email": "second", "hired_at": "2011-12-22T02:24:51.999Z", "day": "2011-07-01T12:00:00Z", "died": "1852-11-27",
          "seen": 1324563891, "touched": -0.001, "week": 1324563891.5, "ratio": -1e300, "price": -0.5,
          "tag": {"note": "nameless"}, "extra": "text", "is_new": false, "data": ""},
         {"id": 3, "extra": false, "touched": "1969-12-31T23:59:59.001Z", "plain": "0001-01-01", "whole": null}]
        """

    @Test(arguments: [[], ["owner", "parts.place", "whole.parts"]])
    func `objects that are fetched with remote names and processed again change nothing`(include: [String]) throws {
        let store = try TestStore(Self.model)
        try store.apply(#"{"Thing": \#(Self.things)}"#)
        let before = try store.rows("SELECT * FROM Thing ORDER BY 1")
        let fetched = try store.fetch("Thing") { $0.include = include }
        let outcome = try store.outcome(#"{"Thing": \#(fetched)}"#)
        #expect(
            outcome.changes.allSatisfy { $0.counts.inserted == 0 && $0.counts.updated == 0 }, "\(outcome.described)")
        #expect(try store.rows("SELECT * FROM Thing ORDER BY 1") == before)
        if include.isEmpty { #expect(outcome.warnings.isEmpty) }
    }

    @Test func `a date with the format UnixTime is fetched as a number of seconds, and processed again unchanged`()
        throws
    {
        let store = try TestStore(
            #"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64", "at": {"type": "date", "format": "UnixTime"}}}}}"#
        )
        try store.apply(
            #"{"A": [{"id": 1, "at": 1388349427543}, {"id": 2, "at": -1388349427543}, {"id": 3, "at": 5}]}"#)
        let fetched = try store.fetch("A")
        #expect(fetched.contains(#""at":1388349427.543"#) && fetched.contains(#""at":5}"#), "\(fetched)")
        #expect(try store.changes("{\"A\": \(fetched)}") == "A =3")
    }

    @Test func `remote values are where the mapping finds them, in the attribute's first format`() throws {
        let store = try TestStore(Self.model)
        try store.apply(#"{"Thing": \#(Self.things)}"#)
        let one = try store.fetch("Thing", object: "1")
        for part in [
            #""id":1"#, #""contact":{"email":"a@b","phone":null}"#, #""price":12345678901234567890.123456789"#,
            #""is_new":true"#, #""data":"AAEC/w==""#, #""code":"6BA7B810-9DAD-11D1-80B4-00C04FD430C8""#,
            #""extra":{"a":[1,null,"\u0001\"ü"],"b":1.0}"#, #""plain":"2011-12-22T02:24:51.123Z""#,
            #""birthday":"1985-12-10""#, #""died":"24/12/11""#,
            #""hired_at":"2011/12/22 00:24:51 +0000""#, #""day":"2011-07-01""#, #""seen":"Thu, 22 Dec 11 2:24 PM""#,
            #""touched":"22.12.2011""#, #""week":"2011-W51-5""#, #""owner":7"#,
            #""place":{"row_name":"a","number":1.50}"#, #""tag":"t""#, #""links":{"whole":2}"#,
        ] { #expect(one.contains(part), "\(part) in \(one)") }
        // A value that the format cannot express is written in another way.
        let two = try store.fetch("Thing", object: "2")
        for part in [
            #""hired_at":"2011-12-22T02:24:51.999Z""#, #""died":"1852-11-27""#, #""day":"2011-07-01T12:00:00.000Z""#,
            #""email":"second""#,
        ] { #expect(two.contains(part), "\(part) in \(two)") }
        #expect(!two.contains(#""tag""#))
    }

    @Test func `local names are the model's, with dates in ISO 8601`() throws {
        let store = try TestStore(Self.model)
        try store.apply(#"{"Thing": \#(Self.things)}"#)
        let one = try store.fetch("Thing", object: "1") { $0.names = .local }
        for part in [
            #""thingId":1"#, #""email":"a@b","phone":null"#, #""hiredAt":"2011-12-22T00:24:51.000Z""#,
            #""day":"2011-06-30T22:00:00.000Z""#, #""touched":"2011-12-22T00:00:00.000Z""#,
            #""place":{"rowName":"a","number":1.50}"#, #""tag":1"#, #""whole":2"#, #""ownerName":"O""#,
        ] { #expect(one.contains(part), "\(part) in \(one)") }
    }

    @Test func `a random company fetched with everything nested and processed again changes nothing`() throws {
        var payload = CompanyPayload(generator: SeededGenerator())
        let store = try TestStore(company)
        for _ in 0..<30 { _ = try store.apply(payload.collections(count: 6)) }
        for (entity, include) in [
            ("Employee", ["department.employees", "projects.members", "friends", "skills", "desk.owner", "spouse"]),
            ("Department", ["employees.manager", "employees.reports"]), ("Project", ["members.projects"]),
            ("Desk", ["owner.desk"]), ("Employee", []),
        ] {
            let fetched = try store.fetch(entity) { $0.include = include }
            let outcome = try store.outcome(#"{"\#(entity)": \#(fetched)}"#)
            #expect(
                outcome.changes.allSatisfy { $0.counts.inserted == 0 && $0.counts.updated == 0 },
                "\(entity) \(include): \(outcome.described)")
        }
    }
}
