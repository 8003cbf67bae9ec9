import Broker
import BrokerJSON
import BrokerWire
import NIOCore
import Testing

@testable import BrokerClient

@Suite(.timeLimit(.minutes(5))) struct PendingJobsTests {
    private func window(count: Int = 2, bytes: Int = 100) -> PendingJobs<String> {
        PendingJobs(maximumCount: count, maximumBytes: bytes)
    }

    private func add(_ id: String, bytes: Int = 1, to jobs: inout PendingJobs<String>) -> Bool {
        place(id, bytes: bytes, in: &jobs) != nil
    }

    private func place(
        _ id: String, bytes: Int = 1, in jobs: inout PendingJobs<String>
    ) -> PendingJobs<String>.Place? {
        jobs.add(
            id: JobID(id), frame: [UInt8](repeating: 0, count: bytes), waiter: "waiter of \(id)", entersAtOnce: false,
            isSent: false)?.place
    }

    private func admitted(_ jobs: inout PendingJobs<String>) -> [String] {
        var ids: [String] = []
        while let job = jobs.admit(isSent: false) { ids.append(job.id.text) }
        return ids
    }

    @Test func `the window is bounded by bytes too, but takes one job of any size`() {
        var jobs = window(count: 10)
        for (id, bytes) in [("a", 60), ("b", 41), ("e", 59), ("c", 500), ("d", 1)] {
            #expect(add(id, bytes: bytes, to: &jobs))
        }
        #expect(admitted(&jobs) == ["a"])
        #expect(jobs.remove(JobID("a")) != nil)
        #expect(admitted(&jobs) == ["b", "e"])
        #expect(jobs.remove(JobID("b")) != nil)
        #expect(admitted(&jobs) == [])
        #expect(jobs.remove(JobID("e")) != nil)
        #expect(admitted(&jobs) == ["c"])
        #expect(jobs.remove(JobID("c")) != nil)
        #expect(admitted(&jobs) == ["d"])
    }

    @Test func `a job enters the window at once when there is room, and never before one that waits`() {
        var jobs = window(count: 2, bytes: 100)
        func enters(_ id: String, bytes: Int) -> Bool? {
            jobs.add(
                id: JobID(id), frame: [UInt8](repeating: 0, count: bytes), waiter: id, entersAtOnce: true, isSent: true)?
                .hasEntered
        }
        #expect(enters("a", bytes: 60) == true)
        #expect(enters("a", bytes: 1) == nil)
        #expect(enters("b", bytes: 41) == false)
        #expect(enters("c", bytes: 1) == false)
        #expect(jobs.allInFlight.map(\.id.text) == ["a"])
        #expect(jobs.remove(JobID("a")) == "a")
        #expect(enters("d", bytes: 1) == false)
        #expect(admitted(&jobs) == ["b", "c"])
        #expect(jobs.remove(JobID("b")) == "b")
        #expect(admitted(&jobs) == ["d"])
    }

    @Test func `a cancelled job leaves no state`() throws {
        var jobs = window(count: 1)
        #expect(add("a", to: &jobs))
        #expect(admitted(&jobs) == ["a"])
        for number in 0..<10_000 {
            let place = try #require(place("\(number)", in: &jobs))
            #expect(jobs.withdraw(place) != nil)
        }
        #expect(jobs.retainedPlaces < 100)
    }
}

/// Errors that do not say whose they are.
@Suite(.timeLimit(.minutes(5))) struct ErrorAttributionTests {
    private let record = Array(#"{"id":1}"#.utf8)

    private func job(_ id: JobID) -> Job {
        Job(.process(json: record, as: "E"), id: id)
    }

    /// A client with jobs on their way, and its connection, which has read them.
    private func jobs(
        _ ids: [JobID], _ server: inout FakeServer
    ) async throws -> (BrokerClient, FakeConnection, [JobID: SubmittedJob]) {
        let (client, opened) = try await server.connect()
        var connection = opened
        var sent: [JobID: SubmittedJob] = [:]
        for id in ids { sent[id] = try await client.enqueue(job(id)) }
        for id in ids { #expect(try await connection.nextMembers().id == id) }
        return (client, connection, sent)
    }

    private func outcome(_ job: SubmittedJob?) async throws -> String {
        do {
            return "completed \(try await #require(job).completion.sequence)"
        } catch let error as BrokerError {
            if error.isOutcomeUnknown { return "unknown" }
            // A refused job has no sequence.
            return error.sequence == nil && error.message == "m" && error.fault?.code != .invalidValue
                ? "refused \(error.fault?.code ?? error.code)" : "\(error)"
        }
    }

    @Test func `a job that needs too much is too large, and only a part of a sync is worth a retry`()
        async throws
    {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        for (path, code, retry) in [
            ("", BrokerError.Code.tooLarge, Duration?.none), (#""path":"/where","#, .tooLarge, nil),
            (#""path":"/operations/0/part","#, .busy, .milliseconds(1_000)),
        ] {
            let job = try await client.enqueue(.process(json: #"{"id":1}"#, as: "E", id: "a"))
            _ = try await connection.nextMembers()
            try await connection.send(
                #"{"type":"failed","id":"a","error":{"code":"busy","message":"m",\#(path)"retryAfterMilliseconds":1000}}"#
            )
            let error = await #expect(throws: BrokerError.self) { try await job.completion }
            #expect(error?.code == code && error?.retryAfter == retry && error?.fault?.code == .busy)
        }
        client.close()
        try await server.stop()
    }

    @Test func `an answer too large for a frame fails its own job alone`() async throws {
        var server = try await FakeServer()
        let ids = (0..<8).map { JobID("job \($0)") }
        let (client, opened, sent) = try await jobs(ids, &server)
        // An older server: two fail, the fifth's answer is too large, and nothing says that it is the fifth's.
        try await opened.complete(ids[0], sequence: 1)
        let apology = #"{"type":"error","error":{"code":"internal","message":"What it asked for was done."}}"#
        try await opened.send(apology)
        var connection = try await server.greet()
        for id in ids.dropFirst() {
            #expect(try await connection.nextMembers().id == id)
            switch id {
            case "job 3", "job 6":
                try await connection.send(
                    #"{"type":"failed","id":"\#(id)","error":{"code":"invalidValue","message":"m"}}"#)
            case "job 5":
                try await connection.send(apology)
                connection = try await server.greet()
            default: try await connection.complete(id, sequence: 2)
            }
        }
        var outcomes: [String] = []
        for id in ids { outcomes.append(try await outcome(sent[id])) }
        #expect(
            outcomes == [
                "completed 1", "completed 2", "completed 2", "invalidValue: m", "completed 2", "unknown",
                "invalidValue: m", "completed 2",
            ])
        client.close()
        try await server.stop()
    }

    @Test func `an unreadable frame fails only the job whose answer it stays`() async throws {
        var server = try await FakeServer()
        let (client, opened, sent) = try await jobs(["a", "b"], &server)
        try await opened.send(bytes: Array("garbage".utf8))
        var connection = try await server.greet()
        #expect(try await connection.nextMembers().id == "a")
        try await connection.send(bytes: Array("garbage".utf8))
        connection = try await server.greet()
        #expect(try await connection.nextMembers().id == "b")
        try await connection.complete("b", sequence: 4)
        #expect(try await outcome(sent["a"]) == "unknown")
        #expect(try await outcome(sent["b"]) == "completed 4")
        client.close()
        try await server.stop()
    }

    @Test func `a damaged answer is asked for again, also of a single job`() async throws {
        var server = try await FakeServer()
        let (client, opened, sent) = try await jobs(["a"], &server)
        try await opened.send(#"{"type":"completed","id":"a"}"#)
        var connection = try await server.greet()
        #expect(try await connection.nextMembers().id == "a")
        try await connection.complete("a", sequence: 4)
        #expect(try await outcome(sent["a"]) == "completed 4")
        client.close()
        try await server.stop()
    }

    @Test func `jobs that arrive meanwhile wait, and everything continues as before when it is over`() async throws {
        var server = try await FakeServer()
        let (client, opened, sent) = try await jobs(["a", "b"], &server)
        try await opened.send(#"{"type":"error","error":{"code":"contentTooLarge","message":"m"}}"#)
        var connection = try await server.greet()
        let pong = Task { try await client.ping() }
        let more = Task { [self] in [try await client.enqueue(job("c")), try await client.enqueue(job("d"))] }
        while client.unansweredJobCount < 3 {
            try Task.checkCancellation()
            await Task.yield()
        }
        #expect(try await connection.nextMembers().id == "a")
        try await connection.send(#"{"type":"error","error":{"code":"contentTooLarge","message":"m"}}"#)
        connection = try await server.greet()
        #expect(try await connection.nextMembers().id == "b")
        try await connection.complete("b")
        var next = Set([try await connection.next().prefix(9), try await connection.next().prefix(9)])
        next.insert(try await connection.next().prefix(9))
        #expect(next == [#"{"type":""#, #"{"id":"c""#, #"{"id":"d""#])
        try await connection.complete("c")
        try await connection.complete("d")
        for job in try await more.value { _ = try await job.completion }
        #expect(try await outcome(sent["a"]) == "refused contentTooLarge")
        client.close()
        await #expect(throws: BrokerError.closed) { try await pong.value }
        try await server.stop()
    }

    @Test func `an error about a request ends that request alone`() async throws {
        var server = try await FakeServer()
        let (client, opened, sent) = try await jobs(["a"], &server)
        var connection = opened
        let stats = Task { try await client.statistics() }
        _ = try await connection.next()
        try await connection.send(#"{"type":"error","error":{"code":"internal","message":"m"}}"#)
        connection = try await server.greet()
        #expect(try await connection.nextMembers().id == "a")
        try await connection.complete("a")
        #expect(try await connection.next().contains("stats"))
        try await connection.send(#"{"type":"error","error":{"code":"internal","message":"m"}}"#)
        await #expect(throws: BrokerError.reported(.init(code: .internal, message: "m"))) { _ = try await stats.value }
        #expect(try await outcome(sent["a"]) == "completed 1")
        client.close()
        try await server.stop()
    }

    @Test func `an error of the server's own about a job does not prove that nothing was done`() async throws {
        var server = try await FakeServer()
        let (client, connection, sent) = try await jobs(["a", "b"], &server)
        try await connection.send(
            #"{"type":"error","id":"a","error":{"code":"internal","message":"m"}}"#,
            #"{"type":"error","id":"b","error":{"code":"unsupportedMessage","message":"m"}}"#)
        #expect(try await outcome(sent["a"]) == "unknown")
        #expect(try await outcome(sent["b"]) == "refused unsupportedMessage")
        client.close()
        try await server.stop()
    }

    @Test func `a server that refuses to be connected again leaves the outcomes unknown`() async throws {
        var server = try await FakeServer()
        let (client, opened, sent) = try await jobs(["a"], &server)
        try await opened.close()
        let connection = try await server.hear().connection
        try await connection.send(#"{"type":"error","error":{"code":"unauthorized","message":"not you"}}"#)
        do {
            _ = try await sent["a"]?.completion
            Issue.record("it completed")
        } catch let error as BrokerError {
            #expect(error.isOutcomeUnknown)
            #expect(error.description.contains("not you"))
        }
        client.close()
        try await server.stop()
    }
}
