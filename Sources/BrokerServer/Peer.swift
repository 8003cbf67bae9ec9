internal import BrokerWire
internal import Glibc
internal import NIOCore
internal import Synchronization

/// Who is at the other end of a Unix socket: the kernel's `struct ucred`, which only GNU's headers declare (unix(7)).
struct PeerCredentials: Sendable {
    var process: Int32 = 0
    var user: UInt32 = 0
    var group: UInt32 = 0
}

enum Peer {
    /// The user of the process that connected, as the kernel saw it then.
    static func user(of channel: any Channel) -> EventLoopFuture<UInt32> {
        guard let socket = channel as? any SocketOptionProvider else {
            return channel.eventLoop.makeFailedFuture(ServerError("The channel is no socket."))
        }
        let credentials: EventLoopFuture<PeerCredentials> = socket.unsafeGetSocketOption(
            level: .socket, name: NIOBSDSocket.Option(rawValue: SO_PEERCRED))
        return credentials.map(\.user)
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

/// The connections that are open.
final class ConnectionSet: Sendable {
    private let handlers = Mutex<[ObjectIdentifier: NIOLoopBound<FrameHandler>]>([:])
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    /// Why no more clients are served now; nil when there is a place.
    var refusal: WireError? {
        guard handlers.withLock({ $0.count >= limit }) else { return nil }
        var error = WireError(
            .busy, "All \(limit) connections of this server are taken. Try again, or close some.")
        error.retryAfterMilliseconds = 1_000
        return error
    }

    func add(_ identifier: ObjectIdentifier, _ handler: NIOLoopBound<FrameHandler>) {
        handlers.withLock { $0[identifier] = handler }
    }

    func remove(_ identifier: ObjectIdentifier) {
        handlers.withLock { $0[identifier] = nil }
    }

    /// Does something to each connection on its event loop, and waits for that.
    func forEach(_ body: @escaping @Sendable (FrameHandler) -> Void) async {
        for handler in handlers.withLock({ Array($0.values) }) {
            await withCheckedContinuation { continuation in
                handler.eventLoop.execute {
                    body(handler.value)
                    continuation.resume()
                }
            }
        }
    }
}
