import Foundation
import TestSupport
import Testing

/// The commands that look at a server, as a user at a shell runs them.
@Suite(.timeLimit(.minutes(5))) struct ObservingCommandTests {
    private func broker(_ programs: Programs, _ arguments: [String], input: String = "") throws -> Programs.Result {
        try programs.run("broker", arguments + ["--socket", "broker.sock"], input: input)
    }

    @Test func `top ends when its reader has gone`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let top = "timeout \(Patience.seconds) '\(programs.executable("broker").path)' top --socket broker.sock"
        let result = try programs.shell("{ \(top); echo $? > status; } | head -n 1")
        #expect(result.output.hasPrefix("  jobs/s") && result.complaints.isEmpty, "\(result)")
        #expect(try String(contentsOfFile: programs.path("status"), encoding: .utf8) == "0\n")
    }

    @Test func `a refused reload is in the state, the counters and the metrics until one succeeds`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let metric = "\nbroker_config_last_reload_successful "
        func metrics() throws -> String { try broker(programs, ["stats", "--format", "prometheus"]).output }
        #expect(try metrics().contains(metric + "1\n"))
        #expect(try !broker(programs, ["stats", "--json"]).output.contains("lastReload"))
        try programs.write("{}", to: "model.json")
        #expect(try broker(programs, ["admin", "reload"]).status == 1)
        let health = try broker(programs, ["health", "--json"])
        #expect(health.status == 7 && health.output.contains(#""state":"degraded","status":7"#), "\(health)")
        let line = try broker(programs, ["health"]).output
        #expect(
            line.hasPrefix("degraded: ") && line.contains("the next start would fail") && line.contains("model.json"))
        #expect(try broker(programs, ["stats", "--json"]).output.contains(#""successful":false,"reason":"The model "#))
        #expect(try metrics().contains(metric + "0\n"))
        #expect(try broker(programs, ["submit", "--entity", "Employee"], input: #"{"id": 1}"#).status == 0)
        try programs.write(Programs.model, to: "model.json")
        #expect(try broker(programs, ["admin", "reload"]).status == 0)
        #expect(try broker(programs, ["health"]).status == 0)
        #expect(try metrics().contains(metric + "1\n"))
    }

    @Test func `a store that has no room for a job is full in the state, though smaller jobs are stored`() throws {
        let programs = try Programs()
        _ = try programs.startServer(limit: "-f 4096")
        let submit = ["submit", "--entity", "Employee"]
        let name = String(repeating: "x", count: 6 << 20)
        let large = try broker(programs, submit, input: "{\"id\": 1, \"name\": \"\(name)\"}")
        #expect(large.status == 1 && large.complaints.contains("storeFull"), "\(large)")
        for id in 2...3 {
            let health = try broker(programs, ["health"])
            #expect(health.status == 5 && health.output.contains("is full"), "\(health)")
            #expect(try broker(programs, submit, input: "{\"id\": \(id)}").status == 0)
        }
    }

    @Test func `top says since when a server is lost that was stopped or killed, and goes on when it answers`() throws {
        let programs = try Programs()
        let server = try programs.startServer()
        _ = try programs.start(
            "'\(programs.executable("broker").path)' top --socket broker.sock >'\(programs.path("top"))' 2>&1")
        func text() -> String { (try? String(contentsOfFile: programs.path("top"), encoding: .utf8)) ?? "" }
        func waitFor(_ line: String) { while !text().hasSuffix(line) { usleep(10_000) } }
        waitFor(" serving\n")
        let isLost = { text().split(separator: "\n").last?.hasPrefix("lost since ") == true }
        for signal in [SIGSTOP, SIGKILL] {
            kill(server.processIdentifier, signal)
            let start = ContinuousClock.now
            while !isLost() { usleep(10_000) }
            #if !DEBUG
            #expect(ContinuousClock.now - start < .seconds(3))
            #endif
            if signal == SIGSTOP {
                kill(server.processIdentifier, SIGCONT)
                waitFor(" serving\n")
            }
        }
    }

    @Test func `the state, the jobs and the entities of a server are printed`() throws {
        let programs = try Programs()
        let log = programs.path("log")
        try programs.write("", to: "log")
        let server = try programs.startServer(
            ["--log-format", "json", "--slow-job", "1ms", "--metrics-file", "broker.prom"],
            complaints: try #require(FileHandle(forWritingAtPath: log)))
        let ping = try broker(programs, ["ping"])
        #expect(ping.status == 0 && ping.output.contains(" answered in "), "\(ping.complaints)")
        let submit = ["submit", "--entity", "Employee", "--id"]
        #expect(try broker(programs, submit + ["good"], input: #"{"id": 1}"#).status == 0)
        #expect(try broker(programs, submit + ["bad"], input: #"{"id": "x"}"#).status == 1)
        let health = try broker(programs, ["health"])
        #expect(health.status == 0 && health.output.hasPrefix("serving: up "), "\(health.output)")
        let entities = try broker(programs, ["entities"])
        #expect(
            entities.output.contains("Employee          1  id        id, name, department → Department\n"),
            "\(entities.output)")
        let jobs = try broker(programs, ["jobs"])
        #expect(
            jobs.output.contains("No job is running.") && jobs.output.contains(" bad-1  invalidValue at /json/0/id: "),
            "\(jobs.output)")
        let text = try broker(programs, ["stats", "--format", "prometheus"])
        #expect(text.output.contains("\nbroker_jobs_completed_total 1\n"))
        let file = try String(contentsOfFile: programs.path("broker.prom"), encoding: .utf8)
        #expect(file.contains("# TYPE broker_job_duration_seconds histogram\n"))
        func failed(_ filter: String...) throws -> Bool {
            try broker(programs, ["jobs"] + filter).output.contains(" bad-1  invalidValue")
        }
        let user = String(getuid())
        #expect(try failed("--since", "1h", "--user", user, "--code", "invalidValue"))
        #expect(try failed("--failed", "--since", "2026-03-01T12:00:00Z") && failed("--user", "4294967295") == false)
        #expect(try failed("--code", "busy") == false && failed("--since", "2999-03-01T12:00:00Z") == false)
        let unknown = try broker(programs, ["jobs", "--code", "busi"])
        #expect(
            unknown.status == 1 && unknown.complaints.contains("There is no code \"busi\""), "\(unknown.complaints)")
        for wrong in [["--since", "yesterday"], ["--user", "no such user"], ["--slow", "--code", "busy"]] {
            #expect(try broker(programs, ["jobs"] + wrong).status == 2, "\(wrong)")
        }
        #expect(try broker(programs, ["top", "--once"]).output.hasPrefix("serving: "))
        #expect(try broker(programs, ["admin", "pause"]).status == 0)
        let paused = try broker(programs, ["health", "--json"])
        #expect(paused.status == 6 && paused.output.contains(#""state":"paused""#))
        server.terminate()
        server.waitUntilExit()
        #expect(!FileManager.default.fileExists(atPath: programs.path("broker.prom")))
        let gone = try broker(programs, ["health"])
        #expect(gone.status == 4 && gone.output.hasPrefix("unreachable: ") && gone.complaints.isEmpty)
        #expect(try broker(programs, ["ping"]).status == 4)
        let lines = try String(contentsOfFile: log, encoding: .utf8).split(separator: "\n")
        let failed = try #require(lines.first { $0.contains("A job failed.") })
        #expect(try Message(text: String(failed))["metadata.id"] == "bad-1")
        let local = try programs.run("broker", ["jobs", "--store", "store.sqlite", "--model", "model.json"])
        #expect(
            local.output.contains(" bad-1  invalidValue at ") && !local.output.contains("running"),
            "\(local.complaints)")
    }
}
