internal import NIOCore
internal import NIOPosix

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
