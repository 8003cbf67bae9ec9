import Foundation
import Glibc
import TestSupport
import Testing

/// A changed model: previewed, migrated by the server, and interrupted.
@Suite(.timeLimit(.minutes(5))) struct MigrationTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    private static let changed = """
        {"entities": {
          "Worker": {
            "renamedFrom": "Employee", "identity": "id",
            "attributes": {"id": "integer64", "level": {"type": "integer16", "optional": false, "default": 3},
              "fullName": {"type": "string", "renamedFrom": "name"}},
            "relationships": {"department": {"entity": "Department"}}},
          "Department": {"identity": "id", "attributes": {"id": "integer64"}}
        }}
        """

    /// A store of the first model with some rows.
    private func makeStore() throws {
        let records = (1...3).map {
            "{\"id\": \($0), \"name\": \"n\($0)\", \"department\": {\"id\": 7, \"name\": \"d\"}}"
        }
        let result = try programs.run(
            "broker", ["submit", "--entity", "Employee", "--store", "store.sqlite", "--model", "model.json"],
            input: "[\(records.joined(separator: ","))]")
        #expect(result.status == 0, "\(result.complaints)")
    }

    private func diff(_ arguments: [String] = []) throws -> Programs.Result {
        try programs.run("broker", ["model", "diff", "--model", "changed.json", "--store", "store.sqlite"] + arguments)
    }

    private func bytes() throws -> Data { try Data(contentsOf: URL(fileURLWithPath: programs.path("store.sqlite"))) }

    @Test func `the parts that would be migrated, retained, dropped and refused are printed beforehand`() throws {
        try makeStore()
        try programs.write(Self.changed, to: "changed.json")
        let before = try bytes()
        let names = try FileManager.default.contentsOfDirectory(atPath: programs.folder).filter { !$0.hasPrefix(".") }
        for (options, status, gone) in [
            ([], 1 as Int32, "refused: Department.name is in the store, but not in the model (`broker migrate --keep`"),
            (["--keep"], 0, "kept: Department.name is in the store, but not in the model"),
            (["--drop"], 0, "dropped: Department.name is in the store, but not in the model"),
            (["--migrate", "refuse"], 1, "refused: Department.name is in the store, but not in the model"),
            (["--migrate", "keep"], 0, "kept: Department.name is in the store, but not in the model"),
            (["--migrate", "drop"], 0, "dropped: Department.name is in the store, but not in the model"),
        ] {
            let result = try diff(options)
            #expect(result.status == status)
            let lines = result.output.split(separator: "\n")
            #expect(lines.count == (gone.hasPrefix("kept") ? 4 : 5) && lines[2].hasPrefix(gone), "\(result.output)")
            #expect(lines[0] == "migrated: Employee is renamed to Worker")
            #expect(lines[1] == "migrated: Worker.name is renamed to fullName")
            #expect(lines.last == "migrated: Worker.level is new, and rows that are there take its default 3")
        }
        #expect(try diff(["--migrate", "keep", "--drop"]).status == 2)
        let json = try diff(["--json"]).output
        #expect(
            json.contains(#"{"opens":false,"changes":[{"change":"migrated","subject":"Worker","message":"Employee"#))
        #expect(try bytes() == before)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: programs.folder).filter {
                !$0.hasPrefix(".") && $0 != "changed.json"
            }.sorted() == names.filter { $0 != "changed.json" }.sorted())
        let same = try programs.run("broker", ["model", "diff", "--model", "model.json", "--store", "store.sqlite"])
        #expect(same.status == 0 && same.output.isEmpty)
        let missing = try programs.run("broker", ["model", "diff", "--model", "model.json", "--store", "missing"])
        #expect(missing.status == 1 && missing.complaints.contains("There is no store missing"))
    }

    @Test func `the server refuses a loss, and logs what a migration changed`() throws {
        try makeStore()
        let before = try bytes()
        try programs.write(Self.changed, to: "model.json")
        let refused = try programs.run(
            "brokerd", ["--model", "model.json", "--store", "store.sqlite", "--socket", "broker.sock"])
        #expect(refused.status == 1 && refused.complaints.contains("Department.name is in the store"))
        #expect(try bytes() == before)
        try programs.write("", to: "log")
        let log = try #require(FileHandle(forWritingAtPath: programs.path("log")))
        try programs.write(Programs.model, to: "model.json")
        let server = try programs.startServer(complaints: log)
        try programs.write(Self.changed, to: "model.json")
        let kept = try programs.run("broker", ["migrate", "--keep", "--socket", "broker.sock"])
        #expect(kept.status == 0 && kept.output.contains("kept: Department.name"), "\(kept)")
        try expectMigrated(by: server)
        // The retained attribute stays, without an option.
        let fetched = try programs.run(
            "broker", ["fetch", "--entity", "Worker", "--store", "store.sqlite", "--model", "model.json", "--count"])
        #expect(fetched.status == 0 && fetched.output == "3\n", "\(fetched)")
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT name FROM Department") == ["d"])
    }

    /// Ends the server, whose log has the changes, and looks at the rows.
    private func expectMigrated(by server: Process) throws {
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        let lines = try String(contentsOfFile: programs.path("log"), encoding: .utf8)
        for line in [
            "migrated: Employee is renamed to Worker.", "migrated: Worker.level is new", "kept: Department.name",
            "The store fits the model now: 4 changes in ",
        ] {
            #expect(lines.contains(line), "\(lines)")
        }
        let rows = try Database(programs.path("store.sqlite")).rows(
            "SELECT id, fullName, level, department FROM Worker")
        #expect(rows == ["1|n1|3|7", "2|n2|3|7", "3|n3|3|7"])
    }

    @Test func `an option of the start keeps or drops what is gone, and the log has what it changed`() throws {
        try makeStore()
        let before = try bytes()
        try programs.write(Self.changed, to: "model.json")
        let local = ["--store", "store.sqlite", "--model", "model.json"]
        for (policy, status, gone) in [
            ("refuse", 1 as Int32, "refused: Department.name"), ("keep", 0, "kept: Department.name"),
            ("drop", 0, "dropped: Department.name"),
        ] {
            let check = try programs.run("brokerd", local + ["--check", "--migrate", policy])
            #expect(check.status == status && check.output.contains(gone), "\(check)")
        }
        #expect(try bytes() == before)
        try programs.write("", to: "log")
        let log = try #require(FileHandle(forWritingAtPath: programs.path("log")))
        let server = try programs.startServer(["--migrate", "keep"], complaints: log)
        try expectMigrated(by: server)
        let dropped = try programs.run("broker", ["fetch", "--entity", "Department", "--migrate", "drop"] + local)
        #expect(dropped.status == 0 && dropped.complaints.contains("dropped: Department.name"), "\(dropped.complaints)")
        #expect(try programs.run("broker", ["fetch", "--entity", "Worker", "--migrate", "drop"]).status == 2)
    }

    /// Enough that copying them takes a while.
    private static let rows = 200_000

    @Test func `a migration that is killed has happened whole or not at all`() throws {
        var generator = SeededGenerator()
        try makeStore()
        let fill = """
            WITH RECURSIVE n(i) AS (SELECT 4 UNION ALL SELECT i + 1 FROM n WHERE i < \(Self.rows))
            INSERT INTO Employee SELECT i, 'n' || i, 7 FROM n; PRAGMA wal_checkpoint(TRUNCATE);
            """
        #expect(try programs.shell("sqlite3 store.sqlite && mv store.sqlite old.sqlite", input: fill).status == 0)
        try programs.write(Self.changed, to: "model.json")
        var outcomes: [Bool] = []
        for _ in 0..<Cases.count(3, of: 10) {
            #expect(try programs.shell("rm -f store.sqlite* broker.sock; cp old.sqlite store.sqlite").status == 0)
            try programs.write("", to: "log")
            let log = try #require(FileHandle(forWritingAtPath: programs.path("log")))
            let server = try programs.startServer(["--migrate", "drop"], complaints: log, waitsUntilReady: false)
            // SQLite's WAL grows to some 6 MB at COMMIT. The server's log reports when the store is migrated.
            let limit = Int.random(in: 0...7_000_000, using: &generator)
            while server.isRunning, size("store.sqlite-wal") < limit, size("log") == 0 { sched_yield() }
            kill(server.processIdentifier, SIGKILL)
            server.waitUntilExit()
            outcomes.append(try checkWholeness())
        }
        print("migrated before the kill: \(outcomes)")
    }

    /// - Returns: whether the store was migrated.
    private func checkWholeness() throws -> Bool {
        let database = try Database(programs.path("store.sqlite"))
        let tables = try database.rows(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\'")
        let isMigrated = tables.contains("Worker")
        #expect(Set(tables) == (isMigrated ? ["Worker", "Department"] : ["Employee", "Department"]), "\(tables)")
        let model = try database.rows("SELECT value FROM _broker_meta WHERE key = 'model'")
        #expect(model.first?.contains("fullName") == isMigrated)
        let rows =
            isMigrated
            ? "SELECT count(*), sum(id), count(fullName), sum(level), sum(department) FROM Worker"
            : "SELECT count(*), sum(id), count(name), 3 * count(*), sum(department) FROM Employee"
        let count = Self.rows
        #expect(try database.rows(rows) == ["\(count)|\(count * (count + 1) / 2)|\(count)|\(3 * count)|\(7 * count)"])
        #expect(try database.rows("PRAGMA integrity_check") == ["ok"])
        #expect(try database.rows("PRAGMA foreign_key_check").isEmpty)
        return isMigrated
    }

    private func size(_ name: String) -> Int {
        var status = stat()
        return stat(programs.path(name), &status) == 0 ? Int(status.st_size) : -1
    }
}
