import TestSupport
import Foundation
import Testing

/// `broker relate`, `sync` and `delete`, as a user at a shell runs them.
@Suite(.timeLimit(.minutes(5))) struct OperationCommandTests {
    private static let model = """
        {"entities": {
          "Employee": {
            "identity": "id", "attributes": {"id": "integer64", "name": "string"},
            "relationships": {"department": {"entity": "Department"}, "tags": {"entity": "Tag", "toMany": true}}},
          "Department": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}},
          "Tag": {"identity": "word", "attributes": {"word": "string"}},
          "Room": {"identity": ["floor", "number"], "attributes": {"floor": "integer16", "number": "string"}}
        }}
        """

    /// A server with objects of all entities.
    private func start() throws -> Programs {
        let programs = try Programs()
        try programs.write(Self.model, to: "model.json")
        _ = try programs.startServer()
        let records = [
            (
                "Employee",
                #"[{"id": -1, "department": {"id": 7, "name": "R&D"}}, {"id": 2, "department": 7}, {"id": 3}]"#
            ),
            ("Tag", #"[{"word": "red"}, {"word": "7"}]"#),
            ("Room", #"[{"floor": 1, "number": "a"}, {"floor": 1, "number": "b"}]"#),
        ]
        for (entity, json) in records {
            let result = try broker(programs, ["submit", "--entity", entity], json)
            guard result.status == 0 else { throw Programs.Failure(what: result.complaints) }
        }
        return programs
    }

    private func broker(
        _ programs: Programs, _ arguments: [String], _ input: String = ""
    ) throws -> Programs.Result {
        try programs.run("broker", arguments + ["--socket", "broker.sock"], input: input)
    }

    private func rows(_ programs: Programs, _ sql: String) throws -> [String] {
        try Database(programs.path("store.sqlite")).rows(sql)
    }

    // MARK: - delete

    @Test func `keys of every form name the objects to delete`() throws {
        let programs = try start()
        let employees = try programs.run(
            "broker", ["delete", "--socket", "broker.sock", "--entity", "Employee", "--", "-1", "3"])
        #expect(employees.status == 0, "\(employees.complaints)")
        #expect(employees.output.contains("1 job committed"))
        #expect(try rows(programs, "SELECT id FROM Employee") == ["2"])
        #expect(try broker(programs, ["delete", "--entity", "Tag", "red", "7"]).status == 0)
        #expect(try broker(programs, ["delete", "--entity", "Room", #"{"floor": 1, "number": "a"}"#]).status == 0)
        #expect(try rows(programs, "SELECT number FROM Room") == ["b"])
        #expect(try rows(programs, "SELECT count(*) FROM Tag") == ["0"])
    }

    @Test func `a predicate takes arguments, and keys that name nothing are warned of`() throws {
        let programs = try start()
        let selected = try broker(
            programs,
            ["delete", "--entity", "Employee", "--where", "department.name == %@", "--argument", "R&D", "--json"])
        #expect(selected.status == 0, "\(selected.complaints)")
        #expect(selected.output.contains(#""deleted":2"#))
        let missing = try broker(programs, ["delete", "--entity", "Employee", "3", "8", "9"])
        #expect(missing.status == 0)
        #expect(missing.complaints == "broker: warning: 2 keys name no Employee\n")
        #expect(try rows(programs, "SELECT count(*) FROM Employee") == ["0"])
    }

    @Test func `delete reports faults by its exit status`() throws {
        let programs = try start()
        let delete = ["delete", "--entity", "Employee"]
        #expect(try broker(programs, delete).status == 2)
        #expect(try broker(programs, delete + ["1", "--where", "id == 1"]).status == 2)
        #expect(try broker(programs, delete + ["1", "--argument", "1"]).status == 2)
        let wrong = try broker(programs, delete + ["--where", "idd == 1"])
        #expect(wrong.status == 1)
        #expect(wrong.complaints.contains("invalidPredicate"))
        let bad = try broker(programs, delete + ["2", "x"])
        #expect(bad.status == 1)
        #expect(bad.complaints.hasPrefix("broker: key 2 (x): invalidValue"), "\(bad.complaints)")
        let skipped = try broker(programs, delete + ["2", "x", "--on-invalid", "skip"])
        #expect(skipped.status == 3)
        #expect(skipped.complaints.contains("skipped, key 2 (x)"))
        #expect(try programs.run("broker", delete + ["1", "--socket", "nowhere.sock"]).status == 4)
    }

    // MARK: - relate

    @Test func `relate takes a key, a file or standard input`() throws {
        let programs = try start()
        let relate = ["relate", "--entity", "Employee", "--object", "3", "--relationship"]
        #expect(try broker(programs, relate + ["department", "--to", "7"]).status == 0)
        #expect(try rows(programs, "SELECT department FROM Employee WHERE id = 3") == ["7"])
        #expect(try broker(programs, relate + ["tags"], #"["red", {"word": "new"}]"#).status == 0)
        try programs.write("\n\"blue\"\n", to: "tag.json")
        #expect(try broker(programs, relate + ["tags", "tag.json"]).status == 0)
        #expect(
            try rows(programs, "SELECT destination FROM Employee_tags ORDER BY 1") == ["blue", "new", "red"])
        #expect(try broker(programs, relate + ["department", "--to", "null"]).status == 0)
        #expect(try rows(programs, "SELECT department FROM Employee WHERE id = 3") == ["NULL"])
    }

    @Test func `relate reports faults by its exit status, and sends no broken JSON`() throws {
        let programs = try start()
        let relate = ["relate", "--entity", "Employee", "--object", "99", "--relationship", "department"]
        let missing = try broker(programs, relate + ["--to", "7"])
        #expect(missing.status == 1)
        #expect(missing.complaints.contains("objectNotFound"))
        #expect(try broker(programs, relate + ["--to", "7", "--on-invalid", "skip"]).status == 3)
        let broken = try broker(programs, relate, #"{"id": 7}, "id": "x""#)
        #expect(broken.status == 1)
        #expect(broken.complaints.contains("standard input, line 1, column 10"), "\(broken.complaints)")
        #expect(broken.complaints.contains("nothing was sent"))
        #expect(try broker(programs, relate + ["--to", "7", "file.json"]).status == 2)
        #expect(try broker(programs, ["relate", "--entity", "Employee"]).status == 2)
    }

    // MARK: - sync

    @Test func `sync deletes what matches and is in none of the files`() throws {
        let programs = try start()
        try programs.write(#"[{"id": 2, "name": "b"}]"#, to: "a.json")
        try programs.write("{\"id\": 4}\n{\"id\": 5}\n", to: "b.ndjson")
        let result = try broker(programs, ["sync", "--entity", "Employee", "a.json", "b.ndjson"])
        #expect(result.status == 0, "\(result.complaints)")
        #expect(result.output.contains("3 records in 1 job committed"))
        #expect(try rows(programs, "SELECT id, name FROM Employee ORDER BY id") == ["2|b", "4|NULL", "5|NULL"])
        let some = try broker(
            programs,
            ["sync", "--entity", "Employee", "--where", "id IN %@", "--argument", "[4, 9]", "--root", "rows"],
            #"{"rows": [{"id": 6}]}"#)
        #expect(some.status == 0, "\(some.complaints)")
        #expect(try rows(programs, "SELECT id FROM Employee ORDER BY id") == ["2", "5", "6"])
        let withoutDelete = try broker(
            programs, ["sync", "--entity", "Employee", "--action", "insert", "--action", "update"], #"[{"id": 7}]"#)
        #expect(withoutDelete.status == 0)
        #expect(try rows(programs, "SELECT count(*) FROM Employee") == ["4"])
    }

    @Test func `an input without records deletes only when it is meant`() throws {
        let programs = try start()
        let refused = try broker(programs, ["sync", "--entity", "Employee"])
        #expect(refused.status == 1)
        #expect(refused.complaints.contains("--empty"))
        #expect(try rows(programs, "SELECT count(*) FROM Employee") == ["3"])
        #expect(try broker(programs, ["sync", "--entity", "Employee", "--empty"], "[]").status == 0)
        #expect(try rows(programs, "SELECT count(*) FROM Employee") == ["0"])
    }

    @Test func `nothing is sent of a broken input, and an invalid record is reported by its line`() throws {
        let programs = try start()
        let broken = try broker(programs, ["sync", "--entity", "Employee"], "[{\"id\": 2},\n{\"id\": 4}")
        #expect(broken.status == 1)
        #expect(broken.complaints.contains("line 2") && broken.complaints.contains("nothing was sent"))
        #expect(try rows(programs, "SELECT id FROM Employee ORDER BY id") == ["-1", "2", "3"])
        try programs.write("{\"id\": 2}\n", to: "good.ndjson")
        try programs.write("{\"id\": 4}\n\n{\"id\": \"x\"}\n", to: "bad.ndjson")
        let sync = ["sync", "--entity", "Employee", "good.ndjson", "bad.ndjson"]
        let failed = try broker(programs, sync)
        #expect(failed.status == 1)
        #expect(failed.complaints.contains("bad.ndjson, line 3 (record 2): invalidValue"), "\(failed.complaints)")
        let skipped = try broker(programs, sync + ["--on-invalid", "skip"])
        #expect(skipped.status == 3)
        #expect(skipped.complaints.contains("no Employee was deleted, because a record was skipped"))
        #expect(try rows(programs, "SELECT id FROM Employee ORDER BY id") == ["-1", "2", "3", "4"])
    }

    @Test func `a sync that is larger than a job is sent in parts, and the last one deletes`() throws {
        let programs = try start()
        try programs.write((10..<30).map { "{\"id\": \($0)}\n" }.joined(), to: "a.ndjson")
        try programs.write("{\"id\": 3}\n{\"id\": 30}\n", to: "b.ndjson")
        let sync = ["sync", "--entity", "Employee", "--batch-bytes", "50", "a.ndjson", "b.ndjson"]
        let result = try broker(programs, sync)
        #expect(result.status == 0, "\(result.complaints)")
        #expect(result.output.contains("22 records in 6 jobs committed"), "\(result.output)")
        #expect(try rows(programs, "SELECT count(*), min(id), max(id) FROM Employee") == ["22|3|30"])
        #expect(try rows(programs, "SELECT count(*) FROM _broker_open_syncs") == ["0"])
    }

    @Test func `a part that fails ends the sync, and nothing is deleted`() throws {
        let programs = try start()
        // Gathered records that were not sent when the input breaks are not sent any more.
        for (bad, count) in [
            ("{\"id\": \"x\"}", "2 records"), ("{\"id\": 1", "1 record"), ("{\"id\": 02}", "2 records"),
        ] {
            try programs.write("{\"id\": 10}\n{\"id\": 11}\n\(bad)\n{\"id\": 12}\n", to: "a.ndjson")
            let result = try broker(
                programs, ["sync", "--entity", "Employee", "--batch-bytes", "12", "--id", "s\(bad.count)", "a.ndjson"])
            #expect(result.status == 1)
            #expect(result.complaints.contains("line 3"), "\(result.complaints)")
            #expect(
                result.complaints.contains(
                    "\(count) \(count == "1 record" ? "is" : "are") committed, and nothing"))
            #expect(result.complaints.contains("under another --id"))
            #expect(try rows(programs, "SELECT id FROM Employee ORDER BY id") == ["-1", "2", "3", "10", "11"])
        }
    }

    @Test func `a job of an id is applied once`() throws {
        let programs = try start()
        let delete = ["delete", "--entity", "Employee", "--id", "once", "2"]
        #expect(try broker(programs, delete).status == 0)
        _ = try broker(programs, ["submit", "--entity", "Employee"], #"{"id": 2}"#)
        let again = try broker(programs, delete + ["--json"])
        #expect(again.status == 0)
        #expect(again.output.contains(#""duplicates":1"#))
        #expect(try rows(programs, "SELECT count(*) FROM Employee WHERE id = 2") == ["1"])
    }
}

/// `broker cancel` and `broker admin`, as a user at a shell runs them.
@Suite(.timeLimit(.minutes(5))) struct ControlCommandTests {
    private func broker(_ programs: Programs, _ arguments: [String]) throws -> Programs.Result {
        try programs.run("broker", arguments + ["--socket", "broker.sock"])
    }

    private func admin(_ programs: Programs, _ action: String) throws {
        let result = try broker(programs, ["admin", action])
        #expect(result.status == 0 && result.output.isEmpty, "\(result.complaints)")
    }

    /// Waits until a line of `broker stats` is there.
    private func wait(_ programs: Programs, for line: String) throws {
        while true {
            let stats = try broker(programs, ["stats"])
            guard stats.status == 0 else { throw Programs.Failure(what: stats.complaints) }
            if stats.output.split(separator: "\n").contains(Substring(line)) { return }
        }
    }

    private func ids(_ programs: Programs) throws -> [String] {
        try Database(programs.path("store.sqlite")).rows("SELECT id FROM Employee ORDER BY id")
    }

    private func submission(of ids: ClosedRange<Int>, _ programs: Programs, id: String) throws -> RunningSubmission {
        let submission = try RunningSubmission(programs, ["--id", id])
        try submission.write(ids)
        try submission.endInput()
        return submission
    }

    @Test func `a job that a pause holds is cancelled, and ends at once`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        try admin(programs, "pause")
        let submission = try submission(of: 1...2, programs, id: "load")
        try wait(programs, for: "jobs.inFlight 1")
        let cancelled = try broker(programs, ["cancel", "load-1"])
        #expect(cancelled.status == 0, "\(cancelled.complaints)")
        #expect(cancelled.output == "job load-1 cancelled before its merge began\n")
        submission.process.waitUntilExit()
        #expect(submission.process.terminationStatus == 1)
        #expect(try submission.complaints().contains("cancelled"))
        try admin(programs, "resume")
        #expect(try broker(programs, ["await", "load-1"]).complaints.contains("cancelled"))
        #expect(try ids(programs) == [])
    }

    @Test func `a job that cannot be cancelled is reported with the reason, and the others are cancelled`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let done = try submission(of: 1...1, programs, id: "done")
        done.process.waitUntilExit()
        try admin(programs, "pause")
        let held = try submission(of: 2...2, programs, id: "held")
        try wait(programs, for: "jobs.inFlight 1")
        let plain = try broker(programs, ["cancel", "done-1"])
        #expect(plain.status == 1 && plain.output.isEmpty)
        #expect(plain.complaints.hasPrefix("broker: job done-1: tooLate: "), "\(plain.complaints)")
        #expect(plain.complaints.contains("is committed already, with the sequence 1"), "\(plain.complaints)")
        let all = try broker(programs, ["cancel", "done-1", "nobody", "held-1", "--json"])
        #expect(all.status == 1)
        #expect(all.output.hasPrefix(#"{"cancelled":["held-1"],"failures":[{"id":"done-1","code":"tooLate","#))
        #expect(all.output.contains(#","sequence":1},{"id":"nobody","code":"unknownJob","#), "\(all.output)")
        held.process.waitUntilExit()
        try admin(programs, "resume")
        #expect(try ids(programs) == ["1"])
    }

    @Test func `the id of a submission is no job's, and the message names those of its jobs`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let submission = try submission(of: 1...1, programs, id: "load")
        submission.process.waitUntilExit()
        for command in ["await", "cancel"] {
            let result = try broker(programs, [command, "load"])
            #expect(result.status == 1 && result.complaints.contains("unknownJob: "), "\(result.complaints)")
            #expect(result.complaints.hasSuffix(" The jobs of `submit --id load` are load-1, load-2 and so on.\n"))
            #expect(try broker(programs, [command, "load-2"]).complaints.hasSuffix("forgotten.\n"))
        }
    }

    @Test func `a pause holds jobs until the server goes on`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        try admin(programs, "pause")
        let submission = try submission(of: 1...3, programs, id: "held")
        try wait(programs, for: "jobs.inFlight 1")
        try wait(programs, for: "paused true")
        #expect(try ids(programs) == [])
        let resumed = try broker(programs, ["admin", "resume", "--json"])
        #expect(resumed.output.contains(#""type":"done""#) && resumed.output.contains(#""action":"resume""#))
        submission.process.waitUntilExit()
        #expect(submission.process.terminationStatus == 0)
        #expect(try ids(programs) == ["1", "2", "3"])
    }

    @Test func `a server that is drained finishes what it has, though it was paused, and ends well`() throws {
        let programs = try Programs()
        let server = try programs.startServer()
        try admin(programs, "pause")
        let submission = try submission(of: 1...3, programs, id: "held")
        try wait(programs, for: "jobs.inFlight 1")
        try admin(programs, "drain")
        server.waitUntilExit()
        #expect(server.terminationReason == .exit && server.terminationStatus == 0)
        submission.process.waitUntilExit()
        #expect(submission.process.terminationStatus == 0)
        #expect(try ids(programs) == ["1", "2", "3"])
    }

    @Test func `a checkpoint prints the rest of the WAL`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        try submission(of: 1...3, programs, id: "some").process.waitUntilExit()
        let checkpoint = try broker(programs, ["admin", "checkpoint"])
        #expect(checkpoint.status == 0, "\(checkpoint.complaints)")
        #expect(checkpoint.output == "0 bytes of the WAL remain\n")
        #expect(try broker(programs, ["admin", "checkpoint", "--json"]).output.contains(#""wal":{"bytes":0,"#))
    }

    @Test func `a reload prints the changes, or why the old model stays`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let fetch = ["fetch", "--entity", "Employee"]
        #expect(try broker(programs, fetch).status == 0)
        let model = Programs.model.replacing(#""name": "string"}"#, with: #""name": "string", "email": "string"}"#)
        try programs.write(model, to: "model.json")
        let reloaded = try broker(programs, ["admin", "reload"])
        #expect(reloaded.status == 0, "\(reloaded.complaints)")
        #expect(reloaded.output.split(separator: "\n").contains { $0.contains("Employee") && $0.contains("email") })
        try programs.write(#"[{"id": 1, "email": "a@b"}]"#, to: "employees.json")
        #expect(try broker(programs, ["submit", "--entity", "Employee", "employees.json"]).status == 0)
        #expect(try broker(programs, fetch).output.contains("a@b"))
        try programs.write("{}", to: "model.json")
        let refused = try broker(programs, ["admin", "reload"])
        #expect(refused.status == 1 && refused.output.isEmpty)
        #expect(refused.complaints.hasPrefix("broker: validationFailed: "), "\(refused.complaints)")
    }

    @Test func `a reload changes limits and the log's level, and names the options that wait for the next start`()
        throws
    {
        let programs = try Programs()
        try programs.write("", to: "log")
        let log = try #require(FileHandle(forWritingAtPath: programs.path("log")))
        try programs.write(#"{"log-level": "notice", "max-memory": "64M"}"#, to: "brokerd.json")
        _ = try programs.startServer(["--config", "brokerd.json"], complaints: log)
        try programs.write(
            #"{"log-level": "warning", "user-jobs-per-second": [5, "65534:9"], "max-memory": "96M"}"#,
            to: "brokerd.json")
        let reloaded = try broker(programs, ["admin", "reload"])
        #expect(reloaded.status == 0, "\(reloaded.complaints)")
        #expect(
            reloaded.output == """
                The option log-level has changed, and is in effect.
                The option user-jobs-per-second has changed, and is in effect.
                The option max-memory has changed, and takes effect at the next start.

                """)
        let before = try String(contentsOfFile: programs.path("log"), encoding: .utf8)
        try programs.write(#"{"user-connections": "no such user:3"}"#, to: "brokerd.json")
        let refused = try broker(programs, ["admin", "reload"])
        #expect(refused.status == 1 && refused.output.isEmpty)
        for part in ["validationFailed", "brokerd.json:1", "user-connections", "no such user"] {
            #expect(refused.complaints.contains(part), "\(refused.complaints)")
        }
        // The level of the accepted one: the line that `reload` was asked for is a notice.
        let lines = try String(contentsOfFile: programs.path("log"), encoding: .utf8).dropFirst(before.count)
        #expect(!lines.contains("reload was asked for") && lines.contains("The reload was refused"), "\(lines)")
        try programs.write(#"{"log-level": "warning", "max-memory": "96M"}"#, to: "brokerd.json")
        #expect(
            try broker(programs, ["admin", "reload"]).output == """
                The option user-jobs-per-second has changed, and is in effect.
                The option max-memory has changed, and takes effect at the next start.

                """)
    }

    @Test func `jobs show has the client, the contents and the stages of a job that ended, while they are known`()
        throws
    {
        let programs = try Programs()
        let server = try programs.startServer()
        let submission = try submission(of: 1...3, programs, id: "load")
        submission.process.waitUntilExit()
        let shown = try broker(programs, ["jobs", "show", "load-1"])
        #expect(shown.status == 0, "\(shown.complaints)")
        for line in [
            "client      ", "operations  process", "entities    Employee", "records     3", "stages      work ",
        ] {
            #expect(shown.output.contains(line), "\(shown.output)")
        }
        #expect(shown.output.contains("broker submit") && shown.output.contains("Employee"), "\(shown.output)")
        server.terminate()
        server.waitUntilExit()
        _ = try programs.startServer()
        let stored = try broker(programs, ["jobs", "show", "load-1"])
        #expect(stored.status == 0 && stored.output.contains("client      "), "\(stored)")
        #expect(stored.output.contains("not known any more"), "\(stored.output)")
        #expect(!stored.output.contains("operations  "), "\(stored.output)")
        #expect(try broker(programs, ["jobs", "show", "load-9"]).complaints.contains("unknownJob"))
    }

    @Test func `a wrong request, or one without a server, is reported by the exit status`() throws {
        let programs = try Programs()
        for command in [["cancel", "x"], ["admin", "pause"]] {
            #expect(try broker(programs, command).status == 4)
            #expect(try programs.run("broker", command + ["--store", "store.sqlite"]).status == 2)
        }
        for command in [["cancel"], ["admin"], ["admin", "stop"], ["admin", "pause", "resume"]] {
            #expect(try broker(programs, command).status == 2, "\(command)")
        }
        for command in ["cancel", "admin"] {
            #expect(try programs.run("broker", [command, "--help"]).output.contains("USAGE: broker \(command)"))
        }
    }

    @Test func `a backup has every job up to the printed one, and another server continues with it`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let load = try submission(of: 1...50, programs, id: "load")
        load.process.waitUntilExit()
        let result = try broker(programs, ["backup", programs.path("copy.sqlite"), "--json"])
        #expect(result.status == 0, "\(result.complaints)")
        let rows = "SELECT count(*), (SELECT max(sequence) FROM _broker_jobs) FROM Employee"
        let copied = try Database(programs.path("copy.sqlite")).rows(rows)
        #expect(copied == (try Database(programs.path("store.sqlite")).rows(rows)))
        #expect(result.output.contains("\"sequence\":1,"))
        let again = try broker(programs, ["backup", programs.path("copy.sqlite")])
        #expect(again.status == 1 && again.complaints.contains("copy.sqlite"))
        // A reader of a copy leaves a WAL beside it, which would not match another copy; an unread copy is replaced.
        for _ in 0..<2 {
            #expect(try broker(programs, ["backup", programs.path("other.sqlite"), "--replace"]).status == 0)
        }
        let nowhere = try broker(programs, ["backup", programs.path("nowhere/copy.sqlite")])
        #expect(nowhere.status == 1 && nowhere.complaints.contains("nowhere"))
    }
}

/// `broker fetch`, as a user at a shell runs it.
@Suite(.timeLimit(.minutes(5))) struct FetchCommandTests {
    private func started() throws -> Programs {
        let programs = try Programs()
        _ = try programs.startServer()
        let input = #"[{"id": 1, "name": "a,\"b\""}, {"id": 2}, {"id": 3, "name": "c\u001b[2J"}]"#
        let result = try programs.run(
            "broker", ["submit", "--socket", "broker.sock", "--entity", "Employee"], input: input)
        #expect(result.status == 0, "\(result.complaints)")
        return programs
    }

    private func fetch(_ programs: Programs, _ arguments: [String]) throws -> Programs.Result {
        try programs.run("broker", ["fetch", "--socket", "broker.sock"] + arguments)
    }

    @Test func `objects are NDJSON when standard output is no terminal, or in the requested form`() throws {
        let programs = try started()
        let lines = try fetch(programs, ["--entity", "Employee"]).output.split(separator: "\n")
        #expect(lines.count == 3)
        #expect(lines[0].hasPrefix(#"{"id":1,"name":"a,\"b\"""#))
        let json = try fetch(programs, ["Employee", "--json"]).output
        let objects = try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [[String: Any]]
        #expect(objects?.map { $0["id"] as? Int } == [1, 2, 3])
        let csv = try fetch(programs, ["Employee", "--csv"]).output
        #expect(csv.hasPrefix("id,name"))
        #expect(csv.contains("\r\n1,\"a,\"\"b\"\"\""))
        let table = try fetch(programs, ["Employee", "--table"]).output
        #expect(table.hasPrefix("id  name"))
        #expect(!table.utf8.contains(0x1B), "a terminal's own commands do not get through")
    }

    @Test func `a predicate, an order and a limit choose the objects`() throws {
        let programs = try started()
        let chosen = try fetch(
            programs,
            ["Employee", "--where", "id != %@ AND name != %@", "--argument", "3", "--argument", "x", "--sort=-id"])
        #expect(chosen.output.split(separator: "\n").map { $0.prefix(7) } == [#"{"id":2"#, #"{"id":1"#])
        #expect(try fetch(programs, ["Employee", "--limit", "2"]).output.split(separator: "\n").count == 2)
        #expect(try fetch(programs, ["Employee", "--object", "2"]).output.hasPrefix(#"{"id":2"#))
        #expect(try fetch(programs, ["Employee", "--count", "--where", "id > 1"]).output == "2\n")
    }

    @Test func `the objects of several keys are printed, and those that do not exist are named`() throws {
        let programs = try started()
        let some = try fetch(programs, ["Employee", "--object", "9", "--object", "2", "--object", "x"])
        #expect(some.output.hasPrefix(#"{"id":2"#) && some.status == 1, "\(some)")
        #expect(some.complaints.contains("invalidValue"), "the text is no key of this entity")
        let missing = try fetch(programs, ["Employee", "--object", "9", "--object", "2", "--object", "8", "--json"])
        #expect(missing.status == 1 && missing.output.contains(#""id":2"#) && missing.output.hasSuffix("]\n"))
        #expect(missing.complaints.split(separator: "\n").count == 2)
        #expect(missing.complaints.contains("no object with the key 9."))
        let table = try fetch(programs, ["Employee", "--object", "9", "--object", "2", "--csv"])
        #expect(table.output.hasPrefix("id,name") && table.output.contains("\r\n2,"), "\(table.output)")
        let counted = try fetch(programs, ["Employee", "--object", "9", "--count"])
        #expect(counted.output == "0\n" && counted.status == 1)
    }

    @Test func `selected values are columns, also of an input without objects`() throws {
        let programs = try started()
        let select = ["Employee", "--select", "name,department.name", "--select", "id"]
        #expect(
            try fetch(programs, select + ["--csv"]).output
                == "name,department.name,id\r\n\"a,\"\"b\"\"\",,1\r\n,,2\r\nc\u{1B}[2J,,3\r\n")
        #expect(try fetch(programs, select + ["--csv", "--where", "id < 0"]).output == "name,department.name,id\r\n")
        #expect(
            try fetch(programs, select + ["--limit", "1"]).output
                == #"{"name":"a,\"b\"","department.name":null,"id":1}"# + "\n")
        #expect(
            try fetch(programs, select + ["-x", "--sort=-id", "--limit", "1"]).output.hasPrefix(
                "-[ 1 ]-\nname             c\\u{1B}[2J\n"))
        let unknown = try fetch(programs, ["Employee", "--select", "nmae"])
        #expect(unknown.status == 1 && unknown.complaints.contains("did you mean \"name\"?"))
        #expect(try fetch(programs, select + ["--include", "department"]).status == 2)
    }

    @Test func `a table begins with the identity, then with what was included, under the names that are printed`()
        throws
    {
        let programs = try Programs()
        try programs.write(
            """
            {"entities": {
              "Thing": {"identity": "zid", "attributes": {"at": "string", "zid": {"type": "integer64", "key": "z.id"}}},
              "Event": {"parent": "Thing", "attributes": {"kind": "string"},
                "relationships": {"who": {"entity": "Actor", "key": "actor"}}},
              "Actor": {"identity": "login", "attributes": {"avatar": "string", "login": "string"}}
            }}
            """, to: "model.json")
        _ = try programs.startServer()
        let record = #"{"z": {"id": 1}, "at": "t", "kind": "k", "actor": {"login": "l", "avatar": "a"}}"#
        _ = try programs.run("broker", ["submit", "--socket", "broker.sock", "--entity", "Event"], input: record)
        #expect(
            try fetch(programs, ["Event", "--include", "who,nope"]).complaints.contains("no relationship \"nope\""))
        let include = ["Event", "--include", "who"]
        let remote = try fetch(programs, include + ["--table"]).output.split(separator: "\n")
        #expect(remote == ["z.id  actor.login  actor.avatar  at  kind", "   1  l            a             t   k"])
        let local = try fetch(programs, include + ["--table", "--local"]).output
        #expect(local.hasPrefix("zid  who.login  who.avatar  at  kind  entity\n"), "\(local)")
        #expect(
            !(try fetch(programs, include + ["--csv"]).output.hasPrefix("z.id")), "CSV has the order of the objects")
    }

    @Test func `a reader that goes early ends a command quietly`() throws {
        let programs = try started()
        let broker = programs.executable("broker").path
        let commands = [
            "fetch Employee --socket broker.sock", "watch --after 0 --socket broker.sock", "model show model.json",
            "unframe < frames",
        ]
        _ = try programs.shell("for n in 1 2 3; do echo '{\"a\": 1}' | '\(broker)' frame; done > frames")
        for command in commands {
            let result = try programs.shell(
                "rm -f pipe; mkfifo pipe; exec 4<>pipe 5>pipe 4<&-; '\(broker)' \(command) >&5; echo $?")
            #expect(result.output == "0\n" && result.complaints.isEmpty, "\(command): \(result)")
        }
    }

    @Test func `a fault is reported with its exit status`() throws {
        let programs = try started()
        let unknown = try fetch(programs, ["Employe"])
        #expect(unknown.status == 1)
        #expect(unknown.complaints.contains("unknownEntity at /entity"))
        #expect(try fetch(programs, ["Employee", "--where", "nam == 1"]).complaints.contains("invalidPredicate"))
        #expect(try fetch(programs, []).complaints.contains("--entity E"))
        #expect(try fetch(programs, []).status == 2)
        #expect(try fetch(programs, ["Employee", "--entity", "Employee"]).status == 2)
        #expect(try fetch(programs, ["Employee", "--json", "--csv"]).status == 2)
        #expect(try programs.run("broker", ["fetch", "--socket", "none.sock", "Employee"]).status == 4)
    }
}

/// `broker watch`, as a user at a shell runs it.
@Suite(.timeLimit(.minutes(5))) struct WatchTests {
    private func submit(_ programs: Programs, _ records: String, id: String) throws {
        let arguments = ["submit", "--socket", "broker.sock", "--entity", "Employee", "--id", id]
        let result = try programs.run("broker", arguments, input: records)
        #expect(result.status == 0, "\(result.complaints)")
    }

    private func watch(_ programs: Programs, _ arguments: [String]) throws -> Programs.Result {
        try programs.run("broker", ["watch", "--socket", "broker.sock"] + arguments)
    }

    @Test func `it prints the commits that change the entities, from a sequence on, with their keys`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        try submit(programs, #"[{"id": 1, "department": {"id": 7}}, {"id": 2}]"#, id: "a")
        try submit(programs, #"{"id": 2, "name": "n"}"#, id: "b")
        let all = try watch(programs, ["--after", "0", "--keys", "--limit", "2", "Employee"])
        #expect(all.status == 0 && all.complaints.isEmpty, "\(all.complaints)")
        #expect(
            all.output == """
                {"sequence":1,"id":"a-1","changes":{"Employee":{"inserted":2}},"keys":{"Employee":{"inserted":[1,2]}}}
                {"sequence":2,"id":"b-1","changes":{"Employee":{"updated":1}},"keys":{"Employee":{"updated":[2]}}}

                """)
        #expect(
            try watch(programs, ["--after", "0", "--limit", "1"]).output
                == #"{"sequence":1,"id":"a-1","changes":{"Department":{"inserted":1},"Employee":{"inserted":2}}}"#
                + "\n")
        #expect(try watch(programs, ["--limit", "1", "Department"]).output == #"{"sequence":2,"changes":{}}"# + "\n")
    }

    @Test func `what it cannot follow is an error with its status`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let unknown = try watch(programs, ["Employe"])
        #expect(unknown.status == 1 && unknown.complaints.hasPrefix("broker: unknownEntity at /entities/0: "))
        let gone = try watch(programs, ["--after", "9"])
        #expect(gone.status == 1 && gone.complaints.hasPrefix("broker: gone at /after: "), "\(gone.complaints)")
        let local = try programs.run("broker", ["watch", "--store", "store.sqlite"])
        #expect(local.status == 2 && local.complaints.contains("--socket"))
        #expect(try watch(programs, ["--after", "-1"]).status == 2)
        #expect(try programs.run("broker", ["watch", "--socket", "none.sock"]).status == 4)
    }

    @Test func `with a timeout it ends after a time without a commit, with the command that goes on`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        try submit(programs, #"{"id": 1}"#, id: "a")
        let result = try watch(programs, ["--after", "0", "--timeout", "200ms"])
        #expect(result.status == 4 && result.output.contains(#""id":"a-1""#), "\(result)")
        #expect(
            result.complaints
                == "broker: no commit for 200ms; go on with: broker watch --socket broker.sock --timeout 200ms "
                + "--after 1\n")
    }

    @Test func `it ends when its reader has gone, without a further commit`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let watch = "timeout \(Patience.seconds) '\(programs.executable("broker").path)' watch --socket broker.sock"
        let result = try programs.shell("{ \(watch); echo $? > status; } | head -n 1")
        #expect(result.output == #"{"sequence":0,"changes":{}}"# + "\n" && result.complaints.isEmpty, "\(result)")
        #expect(try String(contentsOfFile: programs.path("status"), encoding: .utf8) == "0\n")
    }

    @Test func `it goes on through a server that is killed, and a signal ends it with the command that goes on`() throws
    {
        let programs = try Programs()
        let server = try programs.startServer()
        let watching = try RunningWatch(
            programs, ["--after", "0", "--limit", "9", "--timeout", "5m", "--reconnect-timeout", "60", "Employee"])
        try submit(programs, #"{"id": 1}"#, id: "a")
        try watching.wait(forLines: 1)
        kill(server.processIdentifier, SIGKILL)
        server.waitUntilExit()
        _ = try programs.startServer()
        try submit(programs, #"{"id": 2}"#, id: "b")
        try submit(programs, #"{"id": 3}"#, id: "c")
        try watching.wait(forLines: 3)
        kill(watching.process.processIdentifier, SIGINT)
        watching.process.waitUntilExit()
        #expect(watching.process.terminationStatus == 130)
        let lines = try watching.lines()
        try #require(lines.count == 3)
        for (line, id) in zip(lines, ["a-1", "b-1", "c-1"]) {
            #expect(line.contains("\"id\":\"\(id)\",\"changes\":{\"Employee\":{\"inserted\":1}}"))
        }
        let sequence = try #require(lines[2].split(separator: ",").first?.split(separator: ":").last)
        #expect(
            try watching.complaints()
                == "broker watch: go on with: broker watch --socket broker.sock --timeout 5m --reconnect-timeout 60 "
                + "Employee --limit 6 --after \(sequence)\n")
    }
}

/// `broker watch` while it runs.
private final class RunningWatch {
    let process = Process()
    private let programs: Programs

    init(_ programs: Programs, _ arguments: [String]) throws {
        self.programs = programs
        process.executableURL = programs.executable("broker")
        process.arguments = ["watch", "--socket", "broker.sock"] + arguments
        process.currentDirectoryURL = URL(fileURLWithPath: programs.folder)
        for name in ["watch.output", "watch.complaints"] { try programs.write("", to: name) }
        process.standardOutput = FileHandle(forWritingAtPath: programs.path("watch.output"))
        process.standardError = FileHandle(forWritingAtPath: programs.path("watch.complaints"))
        try process.run()
    }

    deinit {
        guard process.isRunning else { return }
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    func lines() throws -> [Substring] {
        try String(contentsOfFile: programs.path("watch.output"), encoding: .utf8).split(separator: "\n")
    }

    func complaints() throws -> String {
        try String(contentsOfFile: programs.path("watch.complaints"), encoding: .utf8)
    }

    func wait(forLines count: Int) throws {
        while try lines().count < count {
            guard process.isRunning else { throw Programs.Failure(what: try complaints()) }
        }
    }
}

/// `--dry-run` and `--max-delete`, as a user at a shell gives them.
@Suite(.timeLimit(.minutes(5))) struct DryRunTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    private func broker(_ arguments: [String], _ input: String = "") throws -> Programs.Result {
        try programs.run("broker", arguments + ["--store", "app.sqlite"], input: input)
    }

    private func count() throws -> [String] {
        try Database(programs.path("app.sqlite")).rows("SELECT count(*) FROM Row")
    }

    @Test func `a dry run makes no store, and neither changes nor migrates one`() throws {
        let submit = ["submit", "--entity", "Row"]
        let empty = try broker(submit + ["--dry-run"], #"[{"id": 1}, {"id": 2}]"#)
        #expect(empty.status == 0, "\(empty.complaints)")
        #expect(empty.output.contains("Row inserted: 1, 2\n"))
        #expect(empty.output.hasSuffix("2 records in 1 job tried; nothing was written\n"))
        let names = try FileManager.default.contentsOfDirectory(atPath: programs.folder)
        #expect(!names.contains { $0.hasPrefix("app.") }, "\(names)")

        #expect(try broker(submit, #"[{"id": 1}, {"id": 2}]"#).status == 0)
        let wider = try broker(submit + ["--dry-run", "--json"], #"[{"id": 2, "name": "b"}, {"id": 3}]"#)
        #expect(wider.status == 0, "\(wider.complaints)")
        #expect(
            wider.output.contains(#""dryRun":true,"examples":{"Row":{"inserted":[3],"updated":[2]}}"#),
            "\(wider.output)")
        #expect(wider.complaints.contains("uses a copy"))
        #expect(
            try Database(programs.path("app.sqlite")).rows("SELECT name FROM pragma_table_info('Row')") == [
                "id", "_extra",
            ])
        #expect(try count() == ["2"])
    }

    @Test func `a dry run on a store that cannot be opened leaves nothing in the temporary folder`() throws {
        #expect(try broker(["submit", "--entity", "Row"], #"[{"id": 1, "name": "a"}]"#).status == 0)
        try programs.write(
            #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"}}}}"#, to: "narrow.json")
        let refused = try programs.shell(
            "mkdir tmp && echo '[]' | TMPDIR=$PWD/tmp '\(programs.executable("broker").path)' submit --entity Row --empty "
                + "--dry-run --store app.sqlite --model narrow.json")
        #expect(refused.status == 1 && refused.complaints.contains("uses a copy"), "\(refused)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: programs.path("tmp")) == [])
    }

    @Test func `a sync that deletes too much fails, and its dry run says what it would delete`() throws {
        let rows = (1...20).map { #"{"id": \#($0)}"# }.joined(separator: "\n")
        #expect(try broker(["submit", "--entity", "Row"], rows).status == 0)
        let sync = ["sync", "--entity", "Row"]
        let tried = try broker(sync + ["--dry-run"], #"[{"id": 1}]"#)
        #expect(tried.output.contains("Row deleted: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, and 9 more\n"), "\(tried.output)")
        let refused = try broker(sync + ["--max-delete", "50%"], #"[{"id": 1}]"#)
        #expect(refused.status == 1)
        #expect(refused.complaints.contains("tooManyDeletions") && refused.complaints.contains("--max-delete"))
        #expect(try count() == ["20"])
        #expect(try broker(sync + ["--max-delete", "101%"], "[]").status == 2)
        let large = try broker(sync + ["--dry-run", "--batch-bytes", "5"], rows)
        #expect(large.status == 1 && large.complaints.contains("does not fit one job"))
        #expect(try broker(sync + ["--max-delete", "19"], #"[{"id": 1}]"#).status == 0)
        #expect(try count() == ["1"])
    }
}
