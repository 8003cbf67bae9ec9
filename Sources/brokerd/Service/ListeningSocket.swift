import BrokerCommandLine
import Glibc

/// A socket that the service manager has opened, and on which clients may wait already (sd_listen_fds(3)).
///
/// Its file is the manager's: the server neither makes nor removes it, and leaves its permissions.
struct ListeningSocket: Sendable, Equatable {
    let descriptor: Int32
    /// As the kernel names it; `@` for the abstract namespace.
    let path: String

    private static let first: Int32 = 3

    /// - Parameter count: of the descriptors that the manager has passed.
    /// - Returns: nil when there is none.
    /// - Throws: one line, unless it is one Unix stream socket that listens.
    static func take(_ count: Int) throws(CommandFailure) -> ListeningSocket? {
        guard count > 0 else { return nil }
        guard count == 1 else {
            throw refused("\(count) sockets, and brokerd serves one. Write one ListenStream= in the socket unit")
        }
        guard fcntl(first, F_SETFD, FD_CLOEXEC) == 0 else {
            throw refused("descriptor \(first), which is not open. Unset LISTEN_FDS, or pass the socket")
        }
        let kind = "Write ListenStream= with the path of a Unix socket in the socket unit"
        guard option(SO_DOMAIN) == AF_UNIX else {
            throw refused("descriptor \(first), which is no Unix socket. \(kind)")
        }
        guard option(SO_TYPE) == Int32(SOCK_STREAM.rawValue) else {
            throw refused("a Unix socket without streams. \(kind)")
        }
        guard option(SO_ACCEPTCONN) == 1 else {
            throw refused("a socket that does not listen. Write Accept=no in the socket unit")
        }
        return ListeningSocket(descriptor: first, path: name())
    }

    private static func refused(_ what: String) -> CommandFailure {
        CommandFailure(.failed, "The service manager has passed \(what).")
    }

    /// Nil for what is no socket.
    private static func option(_ name: Int32) -> Int32? {
        var value: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        return getsockopt(first, SOL_SOCKET, name, &value, &size) == 0 ? value : nil
    }

    private static func name() -> String {
        var address = sockaddr_un()
        var size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(first, $0, &size) }
        }
        let count = Int(size) - MemoryLayout<sa_family_t>.size
        guard result == 0, count > 0 else { return "an unnamed socket" }
        let bytes = withUnsafeBytes(of: &address.sun_path) { Array($0.prefix(count)) }
        guard bytes[0] == 0 else { return String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self) }
        return "@" + String(decoding: bytes.dropFirst(), as: UTF8.self)
    }
}
