import BrokerCoordinator
import TestSupport
import Testing

@testable import BrokerServer

/// Streams of clients that are slow or leave, and what they cost others.
@Suite(.timeLimit(.minutes(5))) struct SlowStreamTests {
    private let stream = #"{"type": "fetch", "entity": "Employee", "stream": true, "tag": "s"}"#

    /// How long streams may wait for their clients, in milliseconds.
    private static func limits(
        open: Int = 8, wait: Int64 = 60_000, frameWait: Int64 = 60_000, snapshotBytes: Int = 1 << 30
    ) -> CoordinatorLimits {
        var limits = CoordinatorLimits(workers: 2)
        limits.streams.open = open
        limits.streams.wait = wait * 1_000
        limits.streams.frameWait = frameWait * 1_000
        limits.streams.snapshotBytes = snapshotBytes
        return limits
    }

    /// Pages of the WAL that no checkpoint can copy, because a reader needs the old ones.
    private func heldPages(_ client: RawClient) throws -> Int {
        let done = try client.ask(#"{"type": "admin", "action": "checkpoint"}"#)
        return try #require(done["wal.uncheckpointedPages"].flatMap { Int($0) }, "\(done.text)")
    }

    private func write(_ client: RawClient, _ number: Int) throws {
        let records = (1...100).map { #"{"id": \#($0), "name": "\#(number)"}"# }.joined(separator: ",")
        #expect(try client.ask(#"{"entity": "Employee", "json": [\#(records)]}"#).type == "completed")
    }

    /// The messages of a client that reads again, to the error.
    private func readToError(_ client: RawClient) throws -> [Message] {
        var messages: [Message] = []
        repeat { messages.append(try client.next()) } while messages.last?.type != "error"
        return messages
    }

    @Test(.server(limits: limits(frameWait: 300)))
    func `a stream whose client takes no frame ends with snapshotExpired, and the WAL is copied`() throws {
        let running = RunningServer.current
        try StreamTests.fill(running)
        let (client, other) = (try running.connect(), try running.connect())
        try client.send(stream)
        _ = try client.next()
        try write(other, 1)
        var rounds = 0
        while try heldPages(other) > 0 { rounds += 1 }
        #expect(rounds > 0, "the stream held the WAL")
        let messages = try readToError(client)
        #expect(messages.dropLast().allSatisfy { $0["more"] == "true" })
        let error = try #require(messages.last)
        #expect(error.code == "snapshotExpired")
        #expect(error["tag"] == "s")
        #expect(error["frame"] == "1")
        // The connection goes on, and so does the client after the last key.
        let last = try #require(messages.dropLast().last?["last"])
        let rest = try client.ask(#"{"type": "fetch", "entity": "Employee", "after": \#(last), "limit": 1}"#)
        #expect(rest["last"] == "\(Int(last)! + 1)")
    }

    @Test(.server(limits: limits(wait: 300), walPages: 32))
    func `a slow stream ends soon when the writer waits to copy the WAL`() throws {
        let running = RunningServer.current
        try StreamTests.fill(running)
        let (client, other) = (try running.connect(), try running.connect())
        try client.send(stream)
        _ = try client.next()
        var number = 0
        try write(other, number)
        #expect(try heldPages(other) > 0)
        while try heldPages(other) > 0 {
            number += 1
            try write(other, number)
        }
        #expect(try readToError(client).last?.code == "snapshotExpired")
    }

    @Test(.server(limits: limits(snapshotBytes: 2 << 20), walPages: 32), arguments: [[], ["name"]])
    func `a stream ends with snapshotExpired when the WAL has grown by a limit`(sort: [String]) throws {
        let running = RunningServer.current
        try StreamTests.fill(running)
        let (client, other) = (try running.connect(), try running.connect())
        let sort = sort.isEmpty ? "" : #", "sort": ["name"]"#
        try client.send(#"{"type": "fetch", "entity": "Employee", "stream": true\#(sort)}"#)
        _ = try client.next()
        var number = 0
        repeat {
            number += 1
            try write(other, number)
        } while try heldPages(other) > 0
        let messages = try readToError(client)
        #expect(messages.last?.code == "snapshotExpired")
        #expect(messages.last?["error.message"]?.contains("WAL") == true)
        #expect(try client.ask(#"{"type": "ping"}"#).type == "pong", "the connection goes on")
    }

    @Test func `a server that stops ends the streams that are open`() async throws {
        let running = try await RunningServer { $0.drainSeconds = 1_000 }
        try StreamTests.fill(running)
        let client = try running.connect()
        try client.send(stream)
        #expect(try client.next()["more"] == "true")
        async let stopped: Void = running.stop()
        let end = try readToError(client).last
        #expect(end?.code == "draining")
        #expect(end?["tag"] == "s")
        try await stopped
    }

    @Test(.server(limits: limits(open: 2, wait: 200))) func `slow streams do not prevent other clients from streaming`()
        throws
    {
        let running = RunningServer.current
        try StreamTests.fill(running)
        // Two places: the second is opened while one is free.
        let slow = try (0..<2).map { _ in try running.connect() }
        for client in slow {
            try client.send(stream)
            _ = try client.next()
        }
        let other = try running.connect()
        try other.send(stream)
        var frame: Message
        repeat { frame = try other.next() } while frame["more"] == "true"
        #expect(frame["more"] == "false")
        var codes: [String] = []
        for client in slow { codes.append(try readToEnd(client)) }
        #expect(codes.contains("snapshotExpired"))
    }

    /// The code of the error, or an empty text for a stream that is whole.
    private func readToEnd(_ client: RawClient) throws -> String {
        while true {
            let message = try client.next()
            if message.type == "error" { return message.code }
            if message["more"] == "false" { return "" }
        }
    }

    @Test(.server(limits: limits())) func `a client that leaves ends its streams and their transactions`() throws {
        let running = RunningServer.current
        try StreamTests.fill(running)
        let other = try running.connect()
        for round in 1...5 {
            do {
                let client = try running.connect()
                for _ in 0..<12 { try client.send(stream) }
                if round > 1 { _ = try client.next() }
            }
            try write(other, round)
            var isHeld = true
            for _ in 0..<10_000 where isHeld { isHeld = try heldPages(other) > 0 }
            #expect(!isHeld)
        }
        for _ in 0..<10_000 where running.server.handlerCount > 1 { _ = try other.ask(#"{"type": "ping"}"#) }
        #expect(running.server.handlerCount == 1)
    }

    @Test(.server(limits: limits())) func `streams that are not read hold little memory, and others are answered`()
        async throws
    {
        let running = RunningServer.current
        try StreamTests.fill(running)
        let slow = try (0..<30).map { _ in try running.connect() }
        for client in slow { for _ in 0..<3 { try client.send(stream) } }
        let other = try running.connect()
        var most = 0
        for number in 1...300 {
            _ = try other.ask(#"{"type": "fetch", "entity": "Employee", "object": \#(number)}"#)
            most = max(most, try await running.server.unreadBytes)
        }
        // Five places of one process, and two parts for each.
        #expect(most < 10 << 20, "\(most)")
        try write(other, 1)
    }

    @Test func `a server that stops ends its streams, and says so`() async throws {
        let running = try await RunningServer(limits: Self.limits())
        try StreamTests.fill(running)
        let client = try running.connect()
        try client.send(stream)
        _ = try client.next()
        async let stopped: Void = running.stop()
        let code = try await offThePool { () throws -> String? in
            var last: Message?
            while let message = try client.receive() { last = message }
            return last?.code
        }
        #expect(code == "draining")
        try await stopped
    }
}
