import Foundation
import Testing

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
        #expect(cancelled.output == "job load-1 cancelled\n")
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
        let all = try broker(programs, ["cancel", "done-1", "nobody", "held-1", "--json"])
        #expect(all.status == 1)
        #expect(all.output.hasPrefix(#"{"cancelled":["held-1"],"failures":[{"id":"done-1","code":"tooLate","#))
        #expect(all.output.contains(#"{"id":"nobody","code":"unknownJob","#))
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
