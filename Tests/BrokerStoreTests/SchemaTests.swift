@testable import BrokerSchema
import BrokerModel
import Testing
import TestSupport

@testable import BrokerStore

/// The contract's rules for the database, as SQL.
@Suite(.timeLimit(.minutes(5))) struct SchemaTests {
    /// The statements without comments and readable views.
    private func schema(_ entities: String) throws -> [String] {
        try Schema.sql(of: stagingPlan("{\"entities\": {\(entities)}}").model)
            .replacing(#/\n +/\* .* \*/(?=\n)/#, with: "").replacing(#/ /\* [^\n]*? \*/(?=,?\n)/#, with: "")
            .split(separator: ";\n").map(String.init).filter { !$0.contains("_readable\" AS") }
    }

    @Test func `every attribute has a column of its name and of the type that stores it`() throws {
        let types = [
            "integer16", "integer32", "integer64", "boolean", "double", "float", "decimal", "string", "uuid", "uri",
            "transformable", "binary", "date", "calendarDate",
        ]
        let attributes = types.map { "\"a_\($0)\": \"\($0)\"" }.joined(separator: ", ")
        let sql = try schema(
            """
            "T": {"identity": "a_integer64", "table": "things", "attributes": {\(attributes),
              "unix": {"type": "date", "storage": "unix"}, "coreData": {"type": "date", "storage": "coreData"},
              "needed": {"type": "string", "optional": false}}}
            """)
        #expect(
            sql == [
                """
                CREATE TABLE "things" (
                    "a_integer16" INTEGER,
                    "a_integer32" INTEGER,
                    "a_integer64" INTEGER PRIMARY KEY,
                    "a_boolean" BOOLEAN_INTEGER,
                    "a_double" REAL,
                    "a_float" REAL,
                    "a_decimal" DECIMAL_TEXT,
                    "a_string" TEXT,
                    "a_uuid" UUID_TEXT,
                    "a_uri" URI_TEXT,
                    "a_transformable" JSON_TEXT,
                    "a_binary" BLOB,
                    "a_date" DATETIME_TEXT,
                    "a_calendarDate" DATE_TEXT,
                    "unix" DATETIME_INTEGER,
                    "coreData" DATETIME_REAL,
                    "needed" TEXT NOT NULL
                )
                """
            ])
    }

    @Test(arguments: [
        (#""identity": "n""#, #""n" INTEGER PRIMARY KEY,"#, ""),
        (#""identity": "s""#, #""s" TEXT NOT NULL"#, #"PRIMARY KEY ("s")"#),
        (#""identity": ["s", "n"]"#, #""n" INTEGER NOT NULL"#, #"PRIMARY KEY ("s", "n")"#),
        (#""attributes": {"x": "string"}, "indexes": []"#, #""_pk" INTEGER PRIMARY KEY,"#, ""),
        (#""identity": "s", "identityOptional": true"#, #""_pk" INTEGER PRIMARY KEY,"#, #"UNIQUE ("s")"#),
        (#""identity": ["n", "s"], "identityOptional": true"#, #""n" INTEGER,"#, #"UNIQUE ("n", "s")"#),
        (#""identity": "n", "unique": [["s", "n"]]"#, #""s" TEXT,"#, #"UNIQUE ("s", "n")"#),
    ])
    func `the identity is the primary key, or unique beside the store's own`(
        entity: String, column: String, constraint: String
    ) throws {
        let attributes = entity.contains("attributes") ? "" : #""attributes": {"n": "integer16", "s": "string"}, "#
        let sql = try schema("\"T\": {\(attributes)\(entity)}")[0]
        #expect(sql.contains(column), "\(sql)")
        #expect(sql.contains(constraint) || constraint.isEmpty, "\(sql)")
        #expect(sql.contains("PRIMARY KEY (") == constraint.hasPrefix("PRIMARY KEY"), "\(sql)")
    }

    @Test func `to-one columns refer to the destination's key and have an index each`() throws {
        let sql = try schema(
            """
            "A": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
              "single": {"entity": "Text"}, "pair": {"entity": "Pair"}, "none": {"entity": "None"},
                "me": {"entity": "A"}}},
            "Text": {"identity": "code", "table": "texts", "attributes": {"code": "string"}},
            "Pair": {"identity": ["x", "y"], "attributes": {"x": "integer16", "y": "date"}},
            "None": {"attributes": {"v": "string"}}
            """)
        let rest = "ON UPDATE CASCADE ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED"
        #expect(
            sql.prefix(5) == [
                """
                CREATE TABLE "A" (
                    "id" INTEGER PRIMARY KEY,
                    "single" TEXT REFERENCES "texts" ("code") \(rest),
                    "pair_x" INTEGER,
                    "pair_y" DATETIME_TEXT,
                    "none" INTEGER REFERENCES "None" ("_pk") \(rest),
                    "me" INTEGER REFERENCES "A" ("id") \(rest),
                    FOREIGN KEY ("pair_x", "pair_y") REFERENCES "Pair" ("x", "y") \(rest)
                )
                """,
                #"CREATE INDEX "A.single" ON "A" ("single")"#,
                #"CREATE INDEX "A.pair_x.pair_y" ON "A" ("pair_x", "pair_y")"#,
                #"CREATE INDEX "A.none" ON "A" ("none")"#,
                #"CREATE INDEX "A.me" ON "A" ("me")"#,
            ])
    }

    @Test func `a to-many with a to-one inverse needs no table, any other has one with both keys`() throws {
        let sql = try schema(
            """
            "Post": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
              "comments": {"entity": "Comment", "toMany": true, "inverse": "post"},
              "tags": {"entity": "Tag", "toMany": true}}},
            "Comment": {"attributes": {"text": "string"},
              "relationships": {"post": {"entity": "Post", "inverse": "comments"}}},
            "Tag": {"identity": ["kind", "name"], "attributes": {"kind": "integer16", "name": "string"}}
            """)
        let rest = "ON UPDATE CASCADE ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED"
        #expect(sql.filter { $0.hasPrefix("CREATE TABLE") }.count == 4)
        #expect(
            sql.suffix(2) == [
                """
                CREATE TABLE "Post_tags" (
                    "source" INTEGER NOT NULL REFERENCES "Post" ("id") \(rest),
                    "destination_kind" INTEGER NOT NULL,
                    "destination_name" TEXT NOT NULL,
                    PRIMARY KEY ("source", "destination_kind", "destination_name"),
                    FOREIGN KEY ("destination_kind", "destination_name") REFERENCES "Tag" ("kind", "name") \(rest)
                )
                """,
                #"CREATE INDEX "Post_tags.destination_kind.destination_name" "#
                    + #"ON "Post_tags" ("destination_kind", "destination_name")"#,
            ])
    }

    @Test func `the entity of a many-to-many pair that is first by name owns the one table`() throws {
        let sql = try schema(
            """
            "Zoo": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
              "apes": {"entity": "Ape", "toMany": true, "inverse": "zoos"},
              "visits": {"entity": "Zoo", "toMany": true, "inverse": "visitors"},
              "visitors": {"entity": "Zoo", "toMany": true, "inverse": "visits"},
              "twins": {"entity": "Zoo", "toMany": true, "inverse": "twins"}}},
            "Ape": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
              "zoos": {"entity": "Zoo", "toMany": true, "inverse": "apes"}}}
            """)
        let tables = sql.filter { $0.hasPrefix("CREATE TABLE") }.map { $0.split(separator: "\"")[1] }
        #expect(tables == ["Zoo", "Ape", "Zoo_visitors", "Zoo_twins", "Ape_zoos"])
    }

    @Test func `the inverse's delete rule is what the foreign key does`() throws {
        for (rule, action) in [
            ("nullify", "SET NULL"), ("cascade", "CASCADE"), ("deny", "NO ACTION"), ("noAction", "NO ACTION"),
        ] {
            let sql = try schema(
                """
                "P": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
                  "cs": {"entity": "C", "toMany": true, "inverse": "p", "deleteRule": "\(rule)"}}},
                "C": {"identity": "id", "attributes": {"id": "integer64"},
                  "relationships": {"p": {"entity": "P", "inverse": "cs"}}}
                """)
            #expect(sql.contains { $0.contains("ON DELETE \(action) ") }, "\(rule)")
        }
    }

    @Test func `names are quoted whatever they hold, and indexes are named for their columns`() throws {
        let name = #"a \"b\" ü; --"#
        let store = try TestStore(
            """
            {"entities": {"\(name)": {"identity": "\(name)", "indexes": [["x", "order"]], "attributes": {
              "\(name)": "integer64", "order": "string", "x": {"type": "string", "indexed": true}},
              "relationships": {"select": {"entity": "\(name)", "toMany": true}}}}}
            """)
        #expect(
            try store.changes(#"{"\#(name)": {"\#(name)": 1, "order": "o", "select": [2]}}"#)
                == [#"a "b" ü; -- +2 ~0 =0 !0"#])
        #expect(
            try store.rows("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql NOT NULL ORDER BY 1")
                == ["_broker_failures", #"a "b" ü; --.x"#, #"a "b" ü; --.x.order"#, #"a "b" ü; --_select.destination"#])
    }

    @Test func `the printed schema makes the tables that the store makes`() throws {
        let store = try TestStore(company)
        let printed = TemporaryFolder()
        try Connection(store: printed.path("x")).execute(Schema.sql(of: store.plan.model))
        let list =
            "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE '%\\_broker\\_%' ESCAPE '\\' ORDER BY name"
        #expect(try SQLRows.of(list, in: printed.path("x")) == store.rows(list))
        #expect(try store.rows("PRAGMA journal_mode") == ["wal"])
    }
}
