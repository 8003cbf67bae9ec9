internal import BrokerCoordinator
internal import BrokerWire
internal import NIOCore

/// Cuts the bytes of one client into frames and admits them. Lives on the connection's event loop.
///
/// ```
/// reading ──input ends──────────────▶ finishing ──all answered──▶ closed
///    │ ├──refused, framing error───▶ finishing ──all answered──▶ lingering ──input ends, or a second──▶ closed
///    │ └──server stops──▶ draining ──▶ finishing ──all answered──▶ lingering
/// ```
///
/// - draining: what has been read is handled, and no more is read.
/// - finishing: no frame is taken; what is due is answered.
/// - lingering: the server's side is closed, and further bytes are dropped, so that a client in the middle of sending
///   can read how the connection ended.
///
/// Backpressure is by not reading: while too much is unanswered, or the coordinator has no room, or the client does not
/// take its answers, or others read large frames, bytes stay in the socket, so that order holds and nothing is refused.
final class FrameHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = Never
    typealias OutboundOut = ByteBuffer

    /// Bytes that a refused client may still send before the connection is cut: enough for any frame in progress.
    private static let thrownAwayBytes = 64 << 20
    /// Bytes handed to the channel at a time: enough to be worth a system call.
    private static let chunkBytes = 64 << 10

    enum Phase {
        case reading, draining, finishing, lingering, closed
    }

    let connections: ConnectionSet
    let peer: PeerCredentials
    /// Why the peer's user is not served; nil when it is.
    let refusalOfPeer: WireError?
    /// When bytes of the current large frame came last, and when its turn began.
    private(set) var lastReadAt = NIODeadline.now()
    private(set) var turnAt = NIODeadline.now()
    /// When the client last took bytes.
    private(set) var lastTakenAt = NIODeadline.now()

    private(set) var phase = Phase.reading
    private var assembler: FrameAssembler
    /// Bytes of the assembler that `connections` counts.
    private var countedBacklog = 0
    /// Frames admitted.
    private var admitted = 0
    /// Messages admitted and not finished.
    private var unanswered = 0
    /// A whole frame is there and has no room.
    private var isBlocked = false
    private var isWaitingForTurn = false
    private var isWaitingForRoom = false
    private var isReadPending = false
    private var isInputClosed = false
    private var throwsInputAway = false
    private var thrownAway = 0
    private var outgoing = OutgoingFrames()
    private var lingerTimer: Scheduled<Void>?
    private(set) var context: ChannelHandlerContext?
    private(set) var connection: Connection?

    init(_ connections: ConnectionSet, peer: PeerCredentials, refusal: WireError?) {
        self.connections = connections
        self.peer = peer
        refusalOfPeer = refusal
        assembler = FrameAssembler(limits: connections.options.frameLimits)
        connections.count(handlers: 1)
    }

    deinit { connections.count(handlers: -1) }

    // MARK: - Life

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        connection = connections.connection(of: self, context.eventLoop)
    }

    func handlerRemoved(context: ChannelHandlerContext) { end() }

    func channelActive(context: ChannelHandlerContext) {
        if let refusal = connections.add(self) { refuse(refusal, isOfFrame: false) }
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        end()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // A client that leaves in the middle is not worth a line; its jobs take effect all the same.
        context.close(promise: nil)
    }

    /// Nothing of the connection stays, however long its jobs take.
    private func end() {
        guard phase != .closed else { return }
        phase = .closed
        lingerTimer?.cancel()
        lingerTimer = nil
        assembler.clear()
        outgoing = OutgoingFrames()
        countBacklog()
        connections.remove(self)
        connection?.close()
        connection = nil
        context = nil
    }

    /// Takes no more frames, after one `error`.
    ///
    /// - Parameter isOfFrame: the current frame is at fault; otherwise the error is about the connection.
    func refuse(_ error: WireError, isOfFrame: Bool = true) {
        guard phase == .reading || phase == .draining else { return }
        let frame = isOfFrame ? FrameReference(ordinal: admitted + 1) : nil
        connection?.send(error, about: frame, finishing: false)
        breakOff(error)
    }

    /// Takes no more frames; the `error` with the reason is being sent.
    func breakOff(_ error: WireError) {
        guard phase == .reading || phase == .draining else { return closeIfDone() }
        connections.logEnd(of: self, error)
        finish(throwingAway: true)
    }

    private func finish(throwingAway: Bool) {
        phase = .finishing
        throwsInputAway = throwingAway
        isBlocked = false
        assembler.clear()
        countBacklog()
        leaveTurn()
        readIfWanted()
        closeIfDone()
    }

    /// The server stops: what has been read is handled, and no more is read.
    func drain() {
        guard phase == .reading else { return }
        phase = .draining
        process()
        closeIfDone()
    }

    /// Ends the connection, whatever is due.
    func cutOff(_ reason: String) {
        guard let context, let connection else { return }
        var metadata = peer.metadata
        metadata["bytes"] = "\(connection.bytes)"
        connections.log.log(
            .warning, .cutOff,
            "A client was cut off: \(reason). Its jobs take effect, and `await` tells how they ended.",
            metadata)
        context.close(promise: nil)
    }

    /// Ends the connection as soon as everything is answered and written.
    private func closeIfDone() {
        guard phase == .finishing, unanswered == 0, connection?.isEmpty == true, let context else { return }
        if isInputClosed || connections.hasNoPlaceToLinger(self) {
            context.close(promise: nil)
            return
        }
        phase = .lingering
        context.close(mode: .output, promise: nil)
        let handler = NIOLoopBound(self, eventLoop: context.eventLoop)
        lingerTimer = context.eventLoop.scheduleTask(in: connections.options.linger) {
            handler.value.context?.close(promise: nil)
        }
        readIfWanted()
    }

    // MARK: - Reading

    func read(context: ChannelHandlerContext) {
        isReadPending = true
        readIfWanted()
    }

    /// Reads when a read is pending and possible. A pending read that is impossible waits for room, because no other event
    /// may follow that would start it.
    private func readIfWanted() {
        guard isReadPending, let context else { return }
        guard mayRead else {
            if phase == .reading, !isBlocked, !isWaitingForTurn { waitForRoom() }
            return
        }
        isReadPending = false
        context.read()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = unwrapInboundIn(data)
        guard phase == .reading || phase == .draining else {
            thrownAway += bytes.readableBytes
            if thrownAway > Self.thrownAwayBytes { context.close(promise: nil) }
            return
        }
        lastReadAt = .now()
        assembler.append(bytes)
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
        write()
        resume()
        context.fireChannelWritabilityChanged()
    }

    private var mayRead: Bool {
        switch phase {
        case .reading: assembler.isAssembling || !(isBlocked || isWaitingForTurn) && mayAdmit(contentBytesAtMost: 0)
        case .finishing: throwsInputAway
        case .lingering: true
        case .draining, .closed: false
        }
    }

    /// Whether another message may be admitted. A connection with nothing unanswered may always send a small one, so
    /// that `stats` is answered whatever the others do; but the server does not read from a client that leaves much
    /// unread.
    private func mayAdmit(contentBytesAtMost most: Int) -> Bool {
        guard leavesLittleUnread else { return false }
        if unanswered == 0, most <= CoordinatorLimits.smallContentBytes { return true }
        return unanswered < connections.options.jobsPerConnection && hasRoom
            && (unanswered == 0 || connections.answers.hasRoom(peer.process))
    }

    private var hasRoom: Bool { connection.map { connections.coordinator.hasRoom(for: $0.source) } ?? false }
    private var leavesLittleUnread: Bool { connection.map { $0.bytes < Connection.readAheadBytes } ?? false }

    /// Admits the whole frames that have arrived, as far as there is room.
    private func process() {
        isBlocked = false
        while phase == .reading || phase == .draining {
            do throws(WireError) {
                switch try assembler.next() {
                case .frame(let most):
                    guard mayAdmit(contentBytesAtMost: most) else {
                        isBlocked = true
                        countBacklog()
                        return waitForRoom()
                    }
                    admit(contentBytesAtMost: most)
                case .large(let totalCount):
                    guard !isInputClosed, phase == .reading else { return try endInput(totalCount) }
                    guard !isWaitingForTurn else { return countBacklog() }
                    guard connections.askForTurn(self, totalCount) else {
                        isWaitingForTurn = true
                        return countBacklog()
                    }
                    beginLarge()
                case .incomplete(let totalCount):
                    if isInputClosed || phase == .draining { return try endInput(totalCount) }
                    return countBacklog()
                }
            } catch {
                refuse(error)
            }
        }
    }

    /// No more bytes will come.
    private func endInput(_ totalCount: Int?) throws(WireError) {
        if isInputClosed, let error = FrameScanner.endOfStream(assembler.unfinishedCount, totalCount: totalCount) {
            throw error
        }
        finish(throwingAway: false)
    }

    private func admit(contentBytesAtMost most: Int) {
        guard let connection else { return }
        let payload = assembler.take()
        leaveTurn()
        unanswered += 1
        admitted += 1
        let ordinal = admitted
        connections.coordinator.admit(
            from: connection.source, payloadBytes: payload.count, contentBytesAtMost: most,
            mayOpenHere: true, payload: { payload },
            open: { [messages = connections.messages] memory in
                payload.withUnsafeBytes { messages.open($0, ordinal, memory, from: connection) }
            },
            refuse: { [messages = connections.messages] message in
                payload.withUnsafeBytes { messages.refuseTooLarge($0, ordinal, message, on: connection) }
            })
    }

    private func waitForRoom() {
        guard !isWaitingForRoom, let connection, leavesLittleUnread,
            unanswered < connections.options.jobsPerConnection
        else { return }
        isWaitingForRoom = true
        let tell: @Sendable () -> Void = { [weak connection] in connection?.onHandler { $0.roomAppeared() } }
        if unanswered > 0, hasRoom {
            connections.answers.whenRoom(for: ObjectIdentifier(self), of: peer.process, tell)
            connections.watch()
        } else {
            connections.coordinator.whenRoom(for: connection.source, tell)
        }
    }

    private func roomAppeared() {
        isWaitingForRoom = false
        resume()
    }

    /// Goes on after a lack of room.
    private func resume() {
        process()
        readIfWanted()
    }

    // MARK: - Large frames

    /// It is this connection's turn to read a large frame.
    func turnCame() {
        guard isWaitingForTurn else { return connections.leaveTurn(self) }
        isWaitingForTurn = false
        guard phase == .reading else { return connections.leaveTurn(self) }
        beginLarge()
        resume()
    }

    private func beginLarge() {
        assembler.beginLarge()
        countBacklog()
        turnAt = .now()
        lastReadAt = turnAt
    }

    private func leaveTurn() {
        isWaitingForTurn = false
        connections.leaveTurn(self)
    }

    /// The frame whose turn it is gets no bytes, and others wait.
    func isHoldingUp(stalledSince: NIODeadline, begunBefore: NIODeadline) -> Bool {
        assembler.isAssembling && (lastReadAt < stalledSince || turnAt < begunBefore)
    }

    private func countBacklog() {
        let backlog = max(0, assembler.backlog - 2 * FrameAssembler.freeByteCount)
        let isOver = connections.count(backlog: backlog - countedBacklog)
        countedBacklog = backlog
        if isOver, backlog > 0 { refuse(.noRoomForFrames) }
    }

    // MARK: - Writing

    /// Takes the frames that gathered, and writes them as far as the client reads.
    func flush() {
        guard let connection else { return }
        let (frames, finished) = connection.takeFrames()
        if outgoing.isEmpty { lastTakenAt = .now() }
        outgoing.append(contentsOf: frames)
        unanswered -= finished
        write()
        resume()
        closeIfDone()
    }

    private func write() {
        while let context, let connection, !outgoing.isEmpty, context.channel.isWritable {
            let chunk = outgoing.takeChunk(of: Self.chunkBytes, context.channel.allocator)
            let count = chunk.readableBytes
            context.writeAndFlush(wrapOutboundOut(chunk)).assumeIsolated().whenComplete { _ in
                self.lastTakenAt = .now()
                connection.wrote(count)
                if self.isBlocked { self.resume() }
                self.closeIfDone()
            }
        }
    }
}

extension WireError {
    fileprivate static var noRoomForFrames: WireError {
        .busy("Too much is waiting to be read from all connections. Send again when answers have come.")
    }
}
