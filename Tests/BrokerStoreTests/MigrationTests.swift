import BrokerModel
import Foundation
import Testing

@testable import BrokerSchema
@testable import BrokerStore

/// A changed model: what can be added is added, anything else is refused with every difference.
@Suite(.timeLimit(.minutes(5))) struct MigrationTests {
    private static let before = """
        {"entities": {
          "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string", "age": "integer16"},
            "relationships": {"home": {"entity": "Place"}}},
          "Place": {"identity": "code", "attributes": {"code": "string"}}}}
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
        #expect(try store.changes(#"{"Person": {"id": 1, "name": "a"}}"#) == "Person =1")
    }

    @Test func `entities, attributes, relationships and indexes are added`() throws {
        let store = try store()
        try store.reopen(
            """
            {"entities": {
              "Person": {"identity": "id", "indexes": [["name", "age"]], "attributes": {
                "email": {"type": "string", "default": "none"},
                  "id": "integer64", "age": {"type": "integer16", "indexed": true}, "name": "string"},
                "relationships": {"friends": {"entity": "Person", "toMany": true}, "work": {"entity": "Place"},
                  "pet": {"entity": "Pet"}, "home": {"entity": "Place"}}},
              "Place": {"identity": "code", "attributes": {"code": "string"}},
              "Pet": {"attributes": {"name": "string"}}}}
            """)
        #expect(
            try store.rows("SELECT id, name, age, home, email, work, pet FROM Person") == ["1|a|3|x|none|NULL|NULL"])
        #expect(
            try store.changes(
                """
                {"Person": [{"id": 1, "email": "e", "work": "y", "pet": {"name": "p"}, "friends": [2]}, {"id": 3}]}
                """) == "Person +2 ~1, Pet +1, Place +1")
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
                  "New": {"attributes": {"x": "string"}}}}
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
        ] { #expect(error.message.contains(difference), "\(difference) in \(error.message)") }
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
        (#""age": "integer16", "must": {"type": "string", "optional": false}"#, "Person.must is new and required"),
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

/// Other programs' additions to the file, and open syncs, when a store is migrated.
@Suite(.timeLimit(.minutes(5))) struct MigrationStepTests {
    private static let before = """
        {"entities": {"Person": {"identity": "id",
          "attributes": {"id": "integer64", "name": {"type": "string", "optional": false}, "age": "integer16"}}}}
        """

    private func store() throws -> TestStore {
        let store = try TestStore(Self.before)
        _ = try store.outcome(#"{"Person": [{"id": 1, "name": "a"}, {"id": 2, "name": "b", "age": 3}]}"#)
        return store
    }

    @Test func `indexes, triggers and views of others stay, and follow new names`() throws {
        let store = try store()
        try store.execute(
            """
            CREATE INDEX theirs ON Person (name, age);
            CREATE VIEW old AS SELECT name FROM Person WHERE age > 2;
            CREATE TRIGGER warning AFTER UPDATE ON Person BEGIN SELECT NEW.name; END;
            """)
        // The table is rebuilt: a column is not required any more, another gets a default.
        try store.reopen(
            """
            {"entities": {"Human": {"renamedFrom": "Person", "identity": "id", "attributes": {"id": "integer64",
              "label": {"type": "string", "renamedFrom": "name"},
              "age": {"type": "integer16", "optional": false, "default": 9}}}}}
            """)
        #expect(try store.rows("SELECT id, label, age FROM Human") == ["1|a|9", "2|b|3"])
        #expect(try store.rows("SELECT * FROM old ORDER BY 1") == ["a", "b"])
        #expect(
            try store.rows("SELECT sql FROM sqlite_schema WHERE name IN ('theirs', 'warning') ORDER BY name") == [
                #"CREATE INDEX theirs ON "Human" ("label", age)"#,
                #"CREATE TRIGGER warning AFTER UPDATE ON "Human" BEGIN SELECT NEW."label"; END"#,
            ])
        #expect(try store.isSound())
    }

    @Test func `another program's index on a dropped column is reported, and nothing changes`() throws {
        let store = try store()
        try store.execute("CREATE INDEX theirs ON Person (age)")
        let schema = try store.rows("SELECT sql FROM sqlite_schema ORDER BY name")
        let error = try #require(throws: StoreError.self) {
            try store.reopen(Self.before.replacing(#", "age": "integer16""#, with: ""), removal: .drop)
        }
        #expect(error.message.contains("theirs, which something else than Broker put on the table Person"))
        #expect(try store.rows("SELECT sql FROM sqlite_schema ORDER BY name") == schema)
        #expect(try store.rows("SELECT * FROM Person") == ["1|a|NULL", "2|b|3"])
    }

    @Test func `rows with dangling references stop a migration that rebuilds their table`() throws {
        let model =
            #"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64", "x": "string"}, "#
            + #""relationships": {"a": {"entity": "A"}}}}}"#
        let store = try TestStore(model)
        try store.execute("INSERT INTO A VALUES (1, 'x', 99)")
        let error = try #require(throws: StoreError.self) {
            try store.reopen(
                model.replacing(#""x": "string""#, with: #""x": {"type": "string", "optional": false, "default": "y"}"#)
            )
        }
        #expect(error.message.contains("Row 1 of the table A refers to a row of A that does not exist"))
        #expect(try store.rows("SELECT * FROM A") == ["1|x|99"])
    }

    @Test func `a sync whose parts are still coming goes on under the entity's new name`() throws {
        let store = try store()
        try store.execute(
            """
            CREATE TABLE "_broker_open_syncs" ("number" INTEGER PRIMARY KEY, "id" TEXT NOT NULL UNIQUE,
                "definition" BLOB NOT NULL, "rejected" INTEGER NOT NULL, "changed" INTEGER NOT NULL);
            INSERT INTO _broker_open_syncs VALUES
                (1, 'a', CAST('["Person",null,null]' AS BLOB), 0, 0),
                (2, 'b', CAST('["Persons","x == %@",["Person"]]' AS BLOB), 0, 0);
            """)
        try store.reopen(Self.before.replacing(#""Person": {"#, with: #""H\"": {"renamedFrom": "Person", "#))
        #expect(
            try store.rows(
                "SELECT typeof(definition), CAST(definition AS TEXT) FROM _broker_open_syncs ORDER BY number")
                == [#"blob|["H\"",null,null]"#, #"blob|["Persons","x == %@",["Person"]]"#])
    }

    @Test func `the default of a new attribute is set in existing rows alone`() throws {
        let store = try store()
        let new = { (text: String) in
            Self.before.replacing(#""age": "integer16""#, with: #""age": "integer16", "tag": "# + text)
        }
        try store.reopen(new(#"{"type": "string", "default": "old\u0000é'"}"#))
        #expect(try store.rows("SELECT hex(tag) FROM Person") == ["6F6C6400C3A927", "6F6C6400C3A927"])
        try store.reopen(new(#""string""#))
        _ = try store.outcome(#"{"Person": {"id": 3, "name": "c"}}"#)
        #expect(try store.rows("SELECT tag FROM Person WHERE id = 3") == ["NULL"])
    }

    @Test(arguments: [
        ("integer64", "-9223372036854775808", "-9223372036854775808"), ("double", "1e300", "1e+300"),
        ("double", "0.1", "0.1"), ("decimal", "12345678901234567890.10", "12345678901234567890.10"),
        ("boolean", "true", "1"), ("date", "0", "1970-01-01T00:00:00.000Z"), ("binary", #""AP8=""#, "x'00ff'"),
        ("calendarDate", #""1985-12-10""#, "1985-12-10"),
        ("transformable", #"{"a": [1]}"#, #"{"a":[1]}"#),
    ])
    func `a default of every type is what an insert would give`(type: String, value: String, stored: String) throws {
        let store = try store()
        try store.reopen(
            Self.before.replacing(
                #""age": "integer16""#,
                with: #""age": "integer16", "n": {"type": "\#(type)", "default": \#(value), "optional": false}"#))
        _ = try store.outcome(#"{"Person": {"id": 3, "name": "c"}}"#)
        let rows = try store.rows("SELECT n FROM Person ORDER BY id")
        #expect(Set(rows).count == 1 && rows.count == 3, "\(rows)")
        #expect(rows.first == stored)
        #expect(try store.rows("SELECT count(DISTINCT typeof(n)) FROM Person") == ["1"])
    }
}

/// A changed model may not change what is stored means, whether or not the columns' types agree.
@Suite(.timeLimit(.minutes(5))) struct ModelComparisonTests {
    private static let before = """
        {"entities": {
          "Person": {"identity": "id", "attributes": {
            "id": "integer64", "name": "string", "active": "boolean", "size": "integer32", "born": "date",
            "tag": "uuid", "price": "decimal", "rate": "float"}, "relationships": {"home": {"entity": "Place"},
              "work": {"entity": "Place", "inverse": "workers"}, "boss": {"entity": "Person", "inverse": "staff"},
              "staff": {"entity": "Person", "toMany": true, "inverse": "boss"},
              "friends": {"entity": "Person", "toMany": true, "inverse": "friends"},
              "seen": {"entity": "Place", "toMany": true}, "spot": {"entity": "Spot"}}},
          "Place": {"identity": "code", "attributes": {"code": "string"}, "relationships": {
            "workers": {"entity": "Person", "toMany": true, "inverse": "work"}}},
          "Spot": {"identity": ["x", "y"], "attributes": {"x": "integer16", "y": "integer16"}}}}
        """

    /// A store in which every attribute has a value, and every relationship a link.
    private func store() throws -> TestStore {
        let store = try TestStore(Self.before)
        let outcome = try store.outcome(
            """
            {"Person": {"id": 1, "name": "a", "active": true, "size": 3, "born": "2012-09-24",
              "tag": "0D3A4E4C-0000-0000-0000-000000000001", "price": 1.50, "rate": 0.1, "home": "p", "work": "p",
              "boss": 2, "friends": [2], "seen": ["p"], "spot": {"x": 1, "y": 2}}}
            """)
        #expect(outcome.rejected.isEmpty)
        return store
    }

    /// Opens the store with a part of the model replaced.
    ///
    /// - Returns: the reported differences; nil when the store was opened.
    private func change(_ part: String, to new: String) throws -> [String]? {
        #expect(Self.before.contains(part))
        let store = try store()
        do {
            try store.reopen(Self.before.replacing(part, with: new))
            // Later models are compared with the one in force now.
            #expect(try store.rows("SELECT value FROM _broker_meta WHERE key = 'model'") == [store.plan.model.text])
            return nil
        } catch let error as StoreError {
            #expect(error.code == .incompatible)
            let list = error.message.split(separator: "to without loss: ")[1].split(separator: ". Use the model")[0]
            return list.split(separator: "; ").map(String.init)
        }
    }

    @Test(arguments: [
        (#""name": "string""#, #""name": "date""#, "Person.name is string in the store, and date in the model"),
        (#""active": "boolean""#, #""active": "integer16""#, "Person.active is boolean in the store, and integer16"),
        (#""size": "integer32""#, #""size": "integer16""#, "Person.size is integer32 in the store, and integer16"),
        (#""tag": "uuid""#, #""tag": "uri""#, "Person.tag is uuid in the store, and uri"),
        (#""price": "decimal""#, #""price": "double""#, "Person.price is decimal in the store, and double"),
        (#""rate": "float""#, #""rate": "integer64""#, "Person.rate is float in the store, and integer64"),
        (#""born": "date""#, #""born": {"type": "date", "storage": "unix"}"#, "Person.born is stored as iso8601"),
        (#""born": "date","#, "", "Person.born is in the store, but not in the model"),
        (#""home": {"entity": "Place"},"#, "", "Person.home is in the store, but not in the model"),
        (#""home": {"entity": "Place"},"#, #""home": {"entity": "Person"},"#, "Person.home leads to Place"),
        (#""work": {"entity": "Place", "#, #""work": {"entity": "Place", "toMany": true, "#, "Person.work is to-one"),
        (#""seen": {"entity": "Place", "toMany": true}"#, #""seen": {"entity": "Place"}"#, "Person.seen is to-many"),
        (#""seen": {"entity": "Place", "toMany": true},"#, "", "Person.seen is in the store, but not in the model"),
        (#""toMany": true, "inverse": "friends""#, #""toMany": true"#, "the inverse of Person.friends is friends"),
        (#""boss": {"entity": "Person", "inverse": "staff"}"#, #""boss": {"entity": "Person"}"#, "the inverse"),
        (#""identity": "id""#, #""identity": "size""#, "Person is identified by id in the store, and by size"),
        (
            #""identity": "id""#, #""identity": ["id", "size"]"#,
            "Person is identified by id in the store, and by id, size"
        ),
        (
            #""identity": ["x", "y"]"#, #""identity": ["y", "x"]"#,
            "Spot is identified by x, y in the store, and by y, x"
        ),
        (
            #""identity": "code","#, #""identity": "code", "identityOptional": true,"#,
            "the identity of Place is required"
        ),
    ])
    func `a change of meaning is refused`(part: String, new: String, message: String) throws {
        let inverse = part.contains(#""inverse": "staff""#)
        let all = inverse ? Self.before.replacing(#", "inverse": "boss""#, with: "") : Self.before
        let differences = try inverse ? changeAll(to: all.replacing(part, with: new)) : change(part, to: new)
        #expect(differences?.contains { $0.hasPrefix(message) } == true, "\(differences ?? ["opened"])")
    }

    private func changeAll(to model: String) throws -> [String]? { try change(Self.before, to: model) }

    @Test func `an entity that is gone is refused, with every relationship to it`() throws {
        let differences = try changeAll(
            to: """
                {"entities": {"Place": {"identity": "code", "attributes": {"code": "string"}}}}
                """)
        #expect(
            differences
                == ["Person", "Place.workers", "Spot"].map {
                    "\($0) is in the store, but not in the model (`broker migrate --keep` leaves it in the file, "
                        + "`broker migrate --drop` drops it, \"renamedFrom\" renames it)"
                })
    }

    @Test func `names are compared by their bytes, also where Swift's strings are equal`() throws {
        let store = try TestStore(#"{"entities": {"A": {"attributes": {"caf\u00e9": "string"}}}}"#)
        try store.apply(#"{"A": {"caf\u00e9": "x"}}"#)
        let error = try #require(throws: StoreError.self) {
            try store.reopen(#"{"entities": {"A": {"attributes": {"cafe\u0301": "string"}}}}"#)
        }
        #expect(error.message.contains("A.caf\u{e9} is in the store, but not in the model"))
    }

    @Test(arguments: [
        (#""size": "integer32""#, #""size": "integer64""#),
        (#""name": "string""#, #""name": {"type": "string", "key": ["n"], "default": "x", "transform": "trim"}"#),
        (#""name": "string""#, #""name": {"type": "string", "pattern": "^a", "maxLength": 9, "onInvalid": "null"}"#),
        (#""size": "integer32""#, #""size": {"type": "integer32", "min": 1, "max": 9, "enum": [1, 2]}"#),
        (#""born": "date""#, #""born": {"type": "date", "format": "yyyy", "timeZone": "+02:00"}"#),
        (#""home": {"entity": "Place"}"#, #""home": {"entity": "Place", "key": "h", "missing": "fail"}"#),
        (#""seen": {"entity": "Place", "#, #""seen": {"entity": "Place", "assignment": "replace", "key": "s", "#),
        (#""home": {"entity": "Place"}"#, #""home": {"entity": "Place", "deleteRule": "deny"}"#),
        (#""Person": {"identity""#, #""Person": {"root": "person", "identity""#),
        (#""name": "string""#, #""name": "string", "new": "date""#),
        (#""Spot": {"#, #""New": {"attributes": {"x": "string"}}, "Spot": {"#),
    ])
    func `settings that only concern incoming records, and new parts, may change`(part: String, new: String) throws {
        #expect(try change(part, to: new) == nil)
    }

    @Test func `a delete rule may change, and the table's foreign key says the new one`() throws {
        let store = try TestStore(Self.before)
        let work = #""workers": {"entity": "Person", "toMany": true"#
        try store.reopen(Self.before.replacing(work, with: work + #", "deleteRule": "cascade""#))
        #expect(
            store.store.migration.changes.map(\.text) == [
                "Person.work refers to Place.code ON DELETE SET NULL in the store, and to Place.code ON DELETE CASCADE "
                    + "in the model"
            ])
        #expect(
            try store.rows("SELECT on_delete FROM pragma_foreign_key_list('Person') WHERE \"from\" = 'work'")
                == ["CASCADE"])
    }

    @Test func `a to-one relationship may get a to-many inverse, and a to-many one if its table stays`() throws {
        let spots = #""Spot": {"identity": ["x", "y"], "#
        let visitors =
            spots + #""relationships": {"people": {"entity": "Person", "toMany": true, "inverse": "spot"}}, "#
        #expect(
            try changeAll(
                to: Self.before.replacing(spots, with: visitors).replacing(
                    #""spot": {"entity": "Spot"}"#, with: #""spot": {"entity": "Spot", "inverse": "people"}"#)) == nil)
        let workers = #""workers": {"#
        let seen = #""seen": {"entity": "Place", "toMany": true"#
        for (inverse, isAllowed) in [(#""toMany": true, "#, true), ("", false)] {
            let differences = try changeAll(
                to: Self.before.replacing(seen, with: seen + #", "inverse": "seers""#).replacing(
                    workers, with: #""seers": {"entity": "Person", \#(inverse)"inverse": "seen"}, "# + workers))
            #expect((differences == nil) == isAllowed, "\(differences ?? [])")
        }
        let home = #""home": {"entity": "Place"}"#
        #expect(
            try changeAll(
                to: Self.before.replacing(home, with: #""home": {"entity": "Place", "inverse": "owner"}"#).replacing(
                    workers, with: #""owner": {"entity": "Person", "inverse": "home"}, "# + workers))
                == [
                    "the inverse of Person.home is none in the store, and owner in the model (keep it as it was, or give "
                        + "the new one another name)"
                ])
    }

    @Test func `an existing table is not used for a new entity`() throws {
        let store = try TestStore(Self.before)
        try store.execute("CREATE TABLE Extra (id INTEGER PRIMARY KEY)")
        let error = try #require(throws: StoreError.self) {
            try store.reopen(
                Self.before.replacing(
                    #""Spot": {"#, with: #""Extra": {"identity": "id", "attributes": {"id": "integer64"}}, "Spot": {"#))
        }
        #expect(error.message.contains("the table Extra is there already"))
    }

    @Test func `links of several columns are compared, too`() throws {
        let store = try TestStore(Self.before)
        try store.execute(
            "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, '(\"x\", \"y\") ON UPDATE CASCADE ON "
                + "DELETE SET NULL', '(\"x\", \"y\") ON UPDATE CASCADE ON DELETE CASCADE') WHERE name = 'Person'")
        let error = try #require(throws: StoreError.self) { try store.reopen() }
        #expect(error.message.contains("Person.spot_x, spot_y is a link to Spot.x, y ON DELETE CASCADE in the store"))
    }
}

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
