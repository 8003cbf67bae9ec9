import Broker
import BrokerClient
import Foundation
import Testing

/// Real processes over a real socket.
@Suite(.timeLimit(.minutes(5))) struct BrokerdTests {
    @Test func `SIGTERM finishes what was accepted and ends with status 0`() async throws {
        let programs = try Programs()
        let server = try programs.startServer()
        let broker = try await BrokerClient.connect(to: .unixSocket(programs.path("broker.sock")))
        var tickets: [SubmittedJob] = []
        for number in 0..<50 {
            let json = Array(#"[{"id": \#(number), "name": "n"}]"#.utf8)
            tickets.append(try await broker.submit(.process(json, as: "Employee")))
        }
        kill(server.processIdentifier, SIGTERM)
        for ticket in tickets { _ = try await ticket.completion }
        broker.close()
        server.waitUntilExit()
        #expect(server.terminationStatus == 0)
        #expect(server.terminationReason == .exit)
        #expect(!FileManager.default.fileExists(atPath: programs.path("broker.sock")))
        #expect(!FileManager.default.fileExists(atPath: programs.path("store.sqlite-wal")))
        #expect(try Database(programs.path("store.sqlite")).rows("SELECT count(*) FROM Employee") == ["50"])
    }

    @Test func `completed jobs survive a kill, and the same jobs sent again are applied once`() async throws {
        let programs = try Programs()
        let server = try programs.startServer()
        let input = (0..<2_000).map { #"{"id": \#($0), "name": "name \#($0)", "department": {"id": \#($0 % 7)}}"# }
            .joined(separator: "\n")
        let broker = try await BrokerClient.connect(to: .unixSocket(programs.path("broker.sock")))
        var completed = 0
        for number in 0..<20 {
            let json = Array(#"[{"id": \#(number), "name": "first"}]"#.utf8)
            let outcome = try await broker.process(json, as: "Employee", id: JobID("job \(number)"))
            completed += outcome.isDuplicate ? 0 : 1
            if number == 10 { kill(server.processIdentifier, SIGKILL) }
            if number == 10 {
                server.waitUntilExit()
                _ = try programs.startServer()
            }
        }
        for number in 0..<20 {
            let json = Array(#"[{"id": \#(number), "name": "first"}]"#.utf8)
            let again = try await broker.process(json, as: "Employee", id: JobID("job \(number)"))
            #expect(again.isDuplicate)
        }
        broker.close()
        #expect(completed == 20)
        let submitted = try programs.run(
            "broker", ["submit", "--socket", "broker.sock", "--entity", "Employee", "--batch-records", "100"],
            input: input)
        #expect(submitted.status == 0)
        let database = try Database(programs.path("store.sqlite"))
        #expect(try database.rows("SELECT count(*), count(DISTINCT department) FROM Employee") == ["2000|7"])
        #expect(try database.rows("PRAGMA integrity_check") == ["ok"])
        #expect(try database.rows("PRAGMA foreign_key_check") == [])
        #expect(
            try database.rows(
                "SELECT count(*), count(DISTINCT id), count(DISTINCT sequence) FROM _broker_jobs WHERE id LIKE 'job %'")
                == ["20|20|20"])
    }

    @Test func `a second server on the store or the socket is refused with the process of the first`() throws {
        let programs = try Programs()
        let server = try programs.startServer()
        for (store, socket) in [("store.sqlite", "other.sock"), ("other.sqlite", "broker.sock")] {
            let refused = try programs.run(
                "brokerd", ["--model", "model.json", "--store", store, "--socket", socket])
            #expect(refused.status == 1)
            #expect(refused.complaints.split(separator: "\n").count == 1)
            #expect(refused.complaints.contains("process \(server.processIdentifier)"))
        }
        #expect(!FileManager.default.fileExists(atPath: programs.path("other.sqlite")))
    }

    @Test func `an unusable model is reported in one line, with status 1, and no file changes`() throws {
        let programs = try Programs()
        try programs.write(#"{"entities": {"A": {"identity": "nope", "attributes": {"a": "strin"}}}}"#, to: "bad.json")
        let refused = try programs.run("brokerd", ["--model", "bad.json", "--store", "s.sqlite", "--socket", "s.sock"])
        #expect(refused.status == 1)
        #expect(refused.complaints.split(separator: "\n").count == 1)
        #expect(refused.complaints.contains("bad.json"))
        #expect(!FileManager.default.fileExists(atPath: programs.path("s.sqlite")))
    }

    @Test func `a store of another model is refused with the differences, and does not change`() throws {
        let programs = try Programs()
        let server = try programs.startServer()
        // An attribute without values may change.
        let staff = #"[{"id": 1, "name": "a", "department": {"id": 2, "name": "b"}}]"#
        let submit = ["submit", "--entity", "Employee", "--socket", "broker.sock"]
        #expect(try programs.run("broker", submit, input: staff).status == 0)
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        let again = try programs.startServer()
        kill(again.processIdentifier, SIGTERM)
        again.waitUntilExit()
        #expect(again.terminationReason == .exit, "a signal right after the ready line is caught")
        let before = try Data(contentsOf: URL(fileURLWithPath: programs.path("store.sqlite")))
        try programs.write(
            Programs.model.replacingOccurrences(of: #""name": "string""#, with: #""name": "integer64""#),
            to: "other.json")
        let refused = try programs.run(
            "brokerd", ["--model", "other.json", "--store", "store.sqlite", "--socket", "s.sock"])
        #expect(refused.status == 1)
        #expect(refused.complaints.contains("Employee.name"))
        #expect(refused.complaints.contains("Department.name"))
        #expect(try Data(contentsOf: URL(fileURLWithPath: programs.path("store.sqlite"))) == before)
        #expect(!FileManager.default.fileExists(atPath: programs.path("store.sqlite-wal")))
    }

    @Test func `wrong arguments are status 2`() throws {
        let programs = try Programs()
        #expect(try programs.run("brokerd", ["--modell", "x"]).status == 2)
        #expect(try programs.run("brokerd", ["--help"]).status == 0)
    }
}
