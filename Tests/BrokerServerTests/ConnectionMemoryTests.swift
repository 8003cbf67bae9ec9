@testable import BrokerServer
import BrokerWire
import TestSupport
import Testing

/// The memory that clients can make the server use.
@Suite(.timeLimit(.minutes(5))) struct ConnectionMemoryTests {
    private let ping = #"{"type": "ping"}"#

    /// A frame's beginning: a length, and so many bytes of what it promises.
    private func beginning(of length: Int, sent: Int) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: length >> (24 - 8 * $0)) } + [UInt8](repeating: 7, count: sent)
    }

    @Test(.server) func `the memory of a connection is freed when it closes`() throws {
        let running = RunningServer.current
        for _ in 0..<150 { #expect(try running.connect().ask(ping).type == "pong") }
        // Inside of a frame, and with something unanswered.
        for _ in 0..<20 {
            try running.connect().send(bytes: beginning(of: 1_000_000, sent: 100_000))
            try running.connect().send(#"{"entity": "Department", "json": {"id": 1}}"#)
        }
        let last = try running.connect()
        // Answered once, it is one of the server's connections: connect returns before the server accepts.
        _ = try last.ask(ping)
        // The ends of the others are seen in the rounds that these take.
        for _ in 0..<10_000 where running.server.handlerCount > 1 { _ = try last.ask(ping) }
        #expect(running.server.handlerCount == 1)
    }

    @Test(.server) func `clients that stop inside of large frames do not hold up others`() throws {
        let running = RunningServer.current
        let stopped = try (0..<8).map { _ in try running.connect() }
        // More than both turns; what goes beyond them stays in the sockets.
        for client in stopped { try client.send(bytes: beginning(of: 16_000_000, sent: 100_000)) }
        #expect(try running.connect().ask(ping).type == "pong")
        let padding = SeededGenerator(seed: 1).text(count: 2_000_000)
        let job = #"{"entity": "Department", "json": {"id": 1}, "padding": "\#(padding)"}"#
        let client = try running.connect()
        let completed = try client.ask(job)
        #expect(completed.type == "completed", "\(completed.text)")
        #expect(running.log.line(.warning, "stopped arriving") != nil)
    }

    @Test(.server) func `a client is refused for the frame in which it stopped`() throws {
        let running = RunningServer.current
        let stopped = try (0..<2).map { _ in try running.connect() }
        for client in stopped {
            #expect(try client.ask(ping).type == "pong")
            // More than a socket holds: the server has begun to read it when all of it is sent.
            try client.send(bytes: beginning(of: 16_700_000, sent: 2_000_000))
        }
        let other = try running.connect()
        let padding = SeededGenerator(seed: 4).text(count: 2_000_000)
        try other.send(#"{"type": "ping", "padding": "\#(padding)"}"#)
        let error = try stopped[0].next()
        #expect(error.code == "busy")
        #expect(error["frame"] == "2")
    }

    @Test func `a client is refused for the frame for which there is no room`() async throws {
        try await RunningServer.run({
            $0.jobsPerConnection = 1
            $0.backlogBytes = 10_000
        }) { running in
            let operating = try running.connect()
            #expect(try operating.ask(#"{"type": "admin", "action": "pause"}"#).type == "done")
            let client = try running.connect()
            // Not read while the job is in flight, but for the end of what the client sends.
            try client.send(#"{"entity": "Department", "json": {"id": 1}}"#)
            let pings = try RawClient.frame(Array(ping.utf8))
            try client.send(bytes: Array(repeatElement(pings, count: 180_000 / pings.count).joined()))
            client.endSending()
            let error = try client.next()
            #expect(error.code == "busy")
            #expect(error["frame"] == "2")
            #expect(try operating.ask(#"{"type": "admin", "action": "resume"}"#).type == "done")
            #expect(try client.next().type == "completed")
        }
    }

    @Test(.server) func `a client that stops inside of a frame stays connected while no other waits`() throws {
        let running = RunningServer.current
        let padding = SeededGenerator(seed: 2).text(count: 200_000)
        let text = #"{"entity": "Department", "json": {"id": 1}, "padding": "\#(padding)"}"#
        let frame = try RawClient.frame(Array(text.utf8))
        let slow = try running.connect()
        try slow.send(bytes: Array(frame.prefix(150_000)))
        let other = try running.connect()
        for _ in 0..<1_000 { _ = try other.ask(ping) }
        try slow.send(bytes: Array(frame.dropFirst(150_000)))
        #expect(try slow.next().type == "completed")
    }

    @Test(.server) func `a large answer that is requested 150 times waits for its reader, which gets all of them`()
        async throws
    {
        let running = RunningServer.current
        let client = try running.connect()
        let records = (0..<20_000).map { #"{"id": \#($0 * 7_919 % 1_000_003)}"# }.joined(separator: ",")
        let job = #"{"id": "a", "reply": "keys", "entity": "Department", "json": [\#(records)]}"#
        #expect(try client.ask(job).type == "completed")
        for number in 0..<150 { try client.send(#"{"type": "await", "id": "a", "tag": \#(number)}"#) }
        let other = try running.connect()
        var most = 0
        for _ in 0..<200 {
            _ = try other.ask(ping)
            most = max(most, try await running.server.unreadBytes)
        }
        #expect(most < Connection.readAheadBytes + 1 << 20, "the answers are 20 MB and more")
        var tags: Set<String> = []
        for _ in 0..<150 {
            let answer = try client.next()
            #expect(answer["changes.Department.inserted"] == "20000")
            #expect(answer["keys"] != nil)
            tags.insert(answer["tag"] ?? "")
        }
        #expect(tags.count == 150)
    }

    @Test(.server) func `answers to jobs keep their order, however slowly they are read`() throws {
        let running = RunningServer.current
        let client = try running.connect()
        let count = 20
        for number in 0..<count {
            // Large ones and small ones, and one that fails.
            let size = number % 3 == 0 ? 1 : 5_000
            let records = (0..<size).map { #"{"id": \#($0 * 7_919 % 1_000_003), "name": "\#(number)"}"# }
                .joined(separator: ",")
            let name = number % 10 == 9 ? "1" : records
            try client.send(
                #"{"id": "\#(number)", "reply": "keys", "tag": \#(number), "entity": "Department", "json": [\#(name)]}"#
            )
        }
        let other = try running.connect()
        while try other.ask(#"{"type": "stats"}"#)["jobs.inFlight"] != "0" {}
        for number in 0..<count {
            let answer = try client.next()
            #expect(answer["id"] == "\(number)")
            #expect(answer["tag"] == "\(number)")
            #expect(answer.sequence == number + 1)
            #expect(answer.type == (number % 10 == 9 ? "failed" : "completed"))
            if number % 3 != 0, number % 10 != 9 { #expect(answer["keys.Department"] != nil) }
        }
    }

    @Test(.server({ $0.cutOffBytes = 1 << 20 }))
    func `a client that leaves too much unread is cut off, and its jobs take effect`() async throws {
        let running = RunningServer.current
        let client = try running.connect()
        try client.send(#"{"id": "a", "notify": [], "entity": "Department", "json": {"id": 1}}"#)
        let padding = SeededGenerator(seed: 3).text(count: 60_000)
        let ping = try RawClient.frame(Array(#"{"type": "ping", "padding": "\#(padding)"}"#.utf8))
        #expect(throws: RawClient.Failure.self) {
            for _ in 0..<3_000 { try client.send(bytes: ping) }
        }
        #expect(running.log.line(.warning, "cut off") != nil)
        #expect(try running.connect().ask(#"{"type": "await", "id": "a"}"#).type == "completed")
    }

    @Test(.server) func `a tag of 1,024 bytes comes back, a longer one is refused`() throws {
        let running = RunningServer.current
        let client = try running.connect()
        let longest = String(repeating: "t", count: 1_022)
        #expect(try client.ask(#"{"type": "ping", "tag": "\#(longest)"}"#)["tag"] == longest)
        let refused = try client.ask(#"{"type": "ping", "tag": "\#(longest)x"}"#)
        #expect(refused.code == "unsupportedMessage")
        #expect(refused["error.path"] == "/tag")
        #expect(refused["tag"] == nil)
        let job = #"{"id": "j", "tag": [\#(longest)1], "entity": "Department", "json": {"id": 1}}"#
        let refusedJob = try client.ask(job.replacing(longest, with: String(repeating: "1", count: 2_000)))
        #expect(refusedJob.code == "unsupportedMessage")
        #expect(refusedJob["id"] == "j")
        #expect(try client.ask(#"{"type": "hello"}"#)["limits.maximumTagBytes"] == "1024")
    }
}

extension SeededGenerator {
    /// Letters that do not compress to much less than six bits each.
    func text(count: Int) -> String {
        var generator = self
        let letters = Array("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_".utf8)
        return String(decoding: (0..<count).map { _ in letters[Int(generator.next() % 64)] }, as: UTF8.self)
    }
}
