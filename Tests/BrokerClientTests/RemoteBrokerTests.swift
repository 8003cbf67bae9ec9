import Broker
import BrokerJSON
import BrokerWire
import Foundation
import Logging
import NIOCore
import NIOPosix
import Testing

@testable import BrokerClient

@Suite(.timeLimit(.minutes(5))) struct BrokerClientTests {
    private let record = Array(#"{"id":1}"#.utf8)

    @Test func `a first connection waits for a server that is not there yet`() async throws {
        let path = FakeServer.freePath()
        let client = Task { try await RemoteBroker.connect(to: .unixSocket(path)) }
        var server = try await FakeServer(path: path)
        _ = try await server.greet()
        try await client.value.close()
        try await server.stop()
    }

    @Test func `a missing socket is reported after the time to connect`() async {
        let path = FakeServer.freePath()
        var options = RemoteBroker.Configuration()
        options.connectTimeout = .milliseconds(60)
        let limited = options
        await #expect(
            throws: BrokerError.cannotConnect(
                path: path, reason: "there is no such socket; start brokerd, or check the path")
        ) { _ = try await RemoteBroker.connect(to: .unixSocket(path), configuration: limited) }
    }

    @Test func `a server that refuses the client is reported with its error`() async throws {
        var server = try await FakeServer()
        let path = server.path
        async let client = RemoteBroker.connect(to: .unixSocket(path))
        let connection = try await server.accept()
        try await connection.send(#"{"type":"error","error":{"code":"unauthorized","message":"not you"}}"#)
        do {
            _ = try await client
            Issue.record("it connected")
        } catch let error as BrokerError {
            #expect(error.description == "unauthorized: not you")
        }
        try await server.stop()
    }

    @Test func `a peer that is not Broker is a protocol violation`() async throws {
        var server = try await FakeServer()
        let path = server.path
        async let client = RemoteBroker.connect(to: .unixSocket(path))
        var connection = try await server.accept()
        try await connection.send(bytes: Array("220 ready\r\n".utf8))
        do {
            _ = try await client
            Issue.record("it connected")
        } catch let error as BrokerError {
            #expect(error.code == .protocolViolation)
            #expect(error.message.contains("malformedFrame"))
        }
        await connection.closed()
        try await server.stop()
    }

    @Test func `a job of raw JSON is sent unchanged, and its completion is returned`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        let information = try await client.serverInformation()
        #expect(information.name == "fake")
        #expect(information.entities == ["E"])
        #expect(information.limits.outcomesKeptFor == .seconds(60))
        #expect(information.limits.maximumDepth == nil)
        async let completion = client.process(json: record, as: "E", id: "a", onInvalid: .skip, reply: .keys)
        #expect(
            try await connection.next() == #"{"id":"a","onInvalid":"skip","reply":"keys","entity":"E","json":{"id":1}}"#
        )
        try await connection.complete("a", sequence: 9)
        #expect(try await completion.sequence == 9)
        #expect(try await completion.changes == ["E": .init(inserted: 1)])
        client.close()
        try await server.stop()
    }

    @Test func `values are encoded, with dates that keep their fractions`() async throws {
        struct Employee: Encodable {
            let name: String
            let hiredAt: Date
            let link: String
        }
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        let employees = [Employee(name: "Ada", hiredAt: Date(timeIntervalSince1970: 1.25), link: "a/b")]
        async let completion = client.process(employees, as: "E", id: "a")
        let message = try await connection.next()
        #expect(message.contains(#""hiredAt":1.25"#))
        #expect(message.contains(#""link":"a/b""#))
        try await connection.complete("a")
        _ = try await completion
        await #expect(throws: BrokerError.self) { _ = try await client.process([Double.nan], as: "E") }
        client.close()
        try await server.stop()
    }

    @Test func `ids that the client makes are all different`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        var ids: Set<JobID> = []
        for _ in 0..<3 {
            _ = try await client.enqueue(Job(.process(json: record, as: "E")))
            ids.insert(try await connection.nextMembers().id)
        }
        #expect(ids.count == 3)
        #expect(ids.allSatisfy { JobID.byteCounts.contains($0.text.utf8.count) })
        client.close()
        try await server.stop()
    }

    @Test func `a submitted job returns once accepted, and its completion is awaited later`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        let record = record
        async let submitted = client.submit(Job(.process(json: record, as: "E")))
        let message = try await connection.next()
        #expect(message.contains(#""notify":["accepted","completed"]"#))
        let id = try #require(message.split(separator: "\"").dropFirst(3).first).description
        try await connection.send(#"{"type":"accepted","id":"\#(id)","sequence":5}"#)
        let ticket = try await submitted
        #expect(ticket.id.text == id)
        #expect(ticket.sequence == 5)
        try await connection.complete(JobID(id), sequence: 5)
        #expect(try await ticket.completion.sequence == 5)
        #expect(try await ticket.completion.sequence == 5)
        client.close()
        try await server.stop()
    }

    @Test func `a failed job throws what the server said`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        let record = record
        async let completion = client.process(json: record, as: "X", id: "a")
        _ = try await connection.next()
        try await connection.send(
            #"{"type":"failed","id":"a","sequence":3,"error":{"code":"unknownEntity","message":"m","path":"/entity"}}"#)
        do {
            _ = try await completion
            Issue.record("it completed")
        } catch let error as BrokerError {
            #expect(error.sequence == 3)
            #expect(error.jobID == "a")
            #expect(error.code == .unknownEntity)
            #expect(error.fault?.path == "/entity")
        }
        client.close()
        try await server.stop()
    }

    @Test func `an error that ends the connection fails the job, and the next job reconnects`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        let first = try await client.enqueue(Job(.process(json: record, as: "E")))
        _ = try await connection.next()
        try await connection.send(#"{"type":"error","error":{"code":"contentTooLarge","message":"m"},"frame":2}"#)
        do {
            _ = try await first.completion
            Issue.record("it completed")
        } catch {
            #expect((error as? BrokerError)?.code == .tooLarge)
            #expect((error as? BrokerError)?.fault?.code.rawValue == "contentTooLarge")
        }
        await connection.closed()
        let second = try await client.enqueue(Job(.process(json: record, as: "E")))
        connection = try await server.greet()
        let id = try await connection.nextMembers().id
        #expect(id == second.id)
        try await connection.complete(id)
        _ = try await second.completion
        client.close()
        try await server.stop()
    }

    @Test func `a lost connection comes back, and unanswered jobs are sent again as they were`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        var jobs: [SubmittedJob] = []
        for _ in 0..<5 { jobs.append(try await client.enqueue(Job(.process(json: record, as: "E")))) }
        var sent: [String] = []
        for _ in 0..<5 { sent.append(try await connection.next()) }
        try await connection.complete(jobs[1].id)
        _ = try await jobs[1].completion
        // The listener goes first, or the client would be back on it before it is gone.
        let path = server.path
        try await server.stop()
        try await connection.close()

        server = try await FakeServer(path: path)
        connection = try await server.greet()
        var again: [String] = []
        for _ in 0..<4 { again.append(try await connection.next()) }
        sent.remove(at: 1)
        #expect(again == sent)
        for job in jobs where job.id != jobs[1].id {
            try await connection.complete(job.id)
            #expect(try await job.completion.id == job.id)
        }
        client.close()
        try await server.stop()
    }

    @Test func `a full window makes the next job wait for an answer`() async throws {
        var server = try await FakeServer()
        var options = RemoteBroker.Configuration()
        options.maximumJobsInFlight = 2
        let (client, opened) = try await server.connect(options: options)
        var connection = opened
        let record = record
        let first = try await client.enqueue(Job(.process(json: record, as: "E")))
        let second = try await client.enqueue(Job(.process(json: record, as: "E")))
        let third = Task { try await client.enqueue(Job(.process(json: record, as: "E"))) }
        #expect(try await connection.nextMembers().id == first.id)
        #expect(try await connection.nextMembers().id == second.id)
        // A request passes the window: when it is answered, the third job still has not come.
        async let pong: Void = client.ping()
        let ping = try await connection.nextMembers()
        #expect(ping.id == "")
        try await connection.send(#"{"type":"pong","tag":\#(ping.tag)}"#)
        try await pong
        try await connection.complete(second.id)
        #expect(try await connection.nextMembers().id == (try await third.value.id))
        client.close()
        try await server.stop()
    }

    @Test func `requests are answered by tag, in any order`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        async let model = client.model()
        let modelTag = try await connection.nextMembers().tag
        async let pong: Void = client.ping()
        let pongTag = try await connection.nextMembers().tag
        async let outcome = client.completion(of: "old")
        let awaited = try await connection.nextMembers()
        #expect(awaited.id == "old")
        try await connection.send(
            #"{"type":"completed","id":"old","sequence":2,"tag":\#(awaited.tag)}"#,
            #"{"type":"pong","tag":\#(pongTag)}"#,
            #"{"type":"model","model":{"entities":{}},"tag":\#(modelTag)}"#)
        #expect(try await model.json.description == #"{"entities":{}}"#)
        try await pong
        #expect(try await outcome.sequence == 2)
        async let unknown = client.completion(of: "never")
        let tag = try await connection.nextMembers().tag
        try await connection.send(#"{"type":"error","tag":\#(tag),"error":{"code":"unknownJob","message":"m"}}"#)
        do {
            _ = try await unknown
            Issue.record("it was known")
        } catch let error as BrokerError {
            #expect(error.code == .unknownJob)
        }
        client.close()
        try await server.stop()
    }

    @Test func `answers that come in pieces are put together`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        var generator = SystemRandomNumberGenerator()
        let keys = (0..<100_000).map { _ in String(UInt32.random(in: 0...UInt32.max, using: &generator)) }
        let job = try await client.enqueue(Job(.process(json: record, as: "E")))
        _ = try await connection.next()
        var encoder = FrameEncoder()
        let list = "[" + keys.joined(separator: ",") + "]"
        let frame = try encoder.encode(
            Array(#"{"type":"completed","id":"\#(job.id)","sequence":1,"keys":\#(list)}"#.utf8))
        for piece in [frame[..<3], frame[3..<5], frame[5..<70_000], frame[70_000...]] {
            try await connection.send(bytes: Array(piece))
        }
        #expect(try await job.completion.keys?.description == list)
        client.close()
        try await server.stop()
    }

    @Test func `after closing, only the outcome of a job that was sent is unknown`() async throws {
        var server = try await FakeServer()
        var options = RemoteBroker.Configuration(name: "tests")
        options.maximumJobsInFlight = 1
        let (client, opened) = try await server.connect(options: options)
        var connection = opened
        let sent = try await client.enqueue(Job(.process(json: record, as: "E")))
        _ = try await connection.next()
        let record = record
        let waiting = Task { try await client.process(json: record, as: "E") }
        while client.unansweredJobCount < 2 { await Task.yield() }
        client.close()
        await #expect(throws: BrokerError.closed.doubting(sent.id)) { _ = try await sent.completion }
        await #expect(throws: BrokerError.closed) { _ = try await waiting.value }
        await #expect(throws: BrokerError.closed) { _ = try await client.process(json: record, as: "E") }
        await #expect(throws: BrokerError.closed) { try await client.ping() }
        #expect(!BrokerError.closed.isOutcomeUnknown)
        await connection.closed()
        try await server.stop()
    }

    @Test func `a released client closes its connection`() async throws {
        var server = try await FakeServer()
        var connection: FakeConnection
        do {
            let (_, opened) = try await server.connect()
            connection = opened
        }
        await connection.closed()
        try await server.stop()
    }

    @Test func `a message that is too large is not sent`() async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        var generator = SystemRandomNumberGenerator()
        let noise = (0..<(17 << 20) / 8).flatMap { _ in
            withUnsafeBytes(of: UInt64.random(in: 0...UInt64.max, using: &generator)) { Array($0) }
        }
        do {
            _ = try await client.process([Data(noise)], as: "E")
            Issue.record("it was sent")
        } catch {
            #expect((error as? BrokerError)?.code == .tooLarge)
        }
        client.close()
        try await server.stop()
    }

    @Test func `a completion has all that the server sent`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        let job = try await client.enqueue(Job(.process(json: record, as: "E")))
        _ = try await connection.next()
        try await connection.send(
            #"""
            {"type":"completed","id":"\#(job.id)","sequence":42,"duplicate":true,
             "changes":{"E":{"inserted":1,"updated":2,"unchanged":3,"deleted":4,"rejected":5}},
             "rejected":[{"code":"invalidValue","message":"m","path":"/json/3","entity":"E","attribute":"a"}],
             "warnings":[{"code":"unknownKey","entity":"E","key":"bunk","count":10}],
             "timing":{"queued":12,"staged":340,"journalWaited":7,"journalSynced":900,"waited":5,"merged":95,
              "committed":180}}
            """#)
        let expected = Completion(
            id: job.id, sequence: 42, isDuplicate: true,
            changes: ["E": .init(inserted: 1, updated: 2, unchanged: 3, deleted: 4, rejected: 5)],
            rejections: [
                .init(code: .invalidValue, message: "m", path: "/json/3", entity: "E", attribute: "a")
            ],
            warnings: [.init(code: .unknownKey, entity: "E", key: "bunk", count: 10)],
            timing: .init(
                queued: .microseconds(12), staged: .microseconds(340), journalWaited: .microseconds(7),
                journalSynced: .microseconds(900), waited: .microseconds(5), merged: .microseconds(95),
                committed: .microseconds(180)))
        #expect(try await job.completion == expected)
        client.close()
        try await server.stop()
    }

    @Test func `an id that no server takes is not sent`() async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        for id in ["", String(repeating: "é", count: 65)] {
            await #expect(throws: BrokerError.invalidID(JobID(id))) {
                _ = try await client.process(json: record, as: "E", id: JobID(id))
            }
        }
        client.close()
        try await server.stop()
    }

    @Test func `ids that differ in Unicode form only are two jobs`() async throws {
        var server = try await FakeServer()
        let (client, opened) = try await server.connect()
        var connection = opened
        let ids: [JobID] = ["caf\u{E9}", "cafe\u{301}"]
        var jobs: [SubmittedJob] = []
        for id in ids {
            jobs.append(try await client.enqueue(.init([.process(json: record, as: "E")], id: id)))
            _ = try await connection.next()
        }
        try await connection.complete(ids[1], sequence: 2)
        try await connection.complete(ids[0], sequence: 1)
        #expect(try await jobs[0].completion.sequence == 1)
        #expect(try await jobs[1].completion.sequence == 2)
        client.close()
        try await server.stop()
    }
}

/// A server whose answers the test chooses.
struct FakeServer: ~Copyable {
    let path: String
    let channel: any Channel
    private var connections: AsyncStream<FakeConnection>.Iterator

    init(path: String = FakeServer.freePath()) async throws {
        self.path = path
        let (stream, continuation) = AsyncStream<FakeConnection>.makeStream()
        connections = stream.makeAsyncIterator()
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let (messages, incoming) = AsyncStream<[UInt8]>.makeStream()
                    try channel.pipeline.syncOperations.addHandler(FakeHandler(incoming))
                    continuation.yield(FakeConnection(channel: channel, messages: messages.makeAsyncIterator()))
                }
            }
            .bind(unixDomainSocketPath: path, cleanupExistingSocketFile: true).get()
    }

    static func freePath() -> String {
        FileManager.default.temporaryDirectory.path + "/broker-\(UInt64.random(in: 0...UInt64.max)).sock"
    }

    /// The next client, as it is.
    mutating func accept() async throws -> FakeConnection {
        guard let connection = await connections.next(isolation: nil) else { throw FakeFault("no more connections") }
        return connection
    }

    /// The next client, after its greeting was answered.
    mutating func greet() async throws -> FakeConnection {
        let connection = try await hear().connection
        try await connection.welcome()
        return connection
    }

    /// The next client and its greeting.
    mutating func hear() async throws -> (connection: FakeConnection, hello: String) {
        var connection = try await accept()
        let hello = try await connection.next()
        guard hello.contains(#""type":"hello""#) else { throw FakeFault("the first message was \(hello)") }
        return (connection, hello)
    }

    /// A client of this server, and its connection.
    mutating func connect(
        options: RemoteBroker.Configuration = .init(name: "tests")
    ) async throws -> (RemoteBroker, FakeConnection) {
        let path = path
        async let client = RemoteBroker.connect(
            to: .unixSocket(path), configuration: options, logger: .silent, firstDelay: .milliseconds(1), nil)
        let connection = try await greet()
        return (try await client, connection)
    }

    /// Stops listening, which removes the socket.
    func stop() async throws { try await channel.close() }
}

struct FakeConnection: Sendable {
    let channel: any Channel
    // Used by one test at a time.
    nonisolated(unsafe) var messages: AsyncStream<[UInt8]>.Iterator

    /// The content of the next frame.
    mutating func next() async throws -> String {
        guard let content = await messages.next(isolation: nil) else { throw FakeFault("the client closed") }
        return String(decoding: content, as: UTF8.self)
    }

    /// The `id` and the `tag` of the next message.
    mutating func nextMembers() async throws -> (id: JobID, tag: String) {
        let document = try JSONDocument(parsing: JSONText(copying: Array(try await next().utf8)))
        return withExtendedLifetime(document) {
            let tag = document.root["tag"].map { String(decoding: $0.bytes, as: UTF8.self) }
            return (JobID(document.root["id"]?.string ?? ""), tag ?? "")
        }
    }

    func send(_ messages: String...) async throws {
        var encoder = FrameEncoder()
        let frames = try messages.flatMap { try encoder.encode(Array($0.utf8)) }
        try await send(bytes: frames)
    }

    func send(bytes: [UInt8]) async throws {
        try await channel.writeAndFlush(ByteBuffer(bytes: bytes))
    }

    func welcome() async throws {
        try await send(
            #"{"type":"welcome","version":1,"server":"fake","limits":{"outcomesKeptSeconds":60},"entities":["E"]}"#)
    }

    func complete(_ id: JobID, sequence: Int = 1) async throws {
        try await send(
            #"{"type":"completed","id":"\#(id)","sequence":\#(sequence),"duplicate":false,"changes":{"E":{"inserted":1}}}"#
        )
    }

    func close() async throws { try await channel.close() }

    /// Returns when the client has closed.
    mutating func closed() async {
        while await messages.next(isolation: nil) != nil {}
    }
}

extension Logger {
    static var silent: Logger { Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() } }
}

struct FakeFault: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

private final class FakeHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let incoming: AsyncStream<[UInt8]>.Continuation
    private var decoder = FrameDecoder()
    private var received = ByteBuffer()

    init(_ incoming: AsyncStream<[UInt8]>.Continuation) { self.incoming = incoming }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        received.writeImmutableBuffer(unwrapInboundIn(data))
        do {
            while let content = try nextContent() { incoming.yield(content) }
        } catch {
            context.fireErrorCaught(error)
            context.close(promise: nil)
        }
    }

    private func nextContent() throws -> [UInt8]? {
        var count = 0
        let content: [UInt8]? = try received.withUnsafeReadableBytes { bytes in
            guard case .frame(let payload) = try FrameScanner.scan(bytes) else { return nil }
            count = payload.upperBound
            let text = try decoder.decode(UnsafeRawBufferPointer(rebasing: bytes[payload]))
            return withExtendedLifetime(text) { Array(text.bytes) }
        }
        received.moveReaderIndex(forwardBy: count)
        return content
    }

    func channelInactive(context: ChannelHandlerContext) { incoming.finish() }
}

/// Fields of jobs that an earlier server would ignore.
@Suite(.timeLimit(.minutes(5))) struct FeatureTests {
    @Test func `a dry run, a limit, or a bookmark is not sent to a server that does not know it`() async throws {
        var server = try await FakeServer()
        let (client, _) = try await server.connect()
        let changes: [(inout Job) -> Void] = [
            { $0.isDryRun = true }, { $0.maximumDeletions = .objects(1) }, { $0.bookmark = Job.Bookmark("a", "b") },
        ]
        for change in changes {
            var job = Job(try .delete("Row", keys: [1]))
            change(&job)
            await #expect { try await client.process(job) } throws: { ($0 as? BrokerError)?.code == .unsupported }
        }
        await #expect { try await client.bookmark(named: "a") } throws: { ($0 as? BrokerError)?.code == .unsupported }
        client.close()
        try await server.stop()
    }
}

extension RemoteBroker {
    /// Jobs in flight, and those that wait for room.
    var unansweredJobCount: Int { driver.unansweredJobCount + (jobs.driver?.unansweredJobCount ?? 0) }

    /// A shutdown waits for what is unanswered, and no calls are taken.
    var isDraining: Bool { driver.isDraining }
}
