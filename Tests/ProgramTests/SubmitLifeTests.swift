import Foundation
import Testing

/// `broker submit` whose server or whose patience ends before its input does.
@Suite(.serialized, .timeLimit(.minutes(5))) struct SubmitLifeTests {
    /// Waits until the server has committed that many jobs.
    private func wait(_ programs: Programs, forJobs count: Int) throws {
        while true {
            let stats = try programs.run("broker", ["stats", "--socket", "broker.sock"])
            if stats.output.split(separator: "\n").contains("jobs.completed \(count)") { return }
        }
    }

    @Test(arguments: [true, false])
    func
        `when the server is lost, the report has the committed records, those in doubt, and the command that continues`(
            hasID: Bool
        ) throws
    {
        let programs = try Programs()
        let server = try programs.startServer()
        let arguments = ["--batch-records", "100", "--reconnect-timeout", "0"] + (hasID ? ["--id", "load"] : [])
        let submission = try RunningSubmission(programs, arguments)
        try submission.write(1...101)
        try wait(programs, forJobs: 1)
        kill(server.processIdentifier, SIGKILL)
        server.waitUntilExit()
        try submission.write(102...301)
        try submission.endInput()
        submission.process.waitUntilExit()
        let complaints = try submission.complaints()
        #expect(submission.process.terminationStatus == 4)
        #expect(complaints.contains("the connection was lost"), "\(complaints)")
        #expect(complaints.contains("standard input: records committed: 1 to 100"))
        #expect(complaints.contains("the same --id") == hasID)
        #expect(complaints.contains("--skip 100") == !hasID)
        #expect(
            try String(contentsOfFile: programs.path("submit.output"), encoding: .utf8)
                .contains("100 records in 1 job committed"))
        _ = try programs.startServer()
        let again = try programs.run(
            "broker",
            ["submit", "--socket", "broker.sock", "--entity", "Employee", "--batch-records", "100", "--json"]
                + (hasID ? ["--id", "load"] : ["--skip", "100"]),
            input: (1...301).map { "{\"id\": \($0)}\n" }.joined())
        #expect(again.status == 0)
        #expect(again.output.contains("\"duplicates\":\(hasID ? 1 : 0),"))
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT count(*) FROM Employee") == ["301"])
    }

    @Test(arguments: [(SIGINT, Int32(130)), (SIGTERM, Int32(143))])
    func `a signal ends it with one line that says how far it came, and the command for the rest`(
        signal: Int32, status: Int32
    ) throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let submission = try RunningSubmission(programs, ["--batch-records", "100"])
        try submission.write(1...150)
        try wait(programs, forJobs: 1)
        kill(submission.process.processIdentifier, signal)
        submission.process.waitUntilExit()
        #expect(submission.process.terminationReason == .exit)
        #expect(submission.process.terminationStatus == status)
        #expect(
            try submission.complaints()
                == "broker: interrupted: 100 records are committed; to go on, run with the same standard input: "
                + "\(programs.executable("broker").path) submit --socket broker.sock --entity Employee --batch-records 100 "
                + "--skip 100\n")
    }

    @Test(arguments: [true, false])
    func `a signal while a job is not answered says what is committed, and the command that submits the rest`(
        hasID: Bool
    ) throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let lines = (1...250).map { "{\"id\": \($0)}\n" }.joined()
        try programs.write(lines, to: "my records.ndjson")
        let options = ["--batch-records", "100"] + (hasID ? ["--id", "load"] : [])
        let submission = try RunningSubmission(programs, options + ["my records.ndjson", "-"])
        // The file is committed. The pause holds the job of standard input, and the end of the submission waits for it.
        try wait(programs, forJobs: 3)
        #expect(try programs.run("broker", ["admin", "pause", "--socket", "broker.sock"]).status == 0)
        try submission.write(251...260)
        try submission.endInput()
        while true {
            let stats = try programs.run("broker", ["stats", "--socket", "broker.sock"])
            if stats.output.contains("jobs.inFlight 1\n") { break }
        }
        kill(submission.process.processIdentifier, SIGINT)
        submission.process.waitUntilExit()
        #expect(submission.process.terminationStatus == 130)
        let complaints = try submission.complaints()
        #expect(
            complaints.hasPrefix("broker: interrupted: 250 records are committed, 10 more were sent"), "\(complaints)")
        #expect(try programs.run("broker", ["admin", "resume", "--socket", "broker.sock"]).status == 0)
        let command = try #require(complaints.split(separator: ": ").last?.trimmingCharacters(in: .newlines))
        let again = try programs.shell(
            command + " --json", input: (251...260).map { "{\"id\": \($0)}\n" }.joined())
        #expect(again.status == 0, "\(command): \(again.complaints)")
        #expect(again.output.contains(hasID ? "\"duplicates\":" : "\"records\":10,"), "\(again.output)")
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT count(*) FROM Employee") == ["260"])
    }

    @Test func `records that failed are submitted by the command that is printed, and no others`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        func write(_ third: String) throws {
            try programs.write(
                (1...9).map { $0 == 5 ? third : "{\"id\": \($0)}" }.joined(separator: "\n"), to: "e.ndjson")
        }
        try write(#"{"id": "x"}"#)
        let failed = try programs.run(
            "broker",
            ["submit", "--socket", "broker.sock", "--entity", "Employee", "--batch-records", "2", "--json", "e.ndjson"])
        #expect(failed.status == 1)
        let line = try #require(failed.complaints.split(separator: "\n").last { $0.contains("to go on") })
        #expect(line.hasPrefix("broker: to go on, correct records 5 to 6 of e.ndjson and run: "), "\(line)")
        try write(#"{"id": 5}"#)
        let again = try programs.shell(String(try #require(line.split(separator: ": ").last)))
        #expect(again.status == 0 && again.output.contains("\"records\":2,"), "\(again)")
        #expect(again.output.contains("\"inserted\":2,"), "\(again)")
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT count(*) FROM Employee") == ["9"])
    }

    @Test(arguments: [UInt16(80), 40, 24, 10])
    func `the progress bar fits the terminal and is removed at the end`(columns: UInt16) throws {
        let programs = try Programs()
        _ = try programs.startServer()
        try programs.write((1...5_000).map { "{\"id\": \($0)}\n" }.joined(), to: "e.ndjson")
        let submission = try RunningSubmission(programs, ["--batch-records", "50", "e.ndjson", "-"], columns: columns)
        _ = submission.show(until: "\r")
        kill(submission.process.processIdentifier, SIGINT)
        let shown = submission.show(until: "interrupted")
        let drawn = shown.components(separatedBy: "\r\u{1B}[K")
        #expect(drawn.last?.contains("broker: interrupted") == true, "\(shown.debugDescription)")
        #expect(drawn.dropLast().allSatisfy { $0.count <= Int(columns) - 3 }, "\(shown.debugDescription)")
        submission.process.waitUntilExit()
    }
}
