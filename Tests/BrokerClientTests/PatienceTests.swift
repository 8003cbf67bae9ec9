import BrokerWire
import NIOCore
import Testing

import Broker
@testable import BrokerClient

/// A client with a server that makes it wait.
@Suite(.timeLimit(.minutes(5))) struct PatienceTests {
    private let record = Array(#"{"id":1}"#.utf8)

    /// Serves one job on whichever connection lasts: on a slow machine some are given up before they are greeted.
    private func serve(_ job: SubmittedJob, _ server: inout FakeServer) async throws {
        for _ in 0..<100 {
            do {
                var connection = try await server.greet()
                #expect(try await connection.nextMembers().id == job.id)
                try await connection.complete(job.id)
                _ = try await job.completion
                return
            } catch let error as BrokerError {
                throw error
            } catch {
                continue
            }
        }
        throw FakeFault("the job was not served")
    }

    /// Connects a client of little patience: on a slow machine it may give up before it is greeted.
    private func connect(
        _ server: inout FakeServer, _ options: BrokerClientConfiguration
    ) async throws -> (BrokerClient, FakeConnection) {
        for _ in 0..<100 {
            do {
                return try await server.connect(options: options)
            } catch {
                continue
            }
        }
        throw FakeFault("no client had the patience to be greeted")
    }

    @Test func `a server that welcomes and closes is given up, and not hurried`() async throws {
        var server = try await FakeServer()
        var options = BrokerClientConfiguration()
        options.reconnectDeadline = .milliseconds(300)
        let (client, opened) = try await server.connect(options: options)
        let job = try await client.enqueue(.process(json: record, as: "E"))
        try await opened.close()
        let path = server.path
        let outcome = Task {
            do {
                _ = try await job.completion
                return "completed"
            } catch {
                // The loop below ends.
                let probe = try await BrokerClient.connect(to: .unixSocket(path), configuration: .init(name: "probe"))
                probe.close()
                return "\(error)"
            }
        }
        var attempts = 0
        while attempts < 100 {
            var connection = try await server.accept()
            attempts += 1
            do {
                let hello = try await connection.next()
                try await connection.welcome()
                if hello.contains("probe") { break }
                try await connection.close()
            } catch {
                // The client's time was up before it was greeted.
                continue
            }
        }
        // Each waits twice as long as the one before.
        #expect((2...13).contains(attempts))
        if attempts == 100 { client.close() }
        #expect(try await outcome.value.contains("The connection was lost"))
        client.close()
        try await server.stop()
    }

    @Test func `a server that does not answer the greeting is reported`() async throws {
        var server = try await FakeServer()
        var options = BrokerClientConfiguration()
        options.connectTimeout = .milliseconds(50)
        let path = server.path
        let client = Task { [options] in try await BrokerClient.connect(to: .unixSocket(path), configuration: options) }
        var connection = try await server.accept()
        await #expect(
            throws: BrokerError.cannotConnect(path: path, reason: "the server did not answer the greeting in time")
        ) { _ = try await client.value }
        await connection.closed()
        try await server.stop()
    }

    @Test func `a lost connection is restored though one attempt is never answered`() async throws {
        var server = try await FakeServer()
        var options = BrokerClientConfiguration()
        options.connectTimeout = .seconds(5)
        let (client, opened) = try await connect(&server, options)
        let job = try await client.enqueue(.process(json: record, as: "E"))
        try await opened.close()
        var silent = try await server.accept()
        await silent.closed()
        try await serve(job, &server)
        client.close()
        try await server.stop()
    }

    @Test func `a frame that never ends ends the connection, also one that trickles`() async throws {
        var server = try await FakeServer()
        var options = BrokerClientConfiguration()
        options.frameTimeout = .milliseconds(100)
        let (client, opened) = try await server.connect(options: options)
        var connection = opened
        let job = try await client.enqueue(.process(json: record, as: "E"))
        _ = try await connection.next()
        try await connection.send(bytes: [0, 0, 1, 0])
        let trickle = Task { [connection] in
            while true { try await connection.send(bytes: [4]) }
        }
        await connection.closed()
        await #expect(throws: (any Error).self) { try await trickle.value }
        try await serve(job, &server)
        client.close()
        try await server.stop()
    }
}
