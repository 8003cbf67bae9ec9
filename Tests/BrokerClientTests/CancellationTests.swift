import NIOCore
import Testing

@testable import BrokerClient

@Suite(.timeLimit(.minutes(5))) struct CancellationTests {
    private let record = Array(#"{"id":1}"#.utf8)

    /// A server and a client that has room for one job, which is on its way.
    private func full() async throws -> (
        channel: any Channel, client: BrokerClient, connection: FakeConnection, first: BrokerClient.SentJob
    ) {
        var options = BrokerClient.Options()
        options.maximumJobsInFlight = 1
        var server = try await FakeServer()
        let (client, opened) = try await server.connect(options: options)
        var connection = opened
        let first = try await client.enqueue(.process(record, as: "E"))
        _ = try await connection.next()
        return (server.channel, client, connection, first)
    }

    @Test func `a task that waits for a job in flight stops waiting, and the job goes on`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        for number in 0..<2 {
            let id = "job \(number)"
            let waiting = Task { [record] in
                if number == 0 {
                    _ = try await client.process(record, as: "E", id: id)
                } else {
                    var job = BrokerClient.Job.process(record, as: "E")
                    job.id = id
                    _ = try await client.submit(job)
                }
            }
            #expect(try await connection.nextMembers().id == id)
            waiting.cancel()
            await #expect(throws: CancellationError.self) { try await waiting.value }
            await #expect(throws: BrokerError.idInUse(id)) { _ = try await client.process(record, as: "E", id: id) }
        }
        await client.close()
        try await server.stop()
    }

    @Test func `a job that waits for room is not sent when its task is cancelled`() async throws {
        let full = try await full()
        let (client, first) = (full.client, full.first)
        var connection = full.connection
        let waiting = [
            Task { [record] in _ = try await client.process(record, as: "E") },
            Task { [record] in _ = try await client.submit(.process(record, as: "E")) },
            Task { [record] in _ = try await client.enqueue(.process(record, as: "E")) },
        ]
        while client.unansweredJobCount < 4 {
            try Task.checkCancellation()
            await Task.yield()
        }
        for task in waiting { task.cancel() }
        while client.unansweredJobCount > 1 {
            try Task.checkCancellation()
            await Task.yield()
        }
        for task in waiting { await #expect(throws: CancellationError.self) { try await task.value } }
        try await connection.complete(first.id)
        _ = try await first.completion
        let next = try await client.enqueue(.process(record, as: "E"))
        #expect(try await connection.nextMembers().id == next.id)
        await client.close()
        try await full.channel.close()
    }

    @Test func `cancelled at any time, a job is sent, or it is not and its task is told so`() async throws {
        let full = try await full()
        let client = full.client
        var connection = full.connection
        var sent: [String] = [full.first.id]
        for _ in 0..<200 {
            let before = try #require(sent.last)
            let task = Task { [record] in try await client.enqueue(.process(record, as: "E")) }
            let room = Task { [connection] in try await connection.complete(before) }
            task.cancel()
            try await room.value
            do {
                sent.append(try await task.value.id)
                #expect(try await connection.nextMembers().id == sent.last)
            } catch is CancellationError {
                let job = try await client.enqueue(.process(record, as: "E"))
                sent.append(job.id)
                // Not the cancelled one's: that was never sent.
                #expect(try await connection.nextMembers().id == job.id)
            }
        }
        await client.close()
        try await full.channel.close()
    }

    @Test func `a task that is cancelled beforehand sends nothing`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        let task = Task { [record] in
            withUnsafeCurrentTask { $0?.cancel() }
            _ = try await client.process(record, as: "E")
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        let next = try await client.enqueue(.process(record, as: "E"))
        #expect(try await connection.nextMembers().id == next.id)
        await client.close()
        try await server.stop()
    }

    @Test func `waiting for a server that does not welcome can be cancelled`() async throws {
        var server = try await FakeServer()
        let path = server.path
        let connecting = Task { try await BrokerClient.connect(to: path) }
        var connection = try await server.accept()
        connecting.cancel()
        await #expect(throws: CancellationError.self) { _ = try await connecting.value }
        await connection.closed()
        try await server.stop()
    }
}
