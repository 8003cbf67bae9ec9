internal import Glibc

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
struct SocketFile {
    let path: String
    var access = SocketAccess()

    /// Frees the path, and makes sure that a socket can be made there: deletes a stale file, and leaves one that a
    /// process has open.
    ///
    /// - Throws: ``ServerError``, which names the process that has the socket.
    func claim() throws(ServerError) {
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
        guard path.utf8.count <= sockaddr_un.longestPath else {
            throw ServerError(
                "The socket's path is longer than \(sockaddr_un.longestPath) bytes: \(path). Give a shorter one.")
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
    func inspect() throws(ServerError) -> SocketCondition {
        try checkPath()
        if let group = access.group, geteuid() != 0, !Self.ownGroups.contains(group) {
            throw ServerError(
                "The socket \(path) cannot be given to the group \(group), which this process is not in. Run the server "
                    + "as root or as a user in that group, or omit --socket-group.")
        }
        var folder = path.utf8.lastIndex(of: UInt8(ascii: "/")).map { String(path[..<$0]) } ?? "."
        if folder.isEmpty { folder = "/" }
        guard Glibc.access(folder, W_OK | X_OK) == 0 else {
            throw ServerError(
                "The socket \(path) cannot be made: \(folder): \(reason()). Give a path in a folder that is there and may be written."
            )
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
                throw ServerError("The socket \(path) cannot be made: \(reason()).")
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
            switch errno {
            // No process has it open (connect(2)), or the last has just ended.
            case ECONNREFUSED, ENOENT: return nil
            case EPROTOTYPE:
                throw ServerError(
                    "\(path) is a socket of another kind, and some process has it open. Give another --socket.")
            case EAGAIN:
                throw ServerError(
                    "Another process listens on \(path), and is too busy to say which. Give another --socket.")
            default:
                throw ServerError("Whether \(path) is in use cannot be determined: \(reason()). Give another --socket.")
            }
        }
        var peer = PeerCredentials()
        var size = socklen_t(MemoryLayout<PeerCredentials>.size)
        getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size)
        return peer.process
    }

    /// Makes a socket there and deletes it again, so that a server that cannot have it touches nothing else.
    private func tryOut() throws(ServerError) {
        let descriptor = try makeSocket()
        defer { close(descriptor) }
        guard try call(Glibc.bind, descriptor) else {
            throw ServerError(
                "The socket \(path) cannot be made: \(reason()). Give a path in a folder that is there and may be written."
            )
        }
        defer { unlink(path) }
        try giveToGroup()
    }

    /// The file has been made.
    private func giveToGroup() throws(ServerError) {
        guard let group = access.group, lchown(path, .max, group) != 0 else { return }
        let remedy =
            errno == EPERM
            ? "A process may give files only to groups that it is in: run the server as root or as a user in that "
                + "group, or omit --socket-group"
            : "Give another --socket-group"
        throw ServerError("The socket \(path) cannot be given to the group \(group): \(reason()). \(remedy).")
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
        guard var address = sockaddr_un(path: path) else {
            throw ServerError("The socket's path is too long: \(path).")
        }
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                function(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
    }

    private func reason() -> String { String(cString: strerror(errno)) }
}

extension sockaddr_un {
    /// unix(7): 108 bytes with the closing zero.
    static let longestPath = 107

    /// Nil when the path does not fit.
    init?(path: String) {
        guard path.utf8.count <= Self.longestPath else { return nil }
        self.init()
        sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &sun_path) { $0.copyBytes(from: path.utf8) }
    }
}
