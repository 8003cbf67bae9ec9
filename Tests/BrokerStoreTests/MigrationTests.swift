import BrokerModel
import Foundation
import Testing

@testable import BrokerStore

/// A changed model: what can be added is added, anything else is refused with every difference.
@Suite(.timeLimit(.minutes(5))) struct MigrationTests {
    private static let before = """
        {"entities": {
          "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string", "age": "integer16"},
            "relationships": {"home": {"entity": "Place"}}},
          "Place": {"identity": "code", "attributes": {"code": "string"}}
        }}
        """

    private func store() throws -> TestStore {
        let store = try TestStore(Self.before)
        try store.apply(#"{"Person": [{"id": 1, "name": "a", "age": 3, "home": "x"}]}"#)
        return store
    }

    /// The reason why opening with the model is refused; nil when it is not.
    private func refusal(_ model: String, of store: TestStore) throws -> StoreError? {
        let plan = try stagingPlan(model)
        do throws(StoreError) {
            _ = try Store(path: store.path, plan: plan)
            return nil
        } catch {
            return error
        }
    }

    @Test func `the same model changes nothing and everything is still there`() throws {
        let store = try store()
        let schema = try store.rows("SELECT sql FROM sqlite_schema ORDER BY name")
        try store.reopen()
        #expect(try store.rows("SELECT sql FROM sqlite_schema ORDER BY name") == schema)
        #expect(try store.rows("SELECT * FROM Person") == ["1|a|3|x"])
        #expect(try store.changes(#"{"Person": {"id": 1, "name": "a"}}"#) == ["Person +0 ~0 =1 !0"])
    }

    @Test func `entities, attributes, relationships and indexes are added`() throws {
        let store = try store()
        try store.reopen(
            """
            {"entities": {
              "Person": {"identity": "id", "indexes": [["name", "age"]], "attributes": {
                "email": {"type": "string", "default": "none"},
                  "id": "integer64", "age": {"type": "integer16", "indexed": true},
                "name": "string"},
                "relationships": {"friends": {"entity": "Person", "toMany": true}, "work": {"entity": "Place"},
                  "pet": {"entity": "Pet"}, "home": {"entity": "Place"}}},
              "Place": {"identity": "code", "attributes": {"code": "string"}},
              "Pet": {"attributes": {"name": "string"}}
            }}
            """)
        #expect(
            try store.rows("SELECT id, name, age, home, email, work, pet FROM Person") == ["1|a|3|x|none|NULL|NULL"])
        #expect(
            try store.changes(
                """
                {"Person": [{"id": 1, "email": "e", "work": "y", "pet": {"name": "p"}, "friends": [2]}, {"id": 3}]}
                """) == ["Person +2 ~1 =0 !0", "Pet +1 ~0 =0 !0", "Place +1 ~0 =0 !0"])
        #expect(
            try store.rows("SELECT id, name, age, home, email, work, pet FROM Person ORDER BY id")
                == ["1|a|3|x|e|y|1", "2|NULL|NULL|NULL|none|NULL|NULL", "3|NULL|NULL|NULL|none|NULL|NULL"])
        let indexes = "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'Person' ORDER BY 1"
        #expect(
            try store.rows(indexes) == ["Person.age", "Person.home", "Person.name.age", "Person.pet", "Person.work"])
        #expect(try store.isSound())
    }

    @Test func `a migration with a loss is refused with every difference, and nothing changes`() throws {
        let store = try store()
        try store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        let bytes = try Data(contentsOf: URL(filePath: store.path))
        let error = try #require(
            try refusal(
                """
                {"entities": {
                  "Person": {"identity": "name", "unique": [["age"]], "attributes": {
                    "name": "string", "age": "boolean", "must": {"type": "string", "optional": false}},
                    "relationships": {"home": {"entity": "Person"}}},
                  "Place": {"identity": ["code", "zip"], "attributes": {"code": "string", "zip": "string"}},
                  "New": {"attributes": {"x": "string"}}
                }}
                """, of: store))
        #expect(error.code == .incompatible)
        for difference in [
            "Person is identified by id in the store, and by name in the model",
            "Person.id is in the store, but not in the model",
            "Person.age is integer16 in the store, and boolean in the model", "Person.must is new and required",
            "Person.home leads to Place in the store, and to Person in the model",
            "Place.zip is new and identifies Place",
            "Place is identified by code in the store, and by code, zip in the model",
            "nothing was touched",
        ] {
            #expect(error.message.contains(difference), "\(difference) in \(error.message)")
        }
        #expect(error.message.split(separator: "; ").count == 8, "each is reported once: \(error)")
        #expect(try Data(contentsOf: URL(filePath: store.path)) == bytes)
        #expect(try store.rows("SELECT name FROM sqlite_schema WHERE name = 'New'") == [])
        #expect(throws: StoreError.self) {
            try Store.check(
                path: store.path,
                plan: stagingPlan(#"{"entities": {"Person": {"attributes": {"a": "string"}}}}"#))
        }
    }

    @Test(arguments: [
        (#""age": {"type": "integer16", "optional": false}"#, "Person.age is optional in the store, and required"),
        (
            #""age": {"type": "integer16", "unique": true}"#,
            "Person (age) is unique in the model, but not in the store, where 3 in 2 rows"
        ),
        (
            #""age": "integer16", "new": {"type": "string", "unique": true, "default": "é'"}"#,
            "Person (new) is unique in the model, but not in the store, where 'é''' in 2 rows"
        ),
        (
            #""age": "integer16", "must": {"type": "string", "optional": false}"#,
            "Person.must is new and required"
        ),
        (#""age": "boolean""#, "Person.age is integer16 in the store, and boolean in the model"),
    ])
    func `a single difference is reported alone`(attributes: String, difference: String) throws {
        let store = try store()
        try store.apply(#"{"Person": [{"id": 2, "age": 3}]}"#)
        let model = Self.before.replacing(#""age": "integer16""#, with: attributes)
        let error = try #require(try refusal(model, of: store))
        #expect(error.message.contains("to without loss: \(difference)"))
        #expect(!error.message.contains(";") || error.message.split(separator: ";").count == 2)
    }

    @Test func `a check says the same and makes no file`() throws {
        let store = try store()
        try Store.check(path: store.path, plan: store.plan)
        let missing = store.folder.path("missing")
        try Store.check(path: missing, plan: store.plan)
        #expect(!FileManager.default.fileExists(atPath: missing))
        #expect(throws: StoreError.self) { try Store.check(path: missing + "/store", plan: store.plan) }
    }
}
