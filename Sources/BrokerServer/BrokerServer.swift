package import BrokerCoordinator
internal import BrokerStore
internal import BrokerWire
internal import Glibc
package import Logging
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// A coordinator that serves a Unix socket, or connections within the process.
package final class BrokerServer: Sendable {
    private let messages: MessageHandler
    let group: MultiThreadedEventLoopGroup
    let connections: NIOLoopBound<ConnectionSet>
    /// Nil when the server listens on no socket.
    private let listener: Listener?
    /// No more connections are made within the process.
    private let isStopping = Mutex(false)

    private var coordinator: Coordinator { messages.coordinator }
    private var options: ServerOptions { messages.options }
    private var log: ServerLog { messages.log }

    private struct Listener: Sendable {
        let channel: any Channel
        /// Nil when another program has made it.
        let file: SocketFile.Bound?
    }

    private init(
        _ messages: MessageHandler, on group: MultiThreadedEventLoopGroup, listener: Listener?,
        connections: NIOLoopBound<ConnectionSet>
    ) {
        self.messages = messages
        self.group = group
        self.listener = listener
        self.connections = connections
    }

    /// Listens on the socket, if there is one, and serves from then on.
    ///
    /// - Throws: ``ServerError`` when another process has the socket, or it cannot be made.
    package static func start(
        _ coordinator: Coordinator, options: ServerOptions, logger: Logger
    ) async throws(ServerError) -> BrokerServer {
        if options.listeningDescriptor == nil, let path = options.socketPath {
            try SocketFile(path: path, access: options.socketAccess).claim()
        }
        let logger = logger.escaping
        let log = ServerLog(logger)
        let codecs = FrameCodecs(limits: options.frameLimits, answers: options.answerLimits)
        let messages = MessageHandler(coordinator, codecs, options, log)
        if options.logsSlowJobs { coordinator.onSlowJob { log.slow($0) } }
        try await applyLog(coordinator, messages, logger)
        // One loop moves bytes faster than one writer merges them, and state that connections share needs no locks.
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let eventLoop = group.next()
        do {
            let connections = try await eventLoop.submit {
                NIOLoopBound(ConnectionSet(on: eventLoop, messages), eventLoop: eventLoop)
            }.get()
            var listener: Listener?
            if let descriptor = options.listeningDescriptor {
                listener = Listener(channel: try await listen(on: descriptor, group, connections, log), file: nil)
            } else if let path = options.socketPath {
                let (descriptor, file) = try SocketFile(path: path, access: options.socketAccess).bind()
                listener = Listener(
                    channel: try await listen(on: descriptor, group, connections, log), file: file)
            }
            logger.notice(
                "Serving.",
                metadata: ["socket": "\(options.socketPath ?? "none")", "connections": "\(options.connections)"])
            return BrokerServer(messages, on: group, listener: listener, connections: connections)
        } catch {
            group.shutdownGracefully { _ in }
            if let error = error as? ServerError { throw error }
            let reason = (error as? IOError).map { String(cString: strerror($0.errnoCode)) } ?? "\(error)"
            throw ServerError("The socket \(options.socketPath ?? "") cannot be listened on: \(reason).")
        }
    }

    /// Jobs that were accepted before take effect before the server listens.
    private static func applyLog(
        _ coordinator: Coordinator, _ messages: MessageHandler, _ logger: Logger
    ) async throws(ServerError) {
        do {
            try await NIOThreadPool.singleton.runIfActive {
                try coordinator.start(logger) { logged, memory in
                    logged.payload.withUnsafeBytes { messages.reopen($0, from: logged.owner, memory) }
                }
            }
        } catch {
            throw ServerError((error as? StoreError)?.message ?? "\(error)")
        }
    }

    /// Clients that wait to be accepted; further ones have to try again. The system's own limit (listen(2), somaxconn)
    /// is higher.
    private static let backlog: Int32 = 1_024

    private static func listen(
        on descriptor: Int32, _ group: MultiThreadedEventLoopGroup, _ connections: NIOLoopBound<ConnectionSet>,
        _ log: ServerLog
    ) async throws -> any Channel {
        let listener = try await ServerBootstrap(group: group)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let gate = AcceptGate(log)
                    connections.value.onRemoval = { [weak gate] in gate?.resume() }
                    try channel.pipeline.syncOperations.addHandler(gate)
                }
            }
            .childChannelInitializer { FrameHandler.install(on: $0, connections) }
            .withBoundSocket(descriptor).get()
        // The channel listens with a backlog of its own.
        guard Glibc.listen(descriptor, backlog) == 0 else {
            try await listener.close()
            throw ServerError(String(cString: strerror(errno)))
        }
        return listener
    }

    /// From now on these users may connect, and have these limits, on connections that are open, too. Others are ended at once.
    package func use(_ users: UserRules) { group.next().execute { [connections] in connections.value.use(users) } }

    package var statistics: [UInt8] {
        MessageWriter.message("stats", capacity: 6_144, tag: nil) { messages.writeStatistics(to: &$0) }
    }

    /// The open connections, with those that are being refused, and those whose handler has not been freed.
    package var connectionCount: Int { messages.connectionCount.load(ordering: .relaxed) }

    /// Accepts no more clients and reads no more, finishes what was read, lets the clients take their answers, and
    /// closes everything. Called once.
    ///
    /// A job that was read but had no room is refused (`draining`). Jobs that had room are finished however long that
    /// takes; then clients have `ServerOptions.drainSeconds` for their answers.
    package func stop() async throws {
        log.logger.notice("Stopping: no more messages are read, and the jobs that were read are finished.")
        isStopping.withLock { $0 = true }
        listener?.file?.remove()
        try await listener?.channel.close()
        let eventLoop = group.next()
        let closed = eventLoop.flatSubmit { [connections, coordinator] in
            let closed = connections.value.drain()
            // Jobs for which there was no room until now.
            coordinator.refuseNewJobs()
            return closed
        }
        let threads = NIOThreadPool.singleton
        try await threads.runIfActive { [coordinator] in coordinator.finishAdmitted() }
        let timer = eventLoop.scheduleTask(in: .seconds(Int64(options.drainSeconds))) { [connections, options] in
            connections.value.cutOffAll("it did not read its answers within \(options.drainSeconds) s of the stop")
        }
        try await closed.get()
        timer.cancel()
        try await threads.runIfActive { [coordinator] in coordinator.stop() }
        try await group.shutdownGracefully()
        log.logger.notice("Stopped.")
    }

    /// Closes all connections; others can be made.
    package func endConnections(_ reason: String) {
        group.next().execute { [connections] in connections.value.cutOffAll(reason) }
    }

    /// Deletes the socket's file, for an end without ``stop()``.
    package func abandonSocket() { listener?.file?.remove() }

    /// The same; calls `end` when everything sent before has been given to the clients' sockets.
    package func abandonSocket(_ end: @escaping @Sendable () -> Void) {
        abandonSocket()
        group.next().execute(end)
    }
}

extension BrokerServer {
    /// Connects a client within the process, by a pair of sockets that has no name. Any thread may call.
    ///
    /// - Returns: the client's end, connected and non-blocking, for the caller to close.
    /// - Throws: ``ServerError`` when the system has no more descriptors, or the server stops.
    package func makeConnection() throws(ServerError) -> Int32 {
        try isStopping.withLock { isStopping throws(ServerError) in
            guard !isStopping else { throw ServerError("The server is stopping.") }
            var pair: [Int32] = [-1, -1]
            let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
            guard socketpair(AF_UNIX, kind, 0, &pair) == 0 else {
                throw ServerError("No pair of sockets can be made: \(String(cString: strerror(errno))).")
            }
            // A connection that cannot be served is closed, which the client sees as a lost connection.
            _ = ClientBootstrap(group: group)
                .channelInitializer { [connections] in FrameHandler.install(on: $0, connections) }
                .withConnectedSocket(pair[0])
            return pair[1]
        }
    }
}

extension FrameHandler {
    static func install(
        on channel: any Channel, _ connections: NIOLoopBound<ConnectionSet>
    ) -> EventLoopFuture<Void> {
        channel.eventLoop.makeCompletedFuture {
            let users = connections.value.users
            let peer = try Peer(of: channel, wantsGroups: !users.allowedGroups.isEmpty)
            guard let options = channel.syncOptions else { throw ChannelError.operationUnsupported }
            try options.setOption(.allowRemoteHalfClosure, value: true)
            // One small read at a time: what is read before it is known to have room is little, and so is the memory of
            // an idle connection. A socket's own pieces are not much larger.
            try options.setOption(.maxMessagesPerRead, value: 1)
            try options.setOption(
                .recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: FrameAssembler.freeByteCount))
            try channel.pipeline.syncOperations.addHandler(
                FrameHandler(connections.value, peer: peer.credentials, role: users.role(of: peer)))
        }
    }
}

/// Stops accepting for a while when the system has no more descriptors, so that the server does not spin: clients wait
/// in the socket's queue. Part of the listener's pipeline.
final class AcceptGate: ChannelInboundHandler {
    typealias InboundIn = any Channel

    /// The errors of accept(2) after which a later attempt may succeed.
    private static let passing = [EMFILE, ENFILE, ENOBUFS, ENOMEM]
    /// The pause before the next attempt, which also comes when a connection ends.
    private static let pause = TimeAmount.seconds(1)

    private let log: ServerLog
    private var timer: Scheduled<Void>?
    private var context: ChannelHandlerContext?
    /// Whether the pause has been logged, until a client is accepted again.
    private var isShort = false

    init(_ log: ServerLog) { self.log = log }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        timer?.cancel()
        timer = nil
        self.context = nil
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if isShort {
            isShort = false
            log.logger.notice("Clients are accepted again.")
        }
        context.fireChannelRead(data)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? IOError, Self.passing.contains(error.errnoCode) else {
            // A client that left before it was accepted; the listener itself closes when it must.
            return log.logger.debug("A client could not be accepted.", metadata: ["cause": "\(error)"])
        }
        guard timer == nil else { return }
        if !isShort {
            isShort = true
            log.logger.warning(
                """
                No more clients can be accepted, for lack of descriptors or memory; they wait. Raise the limit \
                (`ulimit -n`), or lower --connections.
                """, metadata: ["cause": "\(error)"])
        }
        setAccepting(false)
        let gate = NIOLoopBound(self, eventLoop: context.eventLoop)
        timer = context.eventLoop.scheduleTask(in: Self.pause) { gate.value.resume() }
    }

    /// A connection has ended: there may be descriptors again.
    func resume() {
        guard let timer else { return }
        timer.cancel()
        self.timer = nil
        setAccepting(true)
    }

    /// Only its option stops the listener: an error of accept(2) leaves it registered for reading.
    private func setAccepting(_ isAccepting: Bool) {
        guard let context else { return }
        do {
            try context.channel.syncOptions?.setOption(.autoRead, value: isAccepting)
        } catch {
            // Only a closed listener has no options.
            log.logger.debug("The listener is closed.", metadata: ["cause": "\(error)"])
        }
    }
}
