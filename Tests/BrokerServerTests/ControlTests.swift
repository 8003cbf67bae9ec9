import BrokerCoordinator
import Testing
import TestSupport

/// Cancelled jobs, progress and administration, over a socket.
@Suite(.timeLimit(.minutes(5))) struct ControlTests {
    @Test func `a job is cancelled while the server is paused, and the others continue`() async throws {
        try await RunningServer.run { running in
            let client = try running.connect()
            #expect(try client.ask(#"{"type": "admin", "action": "pause", "tag": 1}"#).type == "done")
            for id in ["a", "b"] {
                let accepted = try client.ask(
                    #"{"id": "\#(id)", "entity": "Department", "json": [{"id": 1}], "notify": ["accepted", "completed"]}"#
                )
                #expect(accepted.type == "accepted")
            }
            #expect(try client.ask(#"{"type": "cancel", "id": "a"}"#).type == "cancelled")
            let failed = try #require(try client.receive())
            #expect(failed.type == "failed" && failed.code == "cancelled")
            // The job may end before the answer to its resume is written.
            let resumed = try [client.ask(#"{"type": "admin", "action": "resume"}"#), client.next()]
            #expect(Set(resumed.map(\.type)) == ["done", "completed"])
            #expect(try client.ask(#"{"type": "cancel", "id": "b"}"#).code == "tooLate")
            #expect(try client.ask(#"{"type": "cancel", "id": "c"}"#).code == "unknownJob")
            #expect(try client.ask(#"{"type": "admin", "action": "dance"}"#).code == "unsupportedMessage")
            // A server within another program is that one's to end.
            #expect(try client.ask(#"{"type": "admin", "action": "drain"}"#).code == "unsupportedMessage")
            #expect(try client.ask(#"{"type": "admin", "action": "checkpoint"}"#).type == "done")
        }
    }

    @Test func `a client that asks for progress gets it before the end`() async throws {
        try await RunningServer.run { running in
            let client = try running.connect()
            let rows = (1...500).map { "{\"id\": \($0)}" }.joined(separator: ",")
            let progress = try client.ask(
                #"{"id": "a", "entity": "Department", "json": [\#(rows)], "notify": ["progress", "completed"]}"#)
            #expect(progress.type == "progress")
            var next = try #require(try client.receive())
            while next.type == "progress" { next = try #require(try client.receive()) }
            #expect(next.type == "completed")
        }
    }

    @Test func `a client whose last message took the last room is read again when another makes room`() async throws {
        var limits = CoordinatorLimits(workers: 2)
        limits.jobs = 2
        try await RunningServer.run(limits: limits) { running in
            let (client, other, operating) = try (running.connect(), running.connect(), running.connect())
            #expect(try operating.ask(#"{"type": "admin", "action": "pause"}"#).type == "done")
            try other.send(#"{"id": "a", "entity": "Department", "json": {"id": 1}}"#)
            while try operating.ask(#"{"type": "stats"}"#)["jobs.inFlight"] != "1" {}
            try client.send(#"{"id": "b", "entity": "Department", "json": {"id": 2}}"#)
            while try operating.ask(#"{"type": "stats"}"#)["jobs.inFlight"] != "2" {}
            #expect(try operating.ask(#"{"type": "cancel", "id": "a"}"#).type == "cancelled")
            #expect(try client.ask(#"{"type": "ping"}"#).type == "pong")
        }
    }
}
