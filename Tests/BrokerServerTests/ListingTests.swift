import BrokerCoordinator
import Glibc
import TestSupport
import Testing

@testable import BrokerServer

/// The log, and the lists of jobs and entities, of a server with a socket.
@Suite(.timeLimit(.minutes(5))) struct ListingTests {
    private static let invalid = #"{"id": "%", "entity": "Employee", "json": [{"id": 1, "name": "Ada", "age": "old"}]}"#

    private static func job(_ id: String, _ text: String) -> String { text.replacing("%", with: id) }

    @Test func `a failed job is a line with its place, and a client that fails many causes few`() async throws {
        var log: RecordedLog?
        var logged = 0
        try await RunningServer.run { running in
            log = running.log
            let lines = try await offThePool {
                let client = try running.connect()
                for number in 0..<80 { try client.send(Self.job("bad-\(number)", Self.invalid)) }
                for _ in 0..<80 { #expect(try client.next().code == "invalidValue") }
                // Refused before it has a place in the order.
                try client.send(Self.job("bad", #"{"id": "%", "entity": "Robot", "json": []}"#))
                _ = try client.next()
                return running.log.lines
            }
            let failed = lines.filter { $0.hasPrefix("notice A job failed. ") }
            logged = failed.count
            #expect((50..<81).contains(failed.count), "\(failed.count)")
            let first = try #require(failed.first)
            for part in [
                "code=invalidValue", "id=bad-0", "path=/json/0/age", "sequence=1", "user=", "process=", "message=",
            ] {
                #expect(first.contains(part), "\(first)")
            }
            #expect(lines.contains { $0.hasPrefix("debug A job failed. ") && $0.contains("id=bad-") })
        }
        let rest = try #require(log?.line(.notice, "More jobs failed than are logged."))
        #expect(rest.contains("notLogged=\(81 - logged) "), "\(rest)")
    }

    @Test func `the outcome of a job has no text of SQLite's, and the line about the job has it`() async throws {
        try await RunningServer.run { running in
            try Locker(running.folder + "/store.sqlite").execute(
                "CREATE INDEX by_part ON Employee (json_extract(name, '$.a')); COMMIT")
            try await offThePool {
                let client = try running.connect()
                try client.send(#"{"id": "a", "entity": "Employee", "json": [{"id": 1, "name": "Ada"}]}"#)
                let failed = try client.next()
                #expect(failed.code == "constraintViolation")
                let message = failed["error.message"] ?? ""
                #expect(!message.contains("malformed") && message.contains("an expression of a table"), "\(message)")
                try client.send(#"{"id": "b", "entity": "Employee", "json": [{"id": 2, "name": "{}"}]}"#)
                #expect(try client.next().type == "completed")
            }
            let line = try #require(running.log.line(.notice, "A job failed."))
            #expect(line.contains("id=a ") && line.contains(#"cause="malformed JSON""#), "\(line)")
        }
    }

    @Test func `slow jobs are logged with their stages when that is wanted`() async throws {
        try await RunningServer.run(slowJobMicroseconds: 1) {
            $0.logsSlowJobs = true
        } _: { running in
            let client = try running.connect()
            #expect(try client.ask(#"{"id": "a", "entity": "Department", "json": [{"id": 1}]}"#).type == "completed")
            let jobs = try client.ask(#"{"type": "jobs", "lists": ["slow"]}"#)
            #expect(jobs["slow.0.id"] == "a" && jobs["slow.0.failed"] == "false" && jobs["running"] == nil)
            #expect(Int(jobs["slow.0.microseconds.total"] ?? "") ?? 0 > 0 && jobs["slow.0.microseconds.work"] != nil)
            #expect(jobs["slow.0.operations.0"] == "process" && jobs["slow.0.entities.0"] == "Department")
            // The line is written after the answer.
            while running.log.line(.notice, "A job was slow.") == nil { _ = try client.ask(#"{"type": "ping"}"#) }
            let line = try #require(running.log.line(.notice, "A job was slow."))
            for part in [
                "id=a", "sequence=1", "user=", "operations=process", "entities=Department", "work=", "queued=",
                "staged=",
                "waited=", "merged=", "committed=", "total=",
            ] {
                #expect(line.contains(part), "\(line)")
            }
        }
    }

    @Test func `running and failed jobs are listed with their stages and errors`() async throws {
        try await RunningServer.run(slowJobMicroseconds: 3_600_000_000) { running in
            let client = try running.connect()
            #expect(try client.ask(Self.job("bad", Self.invalid)).type == "failed")
            let nameless = #"{"id": "nameless", "entity": "Employee", "json": [{"name": "Ada"}]}"#
            #expect(try client.ask(nameless).code == "missingIdentity")
            #expect(try client.ask(#"{"type": "admin", "action": "pause"}"#).type == "done")
            for id in ["b", "c"] {
                try client.send(#"{"id": "\#(id)", "entity": "Department", "json": [{"id": 1}]}"#)
            }
            #expect(try client.ask(#"{"type": "cancel", "id": "c"}"#).type == "cancelled")
            #expect(try client.next().code == "cancelled")
            var jobs = try client.ask(#"{"type": "jobs", "tag": 7}"#)
            while jobs["running.0.stage"] == "staging" { jobs = try client.ask(#"{"type": "jobs", "tag": 7}"#) }
            #expect(jobs.type == "jobs" && jobs["tag"] == "7")
            #expect(jobs["running.0.id"] == "b" && jobs["running.0.stage"] == "staged")
            #expect(jobs["running.0.sequence"] == "3" && jobs["running.1.stage"] == "cancelled")
            #expect(jobs["failed.1.id"] == "bad" && jobs["failed.1.error.code"] == "invalidValue")
            #expect(jobs["failed.0.id"] == "nameless" && jobs["failed.2"] == nil && jobs["slow.0"] == nil)
            #expect(try client.ask(#"{"type": "jobs", "lists": ["running"], "limit": 1}"#)["running.1"] == nil)
            func failed(_ filter: String) throws -> [String?] {
                let jobs = try client.ask("{\"type\": \"jobs\", \"lists\": [\"failed\"], \(filter)}")
                return [jobs["failed.0.id"], jobs["failed.1.id"]]
            }
            #expect(try failed(#""code": "invalidValue""#) == ["bad", nil])
            #expect(try failed(#""code": "busy""#) == [nil, nil])
            #expect(try failed(#""code": "missingIdentity", "user": \#(getuid()), "since": 1"#) == ["nameless", nil])
            #expect(try failed(#""user": 4294967295"#) == [nil, nil])
            #expect(try failed(#""since": 99999999999999"#) == [nil, nil])
            #expect(try client.ask(#"{"type": "jobs", "code": "busi"}"#).code == "unsupportedMessage")
            for wrong in [
                #""lists": ["old"]"#, #""lists": 1"#, #""limit": 0"#, #""limit": 1001"#, #""limit": 1.5"#,
                #""since": "1h""#,
                #""user": "ada""#, #""user": -1"#, #""user": 4294967296"#, #""code": 1"#,
            ] {
                #expect(try client.ask("{\"type\": \"jobs\", \(wrong)}").code == "unsupportedMessage", "\(wrong)")
            }
            let stats = try client.ask(#"{"type": "stats"}"#)
            #expect(stats["paused"] == "true" && stats["connections.open"] == "1" && stats["store.outcomes"] == "2")
            #expect(stats["lastMinute.jobs.failed"] == "2" && stats["histograms.total.count"] == "2")
        }
    }
}

@Suite(.timeLimit(.minutes(5)), .server) struct LogEscapingTests {
    private let running = RunningServer.current

    private static let forged = #"x\" user=0\n2026-01-01T00:00:00+0000 critical brokerd: \u001b[2J\u2028\u202e\u009b"#

    @Test func `texts of clients cannot forge a line or a field of the log`() async throws {
        let lines = try await offThePool {
            let client = try running.connect()
            try client.send(#"{"type": "hello", "client": "\#(Self.forged)"}"#)
            _ = try client.next()
            try client.send(#"{"id": "\#(Self.forged)", "entity": "Employee", "json": [{"id": 1}]}"#)
            _ = try client.next()
            try client.send(#"{"type": "\#(Self.forged)"}"#)
            _ = try client.next()
            return running.log.lines
        }
        let id = #"id="x\" user=0\u{A}2026-01-01T00:00:00+0000 critical brokerd: \u{1B}[2J\u{2028}\u{202E}\u{9B}""#
        #expect(lines.contains { $0.hasPrefix("notice A job failed. ") && $0.contains(id) }, "\(lines)")
        #expect(lines.contains { $0.hasPrefix("info A message was not understood: ") && $0.contains(#"\u{A}"#) })
        #expect(lines.contains { $0.hasPrefix("debug A client said hello. ") && $0.contains(#"\u{A}"#) })
        for line in lines {
            #expect(!line.unicodeScalars.contains { "\n\u{1B}\u{2028}\u{202E}\u{9B}".unicodeScalars.contains($0) })
        }
    }
}

@Suite(.timeLimit(.minutes(5))) struct LogRationTests {
    private let start = ContinuousClock.now

    @Test func `a user causes a burst of lines, then one a second, and the omitted ones are counted`() {
        var ration = LogRation(at: start)
        func lines(_ count: Int, after seconds: Double) -> Int {
            (0..<count).count { _ in ration.take(at: start + .seconds(seconds)) }
        }
        #expect(lines(200, after: 0) == LogRation.burst)
        let omitted = [ration.takeOmitted(), ration.takeOmitted()]
        #expect(omitted == [200 - LogRation.burst, 0])
        #expect(lines(10, after: 0.9) == 0)
        #expect(lines(10, after: 3) == 3)
        // A day of failures has as many lines as it has seconds.
        let day = (1...86_400).reduce(0) { sum, second in sum + lines(2, after: 3 + Double(second)) }
        #expect(day == 86_400)
    }

    @Test func `credit does not grow above the burst`() {
        var ration = LogRation(at: start)
        #expect(ration.isFull(at: start))
        let isTaken = ration.take(at: start)
        #expect(isTaken && !ration.isFull(at: start + .milliseconds(900)))
        #expect(ration.isFull(at: start + .seconds(3_600)))
        let later = start + .seconds(7_200)
        let taken = (0..<200).count { _ in ration.take(at: later) }
        #expect(taken == LogRation.burst)
        #expect(!ration.isFull(at: later + .seconds(3_600)), "omitted lines are not in a line yet")
    }
}
