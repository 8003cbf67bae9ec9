import BrokerModel
import TestSupport
import Testing

@testable import BrokerSchema
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
                == #"a "b" ü; -- +2"#)
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

/// The comments and declared types in CREATE TABLE, which readers of the file see.
@Suite(.timeLimit(.minutes(5))) struct SchemaCommentTests {
    private static let model = """
        {"entities": {
          "Employee": {"description": "Who works */ here", "identity": "id", "attributes": {"id": "integer64",
            "salary": {"type": "decimal", "description": "a year"}, "active": "boolean", "hired": "calendarDate"},
            "relationships": {"department": {"entity": "Department", "inverse": "staff"},
              "projects": {"entity": "Project", "toMany": true, "inverse": "members"}}},
          "Department": {"attributes": {"name": "string"}, "relationships": {
            "staff": {"entity": "Employee", "toMany": true, "inverse": "department", "ordered": true}}},
          "Project": {"identity": "code", "attributes": {"code": "string"}, "relationships": {
            "members": {"entity": "Employee", "toMany": true, "inverse": "projects"}}},
          "Thing": {"attributes": {"at": "date"}}, "Lamp": {"parent": "Thing", "attributes": {"watts": "double"}}}}
        """

    private func comments(_ table: String, in store: TestStore) throws -> [String] {
        try store.rows("SELECT sql FROM sqlite_schema WHERE name = '\(table)'")[0]
            .matches(of: #//\* (.*?) \*//#).map { String($0.1) }
    }

    @Test func `the schema says what tables and columns hold`() throws {
        let store = try TestStore(Self.model)
        #expect(
            try comments("Employee", in: store) == [
                "objects of the entity Employee: Who works * / here", "integer64; identity",
                #"decimal as text: compare with CAST("salary" AS REAL), or use Employee_readable; a year"#,
                "boolean: 0 or 1", "day like 2011-12-22", "_pk of Department",
                "position in Department.staff, with gaps",
            ])
        #expect(
            try comments("Department", in: store)
                == ["objects of the entity Department", "row number of the server's", "string"])
        #expect(
            try comments("Employee_projects", in: store) == [
                "join table of Employee.projects and Project.members", "id of Employee", "code of Project",
            ])
        #expect(
            try comments("Thing", in: store) == [
                "objects of the entities Thing, Lamp", "row number of the server's",
                "time in UTC like 2011-12-22T02:24:51.000Z", "double; only of Lamp", "entity of the object",
            ])
    }

    @Test(arguments: [
        "*/ DROP", "*/", "a\n-- b\r\u{0}c", "/*/*/*/", "**//", "/", "*", "\u{202E}*/", "\u{2028}x", "",
        String(repeating: "*/", count: 5_000), String(repeating: "e\u{301}", count: 5_000),
    ])
    func `no text ends a comment or its line, or makes it long`(content: String) throws {
        let comment = sqlComment(content)
        let inner = comment.dropFirst(2).dropLast(2).unicodeScalars
        #expect(comment.hasPrefix("/* ") && comment.hasSuffix(" */"))
        #expect(!String(inner).contains("*/") && !String(inner).contains("/*"))
        #expect(!inner.contains { $0.value < 0x20 || [0x85, 0x2028, 0x2029, 0x202E].contains($0.value) })
        #expect(inner.count <= 2 * 300 + 3)
        let store = try TestStore(Self.model)
        #expect(try store.rows("SELECT 1 \(comment), 2") == ["1|2"])
    }

    @Test func `each declared type has the affinity of what is stored`() throws {
        let types = ["decimal", "calendarDate", "uuid", "uri", "transformable", "boolean", "binary", "float", "date"]
        let attributes = types.map { "\"\($0)\": \"\($0)\"" }.joined(separator: ", ")
        let plan = try stagingPlan(
            """
            {"entities": {"T": {"attributes": {\(attributes), "unix": {"type": "date", "storage": "unix"},
              "coreData": {"type": "date", "storage": "coreData"}}}}}
            """)
        for column in Schema(plan.model).tables[0].columns {
            let stored = Affinity(declaredType: column.type.storage.rawValue)
            #expect(Affinity(declaredType: column.type.declared) == stored, "\(column.name)")
        }
    }

    @Test func `comments survive new names and new columns`() throws {
        let store = try TestStore(Self.model)
        try store.reopen(
            Self.model.replacing(#""Project": {"#, with: #""Task": {"renamedFrom": "Project", "#)
                .replacing(#""entity": "Project""#, with: #""entity": "Task""#)
                .replacing(#""code": "string""#, with: #""code": "string", "title": "string", "due": "date""#))
        #expect(
            try comments("Task", in: store)
                == [
                    "objects of the entity Project", "string; identity", "string",
                    "time in UTC like 2011-12-22T02:24:51.000Z",
                ])
        #expect(try store.rows("SELECT code, title, due FROM Task") == [])
        #expect(try store.isSound())
    }

    @Test func `the entities' tables are made before Broker's own`() throws {
        let names = try TestStore(Self.model).rows(
            "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE '%\\_readable' ESCAPE '\\' "
                + "ORDER BY rowid")
        let first = try #require(names.firstIndex { $0.hasPrefix("_broker_") })
        #expect(names[first...].allSatisfy { $0.hasPrefix("_broker_") })
        #expect(first == 6)
    }
}

/// The views for people and tools that read the file with SQL.
@Suite(.timeLimit(.minutes(5))) struct ReadableViewTests {
    private static let model = """
        {"entities": {
          "Employee": {"identity": "id", "attributes": {"id": "integer64", "salary": "decimal", "active": "boolean",
            "unix": {"type": "date", "storage": "unix"}, "apple": {"type": "date", "storage": "coreData"}},
            "relationships": {"department": {"entity": "Department"}, "room": {"entity": "Room"},
              "boss": {"entity": "Employee"}, "country": {"entity": "Country"}}},
          "Department": {"attributes": {"Title": "string", "name": "string"}},
          "Room": {"identity": ["house", "number"],
            "attributes": {"house": "string", "number": "integer16", "label": "string"}},
          "Country": {"identity": "name", "attributes": {"name": "string"}},
          "Animal": {"identity": "id", "attributes": {"id": "integer64"}},
          "Dog": {"parent": "Animal", "attributes": {"price": "decimal"},
            "relationships": {"owner": {"entity": "Department"}}}}}
        """
    private static let names = """
        SELECT name FROM sqlite_schema WHERE type = 'view' AND name LIKE '%\\_readable' ESCAPE '\\' ORDER BY name
        """

    @Test func `decimals are numbers, dates are texts, and links have names`() throws {
        let store = try TestStore(Self.model)
        try store.apply(
            """
            {"Employee": [{"id": 1, "salary": 9000, "active": true, "country": "NZ"},
              {"id": 2, "salary": "12500.50", "unix": "2011-12-22T02:24:51Z", "apple": "2011-12-22T02:24:51.25Z",
               "department": {"name": "Works"}, "room": {"house": "A", "number": 3, "label": "Attic"}, "boss": 1}],
             "Dog": [{"id": 1, "price": "100.5", "owner": {"name": "Zoo"}}], "Animal": [{"id": 2}]}
            """)
        #expect(try store.rows("SELECT id FROM Employee_readable WHERE salary > 9000") == ["2"])
        #expect(try store.rows("SELECT max(salary), sum(active) FROM Employee_readable") == ["12500.5|1"])
        #expect(
            try store.rows("SELECT * FROM Employee_readable WHERE id = 2") == [
                "2|12500.5|NULL|2011-12-22T02:24:51Z|2011-12-22T02:24:51.250Z|1|A|3|1|NULL|Works|Attic"
            ])
        #expect(
            try store.rows("SELECT name FROM pragma_table_info('Employee_readable')").suffix(3)
                == ["country", "department_name", "room_label"])
        #expect(try store.rows("SELECT * FROM Animal_readable") == ["1|100.5|2|Dog|Zoo", "2|NULL|NULL|Animal|NULL"])
        #expect(try store.rows("SELECT * FROM Dog_readable") == ["1|100.5|2|Dog|Zoo"])
        #expect(
            try store.rows("SELECT sequence, state, ended FROM _broker_jobs_readable")
                == ["1|completed|1970-01-01T00:00:00.000Z"])
    }

    @Test func `a view of another program stays, and so does a table of the model`() throws {
        let store = try TestStore(Self.model)
        try store.execute("DROP VIEW Dog_readable; CREATE VIEW dog_readable AS SELECT 7 AS x")
        try store.reopen()
        #expect(try store.rows("SELECT * FROM Dog_readable") == ["7"])
        #expect(store.store.migration.notes.count == 1)
        #expect(store.store.migration.notes[0].contains("a table or view dog_readable that Broker did not make"))
        let taken = Self.model.replacing(
            #""Dog": {"#, with: #""Room_readable": {"attributes": {"x": "string"}}, "Dog": {"#)
        try store.reopen(taken)
        #expect(try store.rows("SELECT x FROM Room_readable") == [])
        #expect(!(try store.rows(Self.names)).contains("Room_readable"))
        #expect(try store.rows(Self.names).contains("Room_readable_readable"))
    }

    @Test func `a large model has none, because each connection would read them`() throws {
        let attributes = (0..<1_000).map { "\"a\($0)\": \"boolean\"" }.joined(separator: ", ")
        let entities = (0..<6).map { "\"E\($0)\": {\"attributes\": {\(attributes)}}" }.joined(separator: ", ")
        let store = try TestStore("{\"entities\": {\(entities)}}")
        #expect(try store.rows(Self.names) == ["_broker_jobs_readable"])
        #expect(store.store.migration.notes.map { $0.contains("has 6000 attributes and relationships") } == [true])
    }

    @Test func `a model may want none, and gets them when it does not say so any more`() throws {
        let without = Self.model.replacing(#"{"entities""#, with: #"{"readableViews": false, "entities""#)
        let store = try TestStore(without)
        #expect(try store.rows(Self.names) == [])
        #expect(!(try store.rows("SELECT group_concat(sql) FROM sqlite_schema")[0].contains("_readable")))
        try store.reopen(Self.model)
        #expect(try store.rows(Self.names).count == 7)
        try store.reopen(without)
        #expect(try store.rows(Self.names) == [])
        try store.reopen()
        #expect(try store.rows(Self.names) == [])
    }

    @Test func `the views follow the model`() throws {
        let store = try TestStore(Self.model)
        try store.apply(#"{"Employee": [{"id": 1, "department": {"name": "Works"}}], "Dog": [{"id": 1}]}"#)
        let renamed = Self.model.replacing("Employee", with: "Person")
            .replacing(#""Person": {"identity""#, with: #""Person": {"renamedFrom": "Employee", "identity""#)
            .replacing(#""salary": "decimal""#, with: #""pay": {"type": "decimal", "renamedFrom": "salary"}"#)
        try store.reopen(renamed)
        #expect(try store.rows("SELECT id, pay, department_name FROM Person_readable") == ["1|NULL|Works"])
        let dropped = renamed.replacing(#", "country": {"entity": "Country"}"#, with: "")
            .replacing(#""Country": {"identity": "name", "attributes": {"name": "string"}},"#, with: "")
            .replacing(#""Title": "string", "name": "string""#, with: #""Title": "string""#)
        try store.reopen(dropped, removal: .drop)
        #expect(
            try store.rows(Self.names) == [
                "Animal_readable", "Department_readable", "Dog_readable", "Person_readable", "Room_readable",
                "_broker_jobs_readable",
            ])
        #expect(try store.rows("SELECT department_Title FROM Person_readable") == ["NULL"])
        #expect(try store.isSound())
        let sql = "SELECT sql FROM sqlite_schema ORDER BY rowid"
        let before = try store.rows(sql)
        try store.reopen()
        #expect(try store.rows(sql) == before)
    }
}

/// Names that SQL or SQLite gives a meaning are names like any other.
@Suite(.timeLimit(.minutes(5))) struct StrangeNameTests {
    @Test(arguments: ["Excluded", "excluded", "old", "_broker", "select", "temp", "main", "a\"b", "x.y"])
    func `a table of any name is updated`(table: String) throws {
        let name = table.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\\\"")
        let store = try TestStore(
            #"{"entities": {"Thing": {"table": "\#(name)", "identity": "id", "attributes": {"id": "integer64", "n": "integer64", "excluded": "string"}}}}"#
        )
        try store.apply(#"{"Thing": [{"id": 1, "n": 1}, {"id": 2, "n": 2}]}"#)
        #expect(try store.changes(#"{"Thing": [{"id": 1, "n": 5}, {"id": 2, "n": 2, "excluded": "y"}]}"#) == "Thing ~2")
        #expect(try store.rows("SELECT n, excluded FROM \(quoted(table)) ORDER BY id") == ["5|NULL", "2|y"])
    }

    @Test(arguments: ["rowid", "oid", "_rowid_", "ROWID"])
    func `attributes and links may have the names of SQLite's row numbers`(name: String) throws {
        let store = try TestStore(
            """
            {"entities": {
              "E": {"identity": "key", "attributes": {"key": "string"}, "relationships": {
                "\(name)": {"entity": "D", "inverse": "es"}}},
              "D": {"identity": "key", "attributes": {"key": "string", "\(name)": "string"}, "relationships": {
                "es": {"entity": "E", "toMany": true, "inverse": "\(name)", "assignment": "replace"},
                "twin": {"entity": "D", "inverse": "twin"}}}}}
            """)
        try store.apply(#"{"D": [{"key": "d", "es": ["a", "b"], "twin": "x"}, {"key": "y", "\#(name)": "a"}]}"#)
        try store.apply(#"{"D": [{"key": "d", "es": ["b"], "twin": "y"}]}"#)
        #expect(try store.rows("SELECT key, \(quoted(name)) FROM E ORDER BY 1") == ["a|NULL", "b|d"])
        #expect(try store.rows("SELECT key, twin FROM D ORDER BY 1") == ["d|y", "x|NULL", "y|d"])
        let keys = try #require(try store.keys(#"{"D": [{"key": "x", "twin": "d"}]}"#))
        #expect([#""d""#, #""x""#, #""y""#].allSatisfy { keys.contains($0) }, "\(keys)")
    }

    @Test func `an entity may have SQLite's 2,000 columns, and a model with more is refused`() throws {
        func model(_ count: Int, identity: String) -> String {
            let attributes = (0..<count).map { #""a\#($0)": "integer64""# }.joined(separator: ", ")
            return #"{"entities": {"Wide": {\#(identity)"attributes": {\#(attributes)}}}}"#
        }
        func record(_ value: Int) -> String {
            #"{"Wide": [{\#((1..<2_000).map { "\"a\($0)\": \(value)" }.joined(separator: ", ")), "a0": 1}]}"#
        }
        let store = try TestStore(model(2_000, identity: #""identity": "a0", "#))
        #expect(try store.changes(record(1)) == "Wide +1")
        #expect(try store.changes(record(1)) == "Wide =1")
        #expect(try store.changes(record(2)) == "Wide ~1")
        #expect(try store.rows("SELECT a1999 FROM Wide") == ["2"])
        #expect(throws: ModelError.self) { try TestStore(model(2_001, identity: #""identity": "a0", "#)) }
        // With the key of the store's own one less.
        #expect(throws: ModelError.self) { try TestStore(model(2_000, identity: "")) }
        _ = try TestStore(model(1_999, identity: ""))
    }

    @Test func `names that differ in Unicode's form only are different attributes`() throws {
        let store = try TestStore(
            #"{"entities": {"E": {"identity": "id", "unique": [["e\u0301"]], "attributes": {"id": "integer64", "\u00e9": "string", "e\u0301": "string"}}}}"#
        )
        try store.apply(#"{"E": {"id": 1, "\u00e9": "one", "e\u0301": "two"}}"#)
        #expect(try store.rows("SELECT \"\u{e9}\", \"e\u{301}\" FROM E") == ["one|two"])
        #expect(try store.fault(#"{"E": {"id": 2, "e\u0301": "two"}}"#)?.code == .constraintViolation)
    }
}

/// The largest models that are read can be stored.
@Suite(.timeLimit(.minutes(10))) struct LargestModelTests {
    @Test func `a table of 2,000 columns with names of 255 bytes is made, filled, changed and read`() throws {
        let names = (0..<2_000).map { number in
            "c\(number)_" + String(repeating: "é", count: 120).padding(number)
        }
        let attributes = names.map { "\"\($0)\": \"integer32\"" }.joined(separator: ", ")
        let store = try TestStore(
            "{\"entities\": {\"Wide\": {\"identity\": \"\(names[0])\", \"attributes\": {\(attributes)}}}}")
        func record(_ value: Int) -> String {
            let members = names.enumerated().map { "\"\($1)\": \($0 == 0 ? 1 : value + $0)" }.joined(separator: ", ")
            return "{\"Wide\": [{\(members)}]}"
        }
        #expect(try store.changes(record(0)) == "Wide +1")
        #expect(try store.changes(record(0)) == "Wide =1")
        #expect(try store.changes(record(7)) == "Wide ~1")
        #expect(try store.changes("{\"Wide\": {\"\(names[0])\": 1, \"\(names[1_999])\": 5}}") == "Wide ~1")
        #expect(try store.rows("SELECT \"\(names[1_998])\", \"\(names[1_999])\" FROM Wide") == ["2005|5"])
        #expect(try store.isSound())
        try store.reopen()
    }

    @Test(arguments: ["integer64", "string"])
    func `objects of 2,000 attributes are fetched, also nested and by their keys`(identity: String) throws {
        let names = (1..<2_000).map { "c\($0)" }
        let attributes = names.map { "\"\($0)\": \"integer32\"" }.joined(separator: ", ")
        let key = identity == "string" ? "\"k\"" : "7"
        let store = try TestStore(
            """
            {"entities": {
              "Wide": {"identity": "id", "attributes": {"id": "\(identity)", \(attributes)}},
              "Owner": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"wides": {"entity": "Wide", "toMany": true}}}}}
            """)
        let object = "{\"id\":\(key)," + names.enumerated().map { "\"\($1)\":\($0)" }.joined(separator: ",") + "}"
        try store.apply("{\"Owner\": {\"id\": 1, \"wides\": [\(object)]}}")
        #expect(try store.fetch("Wide") == "[\(object)]")
        #expect(try store.fetch("Wide", object: key) == "[\(object)]")
        #expect(
            try store.fetch("Wide") { $0.result = .dictionary } == "{\(identity == "string" ? key : "\"7\""):\(object)}"
        )
        #expect(try store.fetch("Owner") { $0.include = ["wides"] } == "[{\"id\":1,\"wides\":[\(object)]}]")
    }

    @Test func `keys of linked objects count among the columns of a result`() throws {
        // Each relationship has a column, and a second one is read for the identity of what it links to.
        let names = (0..<1_200).map { "r\($0)" }
        let links = names.map { "\"\($0)\": {\"entity\": \"Guest\"}" }.joined(separator: ", ")
        let store = try TestStore(
            """
            {"entities": {
              "Guest": {"identity": "name", "identityOptional": true, "attributes": {"name": "string"}},
              "Host": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {\(links)}}}}
            """)
        let object = "{\"id\":1," + names.map { "\"\($0)\":\"\($0)\"" }.joined(separator: ",") + "}"
        try store.apply("{\"Host\": \(object)}")
        #expect(try store.fetch("Host") == "[\(object)]")
    }
}

extension String {
    /// To 255 bytes together with `c`, the number and `_`.
    fileprivate func padding(_ number: Int) -> String {
        self + String(repeating: "x", count: 255 - utf8.count - "c\(number)_".utf8.count)
    }
}
