internal import BrokerCoordinator
internal import BrokerJSON
internal import BrokerMessages
internal import BrokerWire
internal import DequeModule
internal import NIOCore

/// Reads the frames of one client and writes its answers: performs what its ``ConnectionState`` decides. Lives on the
/// connection's event loop.
final class FrameHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = Never
    typealias OutboundOut = ByteBuffer

    /// Bytes handed to the channel at a time: enough to be worth a system call.
    private static let chunkBytes = 64 << 10

    let connections: ConnectionSet
    let peer: PeerCredentials
    /// The peer's role when it connected; nil for one that is not served.
    private let role: ClientRole?
    /// Its place in the order of the connections that were served since the start; nil for one that is refused.
    var number: Int?
    private(set) var receivedBytes = 0
    /// When bytes of the current large frame came last, and when its turn began.
    private var lastReadAt = NIODeadline.now()
    private var turnAt = NIODeadline.now()
    /// When the client last took bytes.
    private(set) var lastTakenAt = NIODeadline.now()

    private var state: ConnectionState
    /// Bytes of the state's backlog that `connections` counts.
    private var countedBacklog = 0
    private var outgoing = OutgoingFrames()
    /// Ends the connection if the client sends nothing at first, or goes on sending at the end.
    private var timer: Scheduled<Void>?
    private(set) var context: ChannelHandlerContext?
    private(set) var connection: Connection?

    init(_ connections: ConnectionSet, peer: PeerCredentials, role: ClientRole?) {
        self.connections = connections
        self.peer = peer
        self.role = role
        state = ConnectionState(
            limits: connections.options.frameLimits, messageLimit: connections.options.jobsPerConnection)
        connections.messages.connectionCount.add(1, ordering: .relaxed)
    }

    deinit { connections.messages.connectionCount.subtract(1, ordering: .relaxed) }

    // MARK: - Life

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        connection = Connection(self, as: role ?? .read, on: context.eventLoop)
    }

    func handlerRemoved(context: ChannelHandlerContext) { end() }

    func channelActive(context: ChannelHandlerContext) {
        if let refusal = connections.add(self) {
            refuse(refusal, about: nil)
        } else {
            let handler = NIOLoopBound(self, eventLoop: context.eventLoop)
            timer = context.eventLoop.scheduleTask(in: connections.options.silence) {
                handler.value.refuse(.silence(handler.value.connections.options.silence), about: nil)
            }
        }
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
        guard let connection else { return }
        state.closed()
        endTimer()
        outgoing = OutgoingFrames()
        countBacklog()
        connections.remove(self)
        connection.close()
        self.connection = nil
        context = nil
    }

    private func endTimer() {
        timer?.cancel()
        timer = nil
    }

    var isAllowed: Bool { role != nil }

    /// The users that may connect, or their limits, have changed.
    func use(_ users: UserRules) {
        guard let context, let connection else { return }
        let peer = try? Peer(of: context.channel, wantsGroups: !users.allowedGroups.isEmpty)
        if let role = peer.flatMap(users.role) {
            connection.role = role
            roomAppeared()
        } else {
            let refusal = UserRules.refusal(of: self.peer)
            connection.send(refusal, about: nil, finishing: false)
            flush()
            connections.logEnd(of: self, refusal)
            context.close(promise: nil)
        }
    }

    /// The option with the user's limit because of which the server does not read from this client now.
    var limit: String? {
        switch state.awaited {
        case .ofRate: "user-jobs-per-second"
        case .ofCoordinator where !connections.coordinator.hasRoom(ofUser: peer.user): "user-bytes-in-flight"
        case .ofCoordinator, .ofAnswers, nil: nil
        }
    }

    /// Takes no more frames, after one `error`.
    ///
    /// - Parameter frame: the frame at fault; nil when the error is about the connection.
    private func refuse(_ error: WireError, about frame: FrameReference?) {
        guard state.takesFrames else { return }
        connection?.send(error, about: frame, finishing: false)
        breakOff(error)
    }

    /// The client's current large frame gets no bytes, and others wait.
    func refuseStalled(_ error: WireError) { refuse(error, about: FrameReference(ordinal: state.admitted + 1)) }

    /// Takes no more frames; the `error` with the reason is being sent.
    func breakOff(_ error: WireError) {
        if state.breakOff() { connections.logEnd(of: self, error) }
        advance()
    }

    /// The server stops: it handles what it has read, and reads no more.
    func drain() {
        state.drain()
        advance()
    }

    /// Ends the connection, whatever is unanswered.
    func cutOff(_ reason: String) {
        guard let context, let connection else { return }
        var metadata = peer.metadata
        metadata["bytes"] = "\(connection.bytes)"
        connections.log.log(
            .warning, .cutOff,
            "A client was cut off: \(reason). Its jobs take effect, and `await` returns their outcomes.",
            metadata)
        context.close(promise: nil)
    }

    // MARK: - Events

    func read(context: ChannelHandlerContext) {
        state.readRequested()
        advance()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        lastReadAt = .now()
        // A client that lingers is cut all the same.
        if receivedBytes == 0, state.takesFrames { endTimer() }
        let bytes = unwrapInboundIn(data)
        receivedBytes += bytes.readableBytes
        state.received(bytes)
        advance()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .inputClosed? = event as? ChannelEvent {
            state.inputClosed()
            advance()
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        write()
        advance()
        context.fireChannelWritabilityChanged()
    }

    /// It is this connection's turn to read a large frame.
    func turnCame() {
        state.turnCame()
        turnAt = .now()
        lastReadAt = turnAt
        advance()
    }

    private func roomAppeared() {
        state.roomAppeared()
        advance()
    }

    /// The frame whose turn it is gets no bytes, and others wait.
    func isHoldingUp(stalledSince: NIODeadline, begunBefore: NIODeadline) -> Bool {
        state.assembler.isAssembling && (lastReadAt < stalledSince || turnAt < begunBefore)
    }

    // MARK: - Actions

    /// Performs the actions that are possible now.
    private func advance() {
        while connection != nil, let action = state.next(self) { perform(action) }
        countBacklog()
    }

    private func perform(_ action: ConnectionState.Action) {
        switch action {
        case .admit(let bytes, let ordinal, let most): admit(bytes, ordinal, contentBytesAtMost: most)
        case .askForTurn(let totalCount): if connections.askForTurn(self, totalCount) { turnCame() }
        case .leaveTurn: connections.leaveTurn(self)
        case .waitForRoom(let room): wait(for: room)
        case .read: context?.read()
        case .refuse(let error, let ordinal):
            connection?.send(error, about: FrameReference(ordinal: ordinal), finishing: false)
            connections.logEnd(of: self, error)
        case .closeOutput: closeOutput()
        case .close: context?.close(promise: nil)
        }
    }

    private func admit(_ bytes: FrameBytes, _ ordinal: Int, contentBytesAtMost most: Int) {
        guard let connection else { return }
        connections.coordinator.admit(
            ArrivedFrame(bytes: bytes, ordinal: ordinal, connection: connection, messages: connections.messages),
            from: connection.source, of: peer.user, payloadBytes: bytes.payloadCount, contentBytesAtMost: most)
    }

    private func wait(for room: ConnectionState.Room) {
        guard let connection else { return }
        let wakeUp: @Sendable () -> Void = { [weak connection] in connection?.onHandler { $0.roomAppeared() } }
        switch room {
        case .ofAnswers:
            connections.answers.whenRoom(for: ObjectIdentifier(self), of: peer.process, wakeUp)
            connections.watch()
        case .ofCoordinator: connections.coordinator.whenRoom(for: connection.source, of: peer.user, wakeUp)
        case .ofRate: connection.later(pause ?? .zero, wakeUp)
        }
    }

    private func closeOutput() {
        guard let context else { return }
        context.close(mode: .output, promise: nil)
        let handler = NIOLoopBound(self, eventLoop: context.eventLoop)
        endTimer()
        timer = context.eventLoop.scheduleTask(in: connections.options.linger) {
            handler.value.context?.close(promise: nil)
        }
    }

    private func countBacklog() {
        let backlog = max(0, state.assembler.backlog - 2 * FrameAssembler.freeByteCount)
        guard backlog != countedBacklog else { return }
        let isOver = connections.count(backlog: backlog - countedBacklog)
        countedBacklog = backlog
        if isOver, backlog > 0 { refuse(.noRoomForFrames, about: FrameReference(ordinal: state.admitted + 1)) }
    }

    // MARK: - Writing

    /// Takes the frames that gathered, and writes them as far as the client reads.
    func flush() {
        guard let connection else { return }
        let (frames, finished) = connection.takeFrames()
        if outgoing.isEmpty { lastTakenAt = .now() }
        outgoing.append(contentsOf: frames)
        state.answered(finished)
        write()
        advance()
    }

    private func write() {
        while let context, let connection, !outgoing.isEmpty, context.channel.isWritable {
            let chunk = outgoing.takeChunk(of: Self.chunkBytes, context.channel.allocator)
            let count = chunk.readableBytes
            context.writeAndFlush(wrapOutboundOut(chunk)).assumeIsolated().whenComplete { _ in
                self.lastTakenAt = .now()
                connection.wrote(count)
                self.advance()
            }
        }
    }
}

extension FrameHandler: ConnectionConditions {
    var coordinatorHasRoom: Bool {
        connection.map { connections.coordinator.hasRoom(for: $0.source, of: peer.user) } ?? false
    }
    var isWithinRate: Bool { pause == nil }
    private var pause: TimeAmount? { connections.messages.rates.pause(of: peer.user, at: .now()) }
    var answersHaveRoom: Bool { connections.answers.hasRoom(peer.process) }
    var leavesLittleUnread: Bool { connection.map { $0.bytes < Connection.readAheadBytes } ?? false }
    var isAllSent: Bool { connection?.isEmpty == true }
    var mayLinger: Bool { connections.mayLinger(self) }
}

extension WireError {
    fileprivate static func silence(_ limit: TimeAmount) -> WireError {
        .busy(
            "Nothing came on this connection for \(limit.nanoseconds / 1_000_000_000) s, and its place is for others. Connect when "
                + "there is a message, or send `hello` at once.")
    }

    fileprivate static var noRoomForFrames: WireError {
        .busy("Too much is waiting to be read from all connections. Send again when answers have come.")
    }
}

/// Frames that are not handed to the channel yet, cut into pieces of a size that is worth a system call: many small
/// frames in one, a large one in many.
struct OutgoingFrames {
    private var frames = Deque<[UInt8]>()
    /// Bytes of the first frame that were taken.
    private var taken = 0

    var isEmpty: Bool { frames.isEmpty }

    mutating func append(contentsOf more: [[UInt8]]) { frames.append(contentsOf: more) }

    /// The next bytes, `count` at most.
    mutating func takeChunk(of count: Int, _ allocator: ByteBufferAllocator) -> ByteBuffer {
        var available = -taken
        for frame in frames {
            available += frame.count
            if available >= count { break }
        }
        var chunk = allocator.buffer(capacity: min(count, available))
        while let frame = frames.first, chunk.readableBytes < count {
            let piece = min(count - chunk.readableBytes, frame.count - taken)
            chunk.writeBytes(frame[taken..<taken + piece])
            taken += piece
            guard taken == frame.count else { break }
            frames.removeFirst()
            taken = 0
        }
        return chunk
    }
}

/// A whole frame of a connection, until its message is answered or its job is staged.
final class ArrivedFrame: FrameContent, @unchecked Sendable {
    let bytes: FrameBytes
    let ordinal: Int
    let connection: Connection
    let messages: MessageHandler
    /// What a small job answers. Set while the frame is opened for the first time, and not changed after that, so any thread may
    /// read it.
    var reply: JobReply?
    /// Its job has been counted for the rate of its user. A frame may be opened several times, by one thread after the other.
    var isCounted = false

    init(bytes: FrameBytes, ordinal: Int, connection: Connection, messages: MessageHandler) {
        (self.bytes, self.ordinal, self.connection, self.messages) = (bytes, ordinal, connection, messages)
    }

    /// Without its length, as it arrived.
    var payload: [UInt8] { bytes.payload }

    func open(_ memory: JobMemory) -> Opened { messages.open(self, memory) }

    func refuse(_ message: String) { messages.refuseTooLarge(self, message) }

    /// The frame is little memory, which its job may retain until it has ended. It has no other bytes than the content, which
    /// the job's rows retain.
    var isSmall: Bool {
        if case .content(let content) = bytes { content.count <= Self.smallBytes } else { false }
    }

    private static let smallBytes = 2_048
}

/// A whole frame of a connection without its length, in memory of its own.
enum FrameBytes: Sendable {
    case payload([UInt8])
    /// A frame as ``StoredFrame`` makes it, of which the content is the only part that is not known: that is all its memory.
    case content(JSONText)

    init(_ bytes: UnsafeRawBufferPointer, limits: FrameLimits) {
        if let content = StoredFrame.content(of: bytes), content.count <= limits.maximumContentCount {
            self = .content(JSONText(copying: content))
        } else {
            self = .payload([UInt8](bytes))
        }
    }

    /// The bytes as they arrived.
    var payload: [UInt8] {
        switch self {
        case .payload(let payload): payload
        // Such a frame can always be made again.
        case .content(let content): StoredFrame.payload(content.bytes) ?? []
        }
    }

    var payloadCount: Int {
        switch self {
        case .payload(let payload): payload.count
        case .content(let content): StoredFrame.payloadCount(content.count)
        }
    }
}

extension FrameBytes: Equatable {
    static func == (left: FrameBytes, right: FrameBytes) -> Bool { left.payload == right.payload }
}
