import BrokerJSON
import BrokerModel
import BrokerModelSources
import BrokerStaging
import CSQLite
import Foundation
import TestSupport
import Testing

@testable import BrokerStore

/// Databases that are there already, fed in place.
@Suite(.timeLimit(.minutes(5))) struct FeedingTests {
    /// Departments and employees refer to each other, and no foreign key is deferrable.
    private static let company = """
        PRAGMA application_id = 77; PRAGMA user_version = 5;
        CREATE TABLE department (id INTEGER PRIMARY KEY, name TEXT NOT NULL,
            head TEXT REFERENCES employee (code) ON DELETE SET NULL, colour TEXT);
        CREATE TABLE employee (code VARCHAR(20) PRIMARY KEY, name TEXT, level BIGINT NOT NULL DEFAULT 1,
            shout TEXT GENERATED ALWAYS AS (upper(name)) VIRTUAL, email TEXT UNIQUE CHECK (email LIKE '%@%'),
            department_id INTEGER NOT NULL REFERENCES department ON DELETE CASCADE, changed TEXT DEFAULT CURRENT_TIMESTAMP);
        CREATE TABLE membership (who TEXT REFERENCES employee ON DELETE CASCADE, what INT REFERENCES department,
            since TEXT, PRIMARY KEY (who, what));
        CREATE TABLE note (id BIGINT PRIMARY KEY, text TEXT, about INTEGER REFERENCES department);
        CREATE TABLE log (line TEXT);
        CREATE INDEX by_level ON employee (level);
        CREATE UNIQUE INDEX by_name ON department (name) WHERE name > '';
        CREATE VIEW staff AS SELECT e.name, d.name AS department FROM employee e JOIN department d ON d.id = department_id;
        CREATE TRIGGER logged AFTER INSERT ON employee BEGIN INSERT INTO log VALUES (new.code); END;
        INSERT INTO department VALUES (1, 'Sales', NULL, 'red');
        INSERT INTO employee (code, name, department_id) VALUES ('a', 'Ada', 1);
        UPDATE department SET head = 'a';
        """

    @Test func `a database is fed in place, and nothing in it is changed but rows`() throws {
        let database = try FedDatabase(Self.company)
        let objects = try database.foreignObjects()
        let opened = try database.open()
        #expect(opened.migration.lines.count == 2 && opened.migration.lines[1].contains("triggers"))
        // The department comes after those who work there, and its head is one of them.
        let records = """
            [{"code": "b", "name": "Bob", "email": "b@x", "department": {"id": 2, "name": "R&D", "head": "b"}},
             {"code": "a", "name": "Ann", "department_id": 2}]
            """
        #expect(try database.process("employee", records) == ["employee +1 ~1", "department +1"].sorted())
        #expect(try database.process("employee", records) == ["employee =2", "department =1"].sorted())
        #expect(
            try database.rows("SELECT code, name, shout, level, email, department_id FROM employee ORDER BY code")
                == ["a|Ann|ANN|1|NULL|2", "b|Bob|BOB|1|b@x|2"])
        #expect(try database.rows("SELECT * FROM department") == ["1|Sales|a|red", "2|R&D|b|NULL"])
        #expect(try database.rows("SELECT * FROM staff ORDER BY 1") == ["Ann|R&D", "Bob|R&D"])
        #expect(try database.rows("SELECT count(changed) FROM employee") == ["2"])
        // The trigger fired for the other program alone.
        #expect(try database.rows("SELECT * FROM log") == ["a"])
        #expect(
            try database.process("membership", #"[{"who": "a", "what": 2}, {"who": "b", "what": 1}]"#)
                == ["membership +2"])
        #expect(
            try database.process("note", #"[{"id": 9, "text": "x", "about": 1}, {"id": 4, "about": 2}]"#).last
                == "note +2")

        database.close()
        #expect(try database.foreignObjects() == objects)
        #expect(
            try database.rows("SELECT key, value FROM _broker_meta WHERE key <> 'model' ORDER BY 1") == [
                "formatVersion|2", "tables|foreign",
            ])
        #expect(try database.rows("PRAGMA foreign_key_check").isEmpty)
        #expect(try database.rows("PRAGMA integrity_check") == ["ok"])
        // The model is imported again, without Broker's tables.
        let plan = try database.imported()
        #expect(plan.model.entities.map(\.name) == database.plan.model.entities.map(\.name))
        #expect(try !database.open().migration.lines[0].contains("added"))
        #expect(try database.process("employee", records) == ["employee =2", "department =1"].sorted())
        #expect(try database.foreignObjects() == objects)
    }

    @Test func `rows are deleted by what the database's foreign keys say`() throws {
        let database = try FedDatabase(Self.company)
        try database.open()
        #expect(
            try database.process(
                "employee",
                #"[{"code": "b", "department_id": 1}, {"code": "c", "department": {"id": 2, "name": "R&D"}}]"#
            )
            .count == 2)
        try database.execute(
            "INSERT INTO membership VALUES ('c', 2, NULL); INSERT INTO note VALUES (700, 'x', 1), (3, 'y', 2)")
        // SET NULL: the head. Nothing else refers to an employee but what the model does not know as a link.
        #expect(try database.delete("employee", #"["a"]"#) == ["department ~1", "employee -1"])
        // NO ACTION becomes deny.
        #expect(
            try database.delete("department", "[1]")[0].hasPrefix(
                "constraintViolation: The department 1 cannot be deleted: its note"))
        #expect(try database.sync("note", #"[{"id": 3}]"#) == ["note =1 -1"])
        // CASCADE: who works there.
        #expect(try database.delete("department", "[1]") == ["department -1", "employee -1"])
        // A foreign key that is no relationship, and not deferrable, is still enforced.
        try database.execute(
            """
            UPDATE note SET about = NULL; INSERT INTO department (id, name) VALUES (3, 'x');
            INSERT INTO employee (code, department_id) VALUES ('q', 3); INSERT INTO membership VALUES ('q', 2, NULL)
            """)
        let held = try database.delete("department", "[2]")
        #expect(held.count == 1 && held[0].contains("would leave a link to an object that does not exist"), "\(held)")
        #expect(
            try database.rows("SELECT (SELECT count(*) FROM department), (SELECT count(*) FROM employee)") == ["2|2"])
        #expect(try database.rows("PRAGMA foreign_key_check").isEmpty)
    }

    @Test func `a value that the database requires and a record lacks is reported, and can be skipped`() throws {
        let cascade = #""deleteRule": "cascade""#
        let database = try FedDatabase(Self.company) {
            $0.replacing(cascade, with: cascade + #", "assignment": "replace""#)
        }
        try database.open()
        #expect(
            try database.process("employee", #"[{"code": "z"}]"#)[0].hasPrefix(
                "missingValue: A new employee has no value for department_id, which is required."))
        #expect(
            try database.process("department", #"[{"id": 1, "head": "z"}]"#)[0].contains(
                "a stub cannot be made of it, because department_id is required"))
        // An existing object needs no second mention.
        #expect(try database.process("employee", #"[{"code": "a", "name": "Anna"}]"#) == ["employee ~1"])
        let null = try database.process("employee", #"[{"code": "z", "department_id": null}]"#)
        #expect(
            null[0].hasPrefix(
                "constraintViolation: The database does not allow it: a column that is NOT NULL would be NULL. A table")
        )
        #expect(database.fault?.entity == "employee" && database.fault?.attribute == "department_id")
        #expect(database.fault?.cause == "NOT NULL constraint failed: employee.department_id")
        let checked =
            #"[{"code": "y", "email": "none", "department_id": 1}, {"code": "z", "email": "z@x", "department_id": 1}]"#
        #expect(try database.process("employee", checked)[0].contains("a CHECK constraint does not hold"))
        #expect(database.fault?.cause == "CHECK constraint failed: email LIKE '%@%'")
        let skipped = try database.process("employee", checked, .skip)
        #expect(
            skipped.contains("employee +1 !1") && skipped.last!.contains("a CHECK constraint does not hold"),
            "\(skipped)")
        // The other side lets go of what may not be alone.
        #expect(
            try database.process("department", #"[{"id": 1, "employee": []}]"#)[0].contains(
                "a column that is NOT NULL would be NULL"))
        #expect(try database.rows("SELECT code, name FROM employee ORDER BY 1") == ["a|Anna", "z|NULL"])
    }

    @Test(arguments: [
        (
            "CREATE TABLE a (id INTEGER PRIMARY KEY, x TEXT); DROP TABLE a; CREATE VIEW a AS SELECT 1 AS id, 2 AS x",
            "a is a view"
        ),
        ("DROP TABLE a", "there is no table a"),
        ("DROP TABLE a; CREATE TABLE A (id INTEGER PRIMARY KEY, x TEXT)", "there is no table a"),
        ("DROP TABLE a; CREATE TABLE a (id INTEGER PRIMARY KEY, x TEXT) WITHOUT ROWID", "a is a table WITHOUT ROWID"),
        ("ALTER TABLE a RENAME COLUMN x TO y", "there is no column a.x"),
        ("ALTER TABLE a RENAME COLUMN link TO other", "there is no column a.link"),
        (
            "DROP TABLE a; CREATE TABLE a (id INTEGER PRIMARY KEY, x TEXT, n TEXT, link INTEGER REFERENCES b ON DELETE SET NULL)",
            "a.n is declared TEXT, which does not store INTEGER unchanged, as the model requires"
        ),
        (
            "DROP TABLE a; CREATE TABLE a (id INTEGER, x TEXT, n INTEGER, link INTEGER REFERENCES b ON DELETE SET NULL)",
            "a has no primary key or unique index of id"
        ),
        (
            "DROP TABLE b; CREATE TABLE b (id INTEGER PRIMARY KEY, k TEXT)",
            "b (k) is unique in the model, but not in the table"
        ),
        (
            "DROP TABLE b; CREATE TABLE b (id INTEGER PRIMARY KEY, k TEXT COLLATE NOCASE UNIQUE)",
            "b (k) is unique in the model"
        ),
        (
            "ALTER TABLE b ADD COLUMN more; DROP TABLE b; CREATE TABLE b (id INTEGER PRIMARY KEY, k TEXT UNIQUE, more TEXT NOT NULL)",
            "b.more is NOT NULL without a default, and not in the model"
        ),
        (
            "DROP TABLE b; CREATE TABLE b (id INTEGER PRIMARY KEY, k TEXT NOT NULL UNIQUE)",
            "b.k is NOT NULL without a default, and optional in the model"
        ),
        (
            "DROP TABLE a; CREATE TABLE a (id INTEGER PRIMARY KEY, x TEXT, n INTEGER, link INTEGER)",
            "a.link has no foreign key to b (id)"
        ),
        (
            "DROP TABLE a; CREATE TABLE a (id INTEGER PRIMARY KEY, x TEXT, n INTEGER, link INTEGER REFERENCES b)",
            "a.link is ON DELETE NO ACTION, and the model wants SET NULL"
        ),
        ("INSERT INTO a VALUES (1, 'x', 2, 3)", "row 1 of a refers to a row of b that does not exist"),
        (
            "DROP TABLE a; CREATE TABLE a (id INTEGER PRIMARY KEY, x TEXT GENERATED ALWAYS AS (n) STORED, n INTEGER, "
                + "link INTEGER REFERENCES b ON DELETE SET NULL)", "a.x is generated"
        ),
        ("CREATE TABLE c (k TEXT REFERENCES b (other))", "a foreign key to or from b cannot be checked"),
        (
            "ALTER TABLE a ADD COLUMN z REFERENCES missing",
            "a foreign key to or from a cannot be checked (no such table"
        ),
        ("ALTER TABLE b ADD COLUMN \"RowID\" TEXT", "b has a column rowid, which hides the numbers of its rows"),
        (
            "DROP TABLE b; CREATE TABLE b (g AS (k), id INTEGER PRIMARY KEY, k TEXT UNIQUE)",
            "a generated column before its key"
        ),
    ])
    func `a database that does not fit is refused unchanged, and the way to feed it is reported`(
        sql: String, reason: String
    )
        throws
    {
        let database = try FedDatabase(
            """
            CREATE TABLE b (id INTEGER PRIMARY KEY, k TEXT UNIQUE);
            CREATE TABLE a (id INTEGER PRIMARY KEY, x TEXT, n INTEGER, link INTEGER REFERENCES b ON DELETE SET NULL);
            """)
        try database.execute(sql.hasPrefix("CREATE TABLE a") ? "DROP TABLE a; " + sql : sql)
        let message = try database.refusal()
        #expect(message.contains(reason), "\(message)")
        #expect(message.contains("broker model import") && message.contains("Nothing was touched"))
    }

    @Test func `a fed database is never migrated`() throws {
        let database = try FedDatabase("CREATE TABLE a (id INTEGER PRIMARY KEY, x TEXT)")
        try database.open()
        #expect(try database.process("a", #"[{"id": 1, "x": "y"}]"#) == ["a +1"])
        database.close()
        try database.execute("ALTER TABLE a RENAME COLUMN x TO y")
        let message = try #require(throws: StoreError.self) { try database.open() }.message
        #expect(
            message.contains("there is no column a.x") && message.contains("never changes its tables"), "\(message)")
        #expect(try database.rows("SELECT * FROM a") == ["1|y"])
        // A model that does without it fits, and needs no leave.
        let other = try database.imported()
        let store = try Store(path: database.path, plan: other)
        #expect(store.migration.changes.isEmpty)
    }

    @Test func `an adjusted model may omit nullable columns, and rename keys`() throws {
        let database = try FedDatabase(
            "CREATE TABLE a (id INTEGER PRIMARY KEY, code TEXT NOT NULL UNIQUE, extra TEXT DEFAULT 'e', x INTEGER)"
        ) { _ in
            #"{"entities": {"A": {"table": "a", "identity": "code", "attributes": {"code": "string", "x": {"type": "integer16", "key": "n"}}}}}"#
        }
        try database.open()
        #expect(try database.process("A", #"[{"code": "k", "n": 1}, {"code": "l"}]"#) == ["A +2"])
        #expect(try database.process("A", #"[{"code": "k", "n": 2}, {"code": "l"}]"#) == ["A ~1 =1"])
        #expect(try database.rows("SELECT * FROM a") == ["1|k|e|2", "2|l|e|NULL"])
        #expect(try database.delete("A", #"["k"]"#) == ["A -1"])
        #expect(try database.fetch("A") == #"[{"code":"l","n":null}]"#)
    }

    @Test func `values that the model does not expect are fetched as what they are`() throws {
        let database = try FedDatabase(
            """
            CREATE TABLE a (id TEXT PRIMARY KEY, n INTEGER, d DATETIME, r REAL, b BOOLEAN, j JSON, x BLOB, u UUID)
            """)
        try database.execute(
            """
            INSERT INTO a VALUES ('k', 'many', 'yesterday', 9e999, 7, 'no json', 5, x'ff'),
                (NULL, x'00', -9223372036854775808, 'r', 'b', 9e999, 'x', CAST(x'ff' AS TEXT)),
                ('l', 1, 2, 3, 4, x'00', 6, 7)
            """)
        try database.open()
        let text = try database.fetch("a")
        #expect(throws: Never.self) { try JSONSerialization.jsonObject(with: Data(text.utf8)) }
        #expect(
            text.contains(#""n":"many","d":"yesterday""#) && text.contains(#""b":7,"j":"no json","x":5"#)
                && text.contains(#""j":"AA==""#), "\(text)")
        #expect(try database.process("a", #"[{"id": "k", "n": 3, "j": [1], "r": 2.5}]"#) == ["a ~1"])
        #expect(try database.rows("SELECT n, r, j FROM a WHERE id = 'k'") == ["3|2.5|[1]"])
    }

    @Test(arguments: [
        ("noAction", "a.link is ON DELETE CASCADE, and the model wants NO ACTION"), ("cascade", nil),
        ("nullify", "wants SET NULL"),
    ])
    func `a delete rule that the database does not keep is refused`(rule: String, reason: String?) throws {
        let database = try FedDatabase(
            """
            CREATE TABLE b (id INTEGER PRIMARY KEY);
            CREATE TABLE a (id INTEGER PRIMARY KEY, link INTEGER REFERENCES b ON DELETE CASCADE);
            """
        ) { $0.replacing(#""deleteRule": "cascade""#, with: "\"deleteRule\": \"\(rule)\"") }
        if let reason {
            let message = try database.refusal()
            #expect(message.contains(reason), "\(message)")
        } else {
            try database.open()
        }
    }

    @Test func `entities that inherit are refused`() throws {
        let database = try FedDatabase("CREATE TABLE A (id INTEGER PRIMARY KEY, _entity TEXT)") { _ in
            #"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64"}}, "B": {"parent": "A"}}}"#
        }
        #expect(try database.refusal().contains("B has a parent"))
    }

    @Test func `objects that RESTRICT protects are deleted when both sides are deleted in one operation`() throws {
        let database = try FedDatabase(
            """
            CREATE TABLE p (id TEXT PRIMARY KEY, boss TEXT REFERENCES p ON DELETE RESTRICT ON UPDATE RESTRICT) STRICT;
            INSERT INTO p VALUES ('a', NULL), ('b', 'a'), ('c', 'b');
            """)
        try database.open()
        #expect(try database.delete("p", #"["a"]"#)[0].hasPrefix("constraintViolation: The p \"a\" cannot be deleted"))
        #expect(try database.delete("p", #"["a", "b", "c"]"#) == ["p -3"])
        #expect(try database.process("p", #"[{"id": "x", "boss": "y"}, {"id": "y", "boss": "x"}]"#) == ["p +2"])
        #expect(try database.rows("SELECT * FROM p") == ["x|y", "y|x"])
    }

    @Test(arguments: [
        "CREATE TABLE d (id INTEGER PRIMARY KEY, data TEXT CHECK (json_extract(data, '$.a') IS NOT 1));",
        "CREATE TABLE d (id INTEGER PRIMARY KEY, data TEXT, a GENERATED ALWAYS AS (json_extract(data, '$.a')) STORED);",
        "CREATE TABLE d (id INTEGER PRIMARY KEY, data TEXT); CREATE INDEX i ON d (json_extract(data, '$.a'));",
    ])
    func `a value that an expression of a table does not take is a fault of its job, in words of Broker's own`(
        schema: String
    ) throws {
        let database = try FedDatabase(schema)
        try database.open()
        let failed = try database.process("d", #"[{"id": 1, "data": "{}"}, {"id": 2, "data": "no JSON"}]"#)
        #expect(
            failed[0].hasPrefix("constraintViolation: ") && failed[0].contains("an expression of a table"), "\(failed)")
        #expect(!failed[0].contains("malformed") && database.fault?.cause == "malformed JSON")
        #expect(try database.process("d", #"{"id": 3, "data": "{}"}"#) == ["d +1"])
    }

    /// The unique value of an object that a job changes later is replaced meanwhile, which such a column does not allow.
    @Test(arguments: ["k TEXT UNIQUE) STRICT", "k TEXT UNIQUE CHECK (length(k) = 1))"])
    func `where a column allows no other values, unique values are judged after each operation`(column: String) throws {
        let database = try FedDatabase(
            "CREATE TABLE b (id INTEGER PRIMARY KEY, n TEXT, \(column); INSERT INTO b VALUES (1, NULL, 'p');")
        try database.open()
        func steps(_ policy: InvalidRecordPolicy) throws -> [StagedStep] {
            [
                try database.processing("b", #"[{"id": 2, "k": "p"}, {"id": 3, "k": "q"}]"#, policy),
                try database.processing("b", #"{"id": 1, "k": "r"}"#, policy),
            ]
        }
        #expect(try database.run(steps(.skip), .skip)[0] == "b +1 ~1 !1")
        #expect(try database.rows("SELECT id, k FROM b ORDER BY id") == ["1|r", "3|q"])
        try database.execute("UPDATE b SET k = 'p' WHERE id = 1")
        #expect(try database.run(steps(.fail))[0].hasPrefix("constraintViolation: Another b has the value of k"))
        let exchange = #"[{"id": 1, "k": "q"}, {"id": 3, "k": "p"}]"#
        #expect(try database.process("b", exchange, .skip)[0] == "b !2")
        #expect(try database.rows("SELECT id, k FROM b ORDER BY id") == ["1|p", "3|q"])
    }

    @Test func `a job after a failed one is checked and counted as any`() throws {
        let database = try FedDatabase(
            "CREATE TABLE b (id INTEGER PRIMARY KEY, k TEXT UNIQUE); CREATE TABLE a (x INTEGER REFERENCES b, y INTEGER, PRIMARY KEY (x, y))"
        )
        try database.open()
        // A foreign key in the primary key is no relationship, so nothing makes a stub of what it names.
        #expect(try database.process("a", #"[{"x": 1, "y": 1}]"#)[0].contains("does not exist"))
        #expect(try database.process("b", #"[{"id": 1, "k": "p"}, {"id": 2, "k": "q"}]"#) == ["b +2"])
        #expect(try database.process("a", #"[{"x": 1, "y": 1}]"#) == ["a +1"])
        // Unique values change places.
        #expect(try database.process("b", #"[{"id": 1, "k": "q"}, {"id": 2, "k": "p"}]"#) == ["b ~2"])
        #expect(try database.process("a", #"[{"x": 3, "y": 1}]"#)[0].contains("does not exist"))
        #expect(try database.rows("SELECT * FROM a") == ["1|1"])
    }

    @Test(arguments: [
        // The column of the link may be NULL: any number of levels.
        ("parent INTEGER REFERENCES node ON DELETE CASCADE", 5_000, true),
        ("parent INTEGER REFERENCES node ON DELETE CASCADE CHECK (parent < 1000000)", 5_000, true),
        // It may not: as deep as SQLite goes by itself.
        ("parent INTEGER NOT NULL REFERENCES node ON DELETE CASCADE", 900, true),
        ("parent INTEGER REFERENCES node ON DELETE CASCADE CHECK (parent IS NOT NULL)", 900, true),
        ("parent INTEGER NOT NULL REFERENCES node ON DELETE CASCADE", 1_500, false),
    ]) func `a chain of ON DELETE CASCADE goes as deep as the table allows`(
        column: String, count: Int, isDeleted: Bool
    ) throws {
        let database = try FedDatabase(
            """
            CREATE TABLE node (id INTEGER PRIMARY KEY, \(column));
            CREATE INDEX by_parent ON node (parent);
            WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < \(count - 1))
            INSERT INTO node SELECT i, max(i - 1, 0) FROM n;
            """)
        try database.open()
        let outcome = try database.delete("node", "[0]")
        if isDeleted {
            #expect(outcome == ["node -\(count)"])
        } else {
            #expect(outcome[0].hasPrefix("constraintViolation: ") && outcome[0].contains("1,000 levels"), "\(outcome)")
            #expect(try database.rows("SELECT count(*) FROM node") == ["\(count)"])
        }
    }
}

/// Columns of a fed database that keep another kind of value than a record brings: the objects are those that SQLite finds.
@Suite(.timeLimit(.minutes(5))) struct StoredFormTests {
    private static let numbers = ["NUMERIC", "DECIMAL(10,0)", "DECIMAL(10,2)", "NUMBER", "REAL"]

    private func database(_ type: String, _ rest: String = "", _ rows: String) throws -> FedDatabase {
        let database = try FedDatabase(
            "CREATE TABLE t (k \(type) PRIMARY KEY NOT NULL, v TEXT\(rest)); INSERT INTO t VALUES \(rows)")
        try database.open()
        return database
    }

    private let named = #"[{"k": 1, "v": "new"}, {"k": 2.5, "v": "b"}, {"k": -4, "v": "new"}]"#

    @Test(arguments: numbers)
    func `a sync keeps what it names by numbers that the column makes integers of`(type: String) throws {
        let database = try database(type, "", "(1, 'a'), (2.5, 'b'), (3, 'c')")
        #expect(try database.sync("t", named) == ["t +1 ~1 =1 -1"])
        #expect(try database.rows("SELECT k * 1.0, v FROM t ORDER BY 1") == ["-4.0|new", "1.0|new", "2.5|b"])
        #expect(try database.sync("t", named) == ["t =3"])
    }

    @Test(arguments: numbers)
    func `a sync in parts keeps what they name by such numbers`(type: String) throws {
        let database = try database(type, "", "(1, 'a'), (2.5, 'b'), (3, 'c')")
        let part = FedDatabase.part(isLast:)
        #expect(try database.sync("t", #"[{"k": 1, "v": "new"}]"#, part: part(false)) == ["t ~1"])
        #expect(try database.sync("t", #"[{"k": 2.5, "v": "b"}]"#, part: part(true)) == ["t =1 -1"])
        #expect(try database.rows("SELECT k * 1.0, v FROM t ORDER BY 1") == ["1.0|new", "2.5|b"])
    }

    @Test func `keys that the column makes one number of count once where a delete does not find them`() throws {
        let database = try database("DATE", "", "('1.5', 'c'), ('2024-01-03', 'b'), (7, 'd')")
        #expect(try database.delete("t", #"["1.5", "1.50", "8", "8.0", "x", "7.0"]"#) == ["t -2"])
        #expect(database.warnings == ["objectNotFound 2"])
        #expect(try database.rows("SELECT v FROM t") == ["b"])
    }

    /// The import says `string`, as the texts are none that Broker writes.
    @Test func `a sync keeps what it names by texts that the column makes numbers of`() throws {
        let database = try database("DATE", "", "(20240102, 'a'), ('2024-01-03', 'b'), ('1.5', 'c'), (7, 'd')")
        let json = """
            [{"k": "20240102", "v": "a"}, {"k": "2024-01-03", "v": "b"}, {"k": "1.50", "v": "c"}, {"k": "1e2", "v": "e"}]
            """
        #expect(try database.sync("t", json).map { $0.suffix(3) } == [" -1"])
        let rows = try database.rows("SELECT k, v FROM t ORDER BY v")
        #expect(rows == ["20240102|a", "2024-01-03|b", "1.5|c", "100|e"])
        for isLast in [false, true] {
            let outcome = try database.sync("t", json, part: FedDatabase.part(isLast: isLast))
            #expect(outcome.count == 1 && !outcome[0].contains(/[-!:]/), "\(outcome)")
        }
        #expect(try database.rows("SELECT k, v FROM t ORDER BY v") == rows)
    }

    @Test(arguments: ["INTEGER", "NUMERIC"])
    func `objects exchange unique values that the column makes integers of`(key: String) throws {
        let database = try database(key, ", u NUMERIC UNIQUE", "(1, 'a', 20), (2, 'b', 30), (3, 'c', 2.5)")
        #expect(try database.process("t", #"[{"k": 1, "u": 30}, {"k": 2, "u": 2.5}, {"k": 3, "u": 20}]"#) == ["t ~3"])
        #expect(try database.rows("SELECT k, u FROM t ORDER BY 1") == ["1|30", "2|2.5", "3|20"])
    }

    @Test func `a replaced to-many relationship retains the links that are asserted again`() throws {
        let database = try FedDatabase(
            """
            CREATE TABLE department (id NUMERIC PRIMARY KEY NOT NULL, name TEXT);
            CREATE TABLE employee (id NUMERIC PRIMARY KEY NOT NULL, name TEXT, department_id NUMERIC REFERENCES department);
            INSERT INTO department VALUES (1, 'x'); INSERT INTO employee VALUES (7, 'a', 1), (8, 'b', 1), (9.5, 'c', NULL);
            """
        ) { $0.replacing(#""toMany": true,"#, with: #""toMany": true, "assignment": "replace","#) }
        try database.open()
        let json = #"[{"id": 1, "employee": [{"id": 7, "name": "a"}, {"id": 9.5, "name": "c"}]}]"#
        #expect(try database.process("department", json).contains("employee ~2 =1"))
        let links = ["7|1", "8|NULL", "9.5|1"]
        #expect(try database.rows("SELECT id, department_id FROM employee ORDER BY 1") == links)
        #expect(try database.process("department", json).contains("employee =2"))
        #expect(try database.rows("SELECT id, department_id FROM employee ORDER BY 1") == links)
    }

    @Test func `changes of an object with such a key by several steps are counted once`() throws {
        let database = try database("NUMERIC", "", "(1, 'a'), (3, 'c')")
        #expect(
            try database.run([
                database.processing("t", #"[{"k": 1, "v": "x"}, {"k": 2, "v": "y"}]"#),
                database.syncing("t", #"[{"k": 1, "v": "z"}]"#),
            ]) == ["t ~1 -1"])
        #expect(try database.rows("SELECT k, v FROM t") == ["1|z"])
    }

    @Test func `changes of one of many such objects by a later step are counted with those of the first`() throws {
        let database = try database("NUMERIC", "", "(-1, 'a'), (-2, 'b')")
        let records = (1...20_000).map { #"{"k": \#($0), "v": "x"}"# }.joined(separator: ", ")
        #expect(
            try database.run([
                database.processing("t", #"[{"k": -1, "v": "y"}, \#(records)]"#),
                database.processing("t", #"[{"k": -1, "v": "z"}, {"k": 1, "v": "y"}]"#),
            ]) == ["t +20000 ~1"])
    }
}

/// Texts of a fed database that are values of other types: JSON and days.
@Suite(.timeLimit(.minutes(5))) struct FedTextTests {
    private func database() throws -> FedDatabase {
        let database = try FedDatabase(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, tags TEXT DEFAULT '[]', born DATE);
            INSERT INTO t VALUES (1, '["a", {"b": 1}]', '1985-12-10'), (2, NULL, NULL);
            """)
        try database.open()
        return database
    }

    @Test func `JSON and days are fed as such`() throws {
        let database = try database()
        let records = #"[{"id": 2, "tags": [1,  {"x": null}], "born": "2012-02-29"}, {"id": 3}]"#
        #expect(try database.process("t", records) == ["t +1 ~1"])
        #expect(
            try database.rows("SELECT id, tags, born, typeof(born) FROM t ORDER BY id") == [
                #"1|["a", {"b": 1}]|1985-12-10|text"#, #"2|[1,{"x":null}]|2012-02-29|text"#, "3|[]|NULL|null",
            ])
        #expect(try database.process("t", records) == ["t =2"])
        #expect(throws: (any Error).self) { try database.process("t", #"[{"id": 3, "born": "2012-02-29T00:00:00Z"}]"#) }
    }
}

/// A database that plain SQL made, and jobs for it. Its model is the imported one, unless another is given.
final class FedDatabase {
    let folder = TemporaryFolder()
    private(set) var plan: StagingPlan
    private var store: Store?
    private var nextSequence: Int64 = 0
    /// The code and the count of each warning of the last completed job.
    private(set) var warnings: [String] = []
    /// The last fault of a job or of one of its records.
    private(set) var fault: Fault?

    var path: String { folder.path("existing.sqlite") }

    /// - Parameter changing: the text of the imported model, to what it is to be.
    init(_ sql: String, changing: (String) -> String = { $0 }) throws {
        plan = try StagingPlan(Model(entities: []))
        try execute(sql)
        plan = try imported(changing)
    }

    func imported(_ changing: (String) -> String = { $0 }) throws -> StagingPlan {
        let text = changing(try DatabaseModel.modelText(ofDatabaseAt: path))
        return try StagingPlan(ModelReader.read(JSONText(copying: Array(text.utf8))))
    }

    /// As another program does it, which enforces no foreign keys.
    func execute(_ sql: String) throws {
        var handle: OpaquePointer?
        try #require(sqlite3_open(path, &handle) == SQLITE_OK)
        defer { sqlite3_close(handle) }
        try #require(
            sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK, "\(String(cString: sqlite3_errmsg(handle)))")
    }

    // MARK: - The store

    @discardableResult
    func open() throws -> Store {
        store = nil
        let store = try Store(path: path, plan: plan)
        self.store = store
        nextSequence = try store.lastSequence()
        return store
    }

    func close() { store = nil }

    /// Why the database is not fed; and that neither it nor its folder has changed.
    func refusal() throws -> String {
        let before = try contents()
        let error = try #require(throws: StoreError.self) { try Store(path: path, plan: plan) }
        #expect(error.code == .incompatible && !error.message.contains("\n"))
        #expect(try contents() == before)
        return error.message
    }

    func contents() throws -> [String: Data] {
        var contents: [String: Data] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path("")) {
            contents[name] = try Data(contentsOf: URL(filePath: folder.path(name)))
        }
        return contents
    }

    // MARK: - Jobs

    /// The effect of a job that processes records, or its fault, each in a list: `Employee +1 ~2 =3 -4 !5`, without what is 0.
    func process(_ entity: String, _ json: String, _ policy: InvalidRecordPolicy = .fail) throws -> [String] {
        try run([processing(entity, json, policy)], policy)
    }

    /// - Parameter part: of the sync `s`.
    func sync(_ entity: String, _ json: String, part: SyncPart? = nil) throws -> [String] {
        try run([syncing(entity, json, part: part)])
    }

    static func part(isLast: Bool) -> SyncPart { SyncPart(id: "s", isLast: isLast, definition: []) }

    func delete(_ entity: String, _ keys: String) throws -> [String] {
        let index = try #require(plan.model.index(ofEntity: entity))
        return try run([step(.delete(entity: index), .name, entity, keys)])
    }

    // MARK: - Steps of a job

    func processing(_ entity: String, _ json: String, _ policy: InvalidRecordPolicy = .fail) throws -> StagedStep {
        try step(.merge, .process, entity, json, policy)
    }

    func syncing(_ entity: String, _ json: String, part: SyncPart? = nil) throws -> StagedStep {
        let index = try #require(plan.model.index(ofEntity: entity))
        return try step(.sync(StagedSync(StagedSelection(entity: index, nil), part: part)), .process, entity, json)
    }

    private func step(
        _ action: StepAction, _ operation: StagingOperation.Action, _ entity: String, _ json: String,
        _ policy: InvalidRecordPolicy = .fail
    ) throws -> StagedStep {
        let document = try JSONDocument(parsing: JSONText(copying: Array(json.utf8)))
        let index = try #require(plan.model.index(ofEntity: entity))
        let rows = try withExtendedLifetime(document) {
            let operations = [StagingOperation(entity: index, json: document.root, operation)]
            let parts = try JobCollection.collections(of: ShortList(operations), in: document).map {
                try $0.stage(plan, policy)
            }
            return StagedJobRows.unite(parts, plan)
        }
        return StagedStep(action: action, rows: rows)
    }

    /// The effect of a job of these steps, in the form of ``process(_:_:_:)``.
    func run(_ steps: [StagedStep], _ policy: InvalidRecordPolicy = .fail) throws -> [String] {
        let store = try #require(store)
        nextSequence += 1
        let job = StoreJob(
            JobFacts(id: "job-\(nextSequence)", contentHash: nil, JobTerms(policy)), sequence: nextSequence,
            work: .steps(steps), now: 0)
        try store.begin()
        let end: JobOutcome
        do {
            end = try store.apply(job)
            try store.commit()
        } catch {
            store.rollback()
            throw error
        }
        switch end {
        case .completed(let outcome):
            fault = outcome.rejected.last
            warnings = outcome.warnings.map { "\($0.code.rawValue) \($0.count)" }
            return outcome.changes.map { entity, counts in
                let numbers = [counts.inserted, counts.updated, counts.unchanged, counts.deleted, counts.rejected]
                let texts = zip("+~=-!", numbers).filter { $1 != 0 }.map { " \($0)\($1)" }
                return entity + texts.joined()
            } + outcome.rejected.map(\.message)
        case .failed(let fault), .conflict(let fault, _):
            self.fault = fault
            return ["\(fault.code.rawValue): \(fault.message)"]
        case .duplicate: return ["duplicate"]
        }
    }

    // MARK: - Reading

    func rows(_ sql: String) throws -> [String] { try SQLRows.of(sql, in: path) }

    func fetch(_ entity: String) throws -> String {
        let request = try plan.fetchRequest(FetchDescription(entity: entity))
        return String(decoding: try StoreReader(path: path, plan: plan).fetch(request).bytes, as: UTF8.self)
    }

    /// Another program's declarations, and the header's marks.
    func foreignObjects() throws -> [String] {
        try rows(
            "SELECT type, name, sql FROM sqlite_schema WHERE tbl_name NOT LIKE '\\_broker\\_%' ESCAPE '\\' ORDER BY rowid"
        )
            + rows("PRAGMA application_id") + rows("PRAGMA user_version")
    }
}
