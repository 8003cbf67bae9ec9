import Broker
import Testing

@testable import BrokerClient

/// The time of each call, with a server that does not answer.
@Suite(.timeLimit(.minutes(5))) struct CallTimeoutTests {
    typealias Call = @Sendable (BrokerClient, Duration) async throws -> Void

    /// Each call, and what its end means: no effect, or an outcome that is not known.
    static let calls: [(BrokerError.Code, Call)] = [
        (.outcomeUnknown, { _ = try await $0.await("a", timeout: $1) }),
        (.outcomeUnknown, { try await $0.cancel("a", timeout: $1) }),
        (.outcomeUnknown, { try await $0.administer(.pause, timeout: $1) }),
        (.outcomeUnknown, { _ = try await $0.backUp(to: "/tmp/copy", timeout: $1) }),
        (.timedOut, { _ = try await $0.fetch(Query("E"), timeout: $1) }),
        (.timedOut, { _ = try await $0.fetchFirst(Int.self, from: "E", timeout: $1) }),
        (.timedOut, { for try await _ in $0.results(of: Query("E"), timeout: $1) {} }),
        (.timedOut, { _ = try await $0.fetch(Int.self, from: "E", timeout: $1).collect() }),
        (.timedOut, { _ = try await $0.statistics(timeout: $1) }),
        (.timedOut, { _ = try await $0.model(timeout: $1) }),
        (.timedOut, { try await $0.ping(timeout: $1) }),
    ]

    @Test(arguments: calls.indices)
    func `a call ends when its time is over, and says what that means`(index: Int) async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        let (code, call) = Self.calls[index]
        let error = await #expect(throws: BrokerError.self) { try await call(client, .milliseconds(20)) }
        #expect(error?.code == code, "\(index): \(String(describing: error))")
        if code == .outcomeUnknown { #expect((error?.cause as? BrokerError)?.code == .timedOut) }
        client.close()
        try await server.stop()
    }

    @Test func `a job whose time is over is cancelled, and its submission is, too`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        let job = Job.process(json: "{}", as: "E", id: "a")
        let calls: [Call] = [
            { try await $0.process(job, timeout: $1) }, { _ = try await $0.submit(job, timeout: $1) },
        ]
        for call in calls {
            let calling = Task { try await call(client, .milliseconds(20)) }
            #expect(try await connection.nextMembers().id == "a")
            #expect(try await connection.next().hasPrefix(#"{"type":"cancel""#))
            try await connection.send(#"{"type":"failed","id":"a","error":{"code":"cancelled","message":"m"}}"#)
            let error = await #expect(throws: BrokerError.self) { try await calling.value }
            #expect(error?.code == .timedOut, "\(String(describing: error))")
        }
        client.close()
        try await server.stop()
    }

    @Test func `waiting for the end of a submitted job has a time of its own, and the job goes on`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        async let submitting = client.submit(.process(json: "{}", as: "E", id: "a"), timeout: .seconds(60))
        _ = try await connection.next()
        try await connection.send(#"{"type":"accepted","id":"a","sequence":3}"#)
        let job = try await submitting
        let error = await #expect(throws: BrokerError.self) { _ = try await job.completion(timeout: .milliseconds(20)) }
        #expect(error?.isOutcomeUnknown == true && error?.jobID == "a")
        #expect((error?.cause as? BrokerError)?.code == .timedOut)
        try await connection.complete("a", sequence: 3)
        #expect(try await job.completion(timeout: .seconds(60)).sequence == 3)
        client.close()
        try await server.stop()
    }

    @Test func `the time of a sequence is that of each answer`() async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        let reading = Task {
            var count = 0
            do {
                for try await _ in client.results(of: Query("E"), timeout: .milliseconds(500)) { count += 1 }
            } catch let error as BrokerError { return (count, error.code as BrokerError.Code?) }
            return (count, nil)
        }
        var stream = try await server.hear().connection
        _ = try await stream.next()
        for _ in 0..<2 { try await stream.send(#"{"type":"objects","objects":[],"more":true}"#) }
        let (count, code) = try await reading.value
        #expect(count == 2 && code == .timedOut)
        await stream.closed()
        client.close()
        try await server.stop()
    }
}
