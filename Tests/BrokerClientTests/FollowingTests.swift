import Broker
import ServiceLifecycle
import ServiceLifecycleTestKit
import Testing

@testable import BrokerClient

/// Iterations over the commits of a server.
@Suite(.timeLimit(.minutes(5))) struct FollowingTests {
    /// Answers the ping with which each connection of a feed begins, and returns that connection and its request.
    private func feed(
        of server: inout FakeServer, _ own: inout FakeConnection
    ) async throws -> (connection: FakeConnection, request: String) {
        try await own.send(#"{"type":"pong","tag":\#(try await own.nextMembers().tag)}"#)
        var connection = try await server.greet()
        return (connection, try await connection.next())
    }

    private func commit(_ sequence: Int, _ members: String = "") -> String {
        #"{"type":"committed","sequence":\#(sequence)\#(members),"changes":{"E":{"inserted":2,"deleted":1}}}"#
    }

    @Test func `a feed without a position says first where it begins, and then has each commit with its keys`()
        async throws
    {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var own = opened
        let reading = Task {
            var commits: [Commit] = []
            for try await commit in client.commits(of: ["E", "F"]) {
                commits.append(commit)
                if commits.count == 3 { break }
            }
            return commits
        }
        var (stream, request) = try await feed(of: &server, &own)
        #expect(request == #"{"type":"subscribe","entities":["E","F"],"reply":"keys"}"#)
        try await stream.send(
            #"{"type":"subscribed","after":41,"oldest":7}"#,
            #"{"type":"committed","sequence":44,"id":"a","changes":{"E":{"inserted":2,"deleted":1}},"#
                + #""keys":{"E":{"inserted":[8,9],"deleted":[3]}}}"#,
            commit(50))
        let commits = try await reading.value
        try #require(commits.count == 3)
        #expect(commits[0] == Commit(sequence: 41))
        #expect(commits[1].id == "a")
        #expect(commits[1].changes == ["E": .init(inserted: 2, deleted: 1)])
        let keys = try commits[1].keys(of: "E", as: Int.self)
        #expect(keys.inserted == [8, 9] && keys.updated.isEmpty && keys.deleted == [3])
        #expect(try commits[1].keys(of: "F", as: Int.self) == .init())
        #expect(commits[2].sequence == 50 && commits[2].id == nil)
        let error = #expect(throws: BrokerError.self) { try commits[2].keys(of: "E", as: Int.self) }
        #expect(error?.code == .notReturned)
        await stream.closed()
        client.close()
        try await server.stop()
    }

    @Test func `after a lost connection another one goes on after the newest commit that was delivered`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var own = opened
        let reading = Task {
            var sequences: [Int64] = []
            for try await commit in client.commits(of: ["E"], after: 3, reply: .summary) {
                sequences.append(commit.sequence)
                if sequences.count == 3 { break }
            }
            return sequences
        }
        var (stream, request) = try await feed(of: &server, &own)
        #expect(request == #"{"type":"subscribe","entities":["E"],"after":3}"#)
        try await stream.send(#"{"type":"subscribed","after":3,"oldest":0}"#, commit(5))
        try await stream.close()
        (stream, request) = try await feed(of: &server, &own)
        #expect(request == #"{"type":"subscribe","entities":["E"],"after":5}"#)
        // The server goes, with both connections, before it has answered.
        try await stream.close()
        try await own.close()
        own = try await server.greet()
        (stream, request) = try await feed(of: &server, &own)
        #expect(request == #"{"type":"subscribe","entities":["E"],"after":5}"#)
        try await stream.send(#"{"type":"subscribed","after":5,"oldest":0}"#, commit(6), commit(9))
        #expect(try await reading.value == [5, 6, 9])
        client.close()
        try await server.stop()
    }

    @Test func `a feed whose server is not back in time ends with connectionLost`() async throws {
        var server = try await FakeServer()
        var options = BrokerClientConfiguration(name: "tests")
        options.reconnectDeadline = .milliseconds(100)
        let (client, opened) = try await server.connect(options: options)
        var own = opened
        let reading = Task { for try await _ in client.commits(after: 0) {} }
        let (stream, _) = try await feed(of: &server, &own)
        try await stream.send(#"{"type":"subscribed","after":0,"oldest":0}"#)
        try await server.stop()
        try await own.close()
        try await stream.close()
        let error = await #expect(throws: BrokerError.self) { try await reading.value }
        #expect(error?.code == .connectionLost)
        client.close()
    }

    @Test func `a position that is gone ends the iteration, and the error has the oldest`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var own = opened
        let reading = Task {
            var commits = client.commits(of: ["E"], after: 3).makeAsyncIterator()
            let error = await #expect(throws: BrokerError.self) { try await commits.next() }
            #expect(error?.code == .gone)
            #expect(error?.fault?.oldest == 8)
            return try await commits.next() == nil
        }
        var (stream, _) = try await feed(of: &server, &own)
        try await stream.send(#"{"type":"error","error":{"code":"gone","message":"m","oldest":8}}"#)
        #expect(try await reading.value)
        await stream.closed()
        client.close()
        try await server.stop()
    }

    @Test func `a feed that is cancelled closes its connection`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var own = opened
        let reading = Task { for try await _ in client.commits(of: ["E"]) {} }
        var (stream, _) = try await feed(of: &server, &own)
        try await stream.send(#"{"type":"subscribed","after":0,"oldest":0}"#)
        reading.cancel()
        await #expect(throws: CancellationError.self) { try await reading.value }
        await stream.closed()
        client.close()
        try await server.stop()
    }

    @Test func `a feed is silent for any time, and its first answer is not`() async throws {
        var server = try await FakeServer()
        var options = BrokerClientConfiguration(name: "tests")
        options.answerTimeout = .milliseconds(200)
        let (client, opened) = try await server.connect(options: options)
        var own = opened
        let reading = Task {
            var commits = client.commits(after: 0).makeAsyncIterator()
            return try await commits.next()?.sequence
        }
        let (stream, _) = try await feed(of: &server, &own)
        try await stream.send(#"{"type":"subscribed","after":0,"oldest":0}"#)
        // A request of the same time limit that is given up shows that the time is over.
        await #expect(throws: BrokerError.self) { try await client.ping() }
        try await stream.send(commit(1))
        #expect(try await reading.value == 1)
        client.close()
        try await server.stop()
    }

    @Test func `a feed of a closed client ends, and none begins`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var own = opened
        let reading = Task { for try await _ in client.commits() {} }
        var (stream, request) = try await feed(of: &server, &own)
        #expect(request == #"{"type":"subscribe","reply":"keys"}"#)
        try await stream.send(#"{"type":"subscribed","after":0,"oldest":0}"#)
        // It is open when the answer to a later message is there.
        async let answer: Void = client.ping()
        try await own.send(#"{"type":"pong","tag":\#(try await own.nextMembers().tag)}"#)
        try await answer
        client.close()
        await stream.closed()
        try await reading.value
        await #expect(throws: BrokerError.closed) { for try await _ in client.commits() {} }
        try await server.stop()
    }

    @Test func `a graceful shutdown ends a feed, and does not wait for it`() async throws {
        var server = try await FakeServer()
        var options = BrokerClientConfiguration(name: "tests")
        options.shutdownTimeout = .seconds(86_400)
        let (client, opened) = try await server.connect(options: options)
        var own = opened
        let (began, begin) = AsyncStream<Void>.makeStream()
        let reading = Task {
            for try await _ in client.commits(of: ["E"]) { begin.yield() }
            return "ended"
        }
        let (stream, _) = try await feed(of: &server, &own)
        try await stream.send(#"{"type":"subscribed","after":0,"oldest":0}"#)
        for await _ in began { break }
        await testGracefulShutdown { trigger in
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await client.run() }
                trigger.triggerGracefulShutdown()
            }
        }
        #expect(try await reading.value == "ended")
        try await server.stop()
    }

    @Test func `what no server would take is said before anything is sent`() async throws {
        let client = BrokerClient(.unixSocket(FakeServer.freePath()))
        func refusal(_ commits: Commits) async -> BrokerError? {
            await #expect(throws: BrokerError.self) { for try await _ in commits {} }
        }
        #expect(await refusal(client.commits(of: []))?.code == .unsupportedMessage)
        #expect(await refusal(client.commits(of: [""]))?.code == .unknownEntity)
        #expect(
            await refusal(client.commits(of: Array(repeating: "E", count: 5_001)))?.code == .unsupportedMessage)
        #expect(await refusal(client.commits(after: -1))?.code == .unsupportedMessage)
        #expect(await refusal(client.commits(reply: .init(rawValue: "all")))?.code == .unsupportedMessage)
        client.close()
    }
}
