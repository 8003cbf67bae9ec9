package import BrokerModel
package import BrokerSchema
internal import BrokerStore
package import BrokerWire
internal import Glibc
internal import Logging
internal import NIOCore

/// The permissions of a socket's file.
package struct SocketAccess: Sendable, Equatable {
    /// Not open to others by default.
    package static let defaultMode: UInt32 = 0o660

    /// Independent of the process's mask.
    package var mode: UInt32
    /// The group by its number; nil leaves the one that the system gives a new file.
    package var group: UInt32?

    package init(mode: UInt32 = defaultMode, group: UInt32? = nil) {
        self.mode = mode
        self.group = group
    }
}

/// The state of the place where a server would listen.
package enum SocketCondition: Sendable, Equatable {
    case free
    /// A socket that no process has open.
    case stale
    case served(by: Int32)
}

/// The socket's file: claimed before listening, and deleted at the end.
package struct SocketFile {
    /// unix(7): 108 bytes with the closing zero.
    private static let longestPath = 107

    let path: String
    let access: SocketAccess

    package init(path: String, access: SocketAccess = SocketAccess()) { (self.path, self.access) = (path, access) }

    /// Frees the path, and makes sure that a socket can be made there: deletes a stale file, and leaves one that a
    /// process has open.
    ///
    /// - Throws: ``ServerError``, which names the process that has the socket.
    package func claim() throws(ServerError) {
        try checkPath()
        if try isSocket() {
            if let process = try listener() {
                throw ServerError(
                    "Another broker, process \(process), listens on \(path). Use that one, stop it, or give another --socket."
                )
            }
            guard unlink(path) == 0 else {
                throw ServerError("The stale socket \(path) cannot be removed: \(reason()). Remove it by hand.")
            }
        }
        try tryOut()
    }

    private func checkPath() throws(ServerError) {
        // An empty path would be a socket without a file (unix(7), "abstract").
        guard !path.isEmpty else { throw ServerError("The socket's path is empty. Give a path.") }
        guard path.utf8.count <= Self.longestPath else {
            throw ServerError(
                "The socket's path is longer than \(Self.longestPath) bytes: \(path). Give a shorter one.")
        }
    }

    /// - Throws: when another file is there.
    private func isSocket() throws(ServerError) -> Bool {
        var status = stat()
        guard lstat(path, &status) == 0 else { return false }
        guard status.st_mode & S_IFMT == S_IFSOCK else {
            throw ServerError("\(path) exists and is no socket. Give another --socket, or move that file away.")
        }
        return true
    }

    /// Checks whether the socket could be made; makes and removes nothing.
    ///
    /// - Throws: ``ServerError`` when it could not.
    package func inspect() throws(ServerError) -> SocketCondition {
        try checkPath()
        if let group = access.group, geteuid() != 0, !Self.ownGroups.contains(group) {
            throw notGiven(to: group, "This process is not in it")
        }
        var folder = path.utf8.lastIndex(of: UInt8(ascii: "/")).map { String(path[..<$0]) } ?? "."
        if folder.isEmpty { folder = "/" }
        guard Glibc.access(folder, W_OK | X_OK) == 0 else {
            throw notMade("\(folder): \(reason())")
        }
        guard try isSocket() else { return .free }
        return try listener().map { .served(by: $0) } ?? .stale
    }

    private static var ownGroups: [UInt32] {
        var groups = [gid_t](repeating: 0, count: max(0, Int(getgroups(0, nil))))
        let count = getgroups(Int32(groups.count), &groups)
        return groups.prefix(max(0, Int(count))) + [getegid()]
    }

    /// Makes the socket and its file, which never has more permissions than ``access``.
    ///
    /// - Returns: the socket, bound, for the caller to close; and its file.
    func bind() throws(ServerError) -> (descriptor: Int32, file: Bound) {
        let descriptor = try makeSocket()
        var status = stat()
        do throws(ServerError) {
            // The file takes its mode from the socket: the owner's alone until it has its group.
            guard fchmod(descriptor, 0o600) == 0, try call(Glibc.bind, descriptor) else {
                throw notMade(reason())
            }
            do throws(ServerError) {
                try giveToGroup()
                guard chmod(path, access.mode) == 0, lstat(path, &status) == 0 else {
                    throw ServerError("The permissions of the socket \(path) cannot be set: \(reason()).")
                }
            } catch {
                unlink(path)
                throw error
            }
        } catch {
            close(descriptor)
            throw error
        }
        return (descriptor, Bound(path: path, identity: Bound.Identity(status)))
    }

    /// The file of a socket of this server.
    struct Bound: Sendable {
        /// The number of a deleted file is used again, so the time of creation is part of its identity.
        fileprivate struct Identity: Sendable, Equatable {
            let numbers: [UInt64]

            init(_ status: stat) {
                numbers = [
                    UInt64(status.st_dev), UInt64(status.st_ino), UInt64(bitPattern: Int64(status.st_ctim.tv_sec)),
                    UInt64(bitPattern: Int64(status.st_ctim.tv_nsec)),
                ]
            }
        }

        let path: String
        fileprivate let identity: Identity

        /// Deletes the file, unless another has replaced it.
        func remove() {
            var status = stat()
            if lstat(path, &status) == 0, Identity(status) == identity { unlink(path) }
        }
    }

    /// The process that listens on the socket; nil when no process has it open.
    private func listener() throws(ServerError) -> Int32? {
        let descriptor = try makeSocket()
        defer { close(descriptor) }
        guard try call(Glibc.connect, descriptor) else {
            // No process has it open (connect(2)), or the last has just ended.
            if errno == ECONNREFUSED || errno == ENOENT { return nil }
            throw ServerError("Some process may have \(path) open: \(reason()). Give another --socket.")
        }
        return try Peer(descriptor: descriptor, wantsGroups: false).credentials.process
    }

    /// Makes a socket there and deletes it again, so that a server that cannot have it touches nothing else.
    private func tryOut() throws(ServerError) {
        let descriptor = try makeSocket()
        defer { close(descriptor) }
        guard try call(Glibc.bind, descriptor) else {
            throw notMade(reason())
        }
        defer { unlink(path) }
        try giveToGroup()
    }

    /// The file has been made.
    private func giveToGroup() throws(ServerError) {
        guard let group = access.group, lchown(path, .max, group) != 0 else { return }
        throw notGiven(to: group, reason())
    }

    private func notGiven(to group: UInt32, _ reason: String) -> ServerError {
        ServerError(
            "The socket \(path) cannot be given to the group \(group): \(reason). Run the server as root or as a user in "
                + "that group, or omit --socket-group.")
    }

    private func notMade(_ reason: String) -> ServerError {
        ServerError(
            "The socket \(path) cannot be made: \(reason). Give a path in a folder that is there and may be written.")
    }

    private func makeSocket() throws(ServerError) -> Int32 {
        let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(AF_UNIX, kind, 0)
        guard descriptor >= 0 else { throw ServerError("No socket can be made: \(reason()).") }
        return descriptor
    }

    /// Calls connect(2) or bind(2) with the path.
    ///
    /// - Returns: whether it succeeded; otherwise `errno` says why.
    private func call(
        _ function: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32, _ descriptor: Int32
    ) throws(ServerError) -> Bool {
        guard let address = try? SocketAddress(unixDomainSocketPath: path) else {
            throw ServerError("The socket's path is too long: \(path).")
        }
        return address.withSockAddr { function(descriptor, $0, socklen_t($1)) == 0 }
    }

    private func reason() -> String { String(cString: strerror(errno)) }
}

/// The server's socket, its users and its limits.
package struct ServerOptions: Sendable {
    /// Connections at a time: each costs some tens of kilobytes at most, while it is idle.
    package static let defaultConnections = 1_024
    /// Jobs of one connection admitted and not answered; above that, the server does not read from it until some are.
    package static let defaultJobsPerConnection = 1_024
    /// Seconds that clients have for their answers when the server stops; service managers wait 90 (systemd's
    /// `DefaultTimeoutStopSec`).
    package static let defaultDrainSeconds = 30

    /// Nil for no socket: the server serves only those whom ``BrokerServer/BrokerServer/makeConnection()`` connects.
    package var socketPath: String?
    /// A socket that listens already, and which another program has made for this one; its file is left alone. Nil to
    /// make one at ``socketPath``.
    package var listeningDescriptor: Int32?
    package var frameLimits = FrameLimits()
    package var connections = defaultConnections
    package var jobsPerConnection = defaultJobsPerConnection
    /// Seconds that clients have for their answers when the server stops.
    package var drainSeconds = defaultDrainSeconds
    /// Seconds that a question waits until the server has applied the sequence that it names.
    package var applicationSeconds: Int64 = 10
    package var users = UserRules()
    /// The permissions of the socket's file; peers that it lets in are checked all the same.
    package var socketAccess = SocketAccess()
    /// Begins the end of the server, as a signal does; nil where another program decides that.
    package var drain: (@Sendable () -> Void)?
    /// Reads the model again; nil where another program decides that. Must not block; reports the changes of the store, a line
    /// each, or why the old model stays in force: once, on any thread.
    package var reload: (@Sendable (_ notify: @escaping @Sendable (Result<[String], Fault>) -> Void) -> Void)?
    /// Changes the store to the model as it now is, or reports what that would do; nil where another program decides that.
    /// Must not block; reports the changes once, on any thread.
    package var migrate:
        (@Sendable (MigrateMessage, _ notify: @escaping @Sendable (Result<[StoreChange], Fault>) -> Void) -> Void)?
    /// The paths that the answer to `migrate` names; none where another program has the model.
    package var modelFiles: [String] = []
    package var storeFile: String?
    /// A line in the log for each slow job.
    package var logsSlowJobs = false
    package var serverName = "broker \(BrokerVersion.text)"

    /// How long a connection may stay on which the client has sent nothing yet.
    var silence = TimeAmount.seconds(30)
    /// How long a client whose connection is ended may go on sending before it is cut.
    var linger = TimeAmount.seconds(1)
    /// The limits of answers: the protocol's.
    package var answerLimits = FrameLimits()
    /// A client with that many bytes of unread answers is cut off: two of the largest frames, and some. Only answers
    /// that cannot wait can gather: `pong`, `stats`, `jobs`, `model`, and small ones.
    var cutOffBytes = 40 << 20
    /// Bytes of all clients that arrived unasked, with the end of their sending sides: the contents of some hundred
    /// clients' sockets.
    var backlogBytes = 32 << 20

    package init(socketPath: String?) { self.socketPath = socketPath }
}

/// The server could not start.
package struct ServerError: Error, Sendable, CustomStringConvertible {
    /// What happened and the remedy, in one line.
    package let message: String

    init(_ message: String) { self.message = message }

    package var description: String { message }
}

/// The credentials of the peer of a Unix socket: the kernel's `struct ucred`, which only GNU's headers declare
/// (unix(7)).
struct PeerCredentials: Sendable {
    var process: Int32 = 0
    var user: UInt32 = 0
    var group: UInt32 = 0

    /// The owner under which the jobs of its user are recorded.
    var owner: JobOwner { JobOwner(user: user) }

    /// The peer, for the log.
    var metadata: Logger.Metadata { ["user": "\(user)", "process": "\(process)"] }
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

extension WireError {
    /// The server has no room for a client now; another attempt is worth it in about a second.
    static func busy(_ message: String) -> WireError {
        var error = WireError(.busy, message)
        error.retryAfterMilliseconds = 1_000
        return error
    }
}
