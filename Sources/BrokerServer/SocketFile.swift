internal import Glibc

/// The socket's file: claimed before listening, and taken away at the end.
struct SocketFile {
    let path: String

    /// Makes the path free: a stale file is removed, one that somebody listens on is left alone.
    ///
    /// - Throws: ``ServerError``, saying which process has the socket.
    func claim() throws(ServerError) {
        var status = stat()
        guard lstat(path, &status) == 0 else { return }
        guard status.st_mode & S_IFMT == S_IFSOCK else {
            throw ServerError("\(path) exists and is no socket. Give another --socket, or move that file away.")
        }
        if let owner = try listener() {
            throw ServerError(
                "Another broker, process \(owner), listens on \(path). Use that one, stop it, or give another --socket."
            )
        }
        guard unlink(path) == 0 else {
            throw ServerError(
                "The stale socket \(path) cannot be removed: \(String(cString: strerror(errno))). Remove it by hand.")
        }
    }

    /// Nobody but the owner and the group may connect.
    func restrict() throws(ServerError) {
        guard chmod(path, 0o660) == 0 else {
            throw ServerError("The socket \(path) cannot be given mode 0660: \(String(cString: strerror(errno))).")
        }
    }

    func remove() { unlink(path) }

    /// The process that accepts connections there; nil when nobody does.
    private func listener() throws(ServerError) -> Int32? {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { throw ServerError("No socket can be made: \(String(cString: strerror(errno))).") }
        defer { close(descriptor) }
        guard var address = sockaddr_un(path: path) else {
            throw ServerError(
                "The socket's path is longer than \(sockaddr_un.longestPath) bytes: \(path). Give a shorter one.")
        }
        let connected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard connected == 0 else { return nil }
        var peer = PeerCredentials()
        var size = socklen_t(MemoryLayout<PeerCredentials>.size)
        getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size)
        return peer.process
    }
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
