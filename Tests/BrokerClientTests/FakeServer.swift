import Broker
@testable import BrokerClient
import BrokerJSON
import BrokerWire
import Foundation
import Logging
import NIOCore
import NIOPosix

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
        options: BrokerClientConfiguration = .init(name: "tests")
    ) async throws -> (BrokerClient, FakeConnection) {
        let path = path
        async let client = BrokerClient.connect(
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
