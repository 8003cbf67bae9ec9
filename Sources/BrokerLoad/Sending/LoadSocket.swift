internal import Glibc

/// One Unix socket that never blocks. Belongs to the thread that made it.
final class LoadSocket {
    let descriptor: Int32

    /// - Throws: `cannotConnect` with what the system says.
    init(connectingTo path: String) throws(LoadError) {
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw Self.failure(path) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        guard path.utf8.count < MemoryLayout.size(ofValue: address.sun_path) else {
            throw LoadError(.cannotConnect, "The socket's path \(path) is longer than a Unix socket's may be.")
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, size) }
        }
        guard result == 0 else { throw Self.failure(path) }
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
    }

    deinit { close(descriptor) }

    private static func failure(_ path: String) -> LoadError {
        LoadError(
            .cannotConnect,
            "There is no server at \(path): \(String(cString: strerror(errno))). Start brokerd, or name its --socket.")
    }

    enum Transfer {
        case bytes(Int)
        /// Nothing more can be had or taken now.
        case wouldBlock
        case closed
    }

    func send(_ bytes: UnsafeRawBufferPointer) -> Transfer {
        let count = Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
        return transfer(count)
    }

    func receive(into bytes: UnsafeMutableRawBufferPointer) -> Transfer {
        let count = recv(descriptor, bytes.baseAddress, bytes.count, 0)
        return count == 0 ? .closed : transfer(count)
    }

    private func transfer(_ count: Int) -> Transfer {
        if count >= 0 { return .bytes(count) }
        return errno == EAGAIN || errno == EINTR ? .wouldBlock : .closed
    }

    /// The process at the other end (unix(7), SO_PEERCRED); nil when the kernel does not report it.
    var peerProcess: Int32? {
        // `struct ucred`: pid, uid, gid.
        var peer: (Int32, UInt32, UInt32) = (0, 0, 0)
        var size = socklen_t(MemoryLayout.size(ofValue: peer))
        guard getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0, peer.0 > 0 else { return nil }
        return peer.0
    }
}

/// Nanoseconds of a clock that never goes back.
package func monotonicNanoseconds() -> UInt64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
}
