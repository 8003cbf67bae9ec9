internal import BrokerCoordinator
internal import BrokerWire
internal import NIOCore

/// Cuts what a client sends into frames and admits them, one connection's worth. Lives on its event loop.
///
/// ```
/// reading ──input ends──▶ finishing ──all answered──▶ closed
///    └─────framing error──▶ refusing ──all answered──▶ output closed, input thrown away ──it ends──▶ closed
/// ```
///
/// Backpressure is by not reading: while too much is unanswered, or the coordinator has no room, or the client does not
/// take its answers, bytes stay in the socket, so that order holds and nothing is refused.
final class FrameHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = Never
    typealias OutboundOut = ByteBuffer

    /// What a refused client may still send before the connection is cut: enough for any frame it was in the middle of.
    private static let thrownAwayBytes = 64 << 20

    private enum Phase {
        case reading
        case finishing
        case refusing
        case closed
    }

    private let coordinator: Coordinator
    private let messages: MessageHandler
    private let codecs: FrameCodecs
    private let limits: FrameLimits
    private let jobsInFlight: Int
    /// Why the client is not served at all.
    private let refusal: WireError?
    private let onClose: () -> Void

    private var phase = Phase.reading
    private var unread = ByteBuffer()
    /// Messages admitted and not finished.
    private var unanswered = 0
    private var isReadPending = false
    private var isWaitingForRoom = false
    private var isInputClosed = false
    private var thrownAway = 0
    private var context: ChannelHandlerContext?
    private var connection: Connection?

    init(
        _ coordinator: Coordinator, _ messages: MessageHandler, _ codecs: FrameCodecs, _ options: ServerOptions,
        refusal: WireError?, onClose: @escaping () -> Void
    ) {
        self.refusal = refusal
        self.coordinator = coordinator
        self.messages = messages
        self.codecs = codecs
        limits = options.frameLimits
        jobsInFlight = options.jobsPerConnection
        self.onClose = onClose
    }

    // MARK: - Life

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        let handler = NIOLoopBound(self, eventLoop: context.eventLoop)
        connection = Connection(on: context.eventLoop, codecs: codecs) { frames, finished in
            handler.value.deliver(frames, finished)
        }
    }

    func channelActive(context: ChannelHandlerContext) {
        if let refusal { refuse(refusal) }
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        phase = .closed
        self.context = nil
        onClose()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // A client that goes away in the middle is nothing to report; its jobs take effect all the same.
        context.close(promise: nil)
    }

    /// Refuses the client with one `error`.
    private func refuse(_ error: WireError) {
        guard phase == .reading else { return }
        phase = .refusing
        unread.clear()
        send(codecs.encode(error.encoded()))
        closeIfDone()
    }

    /// The server stops: what has not been read will not be.
    func stopReading() {
        if phase == .reading { phase = .finishing }
    }

    /// Closes once everything written before has left.
    func closeAfterWriting() {
        guard let context else { return }
        phase = .closed
        let channel = context.channel
        context.writeAndFlush(wrapOutboundOut(ByteBuffer())).whenComplete { _ in channel.close(promise: nil) }
    }

    // MARK: - Reading

    func read(context: ChannelHandlerContext) {
        if mayRead { context.read() } else { isReadPending = true }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        guard phase == .reading else {
            thrownAway += bytes.readableBytes
            if thrownAway > Self.thrownAwayBytes { context.close(promise: nil) }
            return
        }
        if unread.readableBytes == 0 {
            unread = bytes
        } else {
            // What was cut off before is still read by workers, so it stays where it is and only the rest moves on.
            if unread.readerIndex > 0 { unread = unread.slice() }
            unread.writeBuffer(&bytes)
        }
        process()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .inputClosed? = event as? ChannelEvent {
            isInputClosed = true
            process()
            closeIfDone()
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        resume()
        context.fireChannelWritabilityChanged()
    }

    /// Whether another message may be admitted. A connection that has nothing unanswered always may send a small one, so
    /// that `stats` is answered whatever the others do.
    private var mayAdmit: Bool { takesAnswers && (unanswered == 0 || coordinator.hasRoom) }

    /// The client reads what it is told. When it does so again, ``resume()`` is called.
    private var takesAnswers: Bool {
        guard let context else { return false }
        return context.channel.isWritable && unanswered < jobsInFlight
    }

    private var mayRead: Bool {
        switch phase {
        case .reading: mayAdmit
        // To see the end of what is thrown away.
        case .refusing: true
        case .finishing, .closed: false
        }
    }

    /// Admits the whole frames that are there, as far as there is room.
    private func process() {
        while phase == .reading {
            do throws(WireError) {
                let readable = unread.readableBytesView
                let scan = try readable.withUnsafeBytes { bytes throws(WireError) in
                    try FrameScanner.scan(bytes, limits: limits)
                }
                switch scan {
                case .frame(let payload):
                    let most = readable.withUnsafeBytes { bytes in
                        FrameDecoder.contentBytesAtMost(UnsafeRawBufferPointer(rebasing: bytes[payload]), limits)
                    }
                    guard takesAnswers else { return }
                    let isSmall = unanswered == 0 && most <= CoordinatorLimits.smallContentBytes
                    guard isSmall || coordinator.hasRoom else { return waitForRoom() }
                    admit(payload, contentBytesAtMost: most)
                case .incomplete(let totalCount):
                    guard isInputClosed else { return }
                    if let error = FrameScanner.endOfStream(unread.readableBytes, totalCount: totalCount) {
                        throw error
                    }
                    phase = .finishing
                }
            } catch {
                refuse(error)
            }
        }
    }

    private func admit(_ payload: Range<Int>, contentBytesAtMost most: Int) {
        guard let connection, let context else { return }
        unread.moveReaderIndex(forwardBy: payload.lowerBound)
        guard let bytes = unread.readSlice(length: payload.count) else { return }
        unanswered += 1
        let handler = NIOLoopBound(self, eventLoop: context.eventLoop)
        let eventLoop = context.eventLoop
        let breakOff: @Sendable () -> Void = { eventLoop.execute { handler.value.breakOff() } }
        coordinator.admit(
            from: Int(bitPattern: ObjectIdentifier(connection)), payloadBytes: payload.count,
            contentBytesAtMost: most,
            open: { [messages] memory in
                bytes.withUnsafeReadableBytes { payload in
                    messages.open(payload, memory, from: connection, breakOff: breakOff)
                }
            },
            refuse: { [messages] message in
                messages.refuse(WireError(.contentTooLarge, message), on: connection, breakOff: breakOff)
            })
    }

    /// A frame that was read turned out to end the connection; its `error` is on its way.
    private func breakOff() {
        guard phase == .reading || phase == .finishing else { return }
        phase = .refusing
        unread.clear()
        closeIfDone()
    }

    private func waitForRoom() {
        guard !isWaitingForRoom, let context else { return }
        isWaitingForRoom = true
        let handler = NIOLoopBound(self, eventLoop: context.eventLoop)
        let eventLoop = context.eventLoop
        coordinator.whenRoom {
            eventLoop.execute {
                handler.value.isWaitingForRoom = false
                handler.value.resume()
            }
        }
    }

    private func resume() {
        process()
        guard isReadPending, mayRead else {
            if isReadPending, takesAnswers, !coordinator.hasRoom { waitForRoom() }
            return
        }
        isReadPending = false
        context?.read()
    }

    // MARK: - Answering

    private func deliver(_ frames: [[UInt8]], _ finished: Int) {
        if let context, !frames.isEmpty {
            var buffer = context.channel.allocator.buffer(capacity: frames.reduce(0) { $0 + $1.count })
            for frame in frames { buffer.writeBytes(frame) }
            context.writeAndFlush(wrapOutboundOut(buffer), promise: nil)
        }
        unanswered -= finished
        resume()
        closeIfDone()
    }

    private func send(_ frame: [UInt8]) {
        guard let context else { return }
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: frame)), promise: nil)
    }

    /// Closes when everything is answered: all at once after the client's own end, only our side after a refusal, so
    /// that a client in the middle of sending gets to read why.
    private func closeIfDone() {
        guard unanswered == 0, let context else { return }
        switch phase {
        case .reading, .closed: return
        case .finishing:
            guard isInputClosed else { return }
            closeAfterWriting()
        case .refusing:
            if isInputClosed { return closeAfterWriting() }
            context.close(mode: .output, promise: nil)
            if isReadPending {
                isReadPending = false
                context.read()
            }
        }
    }
}
