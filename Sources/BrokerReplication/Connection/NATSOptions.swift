#if Replication
internal import CNATS
internal import Glibc

/// The files of a connection.
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

    /// - Throws: ``ReplicationError/Code/unusableFile``.
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
#endif
