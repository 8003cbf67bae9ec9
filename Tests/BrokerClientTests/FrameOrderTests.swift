import TestSupport
import Testing

import Broker
@testable import BrokerClient

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
            let large = try await client.enqueue(.process(json: Array(json.utf8), as: "E"))
            let small = try await client.enqueue(.process(json: Array("{}".utf8), as: "E"))
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
                jobs.append(try await client.enqueue(.process(json: record, as: "E")))
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
