import BrokerCommandLine
import Glibc

/// The variables by which a service manager starts a service (sd_notify(3), sd_watchdog_enabled(3), sd_listen_fds(3)).
///
/// They are read once and removed, so that no process that this one starts mistakes them for its own.
struct ServiceEnvironment: Sendable, Equatable {
    /// The address of the datagram socket that takes notifications; nil without a service manager.
    var notifySocket: String?
    /// The manager ends the service that has not notified it for so long; nil for never.
    var watchdogMicroseconds: Int64?
    /// Sockets that the manager has opened: the descriptors from 3 on.
    var descriptorCount = 0

    static let names = [
        "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES",
    ]

    /// - Parameters:
    ///   - variables: by name.
    ///   - process: of this server: what is addressed to another one is ignored.
    init(_ variables: [String: String], process: Int32) {
        let own = String(process)
        if let address = variables["NOTIFY_SOCKET"], !address.isEmpty { notifySocket = address }
        if variables["WATCHDOG_PID"] ?? own == own,
            let time = variables["WATCHDOG_USEC"].flatMap({ Int64($0) }), time > 0
        {
            watchdogMicroseconds = time
        }
        if variables["LISTEN_PID"] == own, let count = variables["LISTEN_FDS"].flatMap({ Int($0) }), count > 0 {
            descriptorCount = count
        }
    }

    /// Takes the variables from the environment. To be called once, before there are other threads.
    static func take() -> ServiceEnvironment {
        var variables: [String: String] = [:]
        for name in names {
            guard let value = getenv(name) else { continue }
            variables[name] = String(cString: value)
            unsetenv(name)
        }
        return ServiceEnvironment(variables, process: getpid())
    }
}

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

/// The datagram socket of the service manager (sd_notify(3)).
final class NotifySocket: Sendable {
    private let descriptor: Int32

    /// - Parameter address: of a socket in the file system, or with `@` in the abstract namespace (unix(7)).
    /// - Throws: the reason why nothing can be sent there.
    init(_ address: String) throws(Failure) {
        var name = sockaddr_un()
        name.sun_family = sa_family_t(AF_UNIX)
        var bytes = Array(address.utf8)
        // The closing zero is part of a path only.
        guard let first = bytes.first, first == UInt8(ascii: "/") || first == UInt8(ascii: "@"),
            bytes.count < MemoryLayout.size(ofValue: name.sun_path)
        else { throw Failure(reason: "the address is neither an absolute path nor abstract, or it is too long") }
        if first == UInt8(ascii: "@") { bytes[0] = 0 }
        withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: bytes) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw Failure(reason: String(cString: strerror(errno))) }
        let isConnected = withUnsafePointer(to: &name) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, length) == 0 }
        }
        guard isConnected else {
            let reason = String(cString: strerror(errno))
            close(descriptor)
            throw Failure(reason: reason)
        }
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    struct Failure: Error {
        let reason: String
    }

    /// Sends assignments (`READY=1`), a line each, in one datagram.
    ///
    /// - Returns: false when the manager does not take it now; this never blocks.
    func send(_ assignments: [String]) -> Bool {
        guard !assignments.isEmpty else { return true }
        let bytes = Array(assignments.joined(separator: "\n").utf8)
        return Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT)) >= 0
    }
}
