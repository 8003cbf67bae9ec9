internal import Broker
internal import BrokerJSON
internal import BrokerWire
internal import Logging
internal import Metrics
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// Does what a ``Session`` says: the sockets, the clock and the locks are here, the decisions are there.
///
/// Frames are collected from any thread and written by the event loop, all that there are with one flush.
final class SessionDriver: Sendable {
    /// Characters of a client's name that are sent.
    private static let longestName = 256

    fileprivate struct OpenStream: Sendable {
        /// It has no end, so that a shutdown ends it instead of waiting.
        let isEndless: Bool
        /// Nil while the connection is being made.
        var channel: (any Channel)?
    }

    fileprivate struct State: Sendable {
        var session: Session
        /// The channel of the connection in force.
        var channel: (any Channel)?
        /// Frames for that connection that the event loop has not taken yet.
        var outbox: [[UInt8]] = []
        /// The event loop will take the outbox.
        var isFlushScheduled = false
        var deadlineTimer: Scheduled<Void>?
        /// The server's description of itself, from the newest connection.
        var server: ServerInformation?
        /// Finished when nothing is unanswered and no stream is open, while a shutdown waits for that.
        var drained: Answer<Void>?
        var streams: [Int: OpenStream] = [:]
        var nextStream = 0
    }

    let encoders: FrameEncoders
    let frameLimits: FrameLimits
    /// The end of the first attempt to connect.
    let welcome = Answer<ServerInformation>()
    /// How long a server's frame may take from its first byte to its last.
    let frameTime: TimeAmount
    private let eventLoop: any EventLoop
    private let dialing: Dialing
    /// The greeting that every connection begins with.
    private let hello: [UInt8]
    private let observer: ConnectionObserver
    var states: ConnectionStates { observer.states }
    private let state: Mutex<State>

    /// - Parameters:
    ///   - name: the client's, for the server's logs.
    ///   - dialing: nil to connect to the session's path.
    init(
        session: Session, name: String?, frameTime: TimeAmount, frameLimits: FrameLimits = FrameLimits(),
        eventLoop: any EventLoop, dialing: Dialing? = nil, logger: Logger
    ) {
        encoders = FrameEncoders(frameLimits)
        self.frameLimits = frameLimits
        observer = ConnectionObserver(path: session.path, logger)
        self.dialing = dialing ?? .path(session.path)
        self.frameTime = frameTime
        // A name of that length never makes the frame too large.
        let greeting = MessageWriter.hello(client: name.map { String($0.prefix(Self.longestName)) })
        hello = (try? encoders.encode(greeting)) ?? []
        self.eventLoop = eventLoop
        state = Mutex(State(session: session))
    }

    /// The server's description of itself, from the newest connection.
    var server: ServerInformation? { state.withLock { $0.server } }

    /// Makes the first connection of a session that begins at once; ``welcome`` has its result.
    func start() {
        if let order = state.withLock({ $0.session.begin(at: .now()) }) { connect(order) }
        watchSilence()
    }

    func stayConnected() { perform { $0.stayConnected(at: .now()) } }

    /// Checks, from now on, whether the server has sent no answer for too long.
    private func watchSilence() {
        guard let next = state.withLock({ $0.session.nextSilenceCheck(at: .now()) }) else { return }
        eventLoop.scheduleTask(deadline: next) { [weak self] in
            self?.perform { $0.checkSilence(at: .now()) }
            self?.watchSilence()
        }
    }

    func add(id: JobID, frame: [UInt8], waiter: JobWaiter) throws(BrokerError) -> Session.Jobs.Place {
        try perform { session throws(BrokerError) in
            try session.add(id: id, frame: frame, waiter: waiter, at: .now())
        }
    }

    /// A job that was not sent yet will not be, and its waiters get `CancellationError`.
    func withdraw(_ place: Session.Jobs.Place) {
        perform { $0.withdraw(place) }
    }

    /// A job that was not sent yet will not be sent; otherwise the server is asked to cancel it. Its waiters get its
    /// end.
    func cancel(_ place: Session.Jobs.Place) {
        do {
            let frame = try encoders.encode(
                MessageWriter.message("cancel", tag: Session.cancelTag) { $0.member("id", place.id.text) })
            perform { $0.cancel(place, frame: frame) }
        } catch {
            preconditionFailure("A message with an id alone fits a frame: \(error)")
        }
    }

    func add(
        request number: Int, frame: [UInt8], waiter: Session.RequestWaiter, isSentOnce: Bool = false
    ) throws(BrokerError) {
        try perform { session throws(BrokerError) in
            try session.add(request: number, frame: frame, waiter: waiter, isSentOnce: isSentOnce, at: .now())
        }
    }

    /// Opens a connection for one streamed fetch, copy or feed. ``close()`` closes it.
    ///
    /// - Parameter isEndless: a shutdown closes it, too, instead of waiting for its end.
    /// - Throws: ``/Broker/BrokerError/Code/closed`` after the begin of a shutdown.
    func openStream(sending frame: [UInt8], isEndless: Bool = false) async throws -> StreamConnection {
        let (number, path, answerTime) = try state.withLock { state in
            guard state.session.takesRequests else { throw BrokerError.closed }
            state.nextStream += 1
            state.streams[state.nextStream] = OpenStream(isEndless: isEndless)
            return (state.nextStream, state.session.path, state.session.patience.answer)
        }
        do {
            let stream = try await StreamConnection.open(
                dialing, path: path, on: eventLoop, sending: hello + frame, limits: frameLimits,
                answerTime: answerTime
            ) { [weak self] in self?.streamEnded(number) }
            let isWanted = state.withLock { state in
                guard state.session.link != .closed, !(isEndless && state.session.isDraining) else { return false }
                state.streams[number]?.channel = stream.channel
                return true
            }
            guard isWanted else { throw BrokerError.closed }
            return stream
        } catch {
            streamEnded(number)
            throw error
        }
    }

    private func streamEnded(_ number: Int) {
        state.withLock { $0.streams[number] = nil }
        notifyDrained()
    }

    /// The error of a stream that ended with another one: closing the client closes its connection.
    func streamEnd(_ error: any Error) -> any Error {
        (error as? BrokerError)?.code == .connectionLost && isClosed ? BrokerError.closed : error
    }

    var isClosed: Bool { state.withLock { $0.session.link == .closed } }

    var isDraining: Bool { state.withLock { $0.session.isDraining } }

    var unansweredJobCount: Int { state.withLock { $0.session.jobs.count } }

    func hasJob(_ id: JobID) -> Bool { state.withLock { $0.session.jobs.contains(id) } }

    var unansweredWaiters: [JobWaiter] { state.withLock { $0.session.jobs.waiters } }

    func close() {
        perform { $0.close() }
        let streams = state.withLock { state in
            defer { state.streams = [:] }
            return state.streams.values.compactMap(\.channel)
        }
        for channel in streams { channel.close(promise: nil) }
    }

    /// Takes nothing more, ends the endless streams, and returns when everything is answered and the others have ended, or when the
    /// task is cancelled.
    func drain() async {
        let drained = Answer<Void>()
        let endless = state.withLock { state in
            state.session.drain()
            state.drained = drained
            return state.streams.values.filter(\.isEndless).compactMap(\.channel)
        }
        for channel in endless { channel.close(promise: nil) }
        notifyDrained()
        try? await drained.value()
    }

    private func notifyDrained() {
        let drained = state.withLock { $0.isDrained ? $0.drained : nil }
        drained?.finish(.success(()))
    }

    // MARK: - What connections do

    func received(_ arrivals: [Arrival], on connection: Int) {
        perform { $0.received(arrivals, on: connection, at: .now()) }
    }

    func lost(_ connection: Int, reason: String) {
        perform { $0.lost(connection, reason: reason, at: .now()) }
    }

    /// On the event loop.
    private func opened(_ channel: any Channel, _ connection: Int) {
        let isWanted = state.withLock { state in
            guard state.session.currentConnection == connection else { return false }
            state.channel = channel
            return true
        }
        guard isWanted else { return channel.close(promise: nil) }
        channel.writeAndFlush(channel.allocator.buffer(bytes: hello), promise: nil)
    }

    // MARK: - Effects

    private func perform<Failure: Error>(
        _ decide: (inout Session) throws(Failure) -> Session.Effects
    ) throws(Failure) {
        try perform { session throws(Failure) in ((), try decide(&session)) }
    }

    private func perform<Value: Sendable, Failure: Error>(
        _ decide: (inout Session) throws(Failure) -> (Value, Session.Effects)
    ) throws(Failure) -> Value {
        let (value, effects, abandoned, mustFlush) = try state.withLock { state throws(Failure) in
            let (value, effects) = try decide(&state.session)
            return (value, effects, state.note(effects), state.mustFlush())
        }
        for note in effects.notes { observer.note(note) }
        abandoned?.close(promise: nil)
        if let connect = effects.connect { self.connect(connect) }
        if mustFlush { eventLoop.execute { self.flush() } }
        for delivery in effects.deliveries { deliver(delivery) }
        if !effects.deliveries.isEmpty { notifyDrained() }
        return value
    }

    private func deliver(_ delivery: Session.Delivery) {
        switch delivery {
        case .welcomed(let result):
            state.withLock { state in
                state.deadlineTimer?.cancel()
                if case .success(let server) = result { state.server = server }
            }
            welcome.finish(result.mapError { $0 })
        case .accepted(let waiter, let sequence): waiter.accepted?.finish(.success(sequence))
        case .admitted(let waiter): waiter.admitted?.finish(.success(()))
        case .finished(let waiter, let result): waiter.finish(result.mapError { $0 })
        case .withdrawn(let waiter): waiter.withdraw()
        case .answered(let waiter, let result): waiter.finish(result.mapError { $0 })
        }
    }

    /// On the event loop.
    private func flush() {
        let (frames, channel) = state.withLock { state in
            defer { state.outbox = [] }
            state.isFlushScheduled = false
            guard let channel = state.channel, !state.outbox.isEmpty else {
                return ([], nil) as ([[UInt8]], (any Channel)?)
            }
            return (state.outbox, channel)
        }
        guard let channel else { return }
        var buffer = channel.allocator.buffer(capacity: frames.reduce(0) { $0 + $1.count })
        for frame in frames { buffer.writeBytes(frame) }
        channel.writeAndFlush(buffer, promise: nil)
    }

    private func connect(_ order: Session.Connect) {
        let timer = eventLoop.scheduleTask(deadline: order.deadline) {
            self.perform { $0.deadlinePassed(order.connection, at: .now()) }
        }
        state.withLock { state in
            state.deadlineTimer?.cancel()
            state.deadlineTimer = timer
        }
        guard order.delay > .zero else { return open(order.connection) }
        eventLoop.scheduleTask(in: order.delay) { self.open(order.connection) }
    }

    private func open(_ connection: Int) {
        guard state.withLock({ $0.session.currentConnection == connection }) else { return }
        let bootstrap = ClientBootstrap(group: eventLoop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        ConnectionHandler(connection: connection, driver: self))
                }
            }
        dialing.connect(bootstrap, on: eventLoop).whenComplete { result in
            switch result {
            case .success(let channel): self.opened(channel, connection)
            case .failure(let error): self.lost(connection, reason: ConnectionReason.describe(error))
            }
        }
    }
}

extension SessionDriver.State {
    fileprivate var isDrained: Bool { session.isDraining && session.isIdle && streams.isEmpty }

    /// Keeps the connection and its outbox as the effects want them; the channel that is to be closed.
    fileprivate mutating func note(_ effects: Session.Effects) -> (any Channel)? {
        var abandoned: (any Channel)?
        if effects.close != nil {
            abandoned = channel
            channel = nil
            outbox = []
            deadlineTimer?.cancel()
        }
        if outbox.isEmpty { outbox = effects.write } else { outbox += effects.write }
        return abandoned
    }

    fileprivate mutating func mustFlush() -> Bool {
        guard !outbox.isEmpty, !isFlushScheduled else { return false }
        isFlushScheduled = true
        return true
    }
}

/// The way to a connection with a server.
enum Dialing: Sendable {
    /// By the path of a Unix socket.
    case path(String)
    /// By a descriptor of a connected socket, which the client then owns.
    case descriptor(@Sendable () throws -> CInt)

    func connect(_ bootstrap: ClientBootstrap, on eventLoop: any EventLoop) -> EventLoopFuture<any Channel> {
        switch self {
        case .path(let path): return bootstrap.connect(unixDomainSocketPath: path)
        case .descriptor(let dial):
            do {
                return bootstrap.withConnectedSocket(try dial())
            } catch {
                return eventLoop.makeFailedFuture(error)
            }
        }
    }
}

/// Frame encoders for callers on any thread: as many as are used at the same time, and used again.
final class FrameEncoders: Sendable {
    // In the pool or with one caller, never both, so no two threads touch it at once.
    private final class Slot: @unchecked Sendable {
        var encoder: FrameEncoder

        init(_ limits: FrameLimits) { encoder = FrameEncoder(limits: limits) }
    }

    private let limits: FrameLimits
    private let free = Mutex<[Slot]>([])

    init(_ limits: FrameLimits) { self.limits = limits }

    func encode(_ content: [UInt8]) throws(BrokerError) -> [UInt8] {
        if let frame = content.withUnsafeBytes({ StoredFrame.encode($0) }) { return frame }
        let slot = free.withLock { $0.popLast() } ?? Slot(limits)
        defer { free.withLock { $0.append(slot) } }
        do {
            return try slot.encoder.encode(content)
        } catch {
            throw .tooLarge(error.description)
        }
    }
}

/// How often to try to connect again: soon at first, then ever less often, until the patience is used up.
///
/// Patience is time without a connection. It comes back with the first answer, not with the welcome: a server that
/// welcomes and closes, again and again, uses it up as one does that is not there.
struct Reconnection: Sendable {
    /// A server that restarts is back about then.
    static let firstDelay = TimeAmount.milliseconds(50)
    /// No longer, because an attempt on a Unix socket costs next to nothing, and a server that is back is not left waiting.
    static let longestDelay = TimeAmount.milliseconds(250)

    /// After the server refused the client, or sent nothing, where another attempt would probably end in the same way.
    static let abandonedDelay = TimeAmount.seconds(1)

    private let wholePatience: TimeAmount
    private var patience: TimeAmount
    private var nextDelay: TimeAmount
    /// Since when there has been no connection; nil while there is one.
    private var begin: NIODeadline?

    init(patience: TimeAmount, firstDelay: TimeAmount = Self.firstDelay) {
        wholePatience = patience
        self.patience = patience
        nextDelay = firstDelay
    }

    /// Until when it is worth trying.
    mutating func deadline(at now: NIODeadline) -> NIODeadline {
        let begin = begin ?? now
        self.begin = begin
        return begin + patience
    }

    /// How long to wait before the next attempt; nil when there is no time for one.
    mutating func delay(at now: NIODeadline) -> TimeAmount? {
        guard now + nextDelay < deadline(at: now) else { return nil }
        defer { nextDelay = min(nextDelay * 2, Self.longestDelay) }
        return nextDelay
    }

    /// Nothing waited for a connection until now.
    mutating func restart(at now: NIODeadline) {
        patience = wholePatience
        begin = now
    }

    /// There is a connection again.
    mutating func connected(at now: NIODeadline) {
        guard let begin else { return }
        patience = patience - (now - begin)
        self.begin = nil
    }
}

/// The current state, and those that follow, for any number of readers.
final class ConnectionStates: Sendable {
    private struct State: Sendable {
        var current = BrokerConnectionState.idle
        var readers: [Int: AsyncStream<BrokerConnectionState>.Continuation] = [:]
        var next = 0
    }

    private let state = Mutex(State())

    func change(to new: BrokerConnectionState) {
        let readers = state.withLock { state in
            guard state.current != new else { return [] as [AsyncStream<BrokerConnectionState>.Continuation] }
            state.current = new
            return Array(state.readers.values)
        }
        for reader in readers {
            reader.yield(new)
            if new == .closed { reader.finish() }
        }
    }

    /// Begins with the current state. A slow reader misses all but the newest states, and never that.
    func read() -> AsyncStream<BrokerConnectionState> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: BrokerConnectionState.self, bufferingPolicy: .bufferingNewest(16))
        let number = state.withLock { state in
            defer { state.next += 1 }
            continuation.yield(state.current)
            if state.current == .closed { continuation.finish() } else { state.readers[state.next] = continuation }
            return state.next
        }
        continuation.onTermination = { [weak self] _ in
            _ = self?.state.withLock { $0.readers.removeValue(forKey: number) }
        }
        return stream
    }
}

/// Logs, counts and publishes what happens to connections. Any thread may call.
///
/// Counters: `broker_client_connections_total`, `broker_client_connections_lost_total`, `broker_client_jobs_resent_total`.
struct ConnectionObserver: Sendable {
    let states = ConnectionStates()
    private let logger: Logger
    private let connections = Counter(label: "broker_client_connections_total")
    private let losses = Counter(label: "broker_client_connections_lost_total")
    private let resent = Counter(label: "broker_client_jobs_resent_total")

    init(path: String, _ logger: Logger) {
        var logger = logger
        logger[metadataKey: "socket"] = "\(path)"
        self.logger = logger
    }

    func note(_ note: Session.Note) {
        switch note {
        case .connecting: states.change(to: .connecting)
        case .connected(let jobs):
            states.change(to: .connected)
            connections.increment()
            resent.increment(by: jobs)
            if jobs == 0 {
                logger.debug("Connected.")
            } else {
                logger.notice("Connected again; unanswered jobs are sent again.", metadata: ["jobs": "\(jobs)"])
            }
        case .lost(let reason):
            losses.increment()
            logger.notice("There is no connection.", metadata: ["reason": "\(reason)"])
        case .gaveUp(let error, let jobs):
            states.change(to: .idle)
            logger.error(
                "There is no connection; unanswered requests have failed.",
                metadata: ["jobs": "\(jobs)", "error": "\(error)"])
        case .idle: states.change(to: .idle)
        case .closed: states.change(to: .closed)
        }
    }
}
