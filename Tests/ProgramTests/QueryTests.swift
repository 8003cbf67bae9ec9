import Foundation
import TestSupport
import Testing

/// `broker query`.
@Suite(.timeLimit(.minutes(5))) struct QueryTests {
    private let programs: Programs

    init() throws {
        programs = try Programs()
        let kept = try programs.run(
            "broker", ["submit", "--store", "s.sqlite", "--model", "model.json", "--entity", "Employee"],
            input: #"[{"id": 1, "name": "Ada"}, {"id": 2, "name": "B,b"}, {"id": 3}]"#)
        try #require(kept.status == 0, "\(kept)")
    }

    private func query(_ sql: String, _ options: [String] = [], input: String = "") throws -> Programs.Result {
        try programs.run("broker", ["query", "--store", "s.sqlite"] + options + [sql], input: input)
    }

    @Test func `rows are printed in the forms of fetch, with a column for each of the statement`() throws {
        let sql = "SELECT id, id, name, x'00ff' AS b, 1.5 AS r, 9e999 AS i FROM Employee ORDER BY id LIMIT 2; -- end"
        let lines = try query(sql)
        let rest = #""b":"AP8=","r":1.5,"i":"Infinity"}"#
        #expect(
            lines.output == #"{"id":1,"id_2":1,"name":"Ada",\#(rest)"# + "\n"
                + #"{"id":2,"id_2":2,"name":"B,b",\#(rest)"#
                + "\n", "\(lines)")
        let names = "SELECT name FROM Employee ORDER BY id"
        #expect(try query(names, ["--csv"]).output == "name\r\nAda\r\n\"B,b\"\r\n\r\n")
        #expect(try query("-", ["--json"], input: names + " LIMIT 1").output == "[\n{\"name\":\"Ada\"}\n]\n")
        let table = try query("SELECT id, name FROM Employee WHERE id > 1 ORDER BY id", ["--table"])
        #expect(table.output == "id  name\n 2  B,b\n 3\n" && table.complaints == "2 rows\n", "\(table)")
        let none = try query("SELECT id FROM Employee WHERE id > 9", ["--table"])
        #expect(none.output == "id\n" && none.complaints == "0 rows\n", "\(none)")
        let large = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 40000) SELECT n FROM t"
        #expect(try query(large).output.split(separator: "\n").count == 40_000)
        #expect(try query("SELECT name FROM pragma_table_info('Employee')").output.contains("department"))
    }

    @Test(arguments: [
        "DELETE FROM Employee", "INSERT INTO Employee (id) VALUES (9) RETURNING id", "PRAGMA journal_mode = DELETE",
        "PRAGMA user_version = 7", "VACUUM INTO 'copy.sqlite'", "ATTACH 'other.sqlite' AS other",
        "CREATE TEMP TABLE t (a)",
        "PRAGMA wal_checkpoint", "UPDATE sqlite_master SET sql = ''", "BEGIN", "SELECT load_extension('x')",
        "SELECT 1; DELETE FROM Employee", "SELECT 1; SELECT 2", "", "/* nothing */", "SELECT nope", "SELEC 1",
    ])
    func `what is no single statement that reads is refused, and makes no file`(sql: String) throws {
        let files = try FileManager.default.contentsOfDirectory(atPath: programs.folder).sorted()
        let store = try Data(contentsOf: URL(filePath: programs.path("s.sqlite")))
        let result = try query(sql)
        #expect(result.status == 1 && result.output.isEmpty, "\(result)")
        #expect(
            result.complaints.split(separator: "\n").count == 1 && !result.complaints.contains("defect"), "\(result)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: programs.folder).sorted() == files)
        #expect(try Data(contentsOf: URL(filePath: programs.path("s.sqlite"))) == store)
    }

    @Test func `the store of a server is read beside it, up to its last commit`() throws {
        _ = try programs.startServer()
        for id in [7, 8] {
            let sent = try programs.run(
                "broker", ["submit", "--socket", "broker.sock", "--entity", "Employee"], input: "{\"id\": \(id)}")
            #expect(sent.status == 0, "\(sent)")
            let found = try programs.run(
                "broker", ["query", "--store", "store.sqlite", "SELECT max(id) AS id FROM Employee"])
            #expect(found.output == "{\"id\":\(id)}\n", "\(found)")
        }
        let missing = try programs.run("broker", ["query", "--store", "none.sqlite", "SELECT 1"])
        #expect(missing.status == 1 && missing.complaints.contains("cannot be read"), "\(missing)")
        #expect(!FileManager.default.fileExists(atPath: programs.path("none.sqlite")))
        try programs.write("no database", to: "text")
        #expect(try programs.run("broker", ["query", "--store", "text", "SELECT * FROM t"]).status == 1)
    }

    @Test func `a query that takes long ends with a signal`() throws {
        let endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"
        let running = try programs.start(
            "'\(programs.executable("broker").path)' query --store s.sqlite \"\(endless)\"")
        // Not SIGINT, which a shell script without job control has its programs ignore.
        kill(running.processIdentifier, SIGTERM)
        running.waitUntilExit()
        #expect(running.terminationReason == .uncaughtSignal && running.terminationStatus == SIGTERM)
    }
}
