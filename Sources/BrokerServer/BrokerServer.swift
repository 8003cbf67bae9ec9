package import BrokerCoordinator
internal import BrokerStore
internal import Glibc
package import Logging
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// A coordinator that serves a Unix socket, or connections within the process.
package final class BrokerServer: Sendable {
    private let coordinator: Coordinator
    private let options: ServerOptions
    private let messages: MessageHandler
    private let log: ServerLog
    let group: MultiThreadedEventLoopGroup
    let connections: NIOLoopBound<ConnectionSet>
    /// Nil when the server listens on no socket.
    private let listener: Listener?
    private let handlersAlive: HandlerCount
    /// No more connections are made within the process.
    let isStopping = Mutex(false)

    private struct Listener: Sendable {
        let channel: any Channel
        /// Nil when another program has made it.
        let file: SocketFile.Bound?
    }

    private init(
        _ coordinator: Coordinator, _ options: ServerOptions, _ messages: MessageHandler, _ log: ServerLog,
        _ group: MultiThreadedEventLoopGroup,
        _ listener: Listener?, _ connections: NIOLoopBound<ConnectionSet>, _ handlersAlive: HandlerCount
    ) {
        self.coordinator = coordinator
        self.options = options
        self.messages = messages
        self.log = log
        self.group = group
        self.listener = listener
        self.connections = connections
        self.handlersAlive = handlersAlive
    }

    /// Checks that the socket is free and can be made, and changes nothing but a stale socket file.
    package static func claimSocket(_ path: String, access: SocketAccess = SocketAccess()) throws(ServerError) {
        try SocketFile(path: path, access: access).claim()
    }

    /// Checks that the socket could be made, and changes nothing.
    package static func inspectSocket(
        _ path: String, access: SocketAccess
    ) throws(ServerError) -> SocketCondition { try SocketFile(path: path, access: access).inspect() }

    /// Listens on the socket, if there is one, and serves from then on.
    ///
    /// - Throws: ``ServerError`` when another process has the socket, or it cannot be made.
    package static func start(
        _ coordinator: Coordinator, options: ServerOptions, logger: Logger
    ) async throws(ServerError) -> BrokerServer {
        if options.listeningDescriptor == nil, let path = options.socketPath {
            try claimSocket(path, access: options.socketAccess)
        }
        let logger = logger.escaping
        let log = ServerLog(logger)
        let codecs = FrameCodecs(limits: options.frameLimits, answers: options.answerLimits)
        let handlersAlive = HandlerCount()
        let messages = MessageHandler(coordinator, codecs, options, log, handlersAlive)
        if options.logsSlowJobs { coordinator.onSlowJob { [jobs = log.jobs] in jobs.slow($0) } }
        try await applyLog(coordinator, messages, logger)
        // One loop moves bytes faster than one writer merges them, and state that connections share needs no locks.
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let eventLoop = group.next()
        do {
            let connections = try await eventLoop.submit {
                let set = ConnectionSet(on: eventLoop, coordinator, messages, codecs, options, log, handlersAlive)
                return NIOLoopBound(set, eventLoop: eventLoop)
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
            return BrokerServer(
                coordinator, options, messages, log, group, listener, connections, handlersAlive)
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
                try coordinator.start(logger) { payload, logged, memory in
                    payload.withUnsafeBytes { messages.reopen($0, logged, memory) }
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

    /// The `stats` message, as JSON text.
    package var statistics: [UInt8] { messages.statistics() }

    /// Handlers of connections that have not been freed.
    var handlerCount: Int { handlersAlive.value }

    /// The open connections, with those that are being refused.
    package var connectionCount: Int { handlersAlive.value }

    /// Bytes of answers that clients have not taken.
    var unreadBytes: Int {
        get async throws { try await group.next().submit { [connections] in connections.value.answers.held }.get() }
    }

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
        log.jobs.flush()
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
