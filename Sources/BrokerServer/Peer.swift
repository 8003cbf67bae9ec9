internal import BrokerWire
internal import Glibc
internal import NIOCore

/// The credentials of the peer of a Unix socket: the kernel's `struct ucred`, which only GNU's headers declare
/// (unix(7)).
struct PeerCredentials: Sendable {
    var process: Int32 = 0
    var user: UInt32 = 0
    var group: UInt32 = 0
}

/// The peer as the kernel saw it when it connected: later changes of its user and groups have no effect.
struct Peer: Sendable {
    var credentials = PeerCredentials()
    /// The groups of the process at that time; empty where no rule asks for them.
    var supplementaryGroups: [UInt32] = []

    /// - Parameter wantsGroups: whether the supplementary groups are looked up, too.
    init(of channel: any Channel, wantsGroups: Bool) throws {
        let peer = try channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
            try Peer(descriptor: $0, wantsGroups: wantsGroups)
        }
        guard let peer else { throw ServerError("The channel is no socket.") }
        self = peer
    }

    /// - Throws: ``ServerError``; the peer may not be served then.
    init(descriptor: Int32, wantsGroups: Bool) throws(ServerError) {
        var size = socklen_t(MemoryLayout<PeerCredentials>.size)
        guard getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 else {
            throw ServerError("The user of the client cannot be determined: \(String(cString: strerror(errno))).")
        }
        if wantsGroups { supplementaryGroups = try Self.supplementaryGroups(of: descriptor) }
    }

    /// The groups of the process itself, not those that the system lists for its user: reading that list may mean
    /// asking another machine, and it does not say what the process may do.
    private static func supplementaryGroups(of descriptor: Int32) throws(ServerError) -> [UInt32] {
        var groups: [UInt32] = []
        var size: socklen_t = 0
        while getsockopt(descriptor, SOL_SOCKET, SO_PEERGROUPS, &groups, &size) != 0 {
            // The size is right now.
            guard errno == ERANGE, Int(size) > groups.count * MemoryLayout<UInt32>.size else {
                throw ServerError(
                    "The groups of the client cannot be determined: \(String(cString: strerror(errno))).")
            }
            groups = [UInt32](repeating: .max, count: Int(size) / MemoryLayout<UInt32>.size)
        }
        return Array(groups.prefix(Int(size) / MemoryLayout<UInt32>.size))
    }
}

extension ServerOptions {
    /// The highest role that the peer has by its user and its groups; nil when it is not served.
    func role(of peer: Peer) -> ClientRole? {
        let roles = ([peer.credentials.group] + peer.supplementaryGroups).compactMap { allowedGroups[$0] }
        return (roles + [allowedUsers[peer.credentials.user]].compactMap(\.self)).max()
    }

    /// The error for a peer that has no role.
    static func refusal(of peer: PeerCredentials) -> WireError {
        let (user, group) = (peer.user, peer.group)
        return WireError(
            .unauthorized,
            "The user with the id \(user) may not use this server. Run as its user or as root, or have its operator "
                + "add --allow-user \(user), or --allow-group with a group that you run with (\(group), for one).")
    }
}

extension WireError {
    /// The server has no room for a client now; another attempt is worth it in about a second.
    static func busy(_ message: String) -> WireError {
        var error = WireError(.busy, message)
        error.retryAfterMilliseconds = 1_000
        return error
    }
}
