import TestSupport
import Foundation
import Testing

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
                == "broker watch: go on with: broker watch --socket broker.sock --reconnect-timeout 1m --timeout 5m "
                + "--limit 6 --after \(sequence) Employee\n")
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
