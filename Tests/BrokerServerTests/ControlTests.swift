import BrokerCoordinator
import BrokerModel
import BrokerSchema
import BrokerServer
import BrokerWire
import Synchronization
import TestSupport
import Testing

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

    @Test func `a migration is passed on as it was asked for, and its changes or its fault are answered`() async throws
    {
        let asked = RecordedMigrations()
        let migrate = { (options: inout ServerOptions) in
            options.migrate = { message, notify in
                asked.add(message)
                guard message.removedParts != .refuse else {
                    return notify(.failure(Fault(.storeUnavailable, "two differences")))
                }
                notify(
                    .success([
                        StoreChange(
                            .dropped, "A.b", "A.b is gone", remedy: "none",
                            loss: StoreLoss(.values, count: 12, examples: ["1: 'x'"]))
                    ]))
            }
        }
        try await RunningServer.run(migrate) { running in
            let client = try running.connect()
            let answer = try client.ask(
                #"{"type": "admin", "action": "migrate", "dryRun": true, "removedParts": "drop", "tag": 1}"#)
            #expect(
                answer.text
                    == #"{"type":"done","action":"migrate","dryRun":true,"changes":[{"change":"dropped","subject":"A.b","#
                    + #""message":"A.b is gone","remedy":"none","loss":{"kind":"values","count":12,"examples":["1: 'x'"]}}],"tag":1}"#
            )
            let refused = try client.ask(#"{"type": "admin", "action": "migrate"}"#)
            #expect(refused.code == "storeUnavailable" && refused["error.message"] == "two differences")
            #expect(
                try client.ask(#"{"type": "admin", "action": "migrate", "dryRun": 1}"#).code == "unsupportedMessage")
        }
        #expect(
            asked.all == [
                MigrateMessage(isDryRun: true, removedParts: .drop),
                MigrateMessage(isDryRun: false, removedParts: .refuse),
            ])
        // A server within another program does not decide about the model.
        try await RunningServer.run { running in
            let client = try running.connect()
            let answer = try client.ask(#"{"type": "admin", "action": "migrate", "dryRun": true}"#)
            #expect(answer.code == "unsupportedMessage")
        }
    }
}

private final class RecordedMigrations: Sendable {
    private let messages = Mutex<[MigrateMessage]>([])

    var all: [MigrateMessage] { messages.withLock { $0 } }

    func add(_ message: MigrateMessage) { messages.withLock { $0.append(message) } }
}

@Suite(.timeLimit(.minutes(5)), .server) struct OrderTests {
    private let running = RunningServer.current

    @Test func `a client that ends its sending side gets every answer that is due, in order`() throws {
        let client = try running.connect()
        for number in 1...200 {
            try client.send(#"{"id": "\#(number)", "entity": "Department", "json": {"id": 1, "name": "\#(number)"}}"#)
        }
        client.endSending()
        for number in 1...200 {
            let completed = try client.next()
            #expect(completed["id"] == "\(number)")
            #expect(completed.sequence == number)
        }
        #expect(try client.receive() == nil)
    }

    private static let narrow: CoordinatorLimits = {
        var limits = CoordinatorLimits(workers: 1)
        limits.bytes = 64 << 10
        limits.jobs = 4
        return limits
    }()

    @Test(.server(limits: narrow)) func `stats are answered while a client fills the server`() throws {
        let greedy = try running.connect()
        let records = (0..<2_000).map { #"{"id": \#($0), "name": "department number \#($0)"}"# }.joined(separator: ",")
        let jobs = 24
        // Fire and forget: all the answers fit the socket, so sending alone is what waits.
        for number in 0..<jobs {
            try greedy.send(#"{"id": "\#(number)", "reply": "none", "entity": "Department", "json": [\#(records)]}"#)
            if number % 8 == 0 {
                let stats = try running.connect().ask(#"{"type": "stats"}"#)
                #expect(stats.type == "stats")
            }
        }
        greedy.endSending()
        for number in 0..<jobs { #expect(try greedy.next()["id"] == "\(number)") }
    }
}

/// `outcomesForgottenThrough`, by which a client decides whether a job that it sends again may have taken effect before.
@Suite(.timeLimit(.minutes(5)), .server) struct ForgottenOutcomesTests {
    private let running = RunningServer.current

    @Test(.server(outcomesKept: 10))
    func `the newest sequence whose outcome may be forgotten is exact in each welcome`() throws {
        func forgotten() throws -> String? {
            try running.connect().ask(#"{"type": "hello", "version": 1}"#)["limits.outcomesForgottenThrough"]
        }
        let client = try running.connect()
        for number in 1...13 {
            let answer = try client.ask(#"{"entity": "Employee", "json": [{"id": \#(number), "name": "E"}]}"#)
            #expect(answer["sequence"] == "\(number)")
            #expect(try forgotten() == "\(max(0, number - 10))")
        }
    }
}
