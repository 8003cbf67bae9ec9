import BrokerModel
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

    @Test func `a unique value that cannot be missing meanwhile is taken at the turn of its record, also with fail`()
        throws
    {
        let model = """
            {"entities": {"E": {"identity": "id", "modified": "at", "unique": ["at"],
              "attributes": {"id": "integer64", "at": "integer64"}}}}
            """
        let store = try TestStore(model)
        try store.apply(#"{"E": [{"id": 4, "at": 10}, {"id": 7, "at": 5}]}"#)
        let fault = try store.fault(#"{"E": [{"id": 7, "at": 10}, {"id": 4, "at": 20}]}"#)
        #expect(fault?.code == .constraintViolation)
        #expect(fault?.path == "/E/0/at" || fault?.path == "/E/0")
        #expect(try store.changes(#"{"E": [{"id": 4, "at": 20}, {"id": 7, "at": 10}]}"#) == "E ~2")
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

/// Jobs that are applied together become what they become one after the other.
@Suite(.mergesSets, .timeLimit(.minutes(5))) struct BatchMergeTests {
    private static let model = """
        {"entities": {
          "Thing": {"identity": "key", "unique": [["code"]], "attributes": {
              "key": "string", "name": {"type": "string", "optional": false}, "code": "string",
              "level": {"type": "integer32", "default": 7, "indexed": true}, "score": "double"}, "relationships": {
              "place": {"entity": "Place"}, "note": {"entity": "Note"},
              "tags": {"entity": "Tag", "toMany": true, "inverse": "things"},
              "parent": {"entity": "Thing", "inverse": "children"},
              "children": {"entity": "Thing", "toMany": true, "inverse": "parent"}}},
          "Place": {"identity": ["land", "town"], "attributes": {"land": "double", "town": "integer32", "size": "integer64"}},
          "Tag": {"identity": "id", "attributes": {"id": "integer64", "word": "string"}, "relationships": {
              "things": {"entity": "Thing", "toMany": true, "inverse": "tags"}}},
          "Note": {"attributes": {"text": "string"}}}}
        """

    private static let tables = [
        "SELECT key, name, code, level, score, place_land, place_town, note, parent FROM Thing ORDER BY key",
        "SELECT * FROM Place ORDER BY land, town", "SELECT * FROM Tag ORDER BY id", "SELECT * FROM Note ORDER BY _pk",
        "SELECT source, destination FROM Tag_things ORDER BY source, destination",
        "SELECT sequence, id, failed, outcome FROM _broker_jobs ORDER BY sequence",
    ]

    private struct RandomJobs {
        var generator: SeededGenerator
        /// Keys whose things are certainly there, with a name.
        var known = Set<String>()

        mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }

        mutating func any(_ values: [String]) -> String { values.randomElement(using: &generator)! }

        mutating func place() -> String {
            let size = chance(50) ? ", \"size\": \(any(["1", "2", "null"]))" : ""
            return "{\"land\": \(any(["0.0", "-0.0", "1.5"])), \"town\": \(any(["1", "2"]))\(size)}"
        }

        mutating func tag() -> String {
            if chance(40) { return any(["1", "2", "3", "4"]) }
            return "{\"id\": \(any(["1", "2", "3", "4"])), \"word\": \"\(any(["a", "b"]))\"}"
        }

        mutating func thing(_ mistakes: Int) -> String {
            let key = any(["a", "aaaaaaaaB", "aaaaaaaab", "b", "c", "d", "é", "x", "y"])
            var members = ["\"key\": \(chance(mistakes) ? "null" : "\"\(key)\"")"]
            if chance(80) || !known.contains(key) && !chance(mistakes) {
                members.append("\"name\": \"\(any(["n", "m"]))\"")
            }
            if chance(30) { members.append("\"code\": \(chance(mistakes) ? "\"z\"" : "\"\(key)\"")") }
            if chance(30) { members.append("\"level\": \(any(["1", "2", "null"]))") }
            if chance(30) { members.append("\"score\": \(chance(mistakes) ? "\"wrong\"" : any(["1", "2.5"]))") }
            if chance(40) { members.append("\"place\": \(chance(20) ? "null" : place())") }
            if chance(20) { members.append("\"note\": {\"text\": \"\(any(["t", "u"]))\"}") }
            if chance(40) { members.append("\"tags\": [\(tag()), \(tag())]") }
            if chance(20) { members.append("\"parent\": \"\(any(["a", "b", "c"]))\"") }
            return "{\(members.joined(separator: ", "))}"
        }

        mutating func job(_ mistakes: Int) -> String {
            let records = (0..<Int.random(in: 0...4, using: &generator)).map { _ in thing(mistakes) }
            let tags = (0..<Int.random(in: 0...3, using: &generator)).map { _ in tag() }.filter { $0.hasPrefix("{") }
            return "{\"Thing\": [\(records.joined(separator: ","))], \"Tag\": [\(tags.joined(separator: ","))]}"
        }
    }

    private static func described(_ end: JobOutcome) -> String {
        switch end {
        case .completed(let outcome):
            ([outcome.summary] + outcome.rejections
                + outcome.warnings.map { "\($0.entity).\($0.key ?? "") \($0.count)" })
                .joined(separator: "; ")
        case .failed(let fault): "failed \(fault.code) \(fault.path ?? "")"
        case .duplicate(let outcome): "duplicate of \(outcome.sequence)"
        case .conflict(_, let outcome): "conflict with \(outcome.sequence)"
        }
    }

    /// Where values are unique, the rows of an entity are merged job by job.
    private static var modelWithoutUnique: String { model.replacing(#""unique": [["code"]], "#, with: "") }

    @Test(arguments: [0, 3], [model, modelWithoutUnique])
    func `random jobs together become what they become one by one`(mistakes: Int, model: String) throws {
        var random = RandomJobs(generator: SeededGenerator(for: "jobs together"))
        var (joined, all) = (0, 0)
        for _ in 0..<Cases.count(4, of: 12) {
            let together = try TestStore(model) { $0.synchronous = .off }
            let alone = try TestStore(model) { $0.synchronous = .off }
            if random.chance(50) { together.store.merger.rowsWithoutChecks = 0 }
            var sent: [(payload: String, id: String)] = []
            for _ in 0..<12 {
                let batch = (0..<Int.random(in: 1...8, using: &random.generator)).map { _ in
                    if random.chance(5), let again = sent.randomElement(using: &random.generator) { return again }
                    sent.append((random.job(mistakes), "id \(sent.count)"))
                    return sent[sent.count - 1]
                }
                let policy = random.chance(50) ? InvalidRecordPolicy.fail : .skip
                let expected = try batch.map { Self.described(try alone.apply($0.payload, id: $0.id, policy)) }
                let jobs = try batch.map { try together.job($0.payload, id: $0.id, policy) }
                all += 1
                if let ends = try together.applyBatch(jobs) {
                    joined += 1
                    #expect(ends.map(Self.described) == expected, "\(batch)")
                } else {
                    for (job, expected) in zip(jobs, expected) {
                        #expect(Self.described(try together.apply(job)) == expected, "\(batch)")
                    }
                }
                for sql in Self.tables { #expect(try together.rows(sql) == alone.rows(sql), "\(sql) after \(batch)") }
            }
            #expect(try together.isSound())
        }
        // With mistakes some cannot go together, which is to be tried, too.
        #expect(mistakes == 0 ? joined > all / 3 : joined > 0 && joined < all, "\(joined) of \(all)")
    }

    @Test func `rows of one object in several jobs take effect in the order of the jobs`() throws {
        let test = try TestStore(Self.model)
        try test.apply(#"{"Thing": [{"key": "b", "name": "n", "level": 1}]}"#)
        let payloads = [
            #"{"Thing": [{"key": "b", "level": 2}, {"key": "a", "name": "new"}]}"#,
            #"{"Thing": [{"key": "b", "name": "m"}]}"#,
            #"{"Thing": [{"key": "b", "level": 3}, {"key": "a", "level": 7}]}"#,
            #"{"Thing": [{"key": "b", "level": 3, "name": "m"}]}"#,
        ]
        let ends = try test.applyBatch(payloads.map { try test.job($0) })
        #expect(
            ends?.map(Self.described) == [
                "Thing +1 ~1", "Thing ~1", "Thing ~1 =1",
                "Thing =1",
            ])
        #expect(try test.rows("SELECT key, name, level FROM Thing ORDER BY key") == ["a|new|7", "b|m|3"])
    }

    @Test func `foreign keys that a large batch does not check act on the jobs after it`() throws {
        let test = try TestStore(Self.modelWithoutUnique)
        let things = (0..<2_000).map { #"{"key": "\#($0)", "name": "n", "place": {"land": 1.5, "town": \#($0 % 7)}}"# }
        let ends = try test.applyBatch([test.job(payload("Thing", things))])
        #expect(ends?.map(Self.described) == ["Place +7, Thing +2000"])
        #expect(try test.store.connection.integer("PRAGMA foreign_keys") == 0, "the batch was large")
        #expect(try test.isSound())
        try test.run(#"{"op": "delete", "entity": "Place", "where": "town == 3"}"#)
        #expect(try test.rows("SELECT count(*) FROM Thing WHERE place_town = 3") == ["0"])
        #expect(try test.isSound())
    }

    @Test func `a job at fault leaves nothing of those that were tried with it`() throws {
        let test = try TestStore(Self.model)
        try test.apply(#"{"Thing": [{"key": "a", "name": "n", "code": "x"}]}"#)
        let jobs = try [
            #"{"Thing": [{"key": "b", "name": "n", "note": {"text": "t"}}]}"#,
            #"{"Thing": [{"key": "c", "name": "n", "code": "x"}]}"#,
        ].map { try test.job($0) }
        let ends = try test.applyBatch(jobs)
        #expect(ends == nil)
        #expect(try test.rows("SELECT key FROM Thing") == ["a"])
        #expect(try test.rows("SELECT count(*) FROM _broker_jobs") == ["1"])
        #expect(Self.described(try test.apply(jobs[0])) == "Note +1, Thing +1")
        #expect(Self.described(try test.apply(jobs[1])).hasPrefix("failed constraintViolation"))
        #expect(try test.rows("SELECT _pk FROM Note") == ["1"], "no key of the store's own is lost")
    }

    /// An entity `A`, a record of it, and what makes it depend on more than the values of its objects' rows.
    @Test(arguments: [
        (#""twin": {"entity": "B", "inverse": "twin"}"#, #"{"id": 1, "twin": {"id": 2}}"#, ""),
        (#""must": {"entity": "B", "missing": "fail"}"#, #"{"id": 1, "must": 2}"#, ""),
        (#""may": {"entity": "B", "missing": "ignore"}"#, #"{"id": 1, "may": 2}"#, ""),
        (#""all": {"entity": "B", "toMany": true, "assignment": "replace"}"#, #"{"id": 1, "all": []}"#, ""),
        (#""in": {"entity": "B", "toMany": true, "ordered": true}"#, #"{"id": 1, "in": [2, 3]}"#, ""),
        ("", #"{"id": 1}"#, #", "modified": "n""#), ("", #"{"id": 1}"#, #", "identityOptional": true"#),
        ("", #"{"id": 1, "n": 0}"#, #", "tombstone": "n == 0""#),
    ])
    func `jobs whose result depends on more than the rows of their objects are not merged together`(
        relationship: String, record: String, more: String
    ) throws {
        let test = try TestStore(
            """
            {"entities": {
              "A": {"identity": "id", "attributes": {"id": "integer64", "n": "integer64"}, "relationships": {\(relationship)}\(more)},
              "B": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
                \(relationship.contains("twin") ? #""twin": {"entity": "A", "inverse": "twin"}"# : "")}}
            }}
            """)
        #expect(!test.store.canJoin(try test.job(#"{"A": [\#(record)]}"#)))
        guard !relationship.contains("twin") else { return }
        #expect(test.store.canJoin(try test.job(#"{"B": [{"id": 1}]}"#)))
    }

    @Test func `a unique value that a later job gives up is not free for an earlier one`() throws {
        let test = try TestStore(Self.model)
        try test.apply(#"{"Thing": [{"key": "a", "name": "n", "code": "x"}]}"#)
        let jobs = try [
            #"{"Thing": [{"key": "b", "name": "n", "code": "x"}]}"#, #"{"Thing": [{"key": "a", "code": "y"}]}"#,
        ].map { try test.job($0) }
        #expect(try test.applyBatch(jobs) == nil)
        let back = try test.applyBatch([jobs[1], jobs[0]])
        #expect(back?.map(Self.described) == ["Thing ~1", "Thing +1"])
    }

    @Test func `a job that is sent twice in one transaction is applied once`() throws {
        let test = try TestStore(Self.model)
        let payload = #"{"Note": [{"text": "once"}]}"#
        let jobs = try [
            test.job(payload, id: "same"), test.job(payload, id: "same"), test.job(#"{"Note": []}"#, id: "same"),
        ]
        let ends = try test.applyBatch(jobs)
        #expect(ends?.map(Self.described) == ["Note +1", "duplicate of 1", "conflict with 1"])
        #expect(try test.rows("SELECT text FROM Note") == ["once"])
    }
}

/// Where most rows were equal the last time, the rows of jobs that are merged together are compared before any is
/// written.
@Suite(.mergesSets, .timeLimit(.minutes(5))) struct ComparedRowsTests {
    /// The effect of a job that is merged as jobs together are: `Thing +1 ~2 =3 !0`.
    private static func changes(_ test: TestStore, _ payload: String) throws -> String? {
        try test.applyBatch([test.job(payload)])?.first?.outcome?.summary
    }

    @Test func `a new object among equal ones is inserted`() throws {
        let test = try TestStore(
            #"{"entities": {"Thing": {"identity": "id", "attributes": {"id": "integer64", "value": "integer64"}}}}"#)
        let equal = (0..<9).map { #"{"id": \#($0), "value": null}"# }.joined(separator: ",")
        for _ in 0..<3 { _ = try Self.changes(test, "{\"Thing\": [\(equal)]}") }
        let more = #"{"id": 10, "value": null}"#
        #expect(try Self.changes(test, "{\"Thing\": [\(equal), \(more)]}") == "Thing +1 =9")
        #expect(try test.rows("SELECT count(*) FROM Thing") == ["10"])
    }

    @Test func `the work of a job that is merged alone does not depend on the jobs before it`() throws {
        let test = try TestStore(
            #"{"entities": {"Thing": {"identity": "id", "attributes": {"id": "integer64", "value": "integer64"}}}}"#)
        let payload = "{\"Thing\": [\((0..<9).map { #"{"id": \#($0), "value": null}"# }.joined(separator: ","))]}"
        var work: [Int] = []
        for _ in 0..<4 {
            for _ in 0..<3 { _ = try Self.changes(test, payload) }
            try test.apply(payload)
            work.append(test.store.connection.work.newest)
            try test.reopen()
            try test.apply(payload)
            work.append(test.store.connection.work.newest)
        }
        #expect(work[0] > 0 && Set(work).count == 1, "\(work)")
    }
}
