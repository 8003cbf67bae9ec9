import Broker
import BrokerWire
import Foundation
import NIOCore
import NIOEmbedded
import ServiceLifecycleTestKit
import TestSupport
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

    private func large(_ id: JobID? = nil) -> Job { Job(.process(json: Self.text, as: "E"), id: id) }

    private func small(_ id: JobID? = nil) -> Job { Job(.process(json: "{}", as: "E"), id: id) }

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
        let awaiting = Task { try await client.completion(of: "a") }
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
        let client = RemoteBroker(.unixSocket(server.path))
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

/// The event loop writes the frames of all tasks, each whole and in the order in which the client took them.
@Suite(.timeLimit(.minutes(5))) struct FrameOrderTests {
    @Test func `a job that is larger than the socket's buffer arrives whole, before later jobs`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        var generator = SeededGenerator()
        for _ in 0..<2 {
            // Random digits do not compress to less than the socket's buffer.
            let digits = (0..<400_000).map { _ in String(UInt32.random(in: 0...UInt32.max, using: &generator)) }
            let json = "[\(digits.joined(separator: ","))]"
            let large = try await client.enqueue(Job(.process(json: Array(json.utf8), as: "E")))
            let small = try await client.enqueue(Job(.process(json: Array("{}".utf8), as: "E")))
            #expect(try await connection.next() == #"{"id":"\#(large.id)","entity":"E","json":\#(json)}"#)
            #expect(try await connection.nextMembers().id == small.id)
            for job in [large, small] {
                try await connection.complete(job.id)
                _ = try await job.completion
            }
        }
        client.close()
        await connection.closed()
        try await server.stop()
    }

    @Test func `frames of several tasks are never interleaved, though one is written in parts`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        let text = String((0..<60_000).map { _ in Character(UnicodeScalar(UInt8.random(in: 0x23...0x5B))) })
        let large = Array(
            "[\"\(text)\",\"\(String(text.reversed()))\"\(String(repeating: ",\"\(text)\"", count: 6))]".utf8)
        for _ in 0..<20 {
            async let first = client.process(json: large, as: "E", id: "large")
            async let others: Void = withThrowingTaskGroup { group in
                for task in 0..<3 {
                    group.addTask {
                        for number in 0..<8 {
                            for _ in 0..<Int.random(in: 0...200) { await Task.yield() }
                            _ = try await client.process(
                                json: Array("{}".utf8), as: "E", id: JobID("small-\(task)-\(number)"))
                        }
                    }
                }
                try await group.waitForAll()
            }
            var ids: [JobID] = []
            for _ in 0..<25 {
                // Interleaved bytes are no frame, and end the connection.
                ids.append(try await connection.nextMembers().id)
                try await connection.complete(ids[ids.count - 1])
            }
            #expect(Set(ids).count == 25)
            #expect(try await first.id == "large")
            try await others
        }
        client.close()
        await connection.closed()
        try await server.stop()
    }

    @Test func `jobs arrive in the order in which they were enqueued, alone and together`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        var generator = SeededGenerator()
        for _ in 0..<300 {
            var jobs: [SubmittedJob] = []
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                let record = Array(
                    #"{"text":"\#(String(repeating: "x", count: Int.random(in: 0...2_000, using: &generator)))"}"#.utf8)
                jobs.append(try await client.enqueue(Job(.process(json: record, as: "E"))))
            }
            for job in jobs { #expect(try await connection.nextMembers().id == job.id) }
            for job in jobs { try await connection.complete(job.id) }
            // Some are not awaited, so that the next jobs join them in flight.
            if Bool.random(using: &generator) { for job in jobs { _ = try await job.completion } }
        }
        client.close()
        await connection.closed()
        try await server.stop()
    }
}

/// The time limit of one frame, with a clock that the test moves.
@Suite(.timeLimit(.minutes(5))) struct FrameTimeTests {
    private let loop = EmbeddedEventLoop()
    private let driver: SessionDriver
    private let channel: EmbeddedChannel

    init() throws {
        let session = Session(
            path: "/s", window: PendingJobs(maximumCount: 1, maximumBytes: 1),
            patience: .init(reconnecting: .seconds(1), welcome: .seconds(1)))
        driver = SessionDriver(
            session: session, name: nil, frameTime: .seconds(10), eventLoop: loop, logger: .silent)
        channel = EmbeddedChannel(handler: ConnectionHandler(connection: 1, driver: driver), loop: loop)
    }

    private func frame() throws -> [UInt8] {
        var encoder = FrameEncoder()
        return try encoder.encode(Array(#"{"type":"news"}"#.utf8))
    }

    private func receive(_ bytes: some Sequence<UInt8>) throws {
        try channel.writeInbound(ByteBuffer(bytes: bytes))
    }

    /// Before it was welcomed, a session that has lost its connection takes nothing more.
    private var isLost: Bool {
        do throws(BrokerError) {
            try driver.add(request: 1, frame: [], waiter: Answer())
            return false
        } catch {
            return true
        }
    }

    @Test func `a frame that trickles is given up when its time is over`() throws {
        for byte in try frame().prefix(9) {
            try receive([byte])
            loop.advanceTime(by: .seconds(1))
        }
        #expect(!isLost)
        loop.advanceTime(by: .seconds(1))
        #expect(isLost)
    }

    @Test func `frames that come in time, one after the other, are no frame that never ends`() throws {
        let frame = try frame()
        var rest: ArraySlice<UInt8> = []
        // There is never a moment without the beginning of some frame.
        for _ in 0..<20 {
            try receive(rest + frame.prefix(7))
            rest = frame.dropFirst(7)
            loop.advanceTime(by: .seconds(6))
            #expect(!isLost)
        }
        try receive(rest)
        loop.advanceTime(by: .seconds(60))
        #expect(!isLost)
        try receive(frame.prefix(2))
        loop.advanceTime(by: .seconds(10))
        #expect(isLost)
    }

    @Test func `each frame has its own time, though one timer watches them all`() throws {
        let frame = try frame()
        try receive(frame.prefix(7))
        loop.advanceTime(by: .seconds(6))
        try receive(frame.dropFirst(7) + frame.prefix(7))
        loop.advanceTime(by: .seconds(9))
        #expect(!isLost)
        loop.advanceTime(by: .seconds(1))
        #expect(isLost)
    }
}
