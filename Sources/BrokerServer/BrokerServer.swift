public import BrokerCoordinator
internal import Glibc
public import Logging
internal import NIOCore
internal import NIOPosix

/// A coordinator behind a Unix socket.
public final class BrokerServer: Sendable {
    private let coordinator: Coordinator
    private let options: ServerOptions
    private let group: MultiThreadedEventLoopGroup
    private let listener: any Channel
    private let connections: ConnectionSet

    private init(
        _ coordinator: Coordinator, _ options: ServerOptions, _ group: MultiThreadedEventLoopGroup,
        _ listener: any Channel, _ connections: ConnectionSet
    ) {
        self.coordinator = coordinator
        self.options = options
        self.group = group
        self.listener = listener
        self.connections = connections
    }

    /// Looks whether the socket is free, and changes nothing but a stale socket file.
    public static func claimSocket(_ path: String) throws(ServerError) {
        guard path.utf8.count <= sockaddr_un.longestPath else {
            throw ServerError(
                "The socket's path is longer than \(sockaddr_un.longestPath) bytes: \(path). Give a shorter one.")
        }
        try SocketFile(path: path).claim()
    }

    /// Listens on the socket and serves from then on.
    ///
    /// - Throws: ``ServerError`` when the socket is somebody else's or cannot be made.
    public static func start(
        _ coordinator: Coordinator, options: ServerOptions, logger: Logger
    ) async throws(ServerError) -> BrokerServer {
        try claimSocket(options.socketPath)
        let file = SocketFile(path: options.socketPath)
        let connections = ConnectionSet(limit: options.connections)
        let codecs = FrameCodecs(limits: options.frameLimits)
        let messages = MessageHandler(coordinator, codecs, options, logger)
        // One loop moves bytes faster than one writer merges them.
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(ChannelOptions.backlog, value: 256)
            .childChannelOption(ChannelOptions.allowRemoteHalfClosure, value: true)
            // Bulk frames are megabytes: fewer, larger reads.
            .childChannelOption(
                ChannelOptions.recvAllocator,
                value: AdaptiveRecvByteBufferAllocator(minimum: 4 << 10, initial: 64 << 10, maximum: 1 << 20)
            )
            .childChannelInitializer { channel in
                Peer.user(of: channel).flatMapThrowing { user in
                    let identifier = ObjectIdentifier(channel)
                    let handler = FrameHandler(
                        coordinator, messages, codecs, options,
                        refusal: options.refusal(ofUser: user) ?? connections.refusal,
                        onClose: { connections.remove(identifier) })
                    connections.add(identifier, NIOLoopBound(handler, eventLoop: channel.eventLoop))
                    try channel.pipeline.syncOperations.addHandler(handler)
                }
            }
        do {
            // The file is made without rights for others; between bind and chmod it must not be open to them either.
            let mask = umask(0o117)
            defer { umask(mask) }
            let listener = try await bootstrap.bind(unixDomainSocketPath: options.socketPath).get()
            try file.restrict()
            return BrokerServer(coordinator, options, group, listener, connections)
        } catch {
            group.shutdownGracefully { _ in }
            throw ServerError("The socket \(options.socketPath) cannot be listened on: \(error).")
        }
    }

    /// Refuses new jobs, finishes those admitted before, answers them, and closes everything. Called once.
    public func stop() async throws {
        coordinator.refuseNewJobs()
        let threads = NIOThreadPool.singleton
        try await threads.runIfActive { [coordinator] in coordinator.finishAdmitted() }
        await connections.forEach { $0.stopReading() }
        try await threads.runIfActive { [coordinator] in coordinator.stop() }
        await connections.forEach { $0.closeAfterWriting() }
        SocketFile(path: options.socketPath).remove()
        try await listener.close()
        try await group.shutdownGracefully()
    }
}
