#if Replication
internal import CNATS

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
    ///
    /// - Throws: ``ReplicationError/Code/unusableFile``, ``ReplicationError/Code/notAuthorized``, or
    ///   ``ReplicationError/Code/unavailable`` when a server is no server of NATS.
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
        router = MessageRouter(events)
        // libnats calls back only when the first attempt has failed.
        if status == NATS_OK { events.connected(connection) }
        do throws(NATSFailure) {
            subscription = try NATSSubscription(router.subject, on: connection) { [router] in router.route($0) }
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
    package func stop() { events.state.update { $0.isStopped = true } }

    /// Wakes the waiting threads, which look at their tokens.
    func wake() { events.state.update { _ in } }

    package var state: ConnectionState {
        events.state.withLock {
            ConnectionState(
                isConnected: $0.isConnected, connections: $0.connections, server: $0.server,
                knownServers: $0.knownServers, lastError: $0.lastError)
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
    /// The servers that were named, and those that the servers named.
    package let knownServers: Int
    package let lastError: String?
}

// MARK: - Requests

extension StreamConnection {
    enum Answer {
        case message([UInt8])
        /// Nothing listens to the subject.
        case noResponders
        case disconnected
        case timedOut
        case stopped
    }

    /// Registers a request, and returns its number and the subject of the reply; nil without a connection.
    func beginRequest() -> (number: UInt64, reply: String)? {
        let number: UInt64? = events.state.withLock { state in
            guard state.isConnected, !state.isStopped else { return nil }
            state.nextRequest += 1
            state.replies[state.nextRequest] = .some(nil)
            return state.nextRequest
        }
        guard let number else { return nil }
        return (number, router.subject(ofRequest: number))
    }

    /// Waits for the reply to a request. Called once for each.
    func awaitReply(_ number: UInt64, deadline: Int64, _ token: StopToken?) -> Answer {
        let answer: Answer? = events.state.wait(until: deadline) { state in
            if let reply = state.replies[number], let reply { return reply.answer }
            return state.isStopped || token?.isStopped == true ? .stopped : nil
        }
        abandonRequest(number)
        return answer ?? .timedOut
    }

    func abandonRequest(_ number: UInt64) { events.state.withLock { _ = $0.replies.removeValue(forKey: number) } }

    /// Sends one message and waits for the reply.
    func request(_ subject: String, _ bytes: [UInt8], deadline: Int64, _ token: StopToken?) -> Answer {
        guard let (number, reply) = beginRequest() else {
            return events.state.withLock { $0.isStopped } ? .stopped : .disconnected
        }
        let status = natsConnection_PublishRequest(connection, subject, reply, bytes, Int32(bytes.count))
        guard status == NATS_OK else {
            abandonRequest(number)
            return .disconnected
        }
        flush()
        return awaitReply(number, deadline: deadline, token)
    }

    /// Sends what was published.
    ///
    /// libnats can send each message by itself (`SendAsap`): a system call for each, and by a tenth to a third fewer entries a second.
    /// Otherwise a thread of its own sends them within a millisecond, or this call does at once, which also waits a millisecond at most
    /// for the server's sign that it has them all.
    func flush() { natsConnection_FlushTimeout(connection, 1) }

    /// Waits for a time, or for the stop.
    ///
    /// - Parameter duration: microseconds.
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

extension ConnectionEvents.Reply {
    fileprivate var answer: StreamConnection.Answer {
        switch self {
        case .message(let bytes): .message(bytes)
        case .noResponders: .noResponders
        case .disconnected: .disconnected
        }
    }
}

extension ReplicationError {
    static var stopped: Self { Self(.stopped, "The connection to the log was stopped.") }
}
#endif
