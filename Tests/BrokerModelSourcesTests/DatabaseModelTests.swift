import BrokerJSON
import BrokerModel
import CSQLite
import TestSupport
import Testing

@testable import BrokerModelSources
@testable import BrokerStaging

@Suite(.timeLimit(.minutes(5))) struct DatabaseModelTests {
    private let folder = TemporaryFolder()

    private func convert(_ sql: String) throws -> (model: Model, text: String) {
        let path = folder.path("existing.sqlite")
        var handle: OpaquePointer?
        #expect(sqlite3_open(path, &handle) == SQLITE_OK)
        defer { sqlite3_close(handle) }
        try #require(
            sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK, "\(String(cString: sqlite3_errmsg(handle)))")
        let text = try DatabaseModel.modelText(ofDatabaseAt: path)
        return (try StagingPlan(ModelReader.read(JSONText(copying: Array(text.utf8)))).model, text)
    }

    @Test(arguments: [
        ("INTEGER", "1", "integer64"), ("BIGINT", "1", "integer64"), ("REAL", "1.5", "double"),
        ("TEXT", "'a'", "string"), ("BLOB", "x'00'", "binary"), ("BOOLEAN", "1", "boolean"),
        ("DATE", "'2011-12-22T02:24:51.000Z'", "date"), ("DATETIME", "1324520691", "date"),
        ("DATE", "'2011-12-22'", "calendarDate"), ("DATE", "'2011-02-29'", "string"),
        ("TEXT", "'2011-12-22'", "string"),
        ("TIMESTAMP", "'2011-12-22 02:24:51'", "string"), ("DECIMAL(10,2)", "1.5", "double"),
        ("VARCHAR(20)", "'a'", "string"), ("UUID", "'68753A44-4D6F-1226-9C60-0050E4C00067'", "uuid"),
        ("UUID", "'68753a44-4d6f-1226-9c60-0050e4c00067'", "string"), ("", "1", "integer64"), ("", "'a'", "string"),
        ("INTEGER", "'a'", "string"), ("JSON", "'{}'", "transformable"), ("TEXT", "'{\"a\": 1}'", "transformable"),
        ("DECIMAL_TEXT", "'-12.50'", "decimal"), ("DECIMAL_TEXT", "'007'", "string"),
        ("DECIMAL_TEXT", "'-0.0'", "string"),
        ("URI_TEXT", "'a:b'", "uri"), ("BOOLEAN_INTEGER", "1", "boolean"), ("JSON_TEXT", "'5'", "transformable"),
        ("DATE_TEXT", "'2011-12-22'", "calendarDate"), ("DATETIME_TEXT", "'2011-12-22T02:24:51.000Z'", "date"),
        ("UUID_TEXT", "'68753A44-4D6F-1226-9C60-0050E4C00067'", "uuid"), ("DATETIME_REAL", "0.5", "date"),
        ("", "'[1]'", "transformable"), ("TEXT", "'[1'", "string"), ("TEXT", "'5'", "string"), ("TEXT", "''", "string"),
    ])
    func `types follow from what is declared and what is stored`(type: String, value: String, expected: String) throws {
        let model = try convert(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a \(type)); INSERT INTO t VALUES (1, \(value))"
        ).model
        let attribute = model.entities[0].attributes[1]
        #expect(attribute.type.rawValue == expected)
        #expect(attribute.constraints.maximumLength == (type == "VARCHAR(20)" ? 20 : nil))
        #expect(attribute.dateStorage == (type == "DATETIME" ? .unix : type == "DATETIME_REAL" ? .coreData : .iso8601))
    }

    @Test func `a key that is declared as JSON is a text`() throws {
        let model = try convert("CREATE TABLE t (k JSON PRIMARY KEY, a JSON); INSERT INTO t VALUES ('{}', '{}')").model
        #expect(model.entities[0].attributes.map(\.type) == [.string, .transformable])
    }

    @Test func `texts are JSON if all sampled values are objects or arrays, and the column is no key`() throws {
        let (model, text) = try convert(
            """
            CREATE TABLE t (k TEXT PRIMARY KEY, a TEXT NOT NULL DEFAULT '{"x": ''y''}', b TEXT DEFAULT '[]', c TEXT DEFAULT 'x');
            INSERT INTO t VALUES ('{}', '{}', '[1]', '{}'), ('[]', '[{"a": null}]', NULL, '{'), ('[1]', '{}', '[]', '[]');
            """)
        #expect(
            model.entities[0].attributes.map { "\($0.name) \($0.type.rawValue) \($0.defaultValue?.text ?? "")" } == [
                "k string ", "a transformable ", "b transformable []", "c string \"x\"",
            ])
        #expect(text.contains("all values are JSON objects or arrays"))
    }

    @Test func `keys, defaults, lists and indexes become those of entities`() throws {
        let (model, text) = try convert(
            """
            CREATE TABLE department (id INTEGER PRIMARY KEY, name TEXT NOT NULL DEFAULT 'it''s', made TEXT DEFAULT CURRENT_TIMESTAMP);
            CREATE TABLE employee (code TEXT PRIMARY KEY, level INT NOT NULL, email TEXT UNIQUE, rate REAL DEFAULT 1.5,
                both TEXT GENERATED ALWAYS AS (code || level), department_id INTEGER NOT NULL REFERENCES department ON DELETE CASCADE,
                boss TEXT REFERENCES employee (code) ON DELETE SET NULL);
            CREATE INDEX by_level ON employee (level, email);
            CREATE INDEX partly ON employee (level) WHERE level > 1;
            CREATE TABLE membership (who TEXT REFERENCES employee, what INTEGER REFERENCES department, PRIMARY KEY (who, what));
            CREATE VIEW seen AS SELECT 1;
            CREATE TABLE keyless (x);
            CREATE TABLE words (word TEXT COLLATE NOCASE PRIMARY KEY);
            CREATE TABLE packed (a TEXT PRIMARY KEY) WITHOUT ROWID;
            CREATE TRIGGER t AFTER INSERT ON department BEGIN SELECT 1; END;
            """)
        #expect(model.entities.map(\.name) == ["department", "employee", "membership"])
        for part in [
            "keyless (no primary key", "packed (WITHOUT ROWID", "seen (a view)", "words (its key is not compared",
            "both is skipped: it is generated", "the default CURRENT_TIMESTAMP is SQLite's to give",
            "triggers do not fire", "foreign key who is no relationship: it is a part of the primary key",
        ] { #expect(text.contains(part), "\(part) in \(text)") }
        let (department, employee, membership) = (model.entities[0], model.entities[1], model.entities[2])
        #expect(department.attributes[1].defaultValue?.text == "\"it's\"" && !department.attributes[1].isOptional)
        #expect(department.attributes[2].defaultValue == nil && department.attributes[2].isOptional)
        #expect(employee.attributes.map(\.name) == ["code", "level", "email", "rate"])
        #expect(employee.attributes[3].defaultValue?.text == "1.5")
        #expect(employee.unique == [[2]] && employee.indexes == [[1, 2]])
        #expect(membership.identity == [0, 1] && membership.relationships.isEmpty)
        let link = employee.relationships[0]
        #expect(link.name == "department_id" && link.keyPaths == [["department_id"], ["department"]])
        #expect(model.inverse(of: link)?.name == "employee" && model.inverse(of: link)?.deleteRule == .cascade)
        #expect(model.inverse(of: employee.relationships[1])?.deleteRule == .nullify)
    }

    @Test func `foreign keys that no relationship can be stay attributes, with the reason`() throws {
        let (model, text) = try convert(
            """
            CREATE TABLE a (x INTEGER, y INTEGER, z TEXT UNIQUE, PRIMARY KEY (x, y));
            CREATE TABLE b (id INTEGER PRIMARY KEY, p INTEGER, q INTEGER, r TEXT REFERENCES a (z),
                FOREIGN KEY (p, q) REFERENCES a (x, y));
            """)
        #expect(model.entities[1].attributes.map(\.name) == ["id", "p", "q", "r"])
        #expect(model.entities.allSatisfy { $0.relationships.isEmpty })
        #expect(text.contains("p, q is no relationship: it has several columns"))
        #expect(text.contains("r is no relationship: it does not refer to the primary key"))
    }

    @Test func `the tables of a backup tool are no entities`() throws {
        let (model, text) = try convert(
            """
            CREATE TABLE a (id INTEGER PRIMARY KEY);
            CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER);
            CREATE TABLE _litestream_lock (id INTEGER);
            """)
        #expect(model.entities.map(\.name) == ["a"])
        #expect(!text.contains("litestream"))
    }

    @Test func `strange names and broken files are reported, and the file does not change`() throws {
        let (model, _) = try convert(
            #"CREATE TABLE "a""b" ("i d" INTEGER PRIMARY KEY, "x.y" TEXT, "select" TEXT); CREATE TABLE "_pk" ("k" TEXT PRIMARY KEY)"#
        )
        #expect(model.entities.map(\.name) == [#"a"b"#])
        #expect(model.entities[0].attributes.map(\.name) == ["i d", "select"])
        #expect(throws: DatabaseModel.Failure.self) { try DatabaseModel.modelText(ofDatabaseAt: "/missing/file") }
    }

    @Test func `a database in UTF-16 is read as any other`() throws {
        let sql = #"CREATE TABLE "Größe" (id INTEGER PRIMARY KEY, "état" TEXT NOT NULL DEFAULT 'né')"#
        let (model, _) = try convert("PRAGMA encoding = 'UTF-16le'; \(sql)")
        #expect(model.entities.map(\.name) == ["Größe"])
        #expect(model.entities[0].attributes.map(\.name) == ["id", "état"])
    }

    @Test func `a schema that is larger than any real one is not read`() throws {
        let comment = String(repeating: "x", count: 5 << 20)
        let error = #expect(throws: DatabaseModel.Failure.self) {
            try convert("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT /* \(comment) */)")
        }
        #expect(error?.description.contains("cannot be read") == true, "\(error?.description.prefix(200) ?? "")")
    }

    @Test func `a value that is larger than the limit for reading does not prevent the import`() throws {
        let model = try convert(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b BLOB);
            INSERT INTO t VALUES (1, CAST(zeroblob(6000000) AS TEXT), zeroblob(6000000)),
                (2, '2011-12-22T02:24:51.000Z', x'00');
            """
        ).model
        #expect(model.entities[0].attributes.map(\.type.rawValue) == ["integer64", "string", "binary"])
    }

    @Test(arguments: [
        (
            """
            PRAGMA writable_schema = ON;
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= 10000)
            INSERT INTO sqlite_schema SELECT 'view', 'v' || i, 'v' || i, 0, 'CREATE VIEW v' || i || ' AS SELECT 1' FROM n
            """, "10001 tables and views, and at most 10000"
        ),
        (
            (0...100).map { table in
                "CREATE TABLE t\(table) (\((0..<2_000).map { "c\($0)" }.joined(separator: ",")));"
            }.joined(), "202000 columns, and at most 200000"
        ),
    ])
    func `a database that is larger than any model is refused before its tables are read`(sql: String, fault: String)
        throws
    {
        let failure = #expect(throws: DatabaseModel.Failure.self) { try convert(sql) }
        #expect(
            failure?.description.contains("there are \(fault) are read; split the model") == true,
            "\(failure?.description ?? "")")
    }
}

@Suite(.timeLimit(.minutes(5))) struct TextFormTests {
    private func form(_ text: String) -> TextForm { Array(text.utf8).withUnsafeBufferPointer { TextForm(of: $0) } }

    private static func format(_ pattern: String) -> TextForm {
        TextForm.format(TextForm.formats.firstIndex { "\($0.pattern)" == pattern }!)
    }

    private static let forms: [(form: TextForm, texts: [String])] = [
        (
            .iso8601,
            [
                "2012-09-24T03:35:21Z", "2012-09-24T03:35:21.123456Z", "2012-09-24 03:35:21.123456789+02:00",
                "2012-09-24T03:35", "2012-09-24 03:35:21,5 +0200", "2012-09-24T03:35:21+02",
                "2012-09-24T24:00:00Z",
            ]
        ),
        ([format("yyyy-MM-dd"), .iso8601], ["2012-09-24", "2012-02-29"]),
        (format("yyyy-MM-dd"), ["2012-9-24"]), (format("yyyy/MM/dd"), ["2012/09/24", "2012/9/24"]),
        (format("dd.MM.yyyy"), ["24.9.2012", "05.09.2012"]),
        (format("dd/MM/yyyy"), ["24/09/2012"]), (format("MM/dd/yyyy"), ["9/24/2012"]),
        (format("dd-MM-yyyy"), ["24-09-2012"]), (format("MM-dd-yyyy"), ["09-24-2012"]),
        ([format("dd/MM/yyyy"), format("MM/dd/yyyy")], ["5/9/2012"]),
        (format("EEE MMM dd HH:mm:ss Z yyyy"), ["Mon Sep 24 03:35:21 +0000 2012", "Mon Sep 24 03:35:21 GMT 2012"]),
        (
            format("EEE, dd MMM yyyy HH:mm:ss Z"),
            ["Mon, 24 Sep 2012 03:35:21 GMT", "Mon, 24 Sep 2012 03:35:21 +0000", "Mon, 4 Sep 2012 03:35:21 GMT"]
        ),
        (format("yyyy/MM/dd HH:mm:ss Z"), ["2012/09/24 03:35:21 +0000"]),
        (.uuid, ["68753A44-4D6F-1226-9C60-0050E4C00067"]),
        ([.number, .integer], ["0", "-12", "9223372036854775807"]),
        (.number, ["9223372036854775808", "1.50", "1.5e-7", "1e-7"]), (.trueOrFalse, ["true", "False"]),
        (.yesOrNo, ["YES", "no"]),
        (
            [],
            [
                "2012-02-30T03:35:21Z", "2012-09-24T03:35:60Z", "2012-09-24T03:35:21.Z",
                "2012-09-24T03:35:21X", "0001-01-01T00:00:00+02:00", "2011-02-29", "2012-13-24", "0000-01-01",
                "2012/09-24", "24/09-2012", "31/09/2012",
                "9.24.2012", "24/9/12",
                "24 9 2012", "Mon Sep 31 03:35:21 +0000 2012", "Mon, 24 Sep 2012 03:35:21 EST",
                "c8753a44-4d6f-1226-9c60-0050e4c0006g", "c8753a44-4d6f-1226-9c60-0050e4c00067", "007", "+5", "-0",
                "12E5", "1.", ".5", "-", "1,5", "1 000",
                "NaN",
                "0x10", "not", "", "https://a.b/",
            ]
        ),
    ]

    @Test func `the form of a text`() {
        for (expected, texts) in Self.forms {
            for text in texts { #expect(form(text) == expected, "\(text)") }
        }
    }

    /// A text of a type's form that the type's conversion refuses would stop the load of a store that its own model
    /// was inferred for.
    @Test func `the conversion reads each text that has the form of its type`() throws {
        var numbers = SeededGenerator()
        let texts = [
            "2012-09-24T03:35:21.123456+02:00", "2012-09-24", "2012/09/24 03:35:21 +0000", "0001-01-01T00:00:00Z",
            "Mon, 24 Sep 2012 03:35:21 GMT", "Mon Sep 24 03:35:21 +0000 2012", "9999-12-31 23:59:59 -0100",
            "68753A44-4D6F-1226-9C60-0050E4C00067", "24/9/2012", "12-31-9999", "1.1.0001",
        ]
        let alphabet = Array("0123456789-+:/. TZ,eJanFebUCGMx".utf8)
        var found = 0
        for _ in 0..<20_000 {
            var bytes = Array(texts.randomElement(using: &numbers)!.utf8)
            for _ in 0..<Int.random(in: 0...2, using: &numbers) {
                bytes[Int.random(in: bytes.indices, using: &numbers)] = alphabet.randomElement(using: &numbers)!
            }
            let text = String(decoding: bytes, as: UTF8.self)
            guard let type = form(text).type else { continue }
            found += 1
            let converter = try ValueConverter.compiled(
                Attribute(name: "a", type: type.type, dateFormats: type.format.map { [$0] } ?? []))
            let document = try JSONDocument(parsing: JSONText(copying: Array("\"\(text)\"".utf8)))
            var arena = ByteArena()
            #expect(throws: Never.self, "\(text)") {
                _ = try withExtendedLifetime(document) { try converter.convert(document.root, arena: &arena) }
            }
        }
        #expect(found > 2_000)
    }

    @Test func `a long text is rejected by its length`() {
        let text = [UInt8](repeating: UInt8(ascii: "1"), count: 10 << 20)
        let duration = ContinuousClock().measure {
            for _ in 0..<1_000 { text.withUnsafeBufferPointer { #expect(TextForm(of: $0) == []) } }
        }
        // To read these texts would take seconds.
        #expect(duration < .seconds(1))
    }
}
