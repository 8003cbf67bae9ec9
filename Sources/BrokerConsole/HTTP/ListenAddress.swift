internal import BrokerCommandLine
internal import FlyingFox
internal import FlyingSocks
internal import Glibc

/// Where pages are served: a port of an address of this machine, or a Unix socket.
package enum ListenAddress: Sendable, Equatable, CustomStringConvertible {
    case port(host: String, UInt16)
    case unix(String)

    /// - Parameter text: `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080` or `unix:PATH`.
    package init?(_ text: String) {
        if text.hasPrefix("unix:") {
            let path = String(text.dropFirst(5))
            // sun_path of unix(7).
            guard !path.isEmpty, path.utf8.count < 108 else { return nil }
            self = .unix(path)
            return
        }
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            return nil
        }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        if host == "localhost" { host = "127.0.0.1" }
        self = .port(host: host, port)
        guard host.contains(":") ? ipv6 != nil : ipv4 != nil else { return nil }
    }

    package var description: String {
        switch self {
        case .unix(let path): "unix:\(path)"
        case .port: authority(nil)
        }
    }

    /// Nothing but this machine reaches it.
    package var isLocal: Bool {
        switch self {
        case .unix: true
        case .port(let host, _):
            host.hasPrefix("127.") || ipv6.map { withUnsafeBytes(of: $0.sin6_addr, Array.init) } == Self.loopback
        }
    }

    private static let loopback: [UInt8] = Array(repeating: 0, count: 15) + [1]

    private var ipv4: sockaddr_in? {
        guard case .port(let host, let port) = self else { return nil }
        return try? .inet(ip4: host, port: port)
    }

    private var ipv6: sockaddr_in6? {
        guard case .port(let host, let port) = self, host.contains(":") else { return nil }
        return try? .inet6(ip6: host, port: port)
    }

    func configuration() throws -> HTTPServer.Configuration {
        let address: (any SocketAddress)? =
            if case .unix(let path) = self { sockaddr_un.unix(path: path) } else { ipv6 ?? ipv4 }
        guard let address else { throw CommandFailure("\(self) is no address.") }
        return HTTPServer.Configuration(address: address, timeout: 60, logger: .disabled)
    }

    /// As it stands in the address of a page, with the port that the kernel chose for 0.
    func authority(_ bound: Socket.Address?) -> String {
        switch (self, bound) {
        case (.unix, _): "localhost"
        case (.port(let host, _), .ip4(_, let port)): "\(host):\(port)"
        case (.port(let host, _), .ip6(_, let port)): "[\(host)]:\(port)"
        case (.port(let host, let port), _): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        }
    }
}
