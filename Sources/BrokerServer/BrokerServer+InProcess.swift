internal import Glibc
internal import NIOCore
internal import NIOPosix

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
    /// Makes a new channel the connection of a client.
    static func install(
        on channel: any Channel, _ connections: NIOLoopBound<ConnectionSet>
    ) -> EventLoopFuture<Void> {
        channel.eventLoop.makeCompletedFuture {
            let server = connections.value.options
            let peer = try Peer(of: channel, wantsGroups: !server.allowedGroups.isEmpty)
            guard let options = channel.syncOptions else { throw ChannelError.operationUnsupported }
            try options.setOption(.allowRemoteHalfClosure, value: true)
            // One small read at a time: what is read before it is known to have room is little, and so is the memory of
            // an idle connection. A socket's own pieces are not much larger.
            try options.setOption(.maxMessagesPerRead, value: 1)
            try options.setOption(
                .recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: FrameAssembler.freeByteCount))
            try channel.pipeline.syncOperations.addHandler(
                FrameHandler(connections.value, peer: peer.credentials, role: server.role(of: peer)))
        }
    }
}
