internal import BrokerCoordinator
internal import BrokerWire
internal import NIOCore
internal import Synchronization

/// The open connections and their shared limits. Lives on the one event loop.
///
/// It limits the resources of all clients together: connections, memory for incomplete frames, and answers that are not
/// read. As long as no client waits, a client may be as slow as it likes; while others wait, a stalled one is closed.
final class ConnectionSet {
    /// Bytes of large frames that are being read: two of the largest.
    static let assemblyBytes = 2 * (FrameLimits.largestPayloadCount + FrameScanner.prefixCount)
    /// Frames up to this size have a budget of their own, so that they do not wait for the largest.
    static let middleFrameBytes = 1 << 20
    /// Bytes of the frames of medium size that are being read.
    static let middleAssemblyBytes = 8 << 20
    /// Bytes of answers that are not taken, above which large ones wait and connections have one message at a time.
    static let answerBytes = 32 << 20
    /// Refused connections that may read the reason at the same time; above that, they are closed as soon as it is
    /// written.
    static let lingeringRefused = 64
    /// While others wait for its turn, a large frame must get more bytes within this time: a thousand times what a
    /// socket needs.
    static let stall = TimeAmount.milliseconds(500)
    /// While others wait, a large frame must be complete within this time.
    static let longestTurn = TimeAmount.seconds(5)
    /// While others wait for room for their answers, a client must take some of its own within this time.
    static let longestPause = TimeAmount.seconds(5)

    let eventLoop: any EventLoop
    let coordinator: Coordinator
    let messages: MessageHandler
    let options: ServerOptions
    let log: ServerLog
    let answers: SharedBudget
    private let codecs: FrameCodecs
    private let handlersAlive: HandlerCount
    private var handlers: [ObjectIdentifier: FrameHandler] = [:]
    private var served: Set<ObjectIdentifier> = []
    private var places: ConnectionPlaces
    private var backlog = 0
    private var largeTurns = AssemblyTurns<ObjectIdentifier>(byteLimit: assemblyBytes)
    private var middleTurns = AssemblyTurns<ObjectIdentifier>(byteLimit: middleAssemblyBytes)
    private var isWatching = false
    private var whenEmpty: EventLoopPromise<Void>?
    /// Called when a connection has ended.
    var onRemoval: () -> Void = {}

    init(
        on eventLoop: any EventLoop, _ coordinator: Coordinator, _ messages: MessageHandler, _ codecs: FrameCodecs,
        _ options: ServerOptions, _ log: ServerLog, _ handlersAlive: HandlerCount
    ) {
        self.eventLoop = eventLoop
        self.coordinator = coordinator
        self.messages = messages
        self.codecs = codecs
        self.options = options
        self.log = log
        self.handlersAlive = handlersAlive
        answers = SharedBudget(byteLimit: Self.answerBytes)
        places = ConnectionPlaces(options.connections)
    }

    // MARK: - Places

    func count(handlers count: Int) { handlersAlive.add(count) }

    func connection(of handler: FrameHandler, _ eventLoop: any EventLoop) -> Connection {
        Connection(
            handler, on: eventLoop, peer: handler.peer, role: handler.role ?? .read, coordinator, codecs, answers,
            cutOffBytes: options.cutOffBytes)
    }

    /// A client has connected.
    ///
    /// - Returns: why it is not served; nil when it is, and has a place.
    func add(_ handler: FrameHandler) -> WireError? {
        let identifier = ObjectIdentifier(handler)
        handlers[identifier] = handler
        guard whenEmpty == nil else {
            return WireError(.draining, "The server is stopping. Connect again when it is back.")
        }
        if handler.role == nil { return ServerOptions.refusal(of: handler.peer) }
        guard places.take(handler.peer, isPrivileged: handler.peer.owner.isPrivileged) else {
            return .noPlace(places, handler.peer.user)
        }
        served.insert(identifier)
        return nil
    }

    func remove(_ handler: FrameHandler) {
        let identifier = ObjectIdentifier(handler)
        guard handlers.removeValue(forKey: identifier) != nil else { return }
        if served.remove(identifier) != nil { places.leave(handler.peer) }
        answers.forget(identifier)
        leaveTurn(handler)
        onRemoval()
        if handlers.isEmpty { whenEmpty?.succeed() }
    }

    /// Whether a refused client is closed at once, because enough others are reading the reason.
    func hasNoPlaceToLinger(_ handler: FrameHandler) -> Bool {
        !served.contains(ObjectIdentifier(handler)) && handlers.count - served.count > Self.lingeringRefused
    }

    /// A connection must end because of what its client sent, or because of its user.
    func logEnd(of handler: FrameHandler, _ error: WireError) {
        var metadata = handler.peer.metadata
        metadata["code"] = "\(error.code.rawValue)"
        switch error.code {
        case .unauthorized: log.log(.warning, .refusedUser, "A user was refused: \(error.message)", metadata)
        case .busy: log.log(.warning, .noPlace, "A connection was refused: \(error.message)", metadata)
        default: log.log(.notice, .badFrame, "A connection was ended: \(error.message)", metadata)
        }
    }

    // MARK: - Stopping

    /// Handles what has been read, reads no more, and ends when everything is answered and closed.
    func drain() -> EventLoopFuture<Void> {
        let promise = eventLoop.makePromise(of: Void.self)
        whenEmpty = promise
        for handler in Array(handlers.values) { handler.drain() }
        if handlers.isEmpty { promise.succeed() }
        return promise.futureResult
    }

    /// Closes all, whatever is due.
    func cutOffAll(_ reason: String) {
        for handler in Array(handlers.values) { handler.cutOff(reason) }
    }

    // MARK: - Large frames

    func askForTurn(_ handler: FrameHandler, _ bytes: Int) -> Bool {
        let identifier = ObjectIdentifier(handler)
        let isGiven =
            bytes <= Self.middleFrameBytes
            ? middleTurns.ask(identifier, process: handler.peer.process, bytes: bytes)
            : largeTurns.ask(identifier, process: handler.peer.process, bytes: bytes)
        if !isGiven { watch() }
        return isGiven
    }

    func leaveTurn(_ handler: FrameHandler) {
        let identifier = ObjectIdentifier(handler)
        for next in middleTurns.leave(identifier) + largeTurns.leave(identifier) {
            guard let connection = handlers[next]?.connection else { continue }
            // Not at once: the next one may end at once, too, and so on.
            connection.onHandler { $0.turnCame() }
        }
    }

    /// - Returns: whether too many bytes have arrived unasked.
    func count(backlog change: Int) -> Bool {
        backlog += change
        return backlog > options.backlogBytes
    }

    // MARK: - Stalled clients

    /// Checks from time to time, as long as a client waits.
    func watch() {
        guard !isWatching else { return }
        isWatching = true
        let set = NIOLoopBound(self, eventLoop: eventLoop)
        eventLoop.scheduleTask(in: .milliseconds(100)) {
            set.value.isWatching = false
            set.value.look()
        }
    }

    private func look() {
        let now = NIODeadline.now()
        for turns in [middleTurns, largeTurns] where turns.isContended {
            for handler in turns.current.compactMap({ handlers[$0] })
            where handler.isHoldingUp(stalledSince: now - Self.stall, begunBefore: now - Self.longestTurn) {
                handler.refuseStalled(
                    .busy("A large frame stopped arriving while others waited. Send each frame without a pause."))
            }
        }
        if answers.isAwaited {
            for handler in Array(handlers.values) where handler.lastTakenAt < now - Self.longestPause {
                // A process that holds less than is free delays no other.
                guard let connection = handler.connection, connection.bytes > 0,
                    !answers.hasRoom(handler.peer.process)
                else { continue }
                handler.cutOff("it has read none of its answers for a while, and others wait")
            }
        }
        if middleTurns.isContended || largeTurns.isContended || answers.isAwaited { watch() }
    }

    /// All clients together have left too many answers: cuts off the connection with most of the process that left
    /// most.
    func cutOffLargest() {
        guard answers.held > Connection.cutOffBytesOfAll else { return }
        let largest = handlers.values.max {
            let (first, second) = ($0.peer.process, $1.peer.process)
            let (one, other) = (answers.share(of: first), answers.share(of: second))
            return (one, first, $0.connection?.bytes ?? 0) < (other, second, $1.connection?.bytes ?? 0)
        }
        largest?.cutOff("its process has more unread answers than any other, and those of all clients are too many")
    }
}

extension WireError {
    fileprivate static func noPlace(_ places: ConnectionPlaces, _ user: UInt32) -> WireError {
        .busy(
            "The user with the id \(user) has \(places.places(of: user)) of the \(places.count) connections of this server, and may "
                + "have no other now: a user may while it has no more than are free. Try again, close some, or have the operator "
                + "raise --connections.")
    }
}

/// The number of handlers: more than connections would be a leak.
final class HandlerCount: Sendable {
    private let count = Atomic<Int>(0)

    var value: Int { count.load(ordering: .relaxed) }
    func add(_ change: Int) { count.add(change, ordering: .relaxed) }
}
