internal import BrokerWire
internal import Glibc
internal import NIOCore

/// Who is at the other end of a Unix socket: the kernel's `struct ucred`, which only GNU's headers declare (unix(7)).
struct PeerCredentials: Sendable {
    var process: Int32 = 0
    var user: UInt32 = 0
    var group: UInt32 = 0
}

enum Peer {
    /// The process that connected and its user, as the kernel saw them then.
    static func credentials(of channel: any Channel) -> EventLoopFuture<PeerCredentials> {
        guard let socket = channel as? any SocketOptionProvider else {
            return channel.eventLoop.makeFailedFuture(ServerError("The channel is no socket."))
        }
        return socket.unsafeGetSocketOption(level: .socket, name: NIOBSDSocket.Option(rawValue: SO_PEERCRED))
    }
}

extension ServerOptions {
    /// Why that user is not served; nil when it is.
    func refusal(ofUser user: UInt32) -> WireError? {
        guard !allowedUsers.contains(user) else { return nil }
        return WireError(
            .unauthorized,
            "The user with the id \(user) may not use this server. Run as its user or as root, or have its operator add "
                + "--allow-user \(user).")
    }
}

extension WireError {
    /// That there is no room for a client now; it is worth trying again in about a second.
    static func busy(_ message: String) -> WireError {
        var error = WireError(.busy, message)
        error.retryAfterMilliseconds = 1_000
        return error
    }
}
