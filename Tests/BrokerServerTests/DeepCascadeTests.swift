import TestSupport
import Testing

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
