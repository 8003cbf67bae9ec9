import Foundation
import TestSupport
import Testing

@testable import BrokerClient

/// A job that is alone is written by the thread that brings it, all others by the event loop.
@Suite(.timeLimit(.minutes(5))) struct DirectSocketTests {
    /// Both ends of a connection.
    private func pair() throws -> (CInt, CInt) {
        var ends: [CInt] = [-1, -1]
        try #require(socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends) == 0)
        return (ends[0], ends[1])
    }

    @Test func `a socket takes what it has room for, without waiting, and the rest when there is room again`() throws {
        let (end, other) = try pair()
        let socket = try #require(DirectSocket(duplicating: end))
        close(end)
        let bytes = (0..<4 << 20).map { UInt8(truncatingIfNeeded: $0 >> 3) }
        var written = 0
        var received: [UInt8] = []
        while written < bytes.count {
            let count = socket.write(Array(bytes[written...]))
            written += count
            guard count == 0 else { continue }
            var space = [UInt8](repeating: 0, count: 1 << 20)
            let taken = read(other, &space, space.count)
            try #require(taken > 0)
            received += space[..<taken]
        }
        #expect(received.elementsEqual(bytes[..<received.count]))
        #expect(received.count > 0)
        close(other)
        var count = -1
        #expect(try !hasSignal { count = socket.write([1]) })
        #expect(count == 0)
    }

    /// Whether the signal was raised that ends a process which writes to nobody. A blocked one waits, even where it is
    /// ignored.
    private func hasSignal(_ body: () -> Void) throws -> Bool {
        var broken = sigset_t()
        var before = sigset_t()
        sigemptyset(&broken)
        sigaddset(&broken, SIGPIPE)
        try #require(pthread_sigmask(SIG_BLOCK, &broken, &before) == 0)
        body()
        var pending = sigset_t()
        sigpending(&pending)
        let isPending = sigismember(&pending, SIGPIPE) == 1
        var signal: CInt = 0
        if isPending { sigwait(&broken, &signal) }
        pthread_sigmask(SIG_SETMASK, &before, nil)
        return isPending
    }

    @Test func `a socket is open for its peer until it is let go`() throws {
        let (end, other) = try pair()
        var socket = DirectSocket(duplicating: end)
        close(end)
        #expect(socket?.write([7]) == 1)
        socket = nil
        var byte: UInt8 = 0
        #expect(read(other, &byte, 1) == 1)
        #expect(read(other, &byte, 1) == 0)
        close(other)
        #expect(DirectSocket(duplicating: -1) == nil)
    }

    @Test func `a lone job that is larger than the socket's room arrives whole, before those behind it`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        var generator = SeededGenerator()
        for _ in 0..<5 {
            // Digits at random do not compress to what a socket has room for.
            let digits = (0..<400_000).map { _ in String(UInt32.random(in: 0...UInt32.max, using: &generator)) }
            let json = "[\(digits.joined(separator: ","))]"
            let large = try await client.enqueue(.process(Array(json.utf8), as: "E"))
            let small = try await client.enqueue(.process(Array("{}".utf8), as: "E"))
            #expect(try await connection.next() == #"{"id":"\#(large.id)","entity":"E","json":\#(json)}"#)
            #expect(try await connection.nextMembers().id == small.id)
            for job in [large, small] {
                try await connection.complete(job.id)
                _ = try await job.completion
            }
        }
        await client.close()
        await connection.closed()
        try await server.stop()
    }

    @Test func `frames of several tasks are never mixed up, though one is written in parts`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        let text = String((0..<60_000).map { _ in Character(UnicodeScalar(UInt8.random(in: 0x23...0x5B))) })
        let large = Array(
            "[\"\(text)\",\"\(String(text.reversed()))\"\(String(repeating: ",\"\(text)\"", count: 6))]".utf8)
        for _ in 0..<60 {
            async let first = client.process(json: large, as: "E", id: "large")
            async let others: Void = withThrowingTaskGroup { group in
                for task in 0..<3 {
                    group.addTask {
                        for number in 0..<8 {
                            for _ in 0..<Int.random(in: 0...200) { await Task.yield() }
                            _ = try await client.process(Array("{}".utf8), as: "E", id: "small-\(task)-\(number)")
                        }
                    }
                }
                try await group.waitForAll()
            }
            var ids: [String] = []
            for _ in 0..<25 {
                // What is mixed up is no frame, and ends the connection.
                ids.append(try await connection.nextMembers().id)
                try await connection.complete(ids[ids.count - 1])
            }
            #expect(Set(ids).count == 25)
            #expect(try await first.id == "large")
            try await others
        }
        await client.close()
        await connection.closed()
        try await server.stop()
    }

    @Test func `jobs arrive in the order in which they were enqueued, alone and together`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        var generator = SeededGenerator()
        for _ in 0..<300 {
            var jobs: [BrokerClient.SentJob] = []
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                let record = Array(
                    #"{"text":"\#(String(repeating: "x", count: Int.random(in: 0...2_000, using: &generator)))"}"#.utf8)
                jobs.append(try await client.enqueue(.process(record, as: "E")))
            }
            for job in jobs { #expect(try await connection.nextMembers().id == job.id) }
            for job in jobs { try await connection.complete(job.id) }
            // Some are not waited for, so that the next ones are not alone.
            if Bool.random(using: &generator) { for job in jobs { _ = try await job.completion } }
        }
        await client.close()
        await connection.closed()
        try await server.stop()
    }
}
