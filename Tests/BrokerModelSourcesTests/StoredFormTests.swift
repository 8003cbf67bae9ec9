import BrokerStaging
import Testing

@testable import BrokerStore

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
        #expect(try database.sync("t", named) == ["t +1 ~1 =1 -1 !0"])
        #expect(try database.rows("SELECT k * 1.0, v FROM t ORDER BY 1") == ["-4.0|new", "1.0|new", "2.5|b"])
        #expect(try database.sync("t", named) == ["t +0 ~0 =3 -0 !0"])
    }

    @Test(arguments: numbers)
    func `a sync in parts keeps what they name by such numbers`(type: String) throws {
        let database = try database(type, "", "(1, 'a'), (2.5, 'b'), (3, 'c')")
        let part = FedDatabase.part(isLast:)
        #expect(try database.sync("t", #"[{"k": 1, "v": "new"}]"#, part: part(false)) == ["t +0 ~1 =0 -0 !0"])
        #expect(try database.sync("t", #"[{"k": 2.5, "v": "b"}]"#, part: part(true)) == ["t +0 ~0 =1 -1 !0"])
        #expect(try database.rows("SELECT k * 1.0, v FROM t ORDER BY 1") == ["1.0|new", "2.5|b"])
    }

    @Test func `keys that the column makes one number of count once where a delete does not find them`() throws {
        let database = try database("DATE", "", "('1.5', 'c'), ('2024-01-03', 'b'), (7, 'd')")
        #expect(try database.delete("t", #"["1.5", "1.50", "8", "8.0", "x", "7.0"]"#) == ["t +0 ~0 =0 -2 !0"])
        #expect(database.warnings == ["objectNotFound 2"])
        #expect(try database.rows("SELECT v FROM t") == ["b"])
    }

    /// The import says `string`, as the texts are none that Broker writes.
    @Test func `a sync keeps what it names by texts that the column makes numbers of`() throws {
        let database = try database("DATE", "", "(20240102, 'a'), ('2024-01-03', 'b'), ('1.5', 'c'), (7, 'd')")
        let json = """
            [{"k": "20240102", "v": "a"}, {"k": "2024-01-03", "v": "b"}, {"k": "1.50", "v": "c"}, {"k": "1e2", "v": "e"}]
            """
        #expect(try database.sync("t", json).map { $0.suffix(5) } == ["-1 !0"])
        let rows = try database.rows("SELECT k, v FROM t ORDER BY v")
        #expect(rows == ["20240102|a", "2024-01-03|b", "1.5|c", "100|e"])
        for isLast in [false, true] {
            #expect(
                try database.sync("t", json, part: FedDatabase.part(isLast: isLast)).map { $0.suffix(5) } == ["-0 !0"])
        }
        #expect(try database.rows("SELECT k, v FROM t ORDER BY v") == rows)
    }

    @Test(arguments: ["INTEGER", "NUMERIC"])
    func `objects exchange unique values that the column makes integers of`(key: String) throws {
        let database = try database(key, ", u NUMERIC UNIQUE", "(1, 'a', 20), (2, 'b', 30), (3, 'c', 2.5)")
        #expect(
            try database.process("t", #"[{"k": 1, "u": 30}, {"k": 2, "u": 2.5}, {"k": 3, "u": 20}]"#)
                == ["t +0 ~3 =0 -0 !0"])
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
        #expect(try database.process("department", json).contains("employee +0 ~2 =1 -0 !0"))
        let links = ["7|1", "8|NULL", "9.5|1"]
        #expect(try database.rows("SELECT id, department_id FROM employee ORDER BY 1") == links)
        #expect(try database.process("department", json).contains("employee +0 ~0 =2 -0 !0"))
        #expect(try database.rows("SELECT id, department_id FROM employee ORDER BY 1") == links)
    }

    @Test func `changes of an object with such a key by several steps are counted once`() throws {
        let database = try database("NUMERIC", "", "(1, 'a'), (3, 'c')")
        #expect(
            try database.run([
                database.processing("t", #"[{"k": 1, "v": "x"}, {"k": 2, "v": "y"}]"#),
                database.syncing("t", #"[{"k": 1, "v": "z"}]"#),
            ]) == ["t +0 ~1 =0 -1 !0"])
        #expect(try database.rows("SELECT k, v FROM t") == ["1|z"])
    }

    @Test func `changes of one of many such objects by a later step are counted with those of the first`() throws {
        let database = try database("NUMERIC", "", "(-1, 'a'), (-2, 'b')")
        let records = (1...20_000).map { #"{"k": \#($0), "v": "x"}"# }.joined(separator: ", ")
        #expect(
            try database.run([
                database.processing("t", #"[{"k": -1, "v": "y"}, \#(records)]"#),
                database.processing("t", #"[{"k": -1, "v": "z"}, {"k": 1, "v": "y"}]"#),
            ]) == ["t +20000 ~1 =0 -0 !0"])
    }
}
