#if Replication
internal import BrokerJournal
internal import CNATS
internal import Glibc
internal import Synchronization

/// A connection to the servers of a stream. It is made again for ever; only refused credentials, or ``stop()``, end it.
///
/// Any thread may call any method. A call that talks to the servers blocks its thread until they answer, until its time is over, or
/// until ``stop()``.
package final class StreamConnection: @unchecked Sendable {
    package let address: StreamAddress
    /// libnats makes it safe across threads; it is destroyed only with this object.
    let connection: OpaquePointer
    let events: ConnectionEvents
    let router: MessageRouter
    /// Set once, in init.
    private var subscription: NATSSubscription?

    /// Connects. When no server can be reached, it returns nevertheless after some seconds, and the attempts continue.
    package init(_ address: StreamAddress, files: ConnectionFiles = ConnectionFiles()) throws(ReplicationError) {
        self.address = address
        events = ConnectionEvents()
        let options = try NATSOptions(address, files, events: events)
        var connection: OpaquePointer?
        let status = natsConnection_Connect(&connection, options.pointer)
        guard status == NATS_OK || status == NATS_NOT_YET_CONNECTED, let connection else {
            throw Self.refusal(address, status)
        }
        self.connection = connection
        router = MessageRouter()
        // libnats calls back only when the first attempt has failed.
        if status == NATS_OK { events.connected(connection) }
        do throws(NATSFailure) {
            subscription = try NATSSubscription(router, on: connection)
        } catch {
            // libnats may have given up in the meantime; it says why from another thread.
            if natsConnection_IsClosed(connection) { awaitClosing() }
            try checkClosed()
            throw ReplicationError(.unavailable, "The connection to \(address.hosts) cannot receive: \(error.text).")
        }
    }

    private static func refusal(_ address: StreamAddress, _ status: natsStatus) -> ReplicationError {
        let why = NATSFailure(status).text
        guard status == NATS_CONNECTION_AUTH_FAILED || status == NATS_NOT_PERMITTED else {
            return ReplicationError(
                .unavailable,
                "No connection to \(address.hosts) can be made: \(why). Check the addresses and certificates.")
        }
        return ReplicationError(
            .notAuthorized,
            "The servers \(address.hosts) refuse the credentials: \(why). Check the file of credentials.")
    }

    deinit {
        natsConnection_Close(connection)
        // The callbacks of libnats use the events until then.
        if !awaitClosing() { _ = Unmanaged.passRetained(events) }
        // No message arrives any more.
        subscription = nil
        natsConnection_Destroy(connection)
    }

    /// - Returns: false when libnats has not called back in time.
    @discardableResult private func awaitClosing() -> Bool {
        let deadline = monotonicMicroseconds() + Self.closingTime
        return events.state.wait(until: deadline) { $0.isClosed ? true : nil } ?? false
    }

    /// Microseconds. libnats calls within milliseconds.
    private static let closingTime: Int64 = 5_000_000

    /// Ends all blocked calls, with ``ReplicationError/Code/stopped``; later ones end at once.
    package func stop() {
        events.state.update { $0.isStopped = true }
        // Requests end with it.
        natsConnection_Close(connection)
    }

    /// Wakes the waiting threads, which look at their tokens.
    func wake() { events.state.update { _ in } }

    package var state: ConnectionState {
        events.state.withLock {
            ConnectionState(
                isConnected: $0.isConnected, connections: $0.connections, server: $0.server, lastError: $0.lastError)
        }
    }

    /// The largest message that the server takes, in bytes; 0 without a connection.
    var maximumPayload: Int { Int(natsConnection_GetMaxPayload(connection)) }
}

/// A connection, as an operator sees it.
package struct ConnectionState: Sendable {
    package let isConnected: Bool
    /// How often a connection was made.
    package let connections: Int
    /// The URL of the server that it is made to.
    package let server: String?
    package let lastError: String?
}

// MARK: - Requests

extension StreamConnection {
    enum Answer: Sendable {
        case message([UInt8])
        /// Nothing listens to the subject.
        case noResponders
        case disconnected
        case timedOut
        case stopped
    }

    /// Sends a message and waits for the answer.
    ///
    /// - Parameter deadline: microseconds of the monotonic clock.
    func request(_ message: NATSMessage, deadline: Int64) -> Answer {
        // The events learn of a lost connection later; a request that libnats keeps for the next one would wait for its time.
        guard natsConnection_Status(connection) == NATS_CONN_STATUS_CONNECTED else { return noConnection }
        switch message.request(on: connection, milliseconds: max(1, (deadline - monotonicMicroseconds()) / 1_000)) {
        case .success(let reply):
            defer { reply.destroy() }
            return .message(Array(reply.bytes))
        case .failure(let failure):
            switch failure.status {
            case NATS_NO_RESPONDERS: return .noResponders
            case NATS_TIMEOUT: return .timedOut
            default: return noConnection
            }
        }
    }

    private var noConnection: Answer { events.state.withLock { $0.isStopped } ? .stopped : .disconnected }

    func request(_ subject: String, _ bytes: [UInt8], deadline: Int64) -> Answer {
        do throws(NATSFailure) {
            let message = try NATSMessage(subject, bytes, headers: [])
            defer { message.destroy() }
            return request(message, deadline: deadline)
        } catch {
            return .disconnected
        }
    }

    /// Waits for so many microseconds, or for the stop.
    func pause(_ duration: Int64, _ token: StopToken?) throws(ReplicationError) {
        let isStopped: Bool? = events.state.wait(until: monotonicMicroseconds() + duration) { state in
            state.isStopped || token?.isStopped == true ? true : nil
        }
        if isStopped == true { throw .stopped }
    }

    func checkStopped(_ token: StopToken?) throws(ReplicationError) {
        if token?.isStopped == true || events.state.withLock({ $0.isStopped }) { throw .stopped }
    }
}

extension ReplicationError {
    static var stopped: Self { Self(.stopped, "The connection to the log was stopped.") }
}

package struct ConnectionFiles: Sendable {
    /// A user's JWT and seed, as `nsc` writes them.
    package var credentials: String?
    /// The authorities that the servers' certificates are checked against; the system's without it.
    package var authorities: String?

    package init(credentials: String? = nil, authorities: String? = nil) {
        self.credentials = credentials
        self.authorities = authorities
    }
}

/// The options of a connection, for libnats.
struct NATSOptions: ~Copyable {
    let pointer: OpaquePointer

    /// Milliseconds to connect to one server.
    private static let connectTimeout: Int64 = 2_000
    /// Milliseconds. A server that answers neither of two is left for another one.
    private static let pingInterval: Int64 = 2_000
    private static let pingsWithoutAnswer: Int32 = 2
    /// Milliseconds between two attempts to connect to the same server, and the bound of what is added at random.
    private static let reconnectWait: Int64 = 200
    private static let reconnectJitter: Int64 = 100
    /// Milliseconds until a write to a server that does not read fails; the connection is then made again.
    private static let writeDeadline: Int64 = 5_000
    /// Bytes of libnats's buffers; its 32 KB would be a system call for each larger entry.
    private static let bufferSize: Int32 = 256 << 10

    init(_ address: StreamAddress, _ files: ConnectionFiles, events: ConnectionEvents) throws(ReplicationError) {
        var options: OpaquePointer?
        guard natsOptions_Create(&options) == NATS_OK, let options else {
            preconditionFailure("libnats has no memory")
        }
        pointer = options
        let servers = address.servers.map { strdup($0) }
        defer { for server in servers { free(server) } }
        var names = servers.map { UnsafePointer($0) }
        natsOptions_SetServers(options, &names, Int32(names.count))
        natsOptions_SetName(options, "brokerd")
        natsOptions_SetTimeout(options, Self.connectTimeout)
        natsOptions_SetPingInterval(options, Self.pingInterval)
        natsOptions_SetMaxPingsOut(options, Self.pingsWithoutAnswer)
        natsOptions_SetReconnectWait(options, Self.reconnectWait)
        natsOptions_SetReconnectJitter(options, Self.reconnectJitter, Self.reconnectJitter)
        natsOptions_SetMaxReconnect(options, -1)
        natsOptions_SetIOBufSize(options, Self.bufferSize)
        natsOptions_SetWriteDeadline(options, Self.writeDeadline)
        // Without a connection nothing is buffered: a group that was not sent is looked up and sent again.
        natsOptions_SetReconnectBufSize(options, 1)
        natsOptions_SetFailRequestsOnDisconnect(options, true)
        events.register(in: options)
        if let user = address.user, let password = address.password {
            natsOptions_SetUserInfo(options, user, password)
        }
        if let file = files.credentials {
            guard access(file, R_OK) == 0 else { throw Self.unusable(file, String(cString: strerror(errno))) }
            try Self.check(file, natsOptions_SetUserCredentialsFromFiles(options, file, nil))
        }
        if let file = files.authorities {
            try Self.check(file, natsOptions_LoadCATrustedCertificates(options, file))
            natsOptions_SetSecure(options, true)
        }
    }

    deinit { natsOptions_Destroy(pointer) }

    private static func check(_ file: String, _ status: natsStatus) throws(ReplicationError) {
        if status != NATS_OK { throw unusable(file, NATSFailure(status).text) }
    }

    private static func unusable(_ file: String, _ why: String) -> ReplicationError {
        ReplicationError(
            .unusableFile,
            "The file \(file) cannot be used for the connection to the log: \(why). Check its path, owner and contents."
        )
    }
}

/// Where a stream is: `nats://HOST[:PORT],HOST[:PORT]…/NAME`, or `tls://…`, with `USER:PASSWORD@` before the hosts if needed.
package struct StreamAddress: Sendable, Equatable {
    /// The servers as libnats takes them: with the scheme and the port.
    let servers: [String]
    /// The stream's name, and the first token of its subjects.
    package let stream: String
    private(set) var user: String?
    private(set) var password: String?

    static let defaultPort = 4_222
    /// NATS allows more, but the name is also a token of subjects and a folder of the server.
    private static let longestName = 64

    package var hosts: String { servers.joined(separator: ",") }

    /// - Throws: ``ReplicationError/Code/invalidAddress``.
    package init(_ text: String) throws(ReplicationError) {
        guard let schemeEnd = text.firstRange(of: "://"),
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
        }
        var servers: [String] = []
        for host in hosts.split(separator: ",", omittingEmptySubsequences: false) {
            servers.append("\(scheme)://\(try Self.host(host, in: text))")
        }
        self.servers = servers
    }

    package func signedIn(as user: String, password: String) -> StreamAddress {
        var address = self
        (address.user, address.password) = (user, password)
        return address
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

/// Ends the waits of one object, for ever. Any thread may set and read it.
final class StopToken: Sendable {
    private let flag = Atomic(false)

    var isStopped: Bool { flag.load(ordering: .acquiring) }

    /// The caller must wake the waiting threads afterwards.
    func stop() { flag.store(true, ordering: .releasing) }
}
#endif
