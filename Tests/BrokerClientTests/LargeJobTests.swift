import Broker
import Foundation
import ServiceLifecycleTestKit
import Testing

@testable import BrokerClient

/// Jobs with frames of more than 1 MiB, which have a connection of their own.
@Suite(.timeLimit(.minutes(5))) struct LargeJobTests {
    /// A record that does not compress.
    private static let text: String = {
        var generator = SystemRandomNumberGenerator()
        let words = (0..<(1 << 17)).map { _ in String(UInt64.random(in: 0...UInt64.max, using: &generator), radix: 36) }
        return #"{"id":1,"text":"\#(words.joined())"}"#
    }()

    private func large(_ id: JobID? = nil) -> Job { .process(json: Self.text, as: "E", id: id) }

    private func small(_ id: JobID? = nil) -> Job { .process(json: "{}", as: "E", id: id) }

    @Test func `a large job has a connection of its own, and small ones go on beside it`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        async let first = client.process(large("a"))
        var second = try await server.greet()
        #expect(try await second.nextMembers().id == "a")
        async let other = client.process(small("b"))
        #expect(try await connection.nextMembers().id == "b")
        try await connection.complete("b", sequence: 2)
        #expect(try await other.sequence == 2)
        try await second.complete("a", sequence: 1)
        #expect(try await first.sequence == 1)
        // The next one goes the same way.
        async let submitted = client.submit(large("c"))
        #expect(try await second.nextMembers().id == "c")
        try await second.send(#"{"type":"accepted","id":"c","sequence":3}"#)
        let job = try await submitted
        try await second.complete("c", sequence: 3)
        #expect(try await job.completion.sequence == 3)
        client.close()
        await second.closed()
        await connection.closed()
        try await server.stop()
    }

    @Test func `a large job is cancelled, and asked about, on its own connection`() async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        let waiting = Task { try await client.process(large("a")) }
        var second = try await server.greet()
        #expect(try await second.nextMembers().id == "a")
        let awaiting = Task { try await client.await("a") }
        #expect(try await second.next().hasPrefix(#"{"type":"await","id":"a""#))
        let cancelling = Task { try await client.cancel("a") }
        let asked = try await second.next()
        #expect(asked.hasPrefix(#"{"type":"cancel","id":"a""#))
        waiting.cancel()
        #expect(try await second.next() == #"{"type":"cancel","id":"a","tag":"cancel"}"#)
        try await second.send(#"{"type":"failed","id":"a","error":{"code":"cancelled","message":"m"}}"#)
        await #expect(throws: CancellationError.self) { try await waiting.value }
        client.close()
        for error in [
            await #expect(throws: BrokerError.self) { _ = try await awaiting.value },
            await #expect(throws: BrokerError.self) { try await cancelling.value },
        ] { #expect(error?.code == .closed) }
        try await server.stop()
    }

    @Test func `a large job is sent again when its connection is lost, and the other connection stays`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        async let first = client.process(large("a"))
        var second = try await server.greet()
        #expect(try await second.nextMembers().id == "a")
        try await second.close()
        second = try await server.greet()
        #expect(try await second.nextMembers().id == "a")
        try await second.complete("a")
        #expect(try await first.sequence == 1)
        async let other = client.process(small("b"))
        #expect(try await connection.nextMembers().id == "b")
        try await connection.complete("b")
        _ = try await other
        client.close()
        try await server.stop()
    }

    @Test func `an id is unanswered once, whatever connections its jobs would have`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        let waiting = [Task { try await client.process(large("a")) }, Task { try await client.process(small("b")) }]
        var second = try await server.greet()
        _ = try await second.next()
        _ = try await connection.next()
        for job in [small("a"), large("b"), large("a"), small("b")] {
            let error = await #expect(throws: BrokerError.self) { try await client.process(job) }
            #expect(error?.code == .idInUse)
        }
        client.close()
        for task in waiting { await #expect(throws: BrokerError.self) { try await task.value } }
        try await server.stop()
    }

    @Test func `a fetch sees the large jobs that were sent before it`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        async let first = client.process(large("a"))
        var second = try await server.greet()
        _ = try await second.next()
        let fetching = Task { try await client.fetch(Query("E")) }
        let cancelled = Task { try await client.fetch(Query("E")) }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        // The ping is sent before the fetch.
        let pinging = Task { try await client.ping() }
        let ping = try await connection.next()
        #expect(ping.hasPrefix(#"{"type":"ping""#))
        try await second.complete("a")
        _ = try await first
        #expect(try await connection.next().hasPrefix(#"{"type":"fetch""#))
        client.close()
        await #expect(throws: BrokerError.self) { _ = try await fetching.value }
        await #expect(throws: BrokerError.self) { try await pinging.value }
        try await server.stop()
    }

    @Test func `jobs that are queued keep their order, so they have one connection`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        for job in [small("a"), large("b"), small("c")] { _ = try await client.enqueue(job) }
        for id in ["a", "b", "c"] { #expect(try await connection.nextMembers().id == JobID(id)) }
        client.close()
        try await server.stop()
    }

    @Test func `a graceful shutdown finishes a large job, and begins no second connection`() async throws {
        var server = try await FakeServer()
        let client = BrokerClient(.unixSocket(server.path))
        let job = Task { try await client.process(large("a")) }
        var second = try await server.greet()
        _ = try await second.next()
        try await testGracefulShutdown { trigger in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await client.run() }
                group.addTask { [second] in
                    trigger.triggerGracefulShutdown()
                    while !client.isDraining {
                        try Task.checkCancellation()
                        await Task.yield()
                    }
                    await #expect(throws: BrokerError.closed) { try await client.process(large("b")) }
                    try await second.complete("a", sequence: 7)
                }
                try await group.waitForAll()
            }
        }
        #expect(try await job.value.sequence == 7)
        await #expect(throws: BrokerError.closed) { try await client.process(large("c")) }
        try await server.stop()
    }

    @Test func `the outcome of a large job whose client is closed is unknown`() async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        let job = Task { try await client.process(large("a")) }
        var second = try await server.greet()
        _ = try await second.next()
        client.close()
        let error = await #expect(throws: BrokerError.self) { try await job.value }
        #expect(error?.isOutcomeUnknown == true && error?.jobID == "a")
        await second.closed()
        try await server.stop()
    }
}
