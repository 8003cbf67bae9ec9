import Foundation
import Glibc
import TestSupport
import Testing

/// `broker migrate`, with a server and without one.
@Suite(.timeLimit(.minutes(5))) struct MigrateCommandTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    /// Lacks the names of employees, and departments.
    private static let smaller = """
        {"entities": {"Employee": {"identity": "id", "attributes": {"id": "integer64", "level": "integer16"}}}}
        """
    private static let local = ["--store", "store.sqlite", "--model", "model.json"]

    /// A store of the first model, and the smaller one in its place.
    private func makeStore() throws {
        let result = try programs.run(
            "broker", ["submit", "--entity", "Employee"] + Self.local,
            input: #"[{"id": 1, "name": "Ada", "department": {"id": 7}}, {"id": 2, "name": "Grace"}]"#)
        #expect(result.status == 0, "\(result.complaints)")
    }

    /// A server with the first model, beside which the file of the model is another one already.
    private func startServer(_ arguments: [String] = []) throws -> Process {
        try makeStore()
        let server = try programs.startServer(arguments)
        try programs.write(Self.smaller, to: "model.json")
        return server
    }

    private func migrate(_ arguments: [String] = []) throws -> Programs.Result {
        try programs.run("broker", ["migrate", "--socket", "broker.sock"] + arguments)
    }

    private func migrateStore(_ arguments: [String] = []) throws -> Programs.Result {
        try programs.run("broker", ["migrate"] + Self.local + arguments)
    }

    private func contents() throws -> [String] {
        let database = try Database(programs.path("store.sqlite"))
        return try database.rows("SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2")
            + database.rows("SELECT * FROM Employee") + database.rows("SELECT * FROM _broker_meta ORDER BY 1")
    }

    private func bytes() throws -> Data { try Data(contentsOf: URL(fileURLWithPath: programs.path("store.sqlite"))) }

    private static let dropped = [
        "dropped: Employee.name is in the store, but not in the model", "  2 values are lost: 1: 'Ada'; 2: 'Grace'",
        "dropped: Employee.department is in the store, but not in the model", "  1 link is lost: 1: 7",
        "dropped: Department is in the store, but not in the model", "  1 object is lost: 7",
        "migrated: Employee.level is new",
    ]

    private func lines(_ result: Programs.Result) -> [String] {
        result.output.split(separator: "\n").map(String.init)
    }

    @Test func `a dry run lists everything that is refused, retained or dropped, and changes nothing`() throws {
        _ = try startServer()
        let before = try contents()
        let refused = try migrate(["--dry-run"])
        #expect(refused.status == 1 && refused.complaints.contains("3 of 4 changes are refused"))
        #expect(lines(refused).filter { $0.hasPrefix("refused: ") }.count == 3, "\(refused.output)")
        #expect(lines(refused).contains("  2 values would be lost by --drop: 1: 'Ada'; 2: 'Grace'"))
        let kept = try migrate(["--dry-run", "--keep"])
        #expect(kept.status == 0 && lines(kept).filter { $0.hasPrefix("kept: ") }.count == 3, "\(kept.output)")
        let dropped = try migrate(["--dry-run", "--drop"])
        #expect(dropped.status == 0 && lines(dropped) == Self.dropped + ["Nothing was changed."], "\(dropped.output)")
        let json = try migrate(["--dry-run", "--drop", "--json"])
        #expect(json.output.hasPrefix(#"{"opens":true,"migrated":false,"changes":[{"change":"dropped","#), "\(json)")
        #expect(json.output.contains(#""loss":{"kind":"values","count":2,"examples":["1: 'Ada'","2: 'Grace'"]}"#))
        #expect(try contents() == before)
        // Without a word about what is gone, nothing is done either.
        #expect(try migrate().status == 1)
        #expect(try contents() == before)
    }

    @Test func `what is dropped is what the dry run said, and no server refuses it afterwards`() throws {
        let server = try startServer()
        let refused = try migrate(["--drop"])
        #expect(refused.status == 1 && refused.complaints.contains("Give --yes"), "\(refused.complaints)")
        let database = try Database(programs.path("store.sqlite"))
        #expect(try database.rows("SELECT id, name, department FROM Employee") == ["1|Ada|7", "2|Grace|NULL"])
        let done = try migrate(["--drop", "--yes"])
        #expect(done.status == 0 && lines(done) == Self.dropped + ["The store fits the model now: 4 changes."])
        #expect(try database.rows("SELECT * FROM Employee") == ["1|NULL", "2|NULL"])
        #expect(try database.rows("SELECT name FROM sqlite_schema WHERE name LIKE 'Department%'").isEmpty)
        let again = try migrate(["--drop", "--json"])
        #expect(again.output == #"{"opens":true,"migrated":true,"changes":[]}"# + "\n", "\(again.complaints)")
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        _ = try programs.startServer()
        #expect(try programs.run("broker", ["ping", "--socket", "broker.sock"]).status == 0)
    }

    @Test func `what is retained is in use again with the earlier model, and a reload still refuses a loss`() throws {
        _ = try startServer()
        let kept = try migrate(["--keep"])
        #expect(
            kept.status == 0 && lines(kept).last == "The store fits the model now: 4 changes.", "\(kept.complaints)")
        let submitted = try programs.run(
            "broker", ["submit", "--entity", "Employee", "--socket", "broker.sock"], input: #"{"id": 2, "level": 3}"#)
        #expect(submitted.status == 0)
        try programs.write(
            #"{"entities": {"Employee": {"identity": "id", "attributes": {"id": "integer64"}}}}"#, to: "model.json")
        let reloaded = try programs.run("broker", ["admin", "reload", "--socket", "broker.sock"])
        #expect(reloaded.status == 1 && reloaded.complaints.contains("Employee.level is in the store"))
        let both = Programs.model.replacing(#""name": "string"}"#, with: #""name": "string", "level": "integer16"}"#)
        try programs.write(both, to: "model.json")
        #expect(try migrate().status == 0)
        #expect(
            try Database(programs.path("store.sqlite")).rows("SELECT id, name, department FROM Employee")
                == ["1|Ada|7", "2|Grace|NULL"])
    }

    @Test func `the option of a server decides at a reload, and the command decides for itself`() throws {
        _ = try startServer(["--migrate", "drop"])
        let refused = try migrate()
        #expect(refused.status == 1 && refused.complaints.contains("3 of 4 changes are refused"), "\(refused)")
        let reloaded = try programs.run("broker", ["admin", "reload", "--socket", "broker.sock"])
        #expect(reloaded.status == 0 && reloaded.output.contains("dropped: Employee.name"), "\(reloaded)")
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT * FROM Employee") == ["1|NULL", "2|NULL"])
    }

    @Test func `a terminal is asked, and nothing but yes is agreement`() throws {
        try makeStore()
        try programs.write(Self.smaller, to: "model.json")
        let broker = programs.executable("broker").path
        let command = "\(broker) migrate --store store.sqlite --model model.json --drop"
        for (answer, status) in [("n", 1 as Int32), ("", 1), ("y", 0)] {
            let asked = try programs.shell("script -qec '\(command)' /dev/null", input: answer + "\n")
            #expect(asked.status == status, "\(asked.output)")
            #expect(
                asked.output.contains(
                    "Drop Employee.name (2 values), Employee.department (1 link), Department (1 object)? [y/N]"))
            if status == 1 { #expect(asked.output.contains("Nothing was changed.")) }
        }
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT * FROM Employee") == ["1|NULL", "2|NULL"])
    }

    @Test func `a store is migrated without a server, but not beside one`() throws {
        let server = try startServer()
        let before = try contents()
        let refused = try migrateStore(["--drop", "--yes"])
        #expect(refused.status == 1 && refused.complaints.contains("belongs to"), "\(refused.complaints)")
        // To look is harmless.
        let beside = try migrateStore(["--drop", "--dry-run"])
        #expect(beside.status == 0 && lines(beside) == Self.dropped + ["Nothing was changed."])
        #expect(try contents() == before)
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        let closed = try bytes()
        #expect(try migrateStore(["--drop", "--dry-run"]).status == 0)
        #expect(try migrateStore(["--dry-run"]).status == 1)
        #expect(try bytes() == closed)
        #expect(try migrateStore(["--drop"]).complaints.contains("Give --yes"))
        let done = try migrateStore(["--drop", "--yes"])
        #expect(done.status == 0 && lines(done) == Self.dropped + ["The store fits the model now: 4 changes."])
        _ = try programs.startServer()
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT * FROM Employee") == ["1|NULL", "2|NULL"])
    }

    @Test func `accepted jobs of a journal are applied with their model before a store is migrated`() throws {
        let server = try programs.startServer(["--journal"])
        let client = try RawClient(programs.path("broker.sock"))
        #expect(try client.ask(#"{"type": "admin", "action": "pause"}"#).type == "done")
        let job = #"{"notify": ["accepted"], "entity": "Employee", "json": {"id": 1, "name": "Ada"}}"#
        #expect(try client.ask(job).type == "accepted")
        kill(server.processIdentifier, SIGKILL)
        server.waitUntilExit()
        try programs.write(Self.smaller, to: "model.json")
        let refused = try migrateStore(["--keep"])
        #expect(refused.status == 1 && refused.complaints.contains("holds entries (1)"), "\(refused)")
        for (program, arguments) in [
            ("broker", ["fetch", "--entity", "Employee"]), ("brokerd", ["--socket", "broker.sock"]),
        ] {
            let without = try programs.run(program, arguments + Self.local + ["--migrate", "drop"])
            #expect(without.status == 1 && without.complaints.contains("Nothing was touched"), "\(without)")
        }
        try programs.write(Programs.model, to: "model.json")
        let next = try programs.startServer(["--journal"])
        kill(next.processIdentifier, SIGTERM)
        next.waitUntilExit()
        try programs.write(Self.smaller, to: "model.json")
        #expect(try migrateStore(["--keep"]).status == 0)
        let last = try programs.startServer(["--journal"])
        #expect(last.isRunning)
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT id, name FROM Employee") == ["1|Ada"])
    }

    @Test func `a server that does not know the action is named as the cause, and nothing is done`() throws {
        let server = try OldServer(programs.path("broker.sock"))
        for arguments in [["--dry-run"], ["--drop", "--yes"]] {
            let result = try migrate(arguments)
            #expect(result.status == 1 && result.output.isEmpty)
            #expect(result.complaints.contains("The server is older than this command"), "\(result.complaints)")
        }
        #expect(server.actions == ["migrate true", "migrate true"], "it was asked for no change")
    }

    @Test func `wrong arguments, and a server that is not there, are reported by the exit status`() throws {
        #expect(try migrate(["--keep", "--drop"]).status == 2)
        #expect(try migrate(["--migrate", "drop"]).status == 2)
        let help = try migrate(["--help"]).output.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        #expect(help.contains("they take the place of --migrate, which is for the other commands"), "\(help)")
        #expect(try migrateStore(["--migrate", "drop"]).complaints.contains("--keep and --drop instead of --migrate"))
        #expect(try migrate(["--model", "model.json"]).status == 2)
        #expect(try migrate().status == 4)
        let missing = try migrateStore(["--drop"])
        #expect(missing.status == 1 && missing.complaints.contains("There is no store store.sqlite"), "\(missing)")
        #expect(try migrateStore(["--dry-run"]).status == 1)
        #expect(!FileManager.default.fileExists(atPath: programs.path("store.sqlite")))
    }
}
