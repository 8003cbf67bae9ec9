internal import BrokerCoordinator
internal import BrokerWire
internal import NIOCore

/// Decides what is read from one connection, which frames are admitted, and when the connection ends. A pure machine: the
/// handler passes events to it, and performs the actions that ``next(_:)`` returns until there is none.
///
/// ```
/// reading ──input ends──────────────▶ finishing ──all answered──▶ closed
///    │ ├──refused, framing error───▶ finishing ──all answered──▶ lingering ──input ends, or a second──▶ closed
///    │ └──server stops──▶ draining ──▶ finishing ──all answered──▶ lingering
/// ```
///
/// - draining: the server handles what it has read, and reads no more.
/// - finishing: the server takes no frame, and answers those that it has taken.
/// - lingering: the server's side is closed, and further bytes are dropped, so that a client in the middle of sending
///   can read how the connection ended.
///
/// Backpressure is by not reading: while too many messages are unanswered, or the coordinator has no room, or the client
/// does not take its answers, or others read large frames, bytes stay in the socket. So order holds and nothing is refused.
struct ConnectionState {
    /// Bytes that a refused client may still send before the connection is cut: enough for any frame in progress.
    static let discardedByteLimit = 64 << 20

    enum Phase: Equatable {
        case reading, draining, finishing, lingering, closed
    }

    enum Action: Equatable {
        /// Pass the frame to the coordinator; ``answered(_:)`` follows.
        case admit(FrameBytes, ordinal: Int, contentBytesAtMost: Int)
        /// Ask for a turn to read a large frame; ``turnCame()`` follows.
        case askForTurn(totalCount: Int)
        /// Give the turn back, or stop waiting for it.
        case leaveTurn
        /// Call ``roomAppeared()`` when there is room.
        case waitForRoom(Room)
        case read
        /// Send the error, which is about the frame of that ordinal.
        case refuse(WireError, ordinal: Int)
        /// End the server's side, and ``close()`` after the time to linger.
        case closeOutput
        case close
    }

    enum Room: Equatable {
        case ofAnswers, ofCoordinator
        /// The user has sent more jobs than it may in that time.
        case ofRate
    }

    /// The turn to read a large frame.
    enum Turn {
        case none, waiting, given
    }

    let messageLimit: Int
    private(set) var phase = Phase.reading
    private(set) var assembler: FrameAssembler
    private(set) var admitted = 0
    private(set) var unanswered = 0
    private(set) var turn = Turn.none
    private var mustLeaveTurn = false
    /// What the connection waits for before it is read again.
    private(set) var awaited: Room?
    private var isReadPending = false
    private var isInputClosed = false
    /// The connection ends because of an error, so the rest of the input does not matter.
    private var discardsInput = false
    private(set) var discardedBytes = 0

    init(limits: FrameLimits, messageLimit: Int) {
        assembler = FrameAssembler(limits: limits)
        self.messageLimit = messageLimit
    }

    var takesFrames: Bool { phase == .reading || phase == .draining }

    // MARK: - Events

    mutating func readRequested() { isReadPending = true }

    mutating func received(_ bytes: ByteBuffer) {
        if takesFrames { assembler.append(bytes) } else { discardedBytes += bytes.readableBytes }
    }

    mutating func inputClosed() { isInputClosed = true }

    /// The server stops.
    mutating func drain() { if phase == .reading { phase = .draining } }

    mutating func answered(_ count: Int) { unanswered -= count }

    mutating func roomAppeared() { awaited = nil }

    mutating func turnCame() {
        guard turn == .waiting, phase == .reading else {
            mustLeaveTurn = true
            return
        }
        turn = .given
        assembler.beginLarge()
    }

    /// Takes no more frames.
    ///
    /// - Returns: false when the connection is ending already.
    mutating func breakOff() -> Bool {
        guard takesFrames else { return false }
        finish(discardingInput: true)
        return true
    }

    mutating func closed() {
        phase = .closed
        assembler.clear()
    }

    // MARK: - Actions

    /// The next action; nil when there is none until the next event, or until the conditions change.
    mutating func next(_ conditions: some ConnectionConditions) -> Action? {
        guard phase != .closed else { return nil }
        if mustLeaveTurn {
            mustLeaveTurn = false
            return .leaveTurn
        }
        switch phase {
        case .reading, .draining:
            do throws(WireError) {
                return try nextOfFrame(conditions)
            } catch {
                finish(discardingInput: true)
                return .refuse(error, ordinal: admitted + 1)
            }
        case .finishing:
            if unanswered == 0, conditions.isAllSent { return end(mayLinger: conditions.mayLinger) }
            return discardsInput ? nextRead() : nil
        case .lingering: return nextRead()
        case .closed: return nil
        }
    }

    private mutating func nextOfFrame(_ conditions: some ConnectionConditions) throws(WireError) -> Action? {
        switch try assembler.next() {
        case .frame(let most):
            guard mayAdmit(contentBytesAtMost: most, conditions) else { return waitForRoom(conditions) }
            let bytes = assembler.take()
            leaveTurn()
            unanswered += 1
            admitted += 1
            return .admit(bytes, ordinal: admitted, contentBytesAtMost: most)
        case .large(let totalCount):
            guard !isInputClosed, phase == .reading else { return try endInput(totalCount, conditions) }
            guard turn == .none else { return nil }
            turn = .waiting
            return .askForTurn(totalCount: totalCount)
        case .incomplete(let totalCount):
            guard !isInputClosed, phase == .reading else { return try endInput(totalCount, conditions) }
            guard isReadPending else { return nil }
            guard assembler.isAssembling || mayAdmit(contentBytesAtMost: 0, conditions) else {
                return waitForRoom(conditions)
            }
            return nextRead()
        }
    }

    /// Whether another message may be admitted. A connection with nothing unanswered may always send a small one, so
    /// that `stats` is answered whatever the others do; but the server does not read from a client that leaves much
    /// unread, or whose user sends too many jobs.
    private func mayAdmit(contentBytesAtMost most: Int, _ conditions: some ConnectionConditions) -> Bool {
        guard conditions.leavesLittleUnread, phase == .draining || conditions.isWithinRate else { return false }
        if unanswered == 0, most <= CoordinatorLimits.smallContentBytes { return true }
        return unanswered < messageLimit && conditions.coordinatorHasRoom
            && (unanswered == 0 || conditions.answersHaveRoom)
    }

    /// The action that waits for room, once. While the client leaves much unread, or has too many messages unanswered, the
    /// next event of its own connection comes first.
    private mutating func waitForRoom(_ conditions: some ConnectionConditions) -> Action? {
        guard awaited == nil, conditions.leavesLittleUnread, unanswered < messageLimit else { return nil }
        let room: Room =
            !conditions.isWithinRate
            ? .ofRate : unanswered > 0 && conditions.coordinatorHasRoom ? .ofAnswers : .ofCoordinator
        awaited = room
        return .waitForRoom(room)
    }

    private mutating func nextRead() -> Action? {
        guard discardedBytes <= Self.discardedByteLimit else { return close() }
        guard isReadPending else { return nil }
        isReadPending = false
        return .read
    }

    // MARK: - The end

    private mutating func endInput(
        _ totalCount: Int?, _ conditions: some ConnectionConditions
    ) throws(WireError) -> Action? {
        if isInputClosed, let error = FrameScanner.endOfStream(assembler.unfinishedCount, totalCount: totalCount) {
            throw error
        }
        finish(discardingInput: false)
        return next(conditions)
    }

    private mutating func finish(discardingInput: Bool) {
        phase = .finishing
        discardsInput = discardingInput
        assembler.clear()
        leaveTurn()
    }

    private mutating func leaveTurn() {
        guard turn != .none else { return }
        turn = .none
        mustLeaveTurn = true
    }

    private mutating func end(mayLinger: Bool) -> Action {
        guard !isInputClosed, mayLinger else { return close() }
        phase = .lingering
        return .closeOutput
    }

    private mutating func close() -> Action {
        closed()
        return .close
    }
}

/// The surroundings of a connection that its state depends on, as they are at this moment.
protocol ConnectionConditions {
    /// The coordinator has room for another message of this connection.
    var coordinatorHasRoom: Bool { get }
    /// The user has not sent more jobs than it may.
    var isWithinRate: Bool { get }
    /// The client's process may have more answers unread.
    var answersHaveRoom: Bool { get }
    /// The client takes its answers.
    var leavesLittleUnread: Bool { get }
    /// Nothing is left to be sent.
    var isAllSent: Bool { get }
    /// After the end of its own side, the server may wait for the end of the client's.
    var mayLinger: Bool { get }
}

/// Cuts the bytes of a connection into frames, and holds those that are not handed on yet. A pure machine.
///
/// Invariants:
/// 1. A frame is handed on in memory of its own, so that it retains no other bytes and no other bytes retain it.
/// 2. An empty assembler takes no memory.
/// 3. Of a frame longer than ``freeByteCount``, only the bytes before ``beginLarge()`` are held until then; after it,
///    the frame's own bytes and no more.
struct FrameAssembler {
    enum Step: Equatable {
        /// A whole frame is there, to be taken with ``take()``; its content has that many bytes at most.
        case frame(contentBytesAtMost: Int)
        /// A large frame, length included, has begun: it goes on with ``beginLarge()``, once there is memory for it.
        case large(totalCount: Int)
        /// More bytes are needed: that many in all, or nil while the length itself is incomplete.
        case incomplete(totalCount: Int?)
    }

    /// Bytes of a frame that are read without asking: those of all connections at a time are a few tens of megabytes.
    static let freeByteCount = 16 << 10

    private let limits: FrameLimits
    private var unread = ByteBuffer()
    /// A large frame without its length; nil when none has begun.
    private var large: (payload: [UInt8], payloadCount: Int)?

    init(limits: FrameLimits) { self.limits = limits }

    /// Bytes that have arrived and are not handed on, without those of a large frame.
    var backlog: Int { unread.readableBytes }

    /// Whether a large frame is being read and is incomplete.
    var isAssembling: Bool { large.map { $0.payload.count < $0.payloadCount } ?? false }

    /// Bytes of the incomplete frame so far, its length included.
    var unfinishedCount: Int { large.map { $0.payload.count + FrameScanner.prefixCount } ?? unread.readableBytes }

    mutating func append(_ bytes: ByteBuffer) {
        var bytes = bytes
        if let missing = large.map({ $0.payloadCount - $0.payload.count }), missing > 0 {
            let piece = bytes.readSlice(length: min(missing, bytes.readableBytes))
            large?.payload.append(contentsOf: piece?.readableBytesView ?? ByteBufferView())
        }
        guard bytes.readableBytes > 0 else { return }
        unread.discardReadBytes()
        unread.writeBuffer(&bytes)
    }

    /// The step at the front.
    ///
    /// - Throws: `malformedFrame` or `frameTooLarge`; nothing more can be read then.
    mutating func next() throws(WireError) -> Step {
        let limits = limits
        if let large {
            guard !isAssembling else {
                return .incomplete(totalCount: FrameScanner.prefixCount + large.payloadCount)
            }
            return .frame(
                contentBytesAtMost: large.payload.withUnsafeBytes { FrameDecoder.contentBytesAtMost($0, limits) })
        }
        let scan = try unread.readableBytesView.withUnsafeBytes { bytes in
            Result { () throws(WireError) in try FrameScanner.scan(bytes, limits: limits) }
        }.get()
        switch scan {
        case .frame(let payload):
            let most = unread.readableBytesView.withUnsafeBytes {
                FrameDecoder.contentBytesAtMost(UnsafeRawBufferPointer(rebasing: $0[payload]), limits)
            }
            return .frame(contentBytesAtMost: most)
        case .incomplete(let totalCount?) where totalCount > Self.freeByteCount:
            return .large(totalCount: totalCount)
        case .incomplete(let totalCount):
            if unread.readableBytes == 0 { unread = ByteBuffer() }
            return .incomplete(totalCount: totalCount)
        }
    }

    /// After ``Step/large(totalCount:)``: takes the memory of the whole frame, so that the rest of it may be read.
    mutating func beginLarge() {
        guard let length = unread.readInteger(as: UInt32.self) else { return }
        var payload: [UInt8] = []
        payload.reserveCapacity(Int(length))
        payload.append(contentsOf: unread.readableBytesView)
        large = (payload, Int(length))
        unread = ByteBuffer()
    }

    /// After ``Step/frame(contentBytesAtMost:)``: the frame without its length.
    mutating func take() -> FrameBytes {
        if let large {
            self.large = nil
            return .payload(large.payload)
        }
        let length = Int(unread.readInteger(as: UInt32.self) ?? 0)
        let limits = limits
        defer { unread.moveReaderIndex(forwardBy: length) }
        return unread.readableBytesView.withUnsafeBytes {
            FrameBytes(UnsafeRawBufferPointer(rebasing: $0[..<length]), limits: limits)
        }
    }

    mutating func clear() {
        unread = ByteBuffer()
        large = nil
    }
}
