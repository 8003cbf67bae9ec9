import Foundation
import Testing

@testable import BrokerSchema
@testable import BrokerStore

/// Parts that a model loses are refused, retained or dropped, by option.
@Suite(.timeLimit(.minutes(5))) struct RetainedPartsTests {
    private static let before = """
        {"entities": {
          "Person": {"identity": "id", "unique": [["name", "nick"]],
            "attributes": {"id": "integer64", "name": "string", "nick": {"type": "string", "indexed": true}},
            "relationships": {
              "home": {"entity": "Place", "inverse": "people"}, "pets": {"entity": "Pet", "toMany": true}}},
          "Pet": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {"kennel": {"entity": "Place"}}},
          "Place": {"identity": "code", "attributes": {"code": "string"}, "relationships": {
            "people": {"entity": "Person", "toMany": true, "ordered": true, "inverse": "home"}}}}}
        """
    /// Without `nick`, `home`, `people`, `pets` and `Pet`.
    private static let after = """
        {"entities": {
          "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}},
          "Place": {"identity": "code", "attributes": {"code": "string"}}}}
        """

    private func store() throws -> TestStore {
        let store = try TestStore(Self.before)
        _ = try store.outcome(
            #"""
            {"Person": [{"id": 1, "name": "a", "nick": "x", "home": "H", "pets": [{"id": 7, "kennel": "K"}]},
              {"id": 2, "name": "b", "home": "H"}]}
            """#)
        return store
    }

    private static let everything = """
        SELECT id, name, nick, home, home_position FROM Person UNION ALL SELECT source, destination, 0, 0, 0 FROM Person_pets
        UNION ALL SELECT id, kennel, 0, 0, 0 FROM Pet ORDER BY 1, 2
        """

    @Test func `the model can be rolled back to retained parts, with every value`() throws {
        let store = try store()
        try store.reopen(Self.after, removal: .keep)
        #expect(
            store.store.migration.changes.map { "\($0.verdict) \($0.subject)" } == [
                "kept Person.nick", "kept Person.home", "kept Person.pets", "kept Pet", "kept Place.people",
            ])
        #expect(try store.changes(#"{"Person": [{"id": 2, "name": "c"}, {"id": 3, "name": "a"}]}"#) == "Person +1 ~1")
        #expect(throws: StoreError.self, "a difference that is not asked for is refused as ever") {
            try store.reopen(#"{"entities": {"Person": {"identity": "id", "attributes": {"id": "integer64"}}}}"#)
        }
        // A part that was retained once stays retained without the option.
        try store.reopen(Self.after)
        #expect(store.store.migration.changes.isEmpty)
        try store.reopen(Self.before)
        #expect(store.store.migration.changes.map(\.verdict).allSatisfy { $0 == .migrated })
        #expect(
            try store.rows(Self.everything) == [
                "1|7|0|0|0", "1|a|x|H|0", "2|c|NULL|H|1", "3|a|NULL|NULL|NULL", "7|K|0|0|0",
            ])
        #expect(try store.rows("SELECT key FROM _broker_meta WHERE key = 'heldModel'") == [])
        let fresh = try TestStore(Self.before)
        let schema = "SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2"
        #expect(try store.rows(schema) == fresh.rows(schema))
        #expect(try store.isSound())
    }

    @Test func `a dropped part is gone, whether it was retained before or not`() throws {
        for keepsFirst in [false, true] {
            let store = try store()
            if keepsFirst { try store.reopen(Self.after, removal: .keep) }
            try store.reopen(Self.after, removal: .drop)
            #expect(store.store.migration.changes.map(\.verdict) == Array(repeating: .dropped, count: 5))
            let fresh = try TestStore(Self.after)
            let schema = "SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2"
            #expect(try store.rows(schema) == fresh.rows(schema))
            #expect(try store.rows("SELECT * FROM Person") == ["1|a", "2|b"])
            #expect(try store.isSound())
        }
    }

    @Test func `a lost part without an option is refused, and the file does not change`() throws {
        let store = try store()
        try store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        let bytes = try Data(contentsOf: URL(filePath: store.path))
        let error = try #require(throws: StoreError.self) { try store.reopen(Self.after) }
        for part in ["Person.nick", "Person.home", "Person.pets", "Pet", "Place.people"] {
            #expect(error.message.contains("\(part) is in the store, but not in the model"))
        }
        #expect(error.message.contains("broker migrate --keep"))
        #expect(try Data(contentsOf: URL(filePath: store.path)) == bytes)
    }

    @Test(arguments: [
        (#""x": {"type": "string", "optional": false}"#, "", "A.x", "no row could be inserted without it"),
        (
            #""x": "string""#, #", "inverse": "as"}}}, "B": {"relationships": {"as": {"deleteRule": "deny", "#, "A.b",
            "prevent the deletion"
        ),
        (
            #""x": "string""#, #", "inverse": "as"}}}, "B": {"relationships": {"as": {"deleteRule": "cascade", "#,
            "A.b", "would delete"
        ),
    ])
    func `a part that conflicts with the model cannot be retained, and the reason is reported`(
        attribute: String, inverse: String, subject: String, reason: String
    ) throws {
        let end = inverse.isEmpty ? "}}, \"B\": {" : inverse + #""entity": "A", "toMany": true}}, "#
        let store = try TestStore(
            #"{"entities": {"A": {"attributes": {"y": "string", \#(attribute)}, "relationships": {"b": {"entity": "B"\#(end)"#
                .replacing(#""B"}}, "B": {"#, with: #""B"}}}, "B": {"#)
                + #""attributes": {"z": "string"}}}}"#)
        #expect(try store.fault(#"{"A": {"y": "y", "x": "x", "b": {"z": "z"}}}"#) == nil)
        let after = #"{"entities": {"A": {"attributes": {"y": "string"}}, "B": {"attributes": {"z": "string"}}}}"#
        let error = try #require(throws: StoreError.self) { try store.reopen(after, removal: .keep) }
        #expect(error.message.contains("\(subject) is in the store, but not in the model, and cannot be retained: "))
        #expect(error.message.contains(reason))
        try store.reopen(after, removal: .drop)
    }

    @Test func `a new part does not take the name of a retained one`() throws {
        let store = try store()
        try store.reopen(Self.after, removal: .keep)
        let asNumber = Self.after.replacing(#""name": "string""#, with: #""name": "string", "nick": "double""#)
        #expect(throws: StoreError.self) { try store.reopen(asNumber) }
        let asLink = Self.after.replacing(
            #""name": "string"}"#, with: #""name": "string"}, "relationships": {"nick": {"entity": "Place"}}"#)
        let error = try #require(throws: StoreError.self) { try store.reopen(asLink) }
        #expect(error.message.contains("what is retained from earlier models does not fit the model"))
        try store.reopen(asLink, removal: .drop)
        #expect(try store.changes(#"{"Person": [{"id": 1, "nick": "H"}]}"#) == "Person ~1, Place =1")
    }

    @Test func `a retained part can be renamed when it is used again`() throws {
        let store = try store()
        try store.reopen(Self.after, removal: .keep)
        try store.reopen(
            Self.after.replacing(
                #""name": "string"}"#,
                with: #""name": "string", "handle": {"type": "string", "renamedFrom": "nick"}}, "#
                    + #""unique": [["name", "handle"]]"#))
        #expect(try store.rows("SELECT id, handle FROM Person") == ["1|x", "2|NULL"])
    }

    @Test func `a lost unique list is dropped or refused, and not retained`() throws {
        let store = try store()
        let loose = Self.before.replacing(#""unique": [["name", "nick"]],"#, with: "")
        for removal in [RemovalPolicy.refuse, .keep] {
            let error = try #require(throws: StoreError.self) { try store.reopen(loose, removal: removal) }
            #expect(error.message.contains("Person (name, nick) is unique in the store, but not in the model"))
        }
        try store.reopen(loose, removal: .drop)
        #expect(try store.changes(#"{"Person": {"id": 4, "name": "a", "nick": "x"}}"#) == "Person +1")
    }
}

/// The losses of a changed model, counted before anything is lost.
@Suite(.timeLimit(.minutes(5))) struct DroppedPartsTests {
    private static let before = """
        {"entities": {
          "Person": {"identity": ["first", "last"], "attributes": {"first": "string", "last": "string", "age": "integer16"},
            "relationships": {"home": {"entity": "Place", "inverse": "people"}, "pets": {"entity": "Pet", "toMany": true}}},
          "Place": {"identity": "id", "attributes": {"id": "integer64"},
            "relationships": {"people": {"entity": "Person", "toMany": true, "inverse": "home"}}},
          "Pet": {"attributes": {"name": "string"}}}}
        """

    private func store() throws -> TestStore {
        let store = try TestStore(Self.before)
        try store.apply(
            """
            {"Person": [{"first": "A", "last": "B", "age": 3, "home": {"id": 7}, "pets": [{"name": "x"}, {"name": "y"}]},
              {"first": "C", "last": "D", "home": {"id": 7}}, {"first": "E", "last": "F", "age": 4}]}
            """)
        return store
    }

    private func losses(
        _ store: TestStore, _ model: String, _ removal: RemovalPolicy, _ verdict: StoreChange.Verdict
    ) throws -> [String: StoreLoss] {
        let changes = try Store.changes(path: store.path, plan: stagingPlan(model), removal: removal)
        return Dictionary(
            uniqueKeysWithValues: changes.filter { $0.verdict == verdict }.compactMap { change in
                change.loss.map { (change.subject, $0) }
            })
    }

    private static let bare = #"{"entities": {"Place": {"identity": "id", "attributes": {"id": "integer64"}}}}"#

    @Test func `each part that goes is counted with the rows that have it, and names some`() throws {
        let store = try store()
        let model = """
            {"entities": {"Person": {"identity": ["first", "last"], "attributes": {"first": "string", "last": "string"}}}}
            """
        let expected: [String: StoreLoss] = [
            "Person.age": StoreLoss(.values, count: 2, examples: ["'A', 'B': 3", "'E', 'F': 4"]),
            "Person.home": StoreLoss(.links, count: 2, examples: ["'A', 'B': 7", "'C', 'D': 7"]),
            "Person.pets": StoreLoss(.links, count: 2, examples: ["'A', 'B': 1", "'A', 'B': 2"]),
            "Place": StoreLoss(.objects, count: 1, examples: ["7"]),
            "Pet": StoreLoss(.objects, count: 2, examples: ["1", "2"]),
        ]
        #expect(try losses(store, model, .drop, .dropped) == expected)
        #expect(try losses(store, model, .refuse, .refused) == expected)
        #expect(try losses(store, model, .keep, .kept).isEmpty)
        #expect(try losses(store, Self.before, .drop, .dropped).isEmpty)
    }

    @Test func `what is counted is what a drop removes, and the file is not changed by counting`() throws {
        let store = try store()
        try store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        let bytes = try Data(contentsOf: URL(filePath: store.path))
        let objects = "SELECT (SELECT count(*) FROM Person) + (SELECT count(*) FROM Pet) + (SELECT count(*) FROM Place)"
        let before = try store.rows(objects)
        let counted = try losses(store, Self.bare, .drop, .dropped).values.filter { $0.kind == .objects }
        #expect(try Data(contentsOf: URL(filePath: store.path)) == bytes)
        try store.reopen(Self.bare, removal: .drop)
        let after = try store.rows("SELECT count(*) FROM Place")
        #expect(before == ["6"] && after == ["1"] && counted.reduce(0) { $0 + $1.count } == 5)
    }

    @Test func `links that the other side retains are not lost`() throws {
        let model = Self.before.replacing(
            #","# + "\n    " + #""relationships": {"people": {"entity": "Person", "toMany": true, "inverse": "home"}}"#,
            with: ""
        ).replacing(#""entity": "Place", "inverse": "people""#, with: #""entity": "Place""#)
        #expect(model != Self.before)
        let store = try store()
        let changes = try Store.changes(path: store.path, plan: stagingPlan(model), removal: .drop)
        #expect(
            changes.contains { $0.verdict == .dropped && $0.subject == "Place.people" && $0.loss == nil }, "\(changes)")
        try store.reopen(model, removal: .drop)
        #expect(try store.rows("SELECT home FROM Person ORDER BY first") == ["7", "7", "NULL"])
    }

    @Test func `rows of relatives that retain the part are not counted`() throws {
        let family = """
            {"entities": {
              "Animal": {"identity": "id", "attributes": {"id": "integer64", "legs": "integer16"}},
              "Dog": {"parent": "Animal", "attributes": {"tricks": "string"}},
              "Cat": {"parent": "Animal", "attributes": {"tricks": "string", "lives": "integer16"}}}}
            """
        let store = try TestStore(family)
        try store.apply(
            """
            {"Animal": [{"id": 1, "legs": 4}], "Dog": [{"id": 2, "legs": 4, "tricks": "sit"}],
             "Cat": [{"id": 3, "legs": 4, "tricks": "jump", "lives": 9}, {"id": 4, "tricks": "purr"}]}
            """)
        let model = family.replacing(#""tricks": "string", "lives""#, with: #""lives""#)
            .replacing(#", "legs": "integer16""#, with: "")
            .replacing(#"{"tricks": "string"}"#, with: #"{"tricks": "string", "legs": "integer16"}"#)
        let found = try losses(store, model, .drop, .dropped)
        #expect(found["Cat.tricks"] == StoreLoss(.values, count: 2, examples: ["3: 'jump'", "4: 'purr'"]), "\(found)")
        let legs = "SELECT count(legs) FROM Animal"
        let before = try store.rows(legs)
        try store.reopen(model, removal: .drop)
        let after = try store.rows(legs)
        #expect(before == ["3"] && after == ["1"])
        #expect(found.filter { $0.key.hasSuffix(".legs") }.values.reduce(0) { $0 + $1.count } == 2, "\(found)")
    }

    @Test func `ten rows are named, each value in part, and the others are counted`() throws {
        let store = try TestStore(Self.before)
        let long = String(repeating: "x", count: 500)
        let people = (10...34).map { "{\"first\": \"\($0)\", \"last\": \"\(long)\", \"age\": 1}" }
        try store.apply(payload("Person", people))
        let loss = try #require(try losses(store, Self.bare, .drop, .dropped)["Person"])
        #expect(loss.count == 25 && loss.examples.count == 10 && loss.examples.allSatisfy { $0.count < 80 })
    }
}
