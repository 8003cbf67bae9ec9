internal import Broker
internal import BrokerJSON
internal import BrokerRequests
internal import BrokerWire
internal import NIOCore
internal import NIOPosix

/// A connection of its own for one streamed fetch: it is read only as far as answers are wanted, so a slow reader stops the
/// server and takes no memory here, and closing it ends the fetch.
final class StreamConnection: Sendable {
    private let channel: any Channel
    private let handler: NIOLoopBound<StreamHandler>

    private init(_ channel: any Channel, _ handler: NIOLoopBound<StreamHandler>) {
        self.channel = channel
        self.handler = handler
    }

    /// Connects and sends the message.
    ///
    /// - Throws: ``/Broker/BrokerError/Code/cannotConnect``
    static func open(
        _ dialing: Dialing, path: String, on eventLoop: any EventLoop, sending frame: [UInt8]
    ) async throws -> StreamConnection {
        let handler = NIOLoopBoundBox.makeBoxSendingValue(StreamHandler(), eventLoop: eventLoop)
        let bootstrap = ClientBootstrap(group: eventLoop)
            .channelOption(.autoRead, value: false)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(handler.value) }
            }
        do {
            let channel = try await dialing.connect(bootstrap, on: eventLoop).get()
            channel.writeAndFlush(channel.allocator.buffer(bytes: frame), promise: nil)
            let bound = try await eventLoop.submit { NIOLoopBound(handler.value, eventLoop: eventLoop) }.get()
            return StreamConnection(channel, bound)
        } catch {
            throw BrokerError.cannotConnect(path: path, reason: ConnectionReason.describe(error))
        }
    }

    deinit { channel.close(promise: nil) }

    /// The next message; one call at a time. Cancelling the task ends the connection.
    ///
    /// - Throws: ``/Broker/BrokerError/Code/connectionLost``, or `CancellationError`.
    func next() async throws -> ServerEnvelope {
        try await withTaskCancellationHandler {
            let envelope = try await channel.eventLoop.flatSubmit { self.handler.value.next() }.get()
            guard let envelope else {
                try Task.checkCancellation()
                throw BrokerError.connectionLost("the server closed the connection of a fetch")
            }
            return envelope
        } onCancel: {
            channel.close(promise: nil)
        }
    }
}

/// Cuts the bytes into messages, one for each that is wanted. Runs on the connection's event loop.
private final class StreamHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private var received = ByteBuffer()
    private var decoder = FrameDecoder()
    private var context: ChannelHandlerContext?
    private var waiting: EventLoopPromise<ServerEnvelope?>?
    private var isClosed = false

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    /// Nil when the connection is closed.
    func next() -> EventLoopFuture<ServerEnvelope?> {
        guard let context else { preconditionFailure("the handler is added before it is used") }
        let promise = context.eventLoop.makePromise(of: ServerEnvelope?.self)
        waiting = promise
        deliver()
        return promise.futureResult
    }

    /// Fulfils the promise that waits, or reads more for it.
    private func deliver() {
        guard let promise = waiting else { return }
        do {
            if let envelope = try takeMessage() {
                waiting = nil
                promise.succeed(envelope)
            } else if isClosed {
                waiting = nil
                promise.succeed(nil)
            } else {
                context?.read()
            }
        } catch {
            waiting = nil
            promise.fail(BrokerError.protocolViolation("\(error)"))
            context?.close(promise: nil)
        }
    }

    private func takeMessage() throws -> ServerEnvelope? {
        var count = 0
        let envelope: ServerEnvelope? = try received.withUnsafeReadableBytes { bytes in
            guard case .frame(let payload) = try FrameScanner.scan(bytes) else { return nil }
            count = payload.upperBound
            let text = try decoder.decode(UnsafeRawBufferPointer(rebasing: bytes[payload]))
            return try ServerEnvelope.decode(parsing: text)
        }
        received.moveReaderIndex(forwardBy: count)
        received.discardReadBytes()
        return envelope
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        received.writeImmutableBuffer(unwrapInboundIn(data))
    }

    func channelReadComplete(context: ChannelHandlerContext) { deliver() }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func channelInactive(context: ChannelHandlerContext) {
        isClosed = true
        deliver()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        isClosed = true
        deliver()
        self.context = nil
    }
}
