import TestSupport
import Testing

/// The objects that `delete` deletes, by the relationships' rules, and its answers.
@Suite(.timeLimit(.minutes(5)), .session) struct DeletionTests {
    private let session = OperationSession.current

    private func delete(_ entity: String, _ keys: String) -> String {
        #"{"op": "delete", "entity": "\#(entity)", "objects": [\#(keys)]}"#
    }

    // MARK: - Rules

    @Test func `nullify ends the links, and the rows that held them count as updated`() throws {
        try session.process(
            "Department", #"{"id": 1, "staff": [{"id": 1}, {"id": 2, "boss": 1}, {"id": 3, "tags": ["t"]}]}"#)
        #expect(try session.job(delete("Department", "1")) == "Department -1, Employee ~3")
        #expect(try session.job(delete("Employee", "1")) == "Employee ~1 -1", "also where there is no inverse")
        #expect(try session.job(delete("Tag", #""t""#)) == "Tag -1", "the other side of a link table has no column")
        #expect(try session.rows("SELECT id, department, boss FROM Employee") == ["2|NULL|NULL", "3|NULL|NULL"])
        #expect(try session.rows("SELECT * FROM Employee_tags") == [])
    }

    @Test func `cascade deletes over all levels, and around a circle`() throws {
        try session.process(
            "Employee",
            #"{"id": 1, "papers": [{"id": 1, "follows": {"id": 2, "follows": {"id": 3, "follows": 1}}}, 9]}"#)
        try session.process("Paper", #"{"id": 10, "follows": 3}"#)
        #expect(try session.job(delete("Employee", "1")) == "Employee -1, Paper ~1 -4")
        #expect(try session.rows("SELECT id, follows FROM Paper") == ["10|NULL"])
        #expect(try session.rows("SELECT count(*) FROM Employee_papers") == ["0"])
    }

    @Test func `deny holds back, unless both sides go in the same operation`() throws {
        try session.process("Room", #"[{"floor": 1, "number": "a", "desks": [1]}, {"floor": 1, "number": "b"}]"#)
        try session.process("Department", #"{"id": 1, "rooms": [{"floor": 1, "number": "a"}]}"#)
        let room = #"{"floor": 1, "number": "a"}"#
        let refused = try session.answer(delete("Room", room))
        #expect(refused.code == "constraintViolation")
        #expect(refused["error.path"] == "/operations/0")
        #expect(refused["error.message"]?.contains("desks") == true)
        #expect(try session.job(delete("Department", "1")) == "constraintViolation /operations/0", "also what cascades")
        #expect(try session.rows("SELECT count(*) FROM Room") == ["2"])
        #expect(
            try session.job(delete("Desk", "1") + ", " + delete("Department", "1"))
                == "Department -1, Desk -1, Room -1")
    }

    @Test func `noAction leaves the link, so the job must not`() throws {
        try session.process("Department", #"{"id": 1, "safe": {"id": 5}}"#)
        #expect(try session.job(delete("Department", "1")) == "constraintViolation ")
        #expect(
            try session.job(delete("Department", "1") + #", {"entity": "Safe", "json": {"id": 5, "owner": null}}"#)
                == "Department -1, Safe ~1")
        #expect(try session.rows("SELECT id, owner FROM Safe") == ["5|NULL"])
    }

    @Test func `an object inserted after a deletion is new, also where the server has inserted none before`()
        async throws
    {
        let other = try Locker(session.storePath)
        try other.execute("INSERT INTO Note (text) VALUES ('a'), ('b')")
        try other.execute("COMMIT")
        let all = #"{"op": "delete", "entity": "Note", "where": "TRUEPREDICATE"}"#
        #expect(try session.job(all + #", {"entity": "Note", "json": {"text": "c"}}"#) == "Note +1 -2")
        #expect(try session.rows("SELECT text FROM Note") == ["c"])
    }

    // MARK: - Which objects

    @Test func `keys that name nothing are counted in one warning`() throws {
        try session.process("Tag", #"[{"word": "a"}, {"word": "b"}]"#)
        let answer = try session.answer(delete("Tag", #""a", "x", "y", "a""#))
        #expect(answer["changes.Tag.deleted"] == "1")
        #expect(answer["keys.Tag.deleted"] == #"["a"]"#)
        #expect(answer["warnings.0.code"] == "objectNotFound")
        #expect(answer["warnings.0.entity"] == "Tag")
        #expect(answer["warnings.0.count"] == "2")
        #expect(try session.job(delete("Employee", #"1, "x""#)) == "invalidValue /operations/0/objects/1")
        let skipped = try session.answer(delete("Employee", #"1, "x""#), #", "onInvalid": "skip""#)
        #expect(skipped["rejected.0.path"] == "/operations/0/objects/1")
    }

    @Test func `a predicate selects what is deleted`() throws {
        try session.process(
            "Department",
            #"[{"id": 1, "name": "R&D", "staff": [{"id": 1, "age": 30}, {"id": 2}]}, {"id": 2, "staff": [{"id": 3}]}]"#
        )
        let delete = #""op": "delete", "entity": "Employee", "where""#
        #expect(
            try session.job("{\(delete): \"department.name == %@ AND age != 30\", \"arguments\": [\"R&D\"]}")
                == "Employee -1")
        #expect(try session.job("{\(delete): \"age > 99\"}") == "")
        #expect(try session.job("{\(delete): \"agee > 99\"}") == "invalidPredicate /operations/0/where")
        #expect(try session.job("{\(delete): \"TRUEPREDICATE\"}") == "Employee -2")
    }

    @Test func `a text that is too long for a pattern fails its job alone, and changes nothing`() throws {
        let long = String(repeating: "a", count: 300_000) + "!"
        let records = (0..<3).map { "{\"id\": \($0), \"name\": \"\(long)\"}" }.joined(separator: ",")
        try session.process("Employee", "[\(records)]")
        let delete = #"{"op": "delete", "entity": "Employee", "where": "name MATCHES '(a|b)*a(a|b){900}c'"}"#
        #expect(try session.job(delete) == "invalidPredicate /operations/0/where")
        #expect(try session.rows("SELECT count(*) FROM Employee") == ["3"])
        #expect(try session.job(#"{"entity": "Tag", "json": {"word": "after"}}"#) == "Tag +1")
    }

    // MARK: - Counting

    @Test(arguments: ["keys", "summary"])
    func `an object counts once, whatever happened to it on the way`(reply: String) throws {
        try session.process(
            "Department",
            #"{"id": 1, "staff": [{"id": 1, "boss": 2, "papers": [1]}, {"id": 2, "boss": 1}, {"id": 3, "boss": 1}]}"#
        )
        let all = #"{"op": "delete", "entity": "Employee", "where": "id < 3"}"#
        // 1 and 2 lose their bosses before they go themselves; 3 loses one and stays.
        #expect(try session.job(all, reply: reply) == "Employee ~1 -2, Paper -1")
        try session.process("Employee", #"[{"id": 1, "boss": 3}, {"id": 4}]"#)
        let made =
            #"{"entity": "Employee", "json": [{"id": 5, "boss": 4}, {"id": 4, "age": 1}, {"id": 3, "age": 2}]}"#
        let gone = #"{"op": "delete", "entity": "Employee", "objects": [4, 3]}"#
        // 5 is new and loses its boss again; 4 and 3 were changed and go; 1 loses its boss.
        #expect(try session.job(made + ", " + gone, reply: reply) == "Employee +1 ~1 -2")
        #expect(try session.rows("SELECT id, boss FROM Employee ORDER BY id") == ["1|NULL", "5|NULL"])
    }

    @Test(arguments: ["keys", "summary"])
    func `an object that the first operation changed and a later one changed back is unchanged`(reply: String)
        async throws
    {
        try session.process("Employee", #"[{"id": 1, "name": "a"}, {"id": 2}]"#)
        let back = try session.job(
            #"{"entity": "Employee", "json": [{"id": 1, "name": "b"}, {"id": 2, "department": 7}]}, "#
                + #"{"op": "delete", "entity": "Department", "objects": [7]}, "#
                + #"{"entity": "Employee", "json": {"id": 1, "name": "a"}}"#, reply: reply)
        #expect(back == "Employee =2")
        let unnamed = try session.job(
            #"{"op": "sync", "entity": "Employee", "json": [{"id": 1, "boss": 3}, {"id": 2}], "where": "id > 2"}"#,
            reply: reply)
        #expect(unnamed == "Employee +1 ~1 =1", "3 is named")
        let gone = try session.job(
            #"{"entity": "Employee", "json": {"id": 2, "boss": {"id": 4}}}, "# + delete("Employee", "4"),
            reply: reply)
        #expect(gone == "Employee =1")
    }

    @Test func `a one-to-one link that one operation ends and a later one makes again changes nothing`() throws {
        try session.process("Department", #"[{"id": 1, "safe": {"id": 5}}, {"id": 2}]"#)
        let back = try session.job(
            #"{"entity": "Safe", "json": [{"id": 6, "owner": 1}, {"id": 5}]}, "#
                + #"{"op": "relate", "entity": "Safe", "object": 5, "relationship": "owner", "json": 1}"#)
        #expect(back == "Department =1, Safe +1 =1")
        #expect(try session.rows("SELECT id, owner FROM Safe") == ["5|1", "6|NULL"])
    }
}

private let cascadeModel = """
    {"entities": {
      "Node": {
        "identity": "no", "tombstone": "gone == YES", "attributes": {"no": "integer64", "gone": "boolean"},
        "relationships": {
          "parent": {"entity": "Node", "inverse": "children"},
          "children": {"entity": "Node", "toMany": true, "inverse": "parent", "deleteRule": "cascade"},
          "follower": {"entity": "Node", "deleteRule": "cascade"},
          "seen": {"entity": "Node"}}},
      "Pair": {
        "identity": "no", "attributes": {"no": "integer64"},
        "relationships": {
          "next": {"entity": "Pair", "inverse": "last", "deleteRule": "cascade"},
          "last": {"entity": "Pair", "inverse": "next", "deleteRule": "cascade"}}},
      "Cell": {
        "identity": ["x", "y"], "attributes": {"x": "integer64", "y": "string"},
        "relationships": {
          "above": {"entity": "Cell", "inverse": "below"},
          "below": {"entity": "Cell", "toMany": true, "inverse": "above", "deleteRule": "cascade"}}},
      "Branch": {
        "identity": "no", "attributes": {"no": "integer64"},
        "relationships": {
          "twig": {"entity": "Twig", "inverse": "branches"},
          "twigs": {"entity": "Twig", "toMany": true, "inverse": "branch", "deleteRule": "cascade"}}},
      "Twig": {
        "identity": "name", "identityOptional": true, "attributes": {"name": "string"},
        "relationships": {
          "branch": {"entity": "Branch", "inverse": "twigs"},
          "branches": {"entity": "Branch", "toMany": true, "inverse": "twig", "deleteRule": "cascade"}}},
      "Person": {
        "identity": "no", "attributes": {"no": "integer64"},
        "relationships": {"boss": {"entity": "Chief", "inverse": "staff"}}},
      "Chief": {
        "parent": "Person",
        "relationships": {"staff": {"entity": "Person", "toMany": true, "inverse": "boss", "deleteRule": "cascade"}}}
    }}
    """

/// Deletions that cascade over more levels than SQLite runs one trigger inside the other (1,000).
@Suite(.timeLimit(.minutes(5)), .session(cascadeModel)) struct DeepCascadeTests {
    private let session = OperationSession.current

    private static let count = 1_200

    /// Objects that hang one on the other, and how the first one is named.
    struct Chain: CustomTestStringConvertible {
        let testDescription: String
        let collections: String
        let entity: String
        let first: String
        let deleted: [String: Int]

        static func records(_ record: (Int) -> String) -> String {
            "[" + (0..<DeepCascadeTests.count).map(record).joined(separator: ",") + "]"
        }
    }

    private static let chains: [Chain] = {
        func node(_ link: String, _ loop: Int?) -> String {
            Chain.records { number in
                let linked = number == 0 ? loop : number - 1
                return "{\"no\":\(number)" + (linked.map { ",\"\(link)\":\($0)" } ?? "") + "}"
            }
        }
        let last = count - 1
        return [
            Chain(
                testDescription: "children", collections: "\"Node\": \(node("parent", nil))", entity: "Node",
                first: "0", deleted: ["Node": count]),
            Chain(
                testDescription: "a circle of children", collections: "\"Node\": \(node("parent", last))",
                entity: "Node", first: "7", deleted: ["Node": count]),
            Chain(
                testDescription: "links without inverses", collections: "\"Node\": \(node("follower", last))",
                entity: "Node", first: "7", deleted: ["Node": count]),
            Chain(
                testDescription: "one-to-one pairs in a circle", collections: "\"Pair\": \(node("last", last))",
                entity: "Pair", first: "9", deleted: ["Pair": count]),
            Chain(
                testDescription: "compound identities",
                collections: "\"Cell\": "
                    + Chain.records { number in
                        "{\"x\":\(number),\"y\":\"a\""
                            + (number == 0 ? "}" : ",\"above\":{\"x\":\(number - 1),\"y\":\"a\"}}")
                    }, entity: "Cell", first: #"{"x": 0, "y": "a"}"#, deleted: ["Cell": count]),
            Chain(
                testDescription: "two entities in turns, in a circle",
                collections: "\"Branch\": "
                    + Chain.records { "{\"no\":\($0),\"twig\":\"\(($0 + last) % count)\"}" } + ", \"Twig\": "
                    + Chain.records { "{\"name\":\"\($0)\",\"branch\":\($0)}" }, entity: "Branch", first: "3",
                deleted: ["Branch": count, "Twig": count]),
            Chain(
                testDescription: "a hierarchy", collections: "\"Chief\": \(node("boss", last))", entity: "Chief",
                first: "0", deleted: ["Chief": count]),
        ]
    }()

    private func expectDeleted(_ answer: Message, _ deleted: [String: Int]) {
        #expect(answer.type == "completed", "\(answer.text)")
        for (entity, count) in deleted { #expect(answer["changes.\(entity).deleted"] == "\(count)") }
    }

    @Test(arguments: chains, ["keys", "summary"])
    func `a cascade goes over any number of levels`(chain: Chain, reply: String) throws {
        let made = try session.client.ask("{\"collections\": {\(chain.collections)}}")
        #expect(made.type == "completed", "\(made.text.prefix(500))")
        try #require(session.client.ask(#"{"entity": "Node", "json": {"no": 1000000, "seen": 5}}"#).type == "completed")
        let delete = #""op": "delete", "entity": "\#(chain.entity)", "reply": "\#(reply)""#
        expectDeleted(try session.client.ask("{\(delete), \"objects\": [\(chain.first)]}"), chain.deleted)
        for entity in chain.deleted.keys {
            let table = entity == "Chief" ? "Person" : entity
            #expect(try session.rows("SELECT * FROM \(table) WHERE rowid <> 1000000 LIMIT 1") == [])
        }
        // All of them are named, so that none is found by another.
        #expect(try session.client.ask("{\"collections\": {\(chain.collections)}}").type == "completed")
        expectDeleted(
            try session.client.ask("{\(delete), \"where\": \"TRUEPREDICATE\"}"),
            chain.deleted.merging(chain.entity == "Node" ? ["Node": Self.count + 1] : [:]) { $1 })
        #expect(try session.rows("PRAGMA foreign_key_check") == [])
    }

    @Test func `a tombstone, a sync and nested records that make a chain cascade as deep`() throws {
        let chain = Self.chains[0].collections
        #expect(try session.client.ask("{\"collections\": {\(chain)}}").type == "completed")
        expectDeleted(
            try session.client.ask(#"{"entity": "Node", "json": [{"no": 0, "gone": true}]}"#), ["Node": Self.count])
        #expect(try session.client.ask("{\"collections\": {\(chain)}}").type == "completed")
        expectDeleted(
            try session.client.ask(
                #"{"op": "sync", "entity": "Node", "json": [{"no": 0}, {"no": 9, "parent": null}]}"#),
            ["Node": Self.count - 2])
        #expect(try session.rows("SELECT no FROM Node ORDER BY 1") == ["0", "9"])
        // 250 levels in each message.
        for start in stride(from: 0, to: 1_250, by: 250) {
            let opening = (start..<start + 250).map { "{\"no\":\($0),\"children\":[" }.joined()
            let json = opening + "\(start + 250)" + String(repeating: "]}", count: 250)
            #expect(try session.client.ask("{\"entity\":\"Node\",\"json\":\(json)}").type == "completed")
        }
        expectDeleted(try session.client.ask(#"{"op": "delete", "entity": "Node", "objects": [0]}"#), ["Node": 1_251])
    }

    private static let lockModel = """
        {"entities": {"Node": {"identity": "no", "attributes": {"no": "integer64"}, "relationships": {
          "parent": {"entity": "Node", "inverse": "children"},
          "children": {"entity": "Node", "toMany": true, "inverse": "parent", "deleteRule": "cascade"},
          "lock": {"entity": "Lock", "deleteRule": "deny"}}},
         "Lock": {"identity": "no", "attributes": {"no": "integer64"}}}}
        """

    @Test(.session(lockModel)) func `a deny at the end of a long chain holds back all of it`() throws {
        let records = Chain.records {
            "{\"no\":\($0)" + ($0 == 0 ? "" : ",\"parent\":\($0 - 1)")
                + ($0 == Self.count - 1 ? ",\"lock\":1}" : "}")
        }
        #expect(try session.client.ask("{\"entity\":\"Node\",\"json\":\(records)}").type == "completed")
        let refused = try session.client.ask(#"{"op": "delete", "entity": "Node", "objects": [0]}"#)
        #expect(refused.code == "constraintViolation")
        #expect(try session.rows("SELECT count(parent) FROM Node") == ["\(Self.count - 1)"])
        let both =
            #"[{"op": "delete", "entity": "Lock", "objects": [1]}, {"op": "delete", "entity": "Node", "objects": [0]}]"#
        expectDeleted(try session.client.ask("{\"operations\": \(both)}"), ["Node": Self.count, "Lock": 1])
    }

    @Test func `objects and a sync regard all records where they take effect one after the other`()
        async throws
    {
        let stored = #"[{"no": 1, "follower": {"no": 3}}, {"no": 5}, {"no": 6}]"#
        #expect(try session.client.ask(#"{"entity": "Node", "json": \#(stored)}"#).type == "completed")
        let processed = try session.client.ask(
            #"{"reply": "objects", "operations": [{"entity": "Node", "json": [{"no": 3, "seen": 5}, {"no": 1, "gone": true}]}, {"entity": "Node", "json": []}, {"entity": "Node", "json": [{"no": 3}, {"no": 5, "seen": 3}]}]}"#
        )
        let three = #"{"no":3,"gone":null,"parent":null,"follower":null,"seen":null}"#
        let five = #"{"no":5,"gone":null,"parent":null,"follower":null,"seen":3}"#
        #expect(processed["objects"] == "[[\(three),null],[],[\(three),\(five)]]", "\(processed.text)")
        #expect(try session.client.ask(#"{"entity": "Node", "json": \#(stored)}"#).type == "completed")
        let synced = try session.client.ask(
            #"{"op": "sync", "entity": "Node", "json": [{"no": 3, "seen": 5}, {"no": 1, "gone": true}, {"no": 5}, {"no": 7}, {"no": 3}]}"#
        )
        #expect(synced["changes.Node.deleted"] == "2", "\(synced.text)")
        #expect(try session.rows("SELECT no, seen FROM Node ORDER BY 1") == ["3|NULL", "5|NULL", "7|NULL"])
    }
}
