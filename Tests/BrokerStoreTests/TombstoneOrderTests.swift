import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

/// Records and tombstones of one operation take effect in their order, also where a tombstone deletes other objects by
/// cascade, or is held back by `deny`.
@Suite(.timeLimit(.minutes(5))) struct TombstoneOrderTests {
    private static let model = """
        {"entities": {
            "Node": {"identity": "no", "tombstone": "gone == YES",
                "attributes": {"no": "integer64", "text": "string", "gone": "boolean"},
                "relationships": {"to": {"entity": "Node", "deleteRule": "cascade"},
                    "parent": {"entity": "Node", "inverse": "children"},
                    "children": {"entity": "Node", "toMany": true, "inverse": "parent", "deleteRule": "cascade"},
                    "marks": {"entity": "Mark", "toMany": true},
                    "lock": {"entity": "Lock", "inverse": "nodes"}}},
            "Mark": {"identity": "no", "tombstone": "gone == YES",
                "attributes": {"no": "integer64", "gone": "boolean"},
                "relationships": {"of": {"entity": "Node", "toMany": true, "deleteRule": "cascade"}}},
            "Lock": {"identity": "no", "tombstone": "gone == YES",
                "attributes": {"no": "integer64", "gone": "boolean"},
                "relationships": {"nodes": {"entity": "Node", "toMany": true, "inverse": "lock", "deleteRule": "deny"}}}}}
        """

    private func store(_ payload: String = "") throws -> TestStore {
        var options = StoreOptions()
        options.synchronous = .off
        let test = try TestStore(Self.model, options: options)
        if !payload.isEmpty { try test.apply(payload) }
        return test
    }

    private func nodes(_ test: TestStore) throws -> [String] {
        try test.rows("SELECT no, text, \"to\", parent, lock FROM Node ORDER BY no")
    }

    private func links(_ test: TestStore) throws -> [String] {
        try nodes(test)
            + test.rows("SELECT 'marks', source, destination FROM Node_marks ORDER BY 2, 3")
            + test.rows("SELECT 'of', source, destination FROM Mark_of ORDER BY 2, 3")
            + test.rows("SELECT 'mark', no FROM Mark ORDER BY 2")
    }

    @Test(arguments: [
        // The record goes with what it hangs on.
        (#"{"no": 3, "text": "y"}, {"no": 1, "gone": true}"#, ["9|NULL|NULL|NULL|NULL"]),
        // After the tombstone it is a new object.
        (#"{"no": 1, "gone": true}, {"no": 3, "text": "y"}"#, ["3|y|NULL|NULL|NULL", "9|NULL|NULL|NULL|NULL"]),
        (
            #"{"no": 3, "text": "y"}, {"no": 1, "gone": true}, {"no": 3}"#,
            ["3|NULL|NULL|NULL|NULL", "9|NULL|NULL|NULL|NULL"]
        ),
        // It is linked first, or not linked any more.
        (#"{"no": 1, "to": 9}, {"no": 1, "gone": true}, {"no": 8}"#, ["3|b|NULL|NULL|NULL", "8|NULL|NULL|NULL|NULL"]),
        (
            #"{"no": 1, "to": null}, {"no": 1, "gone": true}"#,
            ["3|b|NULL|NULL|NULL", "9|NULL|NULL|NULL|NULL"]
        ),
        // A link that is made after the tombstone is not deleted by it.
        (
            #"{"no": 9, "children": [{"no": 7}]}, {"no": 9, "gone": true}, {"no": 7, "text": "x"}"#,
            ["1|a|3|NULL|NULL", "3|b|NULL|NULL|NULL", "7|x|NULL|NULL|NULL"]
        ),
        (
            #"{"no": 9, "children": [{"no": 7}]}, {"no": 9, "gone": true}, {"no": 9, "text": "x"}"#,
            ["1|a|3|NULL|NULL", "3|b|NULL|NULL|NULL", "9|x|NULL|NULL|NULL"]
        ),
        // Inside a record, after that record.
        (
            #"{"no": 3, "text": "y", "children": [{"no": 1, "gone": true}]}, {"no": 9, "text": "z"}"#,
            ["9|z|NULL|NULL|NULL"]
        ),
    ])
    func `a record before a tombstone is deleted with it by cascade, one after it is not`(
        records: String, expected: [String]
    ) throws {
        let test = try store(#"{"Node": [{"no": 1, "text": "a", "to": {"no": 3, "text": "b"}}, {"no": 9}]}"#)
        try test.apply("{\"Node\": [\(records)]}")
        #expect(try nodes(test) == expected)
        #expect(try test.isSound())
    }

    @Test func `several collections, and rejected records, do not change the order`() throws {
        let test = try store(#"{"Node": [{"no": 1, "to": {"no": 3}}, {"no": 9}], "Mark": [{"no": 1, "of": [9]}]}"#)
        let outcome = try test.outcome(
            #"{"Node": [{"no": 3, "text": "y"}, {"no": "x"}, {"no": 4}, {"no": 9, "text": "z"}], "Mark": [{"no": 1, "gone": true}], "Node": [{"no": 1, "gone": true}, {"no": "y"}, {"no": 9}]}"#,
            .skip)
        #expect(outcome.rejections == ["invalidValue /Node/1/no", "invalidValue /Node/1/no"])
        #expect(try nodes(test) == ["4|NULL|NULL|NULL|NULL", "9|NULL|NULL|NULL|NULL"])
        #expect(outcome.described == ["Mark +0 ~0 =0 !0", "Node +1 ~0 =1 !2"])
        #expect(outcome.changes.map(\.counts.deleted) == [1, 2])
    }

    @Test(arguments: [([0, 1, 2], true), ([2, 1, 0], false), ([1, 0, 2], true)])
    func `deny is judged at each tombstone`(order: [Int], isDenied: Bool) throws {
        let test = try store(#"{"Node": [{"no": 1, "lock": 5, "to": 3}, {"no": 2, "lock": 5}]}"#)
        let tombstones = ["Lock": 5, "Node": 1].map { "\"\($0)\": {\"no\": \($1), \"gone\": true}" }.sorted()
        let all = tombstones + [#""Node": [{"no": 2, "gone": true}]"#]
        let fault = try test.fault("{\(order.map { all[$0] }.joined(separator: ", "))}")
        #expect(fault?.code == (isDenied ? .constraintViolation : nil))
        #expect(try nodes(test).count == (isDenied ? 3 : 0))
        #expect(try test.rows("SELECT count(*) FROM Lock") == [isDenied ? "1" : "0"])
    }

    @Test(arguments: 0..<8)
    func `random records and tombstones leave what they leave as jobs of their own`(round: Int) throws {
        var random = SeededGenerator(seed: UInt64(round) &* 7_919 &+ 1)
        for number in 0..<Cases.count(5, of: 15) {
            func node() -> Int { Int.random(in: 1...5, using: &random) }
            func record() -> (entity: String, json: String) {
                let no = node()
                switch Int.random(in: 0..<10, using: &random) {
                case 0, 1, 2: return ("Node", "{\"no\":\(no),\"gone\":true}")
                case 3: return ("Mark", "{\"no\":\(no),\"gone\":true}")
                case 4: return ("Mark", "{\"no\":\(no),\"of\":[\(node())]}")
                case 5: return ("Node", "{\"no\":\(no),\"marks\":[\(node())],\"text\":\"m\(no)\"}")
                case 6:
                    return ("Node", "{\"no\":\(no),\"parent\":\(Bool.random(using: &random) ? "null" : "\(node())")}")
                case 7: return ("Node", "{\"no\":\(no),\"children\":[{\"no\":\(node()),\"text\":\"c\"}]}")
                case 8: return ("Node", "{\"no\":\(no),\"to\":\(Bool.random(using: &random) ? "null" : "\(node())")}")
                default: return ("Node", "{\"no\":\(no),\"text\":\"t\(Int.random(in: 0..<9, using: &random))\"}")
                }
            }
            let stored = (0..<6).map { _ in record() }
            let sent = (0..<Int.random(in: 2...7, using: &random)).map { _ in record() }
            let (together, apart) = (try store(), try store())
            for (entity, json) in stored {
                for test in [together, apart] { try test.apply("{\"\(entity)\": [\(json)]}") }
            }
            for (entity, json) in sent { try apart.apply("{\"\(entity)\": [\(json)]}") }
            try together.apply("{\(sent.map { "\"\($0)\": [\($1)]" }.joined(separator: ", "))}")
            let (found, expected) = (try links(together), try links(apart))
            #expect(
                found == expected, "round \(round), case \(number): \(stored.map(\.json)), then \(sent.map(\.json))")
            #expect(try together.isSound())
        }
    }

    // MARK: - Inside one record

    @Test func `an element that is deleted and named again in one record is linked, in its place`() throws {
        let relationships = ["\"entity\": \"Item\", \"inverse\": \"list\"", "\"entity\": \"Item\""]
        for (isJoinTable, relationship) in relationships.enumerated() {
            let test = try TestStore(
                """
                {"entities": {
                    "List": {"identity": "no", "attributes": {"no": "integer64"}, "relationships": {
                        "items": {"toMany": true, "ordered": true, \(relationship)},
                        "first": {"entity": "Item"}, "last": {"entity": "Item"}}},
                    "Item": {"identity": "no", "tombstone": "gone == YES",
                        "attributes": {"no": "integer64", "gone": "boolean"},
                        "relationships": {"list": {"entity": "List"\(isJoinTable == 0 ? ", \"inverse\": \"items\"" : "")}}}}}
                """)
            let places =
                isJoinTable == 0
                ? "SELECT no, list_position FROM Item WHERE list = 1 ORDER BY 2"
                : "SELECT destination, position FROM List_items ORDER BY 2"
            let record =
                #"{"no": 1, "first": {"no": 4, "gone": true}, "items": [6, {"no": 5, "gone": true}, {"no": 5}, 7], "last": 4}"#
            for _ in 0..<2 {
                try test.apply("{\"List\": \(record)}")
                let found = try test.rows(places)
                #expect(found.map { $0.split(separator: "|")[0] }.sorted() == ["5", "6", "7"])
                #expect(!found.contains { $0.hasSuffix("NULL") }, "\(found)")
                #expect(try test.rows("SELECT first, last FROM List") == ["NULL|4"])
                #expect(try test.isSound())
            }
        }
    }
}
