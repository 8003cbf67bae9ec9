#if Replication
internal import CNATS
internal import Glibc

/// The state of a connection, which threads of libnats change, and the replies that callers wait for.
final class ConnectionEvents: Sendable {
    /// The answer to a request.
    enum Reply: Sendable {
        case message([UInt8])
        /// Nothing listens to the subject.
        case noResponders
        case disconnected
    }

    struct State {
        var isConnected = false
        /// How often a connection was made.
        var connections = 0
        var server: String?
        var knownServers = 0
        var lastError: String?
        /// libnats has given up, or the connection was closed.
        var isClosed = false
        var isStopped = false
        var nextRequest: UInt64 = 0
        /// nil while there is no answer.
        var replies: [UInt64: Reply?] = [:]
    }

    let state = Monitor(State())

    /// libnats calls this object until the connection has closed.
    func register(in options: OpaquePointer) {
        let context = Unmanaged.passUnretained(self).toOpaque()
        natsOptions_SetRetryOnFailedConnect(options, true, { ConnectionEvents.of($1).connected($0) }, context)
        natsOptions_SetReconnectedCB(options, { ConnectionEvents.of($1).connected($0) }, context)
        natsOptions_SetDisconnectedCB(options, { ConnectionEvents.of($1).disconnected($0) }, context)
        natsOptions_SetClosedCB(options, { ConnectionEvents.of($1).closed($0) }, context)
        natsOptions_SetErrorHandler(
            options,
            { connection, _, status, context in
                ConnectionEvents.of(context).failed(NATSFailure(status).text, connection)
            }, context)
    }

    private static func of(_ context: UnsafeMutableRawPointer?) -> ConnectionEvents {
        // libnats passes what it was given; the connection retains the object until it has closed.
        Unmanaged<ConnectionEvents>.fromOpaque(context!).takeUnretainedValue()
    }

    /// - Parameter connection: nil only if libnats breaks its contract.
    func connected(_ connection: OpaquePointer?) {
        var url = [CChar](repeating: 0, count: 512)
        let hasURL = natsConnection_GetConnectedUrl(connection, &url, url.count) == NATS_OK
        let name = hasURL ? String(decoding: url.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self) : nil
        let count = Self.knownServers(of: connection)
        state.update { state in
            state.isConnected = true
            state.connections += 1
            state.server = name
            state.knownServers = count
        }
    }

    private static func knownServers(of connection: OpaquePointer?) -> Int {
        var servers: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
        var count: Int32 = 0
        guard natsConnection_GetServers(connection, &servers, &count) == NATS_OK, let servers else { return 0 }
        for index in 0..<Int(count) { free(servers[index]) }
        free(servers)
        return Int(count)
    }

    private func disconnected(_ connection: OpaquePointer?) {
        let error = Self.lastError(of: connection)
        state.update { state in
            state.isConnected = false
            state.server = nil
            state.lastError = error ?? state.lastError
            state.failReplies()
        }
    }

    private func closed(_ connection: OpaquePointer?) {
        let error = Self.lastError(of: connection)
        state.update { state in
            state.isConnected = false
            state.isClosed = true
            state.lastError = error ?? state.lastError
            state.failReplies()
        }
    }

    private func failed(_ text: String, _ connection: OpaquePointer?) {
        let error = Self.lastError(of: connection) ?? text
        state.update { $0.lastError = error }
    }

    private static func lastError(of connection: OpaquePointer?) -> String? {
        var text: UnsafePointer<CChar>?
        guard let connection, natsConnection_GetLastError(connection, &text) != NATS_OK, let text else { return nil }
        let error = String(cString: text)
        return error.isEmpty ? nil : error
    }

    /// The answer to a request.
    func receive(_ reply: Reply, _ number: UInt64) {
        state.update { state in
            // Its caller may have given up.
            if state.replies[number] != nil { state.replies[number] = .some(reply) }
        }
    }
}

extension ConnectionEvents.State {
    fileprivate mutating func failReplies() {
        for (token, reply) in replies where reply == nil { replies[token] = .some(.disconnected) }
    }
}
#endif
