import Broker
import BrokerWire
import Foundation
import ServiceLifecycle
import ServiceLifecycleTestKit
import Testing

@testable import BrokerClient

@Suite(.timeLimit(.minutes(5))) struct FetchTests {
    private struct Employee: Codable, Equatable {
        var id: Int
        var hiredAt: Date?
    }

    private func text(_ fetch: Query) throws -> String {
        String(decoding: try MessageWriter.message("fetch") { try fetch.write(to: &$0) }, as: UTF8.self)
    }

    @Test func `a fetch says what it asks for, and texts among its arguments stay texts`() throws {
        var fetch = Query("Employee", where: try .init("a == %@ AND b == %@", "12", 12))
        #expect(
            try text(fetch) == """
                {"type":"fetch","entity":"Employee","where":"a == %@ AND b == %@","arguments":["12",12],"dates":"iso8601"}
                """)
        fetch.dates = .model
        #expect(!(try text(fetch)).contains("dates"))
        fetch = Query("E")
        fetch.key = try RawJSON(value: ["row": 1])
        fetch.sortKeys = ["-a"]
        fetch.includedPaths = ["b.c"]
        fetch.limit = 0
        fetch.offset = 2
        fetch.names = .model
        fetch.resultForm = .dictionary
        #expect(
            try text(fetch) == """
                {"type":"fetch","entity":"E","object":{"row":1},"sort":["-a"],"include":["b.c"],"limit":0,"offset":2,\
                "names":"local","result":"dictionary"}
                """)
    }

    @Test func `a streamed fetch has a connection of its own, and its parts come as they are wanted`() async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        let reading = Task {
            try await client.objects(Employee.self, from: "Employee", where: "id > \(0)", names: .model).collect()
        }
        var stream = try await server.hear().connection
        #expect(
            try await stream.next()
                == #"{"type":"fetch","entity":"Employee","where":"id > %@","arguments":[0],"names":"local","stream":true}"#
        )
        try await stream.send(
            #"{"type":"objects","objects":[{"id":1,"hiredAt":"2011-12-22T02:24:51.500Z"}],"more":true,"last":1}"#,
            #"{"type":"objects","objects":[{"id":2,"hiredAt":null}],"more":false,"last":2}"#)
        let date = Date(timeIntervalSince1970: 1_324_520_691.5)
        #expect(try await reading.value == [Employee(id: 1, hiredAt: date), Employee(id: 2, hiredAt: nil)])
        await stream.closed()
        client.close()
        try await server.stop()
    }

    @Test func `an iteration that is left closes its connection, and one that is cancelled ends`() async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        let reading = Task {
            for try await result in client.results(of: Query("E")) { return result.hasMore }
            return false
        }
        var stream = try await server.hear().connection
        _ = try await stream.next()
        try await stream.send(#"{"type":"objects","objects":[],"more":true}"#)
        #expect(try await reading.value)
        await stream.closed()
        let waiting = Task { for try await _ in client.results(of: Query("E")) {} }
        stream = try await server.hear().connection
        _ = try await stream.next()
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        await stream.closed()
        client.close()
        try await server.stop()
    }

    @Test func `a stream that the server ends, or that loses its connection, throws`() async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        for isLost in [false, true] {
            let reading = Task { for try await _ in client.results(of: Query("E")) {} }
            var stream = try await server.hear().connection
            _ = try await stream.next()
            try await stream.send(#"{"type":"objects","objects":[],"more":true}"#)
            if isLost {
                try await stream.close()
            } else {
                try await stream.send(#"{"type":"error","error":{"code":"snapshotExpired","message":"m"}}"#)
            }
            let error = await #expect(throws: BrokerError.self) { try await reading.value }
            #expect(error?.code == (isLost ? .connectionLost : .snapshotExpired))
        }
        client.close()
        try await server.stop()
    }

    @Test func `after the client is closed no fetch begins, and one that has begun ends`() async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        let reading = Task { for try await _ in client.results(of: Query("E")) {} }
        var stream = try await server.hear().connection
        _ = try await stream.next()
        client.close()
        await #expect(throws: BrokerError.closed) { try await reading.value }
        await stream.closed()
        await #expect(throws: BrokerError.closed) { for try await _ in client.results(of: Query("E")) {} }
        try await server.stop()
    }

    @Test func `a fetch of which the server sends nothing ends when the time for answers is over`() async throws {
        var server = try await FakeServer()
        var options = RemoteBroker.Configuration(name: "tests")
        options.answerTimeout = .milliseconds(50)
        let (client, _) = try await server.connect(options: options)
        let reading = Task { for try await _ in client.results(of: Query("E")) {} }
        var stream = try await server.hear().connection
        try await stream.welcome()
        let error = await #expect(throws: BrokerError.self) { try await reading.value }
        #expect(error?.code == .connectionLost)
        await stream.closed()
        client.close()
        try await server.stop()
    }

    @Test func `a missing object is nil, and a refusal has its code`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        async let none = client.fetchObject(Employee.self, from: "Employee", key: 7)
        let first = try await connection.nextMembers().tag
        try await connection.send(#"{"type":"objects","objects":null,"tag":\#(first)}"#)
        #expect(try await none == nil)
        async let refused = client.fetchDictionary(Employee.self, from: "Employe")
        let second = try await connection.nextMembers().tag
        try await connection.send(
            #"{"type":"error","error":{"code":"unknownEntity","message":"x","path":"/entity"},"tag":\#(second)}"#)
        do {
            _ = try await refused
            Issue.record("it was refused")
        } catch let error as BrokerError {
            #expect(error.code == .unknownEntity)
            #expect(error.fault?.path == "/entity")
        }
        client.close()
    }
}

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
        var options = RemoteBroker.Configuration(name: "tests")
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
        var options = RemoteBroker.Configuration(name: "tests")
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
        var options = RemoteBroker.Configuration(name: "tests")
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
}

@Suite(.timeLimit(.minutes(5))) struct CompletionObjectsTests {
    private struct Employee: Codable, Equatable {
        var id: Int
        var hiredAt: Date?
    }

    private struct Tag: Codable, Equatable { var word: String }

    @Test func `objects are asked for, and come as values, operation by operation`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        var job = Job(
            [
                try .process([Employee(id: 1), Employee(id: 2)], as: "Employee"),
                .process(json: Array("[]".utf8), as: "Tag"),
                .process(json: Array(#"{"word": "w"}"#.utf8), as: "Tag"),
            ], id: "j")
        job.reply = .objects
        async let ended = client.process(job)
        #expect(try await connection.next().contains(#""reply":"objects","dates":"iso8601""#))
        try await connection.send(
            #"""
            {"type":"completed","id":"j","sequence":1,"duplicate":false,"changes":{},"rejected":[],"warnings":[],
             "objects":[[{"id":1,"hiredAt":"2011-12-22T02:24:51.500Z"},null],[],[{"word":"w"}]]}
            """#)
        let completion = try await ended
        #expect(completion.objects?.description.hasPrefix("[[{") == true)
        let date = Date(timeIntervalSince1970: 1_324_520_691.5)
        #expect(try completion.objects(as: Employee.self) == [Employee(id: 1, hiredAt: date), nil])
        #expect(try completion.objects(ofOperation: 1, as: Tag.self) == [])
        let tags: [Tag?] = try completion.objects(ofOperation: 2)
        #expect(tags == [Tag(word: "w")])
        #expect(throws: DecodingError.self) { try completion.objects(ofOperation: 3, as: Tag.self) }
        #expect(throws: DecodingError.self) { try completion.objects(ofOperation: 2, as: Employee.self) }
        client.close()
        try await server.stop()
    }

    @Test func `an answer without objects or keys says so, and why`() throws {
        let duplicate = Completion(id: "j", sequence: 1, isDuplicate: true)
        let shortened = Completion(
            id: "j", sequence: 1,
            warnings: [.init(code: .answerShortened, key: "objects"), .init(code: .answerShortened, key: "keys")])
        for (completion, reason) in [
            (duplicate, "had been applied before"), (shortened, "too large"),
            (Completion(id: "j", sequence: 1), "not asked for"),
        ] {
            let calls: [(Completion) throws -> Void] = [
                { _ = try $0.objects(as: Tag.self) }, { _ = try $0.keys(of: "Tag", as: String.self) },
            ]
            for call in calls {
                let error = #expect(throws: BrokerError.self) { try call(completion) }
                #expect(error?.code == .notReturned && error?.jobID == "j")
                #expect(error?.message.contains(reason) == true, "\(String(describing: error))")
            }
        }
    }
}
