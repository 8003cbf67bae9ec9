import Foundation
import TestSupport
import Testing

/// Commands with `--store` and `--model`: the coordinator runs in their own process.
@Suite(.timeLimit(.minutes(5))) struct WithoutServerTests {
    private static let local = ["--store", "app.sqlite", "--model", "model.json"]
    private static let employees = #"[{"id": 1, "name": "Ada", "department": {"id": 7}}, {"id": 2, "name": "Grace"}]"#

    private let programs: Programs

    init() throws { programs = try Programs() }

    private func broker(_ command: String, _ arguments: [String], _ input: String = "") throws -> Programs.Result {
        try programs.run("broker", [command] + Self.local + arguments, input: input)
    }

    private func submit(_ arguments: [String] = [], _ input: String = employees) throws -> Programs.Result {
        try broker("submit", ["--entity", "Employee"] + arguments, input)
    }

    private func rows(_ sql: String) throws -> [String] { try Database(programs.path("app.sqlite")).rows(sql) }

    /// The names in the folder that a command may leave there. (A reader leaves the log's, too.)
    private var files: [String] {
        get throws {
            try FileManager.default.contentsOfDirectory(atPath: programs.folder)
                .filter { !$0.hasPrefix(".") && !$0.hasPrefix("submit.") }.sorted()
        }
    }

    private static let closedStore = ["app.sqlite", "app.sqlite.lock", "model.json"]

    /// Waits until that many employees are committed.
    private func wait(forEmployees count: Int) throws {
        while true {
            guard try files.contains("app.sqlite-wal"),
                try rows("SELECT name FROM sqlite_master WHERE name = 'Employee'") == ["Employee"]
            else { continue }
            if try rows("SELECT count(*) FROM Employee") == ["\(count)"] { return }
        }
    }

    // MARK: - What it does

    @Test func `one command creates a store and fills it, and leaves no other file`() throws {
        let first = try submit()
        #expect(first.status == 0, "\(first.complaints)")
        #expect(first.complaints.isEmpty)
        #expect(first.output.contains("2 records in 1 job committed"))
        #expect(try files == Self.closedStore)
        #expect(try rows("SELECT id, name, department FROM Employee") == ["1|Ada|7", "2|Grace|NULL"])
        let again = try submit(["--json"])
        #expect(again.status == 0)
        #expect(again.output.contains(#""Employee":{"inserted":0,"updated":0,"unchanged":2,"#), "\(again.output)")
    }

    @Test func `a store that another process has is fetched from beside it, and written when that one ends`() throws {
        let server = try programs.startServer(["--store", "app.sqlite"])
        let socket = ["submit", "--entity", "Employee", "--socket", "broker.sock"]
        #expect(try programs.run("broker", socket, input: Self.employees).status == 0)
        let fetched = try broker("fetch", ["Employee", "--count"])
        #expect(fetched.output == "2\n" && fetched.complaints.isEmpty, "\(fetched)")
        let read = try programs.run(
            "broker", ["fetch", "--store", "app.sqlite", "Employee", "--select", "name", "--csv"])
        #expect(read.output.contains("Ada") && read.output.contains("Grace"), "\(read)")
        #expect(try broker("entities", []).output.contains("Employee          2"))
        let refused = try submit()
        #expect(refused.status == 1 && refused.complaints.contains("belongs to another broker, process"), "\(refused)")
        let late = try submit(["--wait", "200ms"])
        #expect(late.status == 1 && late.complaints.contains("belongs to another broker, process"), "\(late)")
        try programs.write(#"[{"id": 3}]"#, to: "third.json")
        let program = programs.executable("broker").path
        let line = "'\(program)' submit --store app.sqlite --model model.json --entity Employee --wait 60s third.json"
        let waiting = try programs.start(line)
        server.terminate()
        server.waitUntilExit()
        waiting.waitUntilExit()
        #expect(waiting.terminationStatus == 0)
        #expect(try rows("SELECT count(*) FROM Employee") == ["3"])
    }

    @Test func `every command does without a server`() throws {
        #expect(try submit(["--id", "load"]).status == 0)
        let link = ["--entity", "Employee", "--object", "2", "--relationship", "department", "--to", "7"]
        #expect(try broker("relate", link).status == 0)
        let fetched = try broker("fetch", ["Employee", "--where", "department.id == 7", "--sort=-id"])
        #expect(
            fetched.output == """
                {"id":2,"name":"Grace","department":7}
                {"id":1,"name":"Ada","department":7}

                """, "\(fetched.complaints)")
        let synced = try broker("sync", ["--entity", "Employee", "--where", "id < 10"], #"[{"id": 2}, {"id": 3}]"#)
        #expect(synced.status == 0, "\(synced.complaints)")
        #expect(try broker("delete", ["--entity", "Employee", "3"]).status == 0)
        #expect(try rows("SELECT id FROM Employee") == ["2"])
        #expect(try broker("await", ["load-1"]).output.contains("inserted"))
        #expect(try broker("stats", []).output.contains("jobs.accepted 0\n"))
        #expect(try files == Self.closedStore)
    }

    @Test func `a server serves the same store before and after`() throws {
        #expect(try submit(["--id", "load"]).status == 0)
        #expect(try programs.shell("mv app.sqlite store.sqlite; rm app.sqlite.lock").status == 0)
        let server = try programs.startServer()
        let again = try programs.run(
            "broker", ["submit", "--socket", "broker.sock", "--entity", "Employee", "--id", "load", "--json"],
            input: Self.employees)
        #expect(again.output.contains(#""duplicates":1,"#), "\(again.output)")
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        #expect(try programs.shell("mv store.sqlite app.sqlite").status == 0)
        #expect(try submit(["--id", "load", "--json"]).output.contains(#""duplicates":1,"#))
    }

    @Test func `input that takes many jobs is committed in its order, and all of it`() throws {
        let input = (1...3_000).map { "{\"id\": \($0 % 1_000), \"name\": \"\($0)\"}\n" }.joined()
        let result = try submit(["--batch-records", "10", "--max-in-flight", "64"], input)
        #expect(result.status == 0, "\(result.complaints)")
        #expect(result.output.contains("3000 records in 300 jobs committed"))
        #expect(try rows("SELECT count(*), min(CAST(name AS INTEGER)) FROM Employee") == ["1000|2001"])
    }

    // MARK: - Ends in the middle

    @Test func `killed in the middle and run again with the same id, each record is applied once`() throws {
        let arguments = ["--batch-records", "100", "--id", "load"]
        let killed = try RunningSubmission(programs, arguments, to: Self.local)
        try killed.write(1...101)
        try wait(forEmployees: 100)
        kill(killed.process.processIdentifier, SIGKILL)
        killed.process.waitUntilExit()
        let again = try submit(arguments + ["--json"], (1...301).map { "{\"id\": \($0)}\n" }.joined())
        #expect(again.status == 0, "\(again.complaints)")
        #expect(again.output.contains(#""duplicates":1,"#), "\(again.output)")
        #expect(try files == Self.closedStore)
        #expect(try rows("SELECT count(*) FROM Employee") == ["301"])
    }

    @Test(arguments: [(SIGINT, Int32(130)), (SIGTERM, Int32(143))])
    func `a signal finishes what was sent, says how far it came, and closes the store`(
        signal: Int32, status: Int32
    ) throws {
        let submission = try RunningSubmission(
            programs, ["--batch-records", "100", "--flush", "1h"], to: Self.local)
        try submission.write(1...250)
        try wait(forEmployees: 200)
        kill(submission.process.processIdentifier, signal)
        submission.process.waitUntilExit()
        #expect(submission.process.terminationReason == .exit)
        #expect(submission.process.terminationStatus == status)
        #expect(
            try submission.complaints()
                == "broker: interrupted: 200 records are committed; to go on, run with the same standard input: "
                + "\(programs.executable("broker").path) submit --store app.sqlite --model model.json --entity Employee "
                + "--batch-records 100 --flush 1h --skip 200\n")
        #expect(try files == Self.closedStore)
        #expect(try rows("SELECT count(*) FROM Employee") == ["200"])
    }

    @Test func `a sync that a signal ends has committed whole jobs, deleted nothing, and closed the store`() throws {
        #expect(try submit([], #"[{"id": 1000}]"#).status == 0)
        let sync = try RunningSubmission(programs, command: "sync", ["--batch-bytes", "200"], to: Self.local)
        try sync.write(1...100)
        while try !files.contains("app.sqlite-wal") || rows("SELECT count(*) FROM Employee") == ["1"] {}
        kill(sync.process.processIdentifier, SIGTERM)
        sync.process.waitUntilExit()
        #expect(sync.process.terminationStatus == 143)
        #expect(try files == Self.closedStore)
        #expect(try rows("SELECT count(*) FROM Employee WHERE id = 1000") == ["1"])
    }

    // MARK: - What cannot be meant

    @Test(arguments: [
        ["--store", "app.sqlite"], ["--model", "model.json"], ["--socket", "broker.sock", "--model", "model.json"],
        ["--socket", "broker.sock", "--store", "app.sqlite", "--model", "model.json"],
    ])
    func `incomplete or contradictory options are reported in one line, with status 2`(options: [String]) throws {
        for command in [
            ["submit", "--entity", "Employee"], ["fetch", "Employee"], ["stats"], ["await", "x"],
            ["delete", "--entity", "Employee", "1"], ["sync", "--entity", "Employee"],
        ] {
            let result = try programs.run("broker", command + options)
            // A submission and a sync infer a model, if they have records.
            let mayInfer = ["submit", "sync"].contains(command[0]) && options == ["--store", "app.sqlite"]
            #expect(result.status == (mayInfer ? 1 : 2), "\(result)")
            #expect(result.complaints.split(separator: "\n").count == 1, "\(result.complaints)")
        }
        #expect(try files == ["model.json"])
    }

    @Test func `an unusable model is reported with all its faults, and no store is created`() throws {
        try programs.write(#"{"entities": {"A": {"attributes": {"x": "int", "y": "text"}}}}"#, to: "bad.json")
        let result = try programs.run(
            "broker", ["submit", "--store", "app.sqlite", "--model", "bad.json", "--entity", "A"], input: "[]")
        #expect(result.status == 1)
        let lines = result.complaints.split(separator: "\n")
        #expect(lines.count == 3)
        #expect(lines.first?.contains("/entities/A/attributes/x") == true, "\(result.complaints)")
        #expect(lines.last == "broker: bad.json is no model that can be used: 2 faults.")
        let missing = try programs.run(
            "broker", ["submit", "--store", "app.sqlite", "--model", "nix.json", "--entity", "A"], input: "[]")
        #expect(missing.status == 1)
        #expect(missing.complaints == "broker: nix.json cannot be read: No such file or directory.\n")
        #expect(try files == ["bad.json", "model.json"])
    }

    @Test func `a command that asks or deletes makes no store`() throws {
        for command in [
            ["fetch", "Employee"], ["stats"], ["await", "x"], ["delete", "--entity", "Employee", "1"],
            ["relate", "--entity", "Employee", "--object", "2", "--relationship", "department", "--to", "7"],
        ] {
            let result = try programs.run("broker", command + Self.local)
            #expect(result.status == 1)
            #expect(result.complaints.contains("There is no store app.sqlite."), "\(result.complaints)")
        }
        #expect(try files == ["model.json"])
    }

    @Test func `a file that is no store is refused with one line, and does not change`() throws {
        try programs.write(String(repeating: "this is no database\n", count: 99), to: "app.sqlite")
        let result = try submit()
        #expect(result.status == 1)
        #expect(result.complaints.hasPrefix("broker: The store "), "\(result.complaints)")
        #expect(
            result.complaints.contains("app.sqlite is no SQLite database. Name another file for the store; nothing was")
        )
        #expect(try files == ["app.sqlite", "model.json"])
    }
}

/// Commands with `--timeout` whose server does not answer.
@Suite(.timeLimit(.minutes(5))) struct TimeoutTests {
    private static let commands = [
        ["stats"], ["await", "job"], ["fetch", "Employee"], ["submit", "--entity", "Employee"],
        ["sync", "--entity", "Employee", "--empty"], ["delete", "--entity", "Employee", "1"], ["cancel", "job"],
        ["relate", "--entity", "Employee", "--object", "1", "--relationship", "department", "--to", "7"],
        ["admin", "pause"], ["migrate"], ["backup", "copy.sqlite"], ["ping"], ["jobs"], ["entities"], ["top"],
        ["watch"],
    ]

    @Test func `no command waits for a stopped server for longer than it is to`() throws {
        let programs = try Programs()
        let server = try programs.startServer()
        kill(server.processIdentifier, SIGSTOP)
        defer { kill(server.processIdentifier, SIGCONT) }
        for command in Self.commands {
            let result = try programs.run(
                "broker", command + ["--socket", "broker.sock", "--timeout", "200ms"], input: #"{"id": 1}"#)
            #expect(result.status == 4, "\(command): \(result.complaints)")
            #expect(result.complaints.contains("did not answer the greeting in time"), "\(result.complaints)")
        }
    }

    @Test(arguments: [
        ["submit", "--entity", "Employee"], ["sync", "--entity", "Employee"], ["delete", "--entity", "Employee", "1"],
        ["relate", "--entity", "Employee", "--object", "1", "--relationship", "department", "--to", "7"],
    ])
    func `no command waits for a job that a pause holds for longer than it is to`(command: [String]) throws {
        let programs = try Programs()
        _ = try programs.startServer()
        #expect(try programs.run("broker", ["admin", "pause", "--socket", "broker.sock"]).status == 0)
        let result = try programs.run(
            "broker", command + ["--id", "load", "--socket", "broker.sock", "--timeout", "1"], input: #"{"id": 1}"#)
        #expect(result.status == 4)
        #expect(result.complaints.contains("the server has sent no answer for 1 s"), "\(result.complaints)")
        // The job is there: only its answer was not waited for.
        let awaited = try programs.run(
            "broker",
            ["await", command[0] == "submit" ? "load-1" : "load", "--socket", "broker.sock", "--timeout", "1"])
        #expect(awaited.status == 4 && awaited.complaints.contains("no answer for 1 s"), "\(awaited.complaints)")
    }

    @Test(arguments: [([], true), (["--id", "load"], false), (["--resume"], false)])
    func `of records in doubt that the printed command applies again, it says so`(
        options: [String], isRepeated: Bool
    ) throws {
        let programs = try Programs()
        _ = try programs.startServer()
        #expect(try programs.run("broker", ["admin", "pause", "--socket", "broker.sock"]).status == 0)
        let submit = ["submit", "--entity", "Employee", "--socket", "broker.sock", "--timeout", "200ms"]
        let result = try programs.run("broker", submit + options, input: #"{"id": 1}"#)
        #expect(result.status == 4 && result.complaints.contains("1 record is in doubt"), "\(result.complaints)")
        let hint = "is applied once more by the command below"
        #expect(result.complaints.contains(hint) == isRepeated, "\(result.complaints)")
    }

    @Test func `with a timeout a command waits for a server that is not there yet`() throws {
        let programs = try Programs()
        let command = "'\(programs.executable("broker").path)' ping --socket broker.sock --timeout \(Patience.seconds)"
        let ping = try programs.start(command)
        _ = try programs.startServer()
        ping.waitUntilExit()
        #expect(ping.terminationStatus == 0)
    }

    @Test func `without a timeout a server that is not there is an error at once, which names the way without one`()
        throws
    {
        let programs = try Programs()
        try programs.write(#"{"id": 1}"#, to: "f.json")
        for (command, namesStore) in [
            (["submit", "--entity", "Event", "f.json"], true), (["fetch", "Event"], true), (["ping"], false),
            (["fetch", "Event", "--socket", "b.sock"], false), (["cancel", "a"], false), (["watch"], false),
        ] {
            let result = try programs.run("broker", command)
            #expect(result.status == 4)
            let first = result.complaints.split(separator: "\n").first ?? ""
            #expect(first.contains("no such socket") && first.contains("--store") == namesStore, "\(result.complaints)")
        }
    }

    @Test func `an invalid time is a wrong argument`() throws {
        let programs = try Programs()
        let result = try programs.run("broker", ["stats", "--timeout", "0"])
        #expect(
            result.status == 2 && result.complaints.contains("--timeout must be 10ms to 1d, but is"),
            "\(result.complaints)")
    }
}

/// The database of a running server is damaged.
@Suite(.timeLimit(.minutes(5))) struct DamageTests {
    @Test func `a server whose database is damaged ends by itself, and sends no outcome that is unknown`() throws {
        let programs = try Programs()
        let name = String(repeating: "x", count: 1_000)
        let records = (0..<2_000).map { "{\"id\": \($0), \"name\": \"\(name)\"}" }.joined(separator: ",")
        try programs.write("[\(records)]", to: "employees.json")
        let loaded = try programs.run(
            "broker",
            ["submit", "--store", "store.sqlite", "--model", "model.json", "--entity", "Employee", "employees.json"])
        #expect(loaded.status == 0, "\(loaded.complaints)")
        try programs.write("", to: "log")
        let log = try FileHandle(forWritingTo: URL(fileURLWithPath: programs.path("log")))
        let server = try programs.startServer(complaints: log)
        // Its leaves, none of which the server has read.
        let store = try FileHandle(forUpdating: URL(fileURLWithPath: programs.path("store.sqlite")))
        let size = try store.seekToEnd()
        #expect(size > 2_000_000)
        try store.seek(toOffset: size / 4 / 8192 * 8192)
        try store.write(contentsOf: Data(repeating: 0xA5, count: Int(size / 2)))
        try store.close()
        let client = try RawClient(programs.path("broker.sock"))
        #expect(try client.ask(#"{"type": "ping"}"#).type == "pong")
        try client.send(#"{"id": "a", "entity": "Employee", "json": {"id": 1000, "name": "y"}}"#)
        #expect(try client.receive() == nil)
        server.waitUntilExit()
        #expect(server.terminationReason == .exit)
        #expect(server.terminationStatus == 1)
        #expect(!FileManager.default.fileExists(atPath: programs.path("broker.sock")))
        let lines = try String(contentsOfFile: programs.path("log"), encoding: .utf8).split(separator: "\n")
        let critical = lines.filter { $0.contains(" critical ") }
        #expect(critical.count == 1, "\(lines)")
        #expect(critical.first?.contains("The store has failed") == true)
        #expect(critical.first?.contains("store.sqlite is damaged") == true)
    }
}

/// `broker backup` and `broker restore`, as an operator runs them.
@Suite(.timeLimit(.minutes(5))) struct BackupCommandTests {
    @Test func `a backup is verified and restored, and the commands say what was deleted and what is forgotten`() throws
    {
        let programs = try Programs()
        let server = try programs.startServer()
        func broker(_ arguments: [String], input: String = "") throws -> Programs.Result {
            try programs.run("broker", arguments, input: input)
        }
        let socket = ["--socket", "broker.sock"]
        func submit(_ id: Int) throws {
            let result = try broker(
                ["submit", "--entity", "Employee", "--id", "load-\(id)"] + socket, input: #"[{"id": \#(id)}]"#)
            #expect(result.status == 0, "\(result.complaints)")
        }
        try submit(1)
        // Two older backups, and files that are none of the series.
        let old = ["company-20200101T000000Z.sqlite", "company-20200102T000000Z.sqlite"]
        for name in old + ["company-1.sqlite", "company.sqlite"] { try programs.write("", to: name) }
        let backup = try broker(["backup", "--keep", "2", "--verify", "company.sqlite"] + socket)
        #expect(backup.status == 0 && backup.output.contains("every job up to 1, verified"), "\(backup.complaints)")
        #expect(backup.output.hasSuffix("\(old[0]): deleted\n"), "\(backup.output)")
        let names = try FileManager.default.contentsOfDirectory(atPath: programs.folder).sorted()
        let copy = try #require(names.last { $0.hasPrefix("company-2") })
        #expect(names.filter { $0.hasPrefix("company") } == ["company-1.sqlite", old[1], copy, "company.sqlite"])

        try submit(2)
        #expect(
            try broker(["restore", "--store", "store.sqlite", copy]).complaints.contains("belongs to another broker"))
        server.terminate()
        server.waitUntilExit()
        let dry = try broker(["restore", "--store", "store.sqlite", "--dry-run", copy])
        #expect(dry.output.contains("would be forgotten: 1 job (newest ids: load-2-1)"), "\(dry.output)")
        let restored = try broker(["restore", "--store", "store.sqlite", copy])
        #expect(restored.status == 0 && restored.output.contains("\nforgotten: 1 job"), "\(restored.complaints)")
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT id FROM Employee") == ["1"])
        let again = try broker(["restore", "--store", "store.sqlite", "--json", copy])
        #expect(again.output.contains(#""restored":true,"sequence":1,"forgottenJobs":0"#), "\(again.output)")
        let fetched = try broker(["fetch", "--store", "store.sqlite", "--json", "Employee"])
        #expect(fetched.output.contains(#"{"id":1,"#), "\(fetched.complaints)")
    }

    @Test func `after a clean stop with a journal, no accepted jobs are forgotten`() throws {
        let programs = try Programs()
        let server = try programs.startServer(["--journal"])
        let socket = ["--socket", "broker.sock"]
        #expect(
            try programs.run("broker", ["submit", "--entity", "Employee"] + socket, input: #"[{"id": 1}]"#).status == 0)
        #expect(try programs.run("broker", ["backup", "copy.sqlite"] + socket).status == 0)
        server.terminate()
        server.waitUntilExit()
        let dry = try programs.run("broker", ["restore", "--store", "store.sqlite", "--dry-run", "copy.sqlite"])
        #expect(dry.output.contains("would be forgotten: 0 jobs") && !dry.output.contains("accepted"), "\(dry)")
        let restored = try programs.run("broker", ["restore", "--store", "store.sqlite", "--json", "copy.sqlite"])
        #expect(restored.output.contains(#""journal":true,"forgottenAcceptedJobs":0"#), "\(restored)")
        _ = try programs.startServer(["--journal"])
        #expect(try programs.run("broker", ["fetch", "--count", "Employee"] + socket).output == "1\n")
    }

    @Test func `a copy of a stopped store needs no server`() throws {
        let programs = try Programs()
        _ = try programs.run(
            "broker", ["submit", "--store", "store.sqlite", "--model", "model.json", "--entity", "Employee"],
            input: #"[{"id": 1}]"#)
        let backup = try programs.run(
            "broker", ["backup", "--store", "store.sqlite", "--verify", "--json", "copy.sqlite"])
        #expect(
            backup.output.contains(#""sequence":1,"#) && backup.output.contains(#""verified":true"#),
            "\(backup.complaints)")
        #expect(try Database(programs.path("copy.sqlite")).rows("SELECT id FROM Employee") == ["1"])
        let missing = try programs.run("broker", ["restore", "--store", "store.sqlite", "gone.sqlite"])
        #expect(missing.status == 1, "\(missing)")
        #expect(missing.complaints == "broker: There is no backup gone.sqlite. Check the path.\n")
        let other = try programs.run("broker", ["restore", "--store", "new.sqlite", "model.json"])
        #expect(other.status == 1, "\(other)")
        #expect(
            other.complaints
                == "broker: model.json is no store of Broker's. Name a backup that `broker backup` made.\n")
    }
}
