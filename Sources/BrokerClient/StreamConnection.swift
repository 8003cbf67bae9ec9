internal import Broker
internal import BrokerJSON
internal import BrokerWire
internal import NIOCore
internal import NIOPosix

#if canImport(Glibc)
internal import Glibc
#else
internal import Darwin
#endif

/// A connection of its own for one streamed fetch, one copy of the store, or one feed. It is read only as far as answers are wanted, so
/// a slow reader stops the server and takes no memory here, and closing it ends the fetch, the copy or the feed.
final class StreamConnection: Sendable {
    let channel: any Channel
    private let handler: NIOLoopBound<StreamHandler>
    private let ended: @Sendable () -> Void

    private init(
        _ channel: any Channel, _ handler: NIOLoopBound<StreamHandler>, ended: @escaping @Sendable () -> Void
    ) {
        self.channel = channel
        self.handler = handler
        self.ended = ended
    }

    /// Connects and sends the frames.
    ///
    /// - Parameters:
    ///   - frames: of the greeting and of the fetch.
    ///   - answerTime: the maximum time without a byte of a wanted answer; nil for no limit.
    ///   - ended: called when the connection is of no more use.
    /// - Throws: ``/Broker/BrokerError/Code/cannotConnect``
    static func open(
        _ dialing: Dialing, path: String, on eventLoop: any EventLoop, sending frames: [UInt8], limits: FrameLimits,
        answerTime: TimeAmount?, ended: @escaping @Sendable () -> Void
    ) async throws -> StreamConnection {
        let handler = NIOLoopBoundBox.makeBoxSendingValue(
            StreamHandler(limits, answerTime: answerTime), eventLoop: eventLoop)
        let bootstrap = ClientBootstrap(group: eventLoop)
            .channelOption(.autoRead, value: false)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(handler.value) }
            }
        do {
            let channel = try await dialing.connect(bootstrap, on: eventLoop).get()
            channel.writeAndFlush(channel.allocator.buffer(bytes: frames), promise: nil)
            let bound = try await eventLoop.submit { NIOLoopBound(handler.value, eventLoop: eventLoop) }.get()
            return StreamConnection(channel, bound, ended: ended)
        } catch {
            throw BrokerError.cannotConnect(path: path, reason: ConnectionReason.describe(error))
        }
    }

    deinit {
        channel.close(promise: nil)
        ended()
    }

    /// The next message; one call at a time. Cancelling the task ends the connection.
    ///
    /// - Parameter isPrompt: it is an answer, for which the configuration limits the time.
    /// - Throws: ``/Broker/BrokerError/Code/connectionLost``, or `CancellationError`.
    func next(isPrompt: Bool = true) async throws -> ServerEnvelope {
        try await withTaskCancellationHandler {
            let envelope = try await channel.eventLoop.flatSubmit {
                self.handler.value.next(on: self.channel.eventLoop, isPrompt: isPrompt)
            }.get()
            guard let envelope else {
                try Task.checkCancellation()
                throw BrokerError.connectionLost("the server closed the connection")
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
    private let limits: FrameLimits
    private var decoder: FrameDecoder
    private var context: ChannelHandlerContext?
    private var waiting: EventLoopPromise<ServerEnvelope?>?
    private var isClosed = false
    private let answerTime: TimeAmount?
    private var isPrompt = true
    private var timer: Scheduled<Void>?

    init(_ limits: FrameLimits, answerTime: TimeAmount?) {
        self.limits = limits
        decoder = FrameDecoder(limits: limits)
        self.answerTime = answerTime
    }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    /// Nil when the connection is closed, which may have happened before the call.
    ///
    /// - Parameters:
    ///   - eventLoop: the connection's.
    ///   - isPrompt: the time without a byte of it is limited.
    func next(on eventLoop: any EventLoop, isPrompt: Bool) -> EventLoopFuture<ServerEnvelope?> {
        let promise = eventLoop.makePromise(of: ServerEnvelope?.self)
        waiting = promise
        self.isPrompt = isPrompt
        watchSilence()
        deliver()
        return promise.futureResult
    }

    /// Ends the connection when no byte of the wanted answer comes in time.
    private func watchSilence() {
        timer?.cancel()
        guard let answerTime, isPrompt, waiting != nil, let context else { return }
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        timer = context.eventLoop.scheduleTask(in: answerTime) { bound.value.endSilence() }
    }

    private func endSilence() {
        guard let answerTime, let promise = waiting else { return }
        waiting = nil
        let milliseconds = answerTime.nanoseconds / 1_000_000
        promise.fail(BrokerError.connectionLost("the server has sent no answer for \(milliseconds) ms"))
        context?.close(promise: nil)
    }

    /// Fulfils the promise that waits, or reads more for it.
    private func deliver() {
        guard let promise = waiting else { return }
        defer { if waiting == nil { timer?.cancel() } }
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

    /// The next message that is not the welcome.
    private func takeMessage() throws -> ServerEnvelope? {
        while let envelope = try cutMessage() {
            if case .welcome = envelope.message { continue }
            return envelope
        }
        return nil
    }

    private func cutMessage() throws -> ServerEnvelope? {
        var count = 0
        let envelope: ServerEnvelope? = try received.withUnsafeReadableBytes { bytes in
            guard case .frame(let payload) = try FrameScanner.scan(bytes, limits: limits) else { return nil }
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
        watchSilence()
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

/// Converts one connection's bytes into messages for the session. Runs on the connection's event loop.
final class ConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let connection: Int
    private let driver: SessionDriver
    private var decoder: FrameDecoder
    private var received: ByteBuffer?
    /// The time at which the incomplete frame began to arrive; nil when there is none.
    private var frameBegin: NIODeadline?
    private var frameTimer: Scheduled<Void>?
    private var lossReason: String?
    /// The received bytes cannot be read, so none of the following can.
    private var isBroken = false

    init(connection: Int, driver: SessionDriver) {
        self.connection = connection
        self.driver = driver
        decoder = FrameDecoder(limits: driver.frameLimits)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isBroken else { return }
        var arrived = unwrapInboundIn(data)
        if received == nil { received = arrived } else { received?.writeBuffer(&arrived) }
        let arrivals = takeArrivals()
        if !arrivals.isEmpty {
            frameBegin = nil
            driver.received(arrivals, on: connection)
        }
        watchFrame(on: context.eventLoop)
    }

    /// Ends the connection when a frame stays incomplete for too long. One timer at a time, however many frames the
    /// socket divides.
    private func watchFrame(on eventLoop: any EventLoop) {
        guard received != nil else { return frameBegin = nil }
        let begin = frameBegin ?? eventLoop.now
        frameBegin = begin
        guard frameTimer == nil else { return }
        frameTimer = eventLoop.assumeIsolated().scheduleTask(deadline: begin + driver.frameTime) { [self] in
            frameTimer = nil
            guard let frameBegin, frameBegin + driver.frameTime <= eventLoop.now else {
                return watchFrame(on: eventLoop)
            }
            driver.lost(connection, reason: "the server sent the beginning of a frame, and not its end in time")
        }
    }

    /// Takes all whole frames off what was received.
    private func takeArrivals() -> [Arrival] {
        guard var buffer = received else { return [] }
        // Not two owners while the index moves, or the bytes would be copied.
        received = nil
        var arrivals: [Arrival] = []
        let count = buffer.withUnsafeReadableBytes { bytes in
            var rest = bytes
            do throws(WireError) {
                while case .frame(let payload) = try FrameScanner.scan(rest, limits: driver.frameLimits) {
                    arrivals.append(try arrival(UnsafeRawBufferPointer(rebasing: rest[payload])))
                    rest = UnsafeRawBufferPointer(rebasing: rest[payload.upperBound...])
                }
            } catch {
                isBroken = true
                arrivals.append(.unreadable(error))
            }
            return bytes.count - rest.count
        }
        guard !isBroken else { return arrivals }
        buffer.moveReaderIndex(forwardBy: count)
        if buffer.readableBytes > 0 { received = buffer }
        return arrivals
    }

    private func arrival(_ payload: UnsafeRawBufferPointer) throws(WireError) -> Arrival {
        if let content = StoredFrame.content(of: payload) {
            if let completion = Completion(plainly: content) { return .completion(completion) }
            return .message(try ServerEnvelope.decode(parsing: JSONText(copying: content)))
        }
        let text = try decoder.decode(payload)
        // The bytes are the text's.
        let completion = withExtendedLifetime(text) { Completion(plainly: text.bytes) }
        if let completion { return .completion(completion) }
        return .message(try ServerEnvelope.decode(parsing: text))
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        lossReason = ConnectionReason.describe(error)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        frameTimer?.cancel()
        driver.lost(connection, reason: lossReason ?? "the server closed the connection")
        context.fireChannelInactive()
    }
}

/// Why a connection could not be made or was lost, in words.
enum ConnectionReason {
    static func describe(_ error: any Error) -> String {
        guard let error = error as? IOError else { return "\(error)" }
        return switch error.errnoCode {
        case ENOENT: "there is no such socket; start brokerd, or check the path"
        case ECONNREFUSED: "no server listens on it; start brokerd"
        case EACCES, EPERM: "this user may not open the socket"
        case ENOTSOCK, EPROTOTYPE: "it is not a stream socket"
        case ECONNRESET, EPIPE: "the server closed the connection"
        default: error.description
        }
    }
}
