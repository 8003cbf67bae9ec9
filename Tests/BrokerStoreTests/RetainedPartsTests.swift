@testable import BrokerSchema
import Foundation
import Testing

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
            "people": {"entity": "Person", "toMany": true, "ordered": true, "inverse": "home"}}}
        }}
        """
    /// Without `nick`, `home`, `people`, `pets` and `Pet`.
    private static let after = """
        {"entities": {
          "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}},
          "Place": {"identity": "code", "attributes": {"code": "string"}}
        }}
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
        #expect(
            try store.changes(#"{"Person": [{"id": 2, "name": "c"}, {"id": 3, "name": "a"}]}"#) == [
                "Person +1 ~1 =0 !0"
            ])
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
        #expect(
            try store.changes(#"{"Person": [{"id": 1, "nick": "H"}]}"#) == ["Person +0 ~1 =0 !0", "Place +0 ~0 =1 !0"])
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
        #expect(try store.changes(#"{"Person": {"id": 4, "name": "a", "nick": "x"}}"#) == ["Person +1 ~0 =0 !0"])
    }
}
