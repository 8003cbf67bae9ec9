import Foundation
import TestSupport
import Testing

/// A server with a journal that is killed, and what the next one makes of it.
@Suite(.timeLimit(.minutes(5))) struct JournalTests {
    /// A server was killed after it had accepted so many jobs and applied none.
    private func killed(_ programs: Programs, jobs: Int) throws {
        let server = try programs.startServer(["--journal"])
        let client = try RawClient(programs.path("broker.sock"))
        _ = try client.ask(#"{"type": "admin", "action": "pause"}"#)
        let name = String(repeating: "x", count: 300)
        for id in 1...jobs {
            let job =
                "{\"id\": \"job-\(id)\", \"notify\": [\"accepted\", \"completed\"], \"entity\": \"Employee\", "
                + "\"json\": {\"id\": \(id), \"name\": \"\(name)\"}, "
                + "\"bookmark\": {\"name\": \"feed\", \"value\": \"\(id)\"}}"
            #expect(try client.ask(job).type == "accepted")
        }
        kill(server.processIdentifier, SIGKILL)
        server.waitUntilExit()
    }

    private func stop(_ server: Process) {
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        #expect(server.terminationStatus == 0)
    }

    @Test func `accepted jobs are applied by a server of which every limit is too small for them`() throws {
        let programs = try Programs()
        try killed(programs, jobs: 20)
        let limits = [
            "--max-frame-bytes", "--max-content-bytes", "--max-bytes-in-flight", "--max-memory", "--max-job-memory",
            "--max-jobs-in-flight", "--jobs-per-connection",
        ]
        stop(try programs.startServer(["--journal"] + limits.flatMap { [$0, "1"] }))
        let rows = try SQLRows.of("SELECT count(*), sum(length(name)) FROM Employee", in: programs.path("store.sqlite"))
        #expect(rows == ["20|6000"])
        // Each job brought its bookmark along.
        let bookmark = try SQLRows.of("SELECT value FROM _broker_bookmarks", in: programs.path("store.sqlite"))
        #expect(bookmark == ["20"])
    }

    @Test func `the second half of a journal that was zeroed stops the start, and says where`() throws {
        let programs = try Programs()
        try killed(programs, jobs: 30)
        let path = programs.path("store.sqlite.journal/0000000000000001.jobs")
        let whole = try Data(contentsOf: URL(fileURLWithPath: path))
        var bytes = whole
        bytes.resetBytes(in: bytes.count / 2..<bytes.count)
        try bytes.write(to: URL(fileURLWithPath: path))
        let started = try programs.run(
            "brokerd", ["--model", "model.json", "--store", "store.sqlite", "--socket", "broker.sock", "--journal"])
        #expect(started.status == 1)
        #expect(started.complaints.contains("0000000000000001.jobs is damaged at byte"), "\(started.complaints)")
        try whole.write(to: URL(fileURLWithPath: path))
        stop(try programs.startServer(["--journal"]))
        #expect(try SQLRows.of("SELECT count(*) FROM Employee", in: programs.path("store.sqlite")) == ["30"])
    }

    @Test func `a tail of a journal that is torn is cut off, and the log says how much and where`() throws {
        let programs = try Programs()
        try killed(programs, jobs: 3)
        let path = programs.path("store.sqlite.journal/0000000000000001.jobs")
        let size = try Data(contentsOf: URL(fileURLWithPath: path)).count
        let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
        try file.seekToEnd()
        try file.write(contentsOf: Data(repeating: 7, count: 1_000))
        try file.close()
        try programs.write("", to: "log")
        let log = try FileHandle(forWritingTo: URL(fileURLWithPath: programs.path("log")))
        stop(try programs.startServer(["--journal"], complaints: log))
        let lines = try String(contentsOfFile: programs.path("log"), encoding: .utf8).split(separator: "\n")
        let line = lines.first { $0.contains("was cut off") }
        #expect(line?.contains("bytes=1000") == true && line?.contains("byte=\(size)") == true, "\(lines)")
        #expect(try SQLRows.of("SELECT count(*) FROM Employee", in: programs.path("store.sqlite")) == ["3"])
    }

    @Test func `a full store beside a journal is reported once, and the printed command submits everything`() throws {
        let programs = try Programs()
        try programs.write(
            (1...500).map { "{\"id\": \($0), \"name\": \"Ada\"}\n" }.joined(), to: "e.ndjson")
        // The system's limit for files, 2,048 blocks of 512 bytes, simulates the disk's end. The rows of this job need more
        // than its text in the journal.
        let full = try programs.startServer(["--journal"], limit: "-f 2048")
        let client = try RawClient(programs.path("broker.sock"))
        let records = (100_001...150_000).map { "{\"id\":\($0)}" }.joined(separator: ",")
        #expect(
            try client.ask(
                "{\"id\": \"large\", \"entity\": \"Employee\", \"notify\": [\"accepted\"], \"json\": [\(records)]}"
            ).type == "accepted")
        let watcher = try RawClient(programs.path("broker.sock"))
        while !(try watcher.ask(#"{"type": "stats"}"#).text.contains(#""state":"waiting""#)) {}

        let submit = ["submit", "--socket", "broker.sock", "--entity", "Employee", "--batch-records", "50", "e.ndjson"]
        let refused = try programs.run("broker", submit)
        #expect(refused.status == 1)
        #expect(refused.complaints.components(separatedBy: "is full").count == 2, "\(refused.complaints)")
        #expect(!refused.complaints.contains("correct records"), "\(refused.complaints)")
        let command = try #require(refused.complaints.split(separator: ": ").last?.trimmingCharacters(in: .newlines))
        #expect(command.hasSuffix(" e.ndjson") && !command.contains("--skip"), "\(command)")
        kill(full.processIdentifier, SIGKILL)
        full.waitUntilExit()

        let again = try programs.startServer(["--journal"])
        #expect(try programs.shell(command).status == 0)
        stop(again)
        #expect(
            try SQLRows.of("SELECT count(*), count(name) FROM Employee", in: programs.path("store.sqlite"))
                == ["50500|500"])
    }
}
