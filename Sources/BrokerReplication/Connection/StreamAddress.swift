#if Replication
/// Where a stream is: `nats://HOST[:PORT],HOST[:PORT]…/NAME`, or `tls://…`, with `USER:PASSWORD@` before the hosts if needed.
package struct StreamAddress: Sendable, Equatable {
    /// The servers as libnats takes them: with the scheme and the port.
    let servers: [String]
    /// The stream's name, and the first token of its subjects.
    package let stream: String
    let user: String?
    let password: String?

    static let defaultPort = 4_222
    /// NATS allows more, but the name is also a token of subjects and a folder of the server.
    private static let longestName = 64

    /// The hosts, for messages.
    package var hosts: String { servers.joined(separator: ",") }

    /// - Throws: ``ReplicationError/Code/invalidAddress``.
    package init(_ text: String) throws(ReplicationError) {
        guard let schemeEnd = text.range(of: "://"),
            case let scheme = text[..<schemeEnd.lowerBound], scheme == "nats" || scheme == "tls",
            case let rest = text[schemeEnd.upperBound...], let slash = rest.lastIndex(of: "/")
        else { throw Self.invalid(text, "it does not have the form nats://HOST,HOST,HOST/NAME") }
        stream = String(rest[rest.index(after: slash)...])
        guard stream.utf8.count <= Self.longestName, !stream.isEmpty, stream.utf8.allSatisfy({ Self.isOfName($0) })
        else {
            throw Self.invalid(
                text, "the name of a stream has 1 to \(Self.longestName) letters, digits, hyphens and underscores")
        }
        var hosts = rest[..<slash]
        if let at = hosts.lastIndex(of: "@") {
            let parts = hosts[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { throw Self.invalid(text, "before @ there must be USER:PASSWORD") }
            (user, password) = (String(parts[0]), String(parts[1]))
            hosts = hosts[hosts.index(after: at)...]
        } else {
            (user, password) = (nil, nil)
        }
        var servers: [String] = []
        for host in hosts.split(separator: ",", omittingEmptySubsequences: false) {
            servers.append("\(scheme)://\(try Self.host(host, in: text))")
        }
        self.servers = servers
    }

    private init(_ address: StreamAddress, user: String, password: String) {
        servers = address.servers
        stream = address.stream
        self.user = user
        self.password = password
    }

    /// The same stream, as another user.
    package func signedIn(as user: String, password: String) -> StreamAddress {
        StreamAddress(self, user: user, password: password)
    }

    /// With the port.
    private static func host(_ host: Substring, in text: String) throws(ReplicationError) -> String {
        let isPlainIPv6 = host.hasPrefix("[") && host.hasSuffix("]")
        guard !isPlainIPv6, let colon = host.lastIndex(of: ":") else {
            guard !host.isEmpty else { throw invalid(text, "a host is empty") }
            return "\(host):\(defaultPort)"
        }
        guard colon != host.startIndex, let port = UInt16(host[host.index(after: colon)...]), port > 0 else {
            throw invalid(text, "\"\(host)\" is not HOST or HOST:PORT")
        }
        return String(host)
    }

    private static func isOfName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    private static func invalid(_ text: String, _ why: String) -> ReplicationError {
        // The text may have a password.
        let shown = text.split(separator: "@").last.map(String.init) ?? text
        return ReplicationError(
            .invalidAddress,
            "The address \"\(shown)\" of the log is invalid: \(why). For example: nats://n1,n2,n3:4222/orders.")
    }
}

extension String {
    /// Foundation's is not needed for one separator.
    fileprivate func range(of separator: String) -> Range<Index>? {
        var start = startIndex
        while start < endIndex {
            if self[start...].hasPrefix(separator) { return start..<index(start, offsetBy: separator.count) }
            start = index(after: start)
        }
        return nil
    }
}
#endif
