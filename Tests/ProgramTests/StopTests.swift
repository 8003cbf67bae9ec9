import Foundation
import TestSupport
import Testing

/// How brokerd ends: real signals to a real process.
@Suite(.timeLimit(.minutes(5))) struct StopTests {
    private let ping = #"{"type": "ping"}"#

    /// Waits for a line with those words.
    private func line(_ words: String, from complaints: Pipe) -> String? {
        var text = ""
        while !text.contains(words) {
            let more = complaints.fileHandleForReading.availableData
            if more.isEmpty { return nil }
            text += String(decoding: more, as: UTF8.self)
        }
        return text.split(separator: "\n").map(String.init).first { $0.contains(words) }
    }

    /// Connects as soon as that can be done.
    private func firstClient(of programs: Programs) throws -> RawClient {
        let deadline = ContinuousClock.now + Patience.duration
        while true {
            do {
                return try RawClient(programs.path("broker.sock"))
            } catch {
                guard ContinuousClock.now < deadline else { throw error }
            }
        }
    }

    /// Jobs with keys in their answers, about 100 KB each.
    private func sendJobs(_ count: Int, _ client: RawClient) throws {
        for number in 0..<count {
            // Another name each time, so that every key is reported each time.
            let records = (0..<20_000).map { #"{"id": \#($0 * 7_919 % 1_000_003), "name": "\#(number)"}"# }
                .joined(separator: ",")
            try client.send(#"{"id": "\#(number)", "reply": "keys", "entity": "Department", "json": [\#(records)]}"#)
        }
    }

    /// Waits until the jobs have ended. A job that the server has not read yet is asked for again.
    private func wait(forJobs count: Int, _ client: RawClient) throws {
        for number in 0..<count {
            while try client.ask(##"{"type": "await", "id": "\##(number)"}"##).type == "error" {}
        }
    }

    @Test func `SIGTERM right after the first answer finishes what was sent before`() throws {
        for _ in 0..<5 {
            let programs = try Programs()
            let server = try programs.startServer(waitsUntilReady: false)
            let client = try firstClient(of: programs)
            #expect(try client.ask(ping).type == "pong")
            kill(server.processIdentifier, SIGTERM)
            server.waitUntilExit()
            #expect(server.terminationReason == .exit)
            #expect(server.terminationStatus == 0)
            #expect(try client.receive() == nil)
            #expect(!FileManager.default.fileExists(atPath: programs.path("store.sqlite-wal")))
        }
    }

    @Test func `SIGTERM lets a client that reads late take all its answers`() throws {
        let programs = try Programs()
        let complaints = Pipe()
        let server = try programs.startServer(complaints: complaints.fileHandleForWriting)
        let client = try RawClient(programs.path("broker.sock"))
        try sendJobs(6, client)
        let other = try RawClient(programs.path("broker.sock"))
        try wait(forJobs: 6, other)
        kill(server.processIdentifier, SIGTERM)
        #expect(line("Stopping", from: complaints) != nil)
        for number in 0..<6 {
            let completed = try client.next()
            #expect(completed["id"] == "\(number)")
            #expect(completed["keys.Department"]?.utf8.count ?? 0 > 100_000)
        }
        #expect(try client.receive() == nil)
        server.waitUntilExit()
        #expect(server.terminationStatus == 0)
    }

    @Test func `a second SIGTERM ends at once, and everything committed is there`() throws {
        let programs = try Programs()
        let complaints = Pipe()
        let server = try programs.startServer(complaints: complaints.fileHandleForWriting)
        let client = try RawClient(programs.path("broker.sock"))
        try sendJobs(6, client)
        let other = try RawClient(programs.path("broker.sock"))
        try wait(forJobs: 6, other)
        kill(server.processIdentifier, SIGTERM)
        #expect(line("Stopping", from: complaints) != nil)
        kill(server.processIdentifier, SIGTERM)
        #expect(line("at once", from: complaints) != nil)
        server.waitUntilExit()
        #expect(server.terminationReason == .exit)
        #expect(server.terminationStatus == 1)
        #expect(!FileManager.default.fileExists(atPath: programs.path("broker.sock")))
        _ = try programs.startServer()
        let again = try RawClient(programs.path("broker.sock"))
        for number in 0..<6 {
            let answer = try again.ask(##"{"type": "await", "id": "\##(number)"}"##)
            #expect(answer.type == "completed")
        }
        #expect(try Database(programs.path("store.sqlite")).rows("PRAGMA integrity_check") == ["ok"])
    }

    @Test func `--drain-timeout is how long SIGTERM waits for a client that reads nothing`() throws {
        let programs = try Programs()
        let complaints = Pipe()
        let server = try programs.startServer(
            ["--drain-timeout", "1"], complaints: complaints.fileHandleForWriting)
        let client = try RawClient(programs.path("broker.sock"))
        try sendJobs(6, client)
        let other = try RawClient(programs.path("broker.sock"))
        try wait(forJobs: 6, other)
        kill(server.processIdentifier, SIGTERM)
        #expect(line("within 1 s of the stop", from: complaints) != nil)
        server.waitUntilExit()
        #expect(server.terminationStatus == 0)
        withExtendedLifetime(client) {}
    }

    @Test func `SIGTERM does not wait for a client that keeps sending`() throws {
        let programs = try Programs()
        let server = try programs.startServer()
        let client = try RawClient(programs.path("broker.sock"))
        let first = try RawClient.frame(Array(#"{"notify": [], "entity": "Department", "json": {"id": 1}}"#.utf8))
        let sender = Thread {
            // Until the server has closed.
            do { while true { try client.send(bytes: first) } } catch {}
        }
        sender.start()
        let other = try RawClient(programs.path("broker.sock"))
        while try other.ask(#"{"type": "stats"}"#)["jobs.completed"] == "0" {}
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        #expect(server.terminationReason == .exit)
        #expect(server.terminationStatus == 0)
    }

    @Test func `SIGHUP reads the model again, and the log reports it`() throws {
        let programs = try Programs()
        let complaints = Pipe()
        let server = try programs.startServer(complaints: complaints.fileHandleForWriting)
        kill(server.processIdentifier, SIGHUP)
        #expect(line("The model was reloaded, and is in effect.", from: complaints)?.contains("notice") == true)
        #expect(try RawClient(programs.path("broker.sock")).ask(ping).type == "pong")
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        #expect(server.terminationStatus == 0)
    }

    @Test func `a socket in a missing folder leaves no store`() throws {
        let programs = try Programs()
        let refused = try programs.run(
            "brokerd", ["--model", "model.json", "--store", "s.sqlite", "--socket", "missing/broker.sock"])
        #expect(refused.status == 1)
        #expect(refused.complaints.contains("missing/broker.sock"))
        #expect(refused.complaints.split(separator: "\n").count == 1)
        #expect(!FileManager.default.fileExists(atPath: programs.path("s.sqlite")))
    }

    /// Seconds of processor time that the process has used (proc(5), stat).
    private func processorSeconds(_ process: Int32) throws -> Double {
        let line = try String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)
        // The name in parentheses may contain anything; utime and stime are the twelfth and the thirteenth field after it.
        let fields = line.drop { $0 != ")" }.split(separator: " ")
        return (Double(fields[12])! + Double(fields[13])!) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }

    @Test func `without descriptors the server waits, logs it once, and continues when there are some`() throws {
        let programs = try Programs()
        let complaints = Pipe()
        let server = try programs.startServer(complaints: complaints.fileHandleForWriting, limit: "-n 64")
        var clients = try (0..<100).map { _ in try RawClient(programs.path("broker.sock")) }
        #expect(try clients[0].ask(ping).type == "pong")
        #expect(line("No more clients can be accepted", from: complaints) != nil)
        // It looks again after a second; the limit is for how long nothing comes.
        let before = try processorSeconds(server.processIdentifier)
        clients[99].setPatience(seconds: 5)
        #expect(throws: RawClient.Failure.self) { try clients[99].ask(ping) }
        #expect(try processorSeconds(server.processIdentifier) - before < 0.5)
        #expect(try clients[0].ask(ping).type == "pong")
        let last = clients.removeLast()
        clients = []
        last.setPatience(seconds: Patience.seconds)
        #expect(try last.next().type == "pong")
        #expect(line("accepted again", from: complaints) != nil)
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        #expect(server.terminationStatus == 0)
    }
}
