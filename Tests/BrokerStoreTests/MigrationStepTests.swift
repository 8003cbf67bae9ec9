import Testing

@testable import BrokerStore

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
