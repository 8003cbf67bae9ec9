import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

/// The merge of sets beside the interpreter, on random jobs in which records repeat and contradict each other.
@Suite(.timeLimit(.minutes(5))) struct InterpreterTests {
    private static let model = """
        {"entities": {
          "Person": {"identity": "id", "unique": ["code"],
            "attributes": {"id": "integer64", "name": {"type": "string", "default": "none"},
              "code": {"type": "string"}, "grade": {"type": "integer16", "max": 9}},
            "relationships": {
              "team": {"entity": "Team", "inverse": "members"},
              "tags": {"entity": "Tag", "toMany": true, "assignment": "replace"},
              "friends": {"entity": "Person", "toMany": true, "inverse": "friends"},
              "desk": {"entity": "Desk", "inverse": "owner", "missing": "ignore"},
              "lines": {"entity": "Line", "toMany": true, "owned": true}}},
          "Manager": {"parent": "Person", "attributes": {"level": {"type": "integer16", "default": 1}}},
          "Team": {"identity": "id", "attributes": {"id": "integer64", "title": {"type": "string", "optional": false}},
            "relationships": {"members": {"entity": "Person", "toMany": true, "ordered": true, "inverse": "team",
              "deleteRule": "nullify"}}},
          "Desk": {"identity": "id", "attributes": {"id": "integer64", "room": "string"},
            "relationships": {"owner": {"entity": "Person", "inverse": "desk", "missing": "fail"}}},
          "Tag": {"identity": "word", "attributes": {"word": "string"}},
          "Line": {"attributes": {"sku": "string", "count": "integer64"}},
          "Note": {"attributes": {"text": "string"}, "relationships": {"about": {"entity": "Person", "missing": "fail"}}},
          "Item": {"identity": "id", "modified": "at", "tombstone": "gone = true",
            "attributes": {"id": "integer64", "at": "integer64", "name": "string", "gone": "boolean",
              "kind": {"type": "string", "optional": false, "default": "k"}},
            "relationships": {
              "group": {"entity": "Group", "inverse": "items"},
              "parts": {"entity": "Part", "toMany": true, "owned": true},
              "next": {"entity": "Item", "toMany": true, "ordered": true, "assignment": "replace"}}},
          "Part": {"identity": "id", "attributes": {"id": "integer64", "size": "integer64"}},
          "Group": {"identity": "id", "attributes": {"id": "integer64", "title": {"type": "string", "optional": false}},
            "relationships": {"items": {"entity": "Item", "toMany": true, "inverse": "group", "assignment": "replace",
              "deleteRule": "cascade"}}}
        }}
        """

    private static let tables = [
        "SELECT id, _entity, name, code, grade, level, team, desk FROM Person ORDER BY 1",
        "SELECT team, id FROM Person WHERE team IS NOT NULL ORDER BY team, team_position",
        "SELECT * FROM Team ORDER BY 1", "SELECT * FROM Desk ORDER BY 1", "SELECT * FROM Tag ORDER BY 1",
        "SELECT * FROM Line ORDER BY 1, 2, 3", "SELECT * FROM Note ORDER BY 1",
        "SELECT source, destination FROM Person_tags ORDER BY 1, 2",
        "SELECT source, destination FROM Person_friends ORDER BY 1, 2",
        #"SELECT id, at, name, gone, kind, "group" FROM Item ORDER BY 1"#, "SELECT * FROM Part ORDER BY 1",
        #"SELECT * FROM "Group" ORDER BY 1"#,
        "SELECT source, position, destination FROM Item_next ORDER BY 1, 2, 3",
    ]

    @Test(arguments: [InvalidRecordPolicy.fail, .skip])
    func `a job merged as sets has the effect of its records, one after the other`(policy: InvalidRecordPolicy) throws {
        var options = StoreOptions()
        options.synchronous = .off
        let sets = try TestStore(Self.model, options: options)
        options.interpretsAll = true
        let interpreter = try TestStore(Self.model, options: options)
        var random = RandomOperations(
            generator: SeededGenerator(for: "the interpreter and sets, \(policy)"))
        var merged = 0
        for number in 0..<Cases.count(150, of: 2_000) {
            let (operations, before) = (random.job(), sets.store.merger.interpretations)
            let ends = try [sets, interpreter].map { try Self.end(of: operations, policy, $0) }
            #expect(ends[0] == ends[1], "job \(number): \(operations)")
            if sets.store.merger.interpretations == before { merged += 1 }
            for table in Self.tables {
                let rows = try [sets, interpreter].map { try $0.rows(table) }
                #expect(rows[0] == rows[1], "job \(number), \(table): \(operations)")
                if rows[0] != rows[1] { return }
            }
            if ends[0] != ends[1] { return }
        }
        #expect(merged > 30, "jobs of which all steps were merged as sets")
    }

    @Test func `with skip, a value is taken at the turn of its record, not of its identity`() throws {
        let model = """
            {"entities": {"E": {"identity": "id", "unique": ["code"], "attributes": {"id": "integer64", "code": "string"},
              "relationships": {"next": {"entity": "E"}}}}}
            """
        let store = try TestStore(model)
        try store.apply(#"{"E": [{"id": 4, "code": "a"}, {"id": 7, "code": "b"}]}"#)
        let outcome = try store.outcome(#"{"E": [{"id": 7, "code": "a"}, {"id": 4, "code": "c"}]}"#, .skip)
        #expect(outcome.described + outcome.rejections == ["E ~1 !1", "constraintViolation /E/0"])
        // A key that names an object before its record is not its turn.
        let later = #"[{"id": 1, "next": 4}, {"id": 7, "code": "c"}, {"id": 4, "code": "d"}]"#
        let other = try store.outcome(#"{"E": \#(later)}"#, .skip)
        #expect(other.described + other.rejections == ["E +1 ~1 !1", "constraintViolation /E/1"])
        let parts =
            #"{"entity": "E", "json": {"id": 2, "next": 4}}, {"entity": "E", "json": [{"id": 7, "code": "d"}, {"id": 4, "code": "e"}]}"#
        #expect(try store.run(parts, .skip) == "E +1 ~1 !1")
        #expect(try store.rows("SELECT id, code FROM E ORDER BY 1") == ["1|NULL", "2|NULL", "4|e", "7|b"])
    }

    @Test(arguments: ["integer64", "string"])
    func `a record keeps its links when its object is deleted and made again by what is nested in it`(
        type: String
    ) throws {
        let store = try TestStore(
            """
            {"entities": {"C": {"identity": "id", "tombstone": "gone = true",
              "attributes": {"id": "\(type)", "gone": "boolean"},
              "relationships": {"boss": {"entity": "C"}, "peers": {"entity": "C", "toMany": true}}}}}
            """)
        try store.apply(#"{"C": [{"id": 8}, {"id": 2}, {"id": 9}]}"#)
        try store.apply(
            #"{"C": {"id": 2, "peers": [{"id": 5, "peers": [{"id": 2, "gone": true}, {"id": 7}, {"id": 2}]}], "boss": 9}}"#
        )
        #expect(try store.rows("SELECT id, boss FROM C WHERE boss IS NOT NULL") == ["2|9"])
        #expect(try store.rows("SELECT source, destination FROM C_peers ORDER BY 1, 2") == ["2|5", "5|2", "5|7"])
    }

    @Test(
        arguments: Claim.list(
            #"""
            # the link to a rejected element stays where a value replaces, with its position
            {"A": {"id": 1, "list": ["a", "b"]}}
            skip {"A": {"id": 1, "list": [{"word": "a", "size": "x"}, "c"]}} => A ~1, B +1 !1; invalidValue /A/list/0/size
            list :: 1|0|a, 1|1|c
            # the keys of a record that is undone make no link
            {"A": {"id": 1, "owned": [{"no": 5, "locks": [{"id": 9}]}]}}
            skip {"entity": "A", "json": {"id": 1, "strict": ["z"], "owned": []}}, {"entity": "B", "json": {"word": "z"}}
              => B +1, Box !1; constraintViolation /0/json
            strict ::
            # waiting keys have the places of their values
            {"entity": "A", "json": {"id": 1, "strict": ["z", "a", "y"]}}, {"entity": "B", "json": [{"word": "y"}, {"word": "a"}, {"word": "z"}]}
            strict :: 1|0|z, 1|1|a, 1|2|y
            # an owned object that its owner does not name is deleted
            {"A": {"id": 1, "parts": [{"size": 1}, {"size": 2}]}}
            {"A": {"id": 1, "parts": [{"size": 1}]}} => A =1, Part =1 -1
            {"A": {"id": 1, "parts": null}} => A =1, Part -1
            SELECT count(*) FROM Part :: 0
            # a set that is replaced loses what the value does not name, though a record of the job names it
            {"A": {"id": 1, "list": ["a", "b"]}}
            {"entity": "B", "json": {"word": "b", "size": 1}}, {"entity": "A", "json": {"id": 1, "list": ["a"]}}
            list :: 1|0|a
            """#), [false, true])
    func `the interpreter, and sets`(claim: Claim, interpretsAll: Bool) throws {
        let store = try TestStore(
            """
            {"entities": {
              "A": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
                "list": {"entity": "B", "toMany": true, "ordered": true, "assignment": "replace"},
                "strict": {"entity": "B", "toMany": true, "ordered": true, "assignment": "replace", "missing": "fail"},
                "parts": {"entity": "Part", "toMany": true, "owned": true},
                "owned": {"entity": "Box", "toMany": true, "owned": true}}},
              "B": {"identity": "word", "attributes": {"word": "string", "size": "integer64"}},
              "Part": {"attributes": {"size": "integer64"}},
              "Box": {"identity": "no", "attributes": {"no": "integer64"}, "relationships": {
                "locks": {"entity": "Lock", "toMany": true, "inverse": "box", "deleteRule": "deny"}}},
              "Lock": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
                "box": {"entity": "Box", "inverse": "locks"}}}}}
            """
        ) { $0.interpretsAll = interpretsAll }
        try claim.check(
            store,
            [
                "list": "SELECT source, position, destination FROM A_list ORDER BY 1, 2",
                "strict": "SELECT source, position, destination FROM A_strict ORDER BY 1, 2",
            ])
    }

    private static func end(
        of operations: String, _ policy: InvalidRecordPolicy, _ store: TestStore
    ) throws -> [String] {
        switch try store.apply(store.job(operations: operations, policy)) {
        case .completed(let outcome): return outcome.described.sorted() + outcome.rejections.sorted()
        case .failed(let fault): return [fault.code.rawValue]
        case .conflict, .duplicate: return ["not applied"]
        }
    }
}

/// Random operations on few objects.
private struct RandomOperations {
    var generator: SeededGenerator

    mutating func job() -> String {
        (0..<Int.random(in: 1...3, using: &generator)).map { _ in operation() }.joined(separator: ", ")
    }

    private mutating func operation() -> String {
        let entity = ["Person", "Person", "Manager", "Team", "Desk", "Note", "Item", "Item", "Group"].randomElement(
            using: &generator)!
        switch Int.random(in: 0..<14, using: &generator) {
        case 0: return #"{"op": "delete", "entity": "Person", "objects": [\#(key()), \#(key())]}"#
        case 1:
            return #"{"op": "sync", "entity": "Person", "where": "id > 6", "json": [\#(record("Person", depth: 1))]}"#
        default:
            let records = (0..<Int.random(in: 1...3, using: &generator)).map { _ in record(entity, depth: 0) }
            return #"{"entity": "\#(entity)", "json": [\#(records.joined(separator: ", "))]}"#
        }
    }

    private mutating func record(_ entity: String, depth: Int) -> String {
        var members: [String] = []
        if entity == "Note" {
            members.append(#""text": "t""#)
            if chance(2) { members.append(#""about": \#(key())"#) }
            return "{\(members.joined(separator: ", "))}"
        }
        members.append(#""id": \#(chance(20) ? #""none""# : "\(key())")"#)
        switch entity {
        case "Team":
            if chance(2) { members.append(#""title": \#(chance(8) ? "null" : #""t""#)"#) }
            if chance(2), depth < 2 { members.append(#""members": \#(list { $0.person(depth) })"#) }
        case "Desk":
            if chance(2) { members.append(#""room": "r\#(key())""#) }
            if chance(3) { members.append(#""owner": \#(chance(3) ? "null" : "\(key())")"#) }
        case "Item": addItem(&members, depth)
        case "Part": if chance(2) { members.append(#""size": \#(key())"#) }
        case "Group":
            if chance(2) { members.append(#""title": "g\#(key())""#) }
            if chance(2), depth < 2 { members.append(#""items": \#(list { $0.item(depth) })"#) }
        default: addPerson(entity, &members, depth)
        }
        return "{\(members.joined(separator: ", "))}"
    }

    private mutating func addItem(_ members: inout [String], _ depth: Int) {
        if chance(2) { members.append(#""at": \#(key())"#) }
        if chance(2) { members.append(#""name": "i\#(key())""#) }
        if chance(12) { members.append(#""gone": true"#) }
        if chance(4) { members.append(#""kind": "x""#) }
        if chance(3) { members.append(#""group": \#(chance(3) ? "null" : #"{"id": \#(key()), "title": "u"}"#)"#) }
        if chance(3), depth < 2 { members.append(#""parts": \#(list { $0.record("Part", depth: 2) })"#) }
        if chance(3) { members.append(#""next": \#(list { "\($0.key())" })"#) }
    }

    private mutating func addPerson(_ entity: String, _ members: inout [String], _ depth: Int) {
        if chance(2) { members.append(#""name": "n\#(key())""#) }
        if chance(4) { members.append(#""code": "c\#(key())""#) }
        if chance(5) { members.append(#""grade": \#(chance(6) ? "12" : "7")"#) }
        if chance(4), entity == "Manager" { members.append(#""level": 3"#) }
        if chance(3) { members.append(#""team": \#(chance(3) ? "null" : team())"#) }
        if chance(4) { members.append(#""tags": \#(list { #""w\#($0.key())""# })"#) }
        if chance(5) { members.append(#""friends": \#(list { "\($0.key())" })"#) }
        if chance(5) { members.append(#""desk": \#(key())"#) }
        if chance(5) { members.append(#""lines": \#(list { #"{"sku": "s\#($0.key())"}"# })"#) }
    }

    /// A record of a team.
    private mutating func team() -> String { #"{"id": \#(key()), "title": "u"}"# }

    private mutating func person(_ depth: Int) -> String {
        chance(2) ? record("Person", depth: depth + 1) : "\(key())"
    }

    private mutating func item(_ depth: Int) -> String {
        chance(2) ? record("Item", depth: depth + 1) : "\(key())"
    }

    private mutating func list(_ element: (inout RandomOperations) -> String) -> String {
        if chance(6) { return "null" }
        return "[" + (0..<Int.random(in: 0...3, using: &generator)).map { _ in element(&self) }.joined(separator: ", ")
            + "]"
    }

    private mutating func key() -> Int { Int.random(in: 1...12, using: &generator) }

    private mutating func chance(_ one: Int) -> Bool { Int.random(in: 0..<one, using: &generator) == 0 }
}
