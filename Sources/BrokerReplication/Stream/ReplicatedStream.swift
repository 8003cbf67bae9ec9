#if Replication
internal import BrokerJSON

/// A stream of NATS JetStream with the entries of all sessions, in one order.
///
/// Any thread may call any method; each blocks its thread until the servers answer.
package final class ReplicatedStream: Sendable {
    package let connection: StreamConnection
    /// That of the stream that was created or opened; another one under the name is an error.
    package let identity: StreamIdentity
    let requirements: StreamRequirements

    package var name: String { connection.address.stream }

    init(_ connection: StreamConnection, _ identity: StreamIdentity, _ requirements: StreamRequirements) {
        self.connection = connection
        self.identity = identity
        self.requirements = requirements
    }

    /// Ends all blocked calls on the stream, its sessions and its readers, for ever.
    package func stop() { connection.stop() }
}

// MARK: - Beginning and end

extension ReplicatedStream {
    /// Microseconds that the servers get to answer an operator's command.
    package static let standardPatience: Int64 = 20_000_000

    /// Opens the stream of the connection's address.
    ///
    /// - Parameters:
    ///   - expected: the identity of the stream that a store was filled from; nil for a new store.
    ///   - patience: microseconds.
    /// - Throws: the refusals of ``ReplicationError/Code``, ``ReplicationError/Code/anotherStream`` or
    ///   ``ReplicationError/Code/unavailable``.
    package static func open(
        _ connection: StreamConnection, expected: StreamIdentity? = nil, requirements: StreamRequirements = .standard,
        patience: Int64? = standardPatience
    ) throws(ReplicationError) -> ReplicatedStream {
        try connection.checkServer(requirements, patience)
        let name = connection.address.stream
        let info: StreamInfo
        switch try connection.call("$JS.API.STREAM.INFO.\(name)", patience: patience, read: { StreamInfo($0) }) {
        case .success(let found): info = found
        case .failure(let failure): throw failure.error(of: connection)
        }
        try connection.check(info, requirements)
        guard let identity = info.identity else {
            throw ReplicationError(
                .configuredOtherwise,
                "The stream \(name) at \(connection.address.hosts) was not created by Broker: its metadata lacks "
                    + "\(StreamConfiguration.identityKey). Create a stream of another name by `broker log create`.")
        }
        let stream = ReplicatedStream(connection, expected ?? identity, requirements)
        try stream.checkIdentity(info)
        return stream
    }

    /// Creates the stream of the connection's address, with a new identity, and opens it.
    ///
    /// - Parameters:
    ///   - maximumBytes: of one copy; nil for as much as the disks have. A stream that is full refuses entries.
    ///   - patience: microseconds.
    /// - Throws: as ``open(_:expected:requirements:patience:)``, and ``ReplicationError/Code/streamExists``.
    package static func create(
        _ connection: StreamConnection, maximumBytes: Int64? = nil, requirements: StreamRequirements = .standard,
        patience: Int64? = standardPatience
    ) throws(ReplicationError) -> ReplicatedStream {
        try connection.checkServer(requirements, patience)
        let identity = StreamIdentity()
        let name = connection.address.stream
        let request = StreamConfiguration.request(
            name, identity, copies: requirements.copies, maximumBytes: maximumBytes)
        switch try connection.call(
            "$JS.API.STREAM.CREATE.\(name)", request, patience: patience, read: { StreamInfo($0) })
        {
        case .success(let info):
            try connection.check(info, requirements)
            return ReplicatedStream(connection, identity, requirements)
        case .failure(let failure):
            // An earlier request of this call may have created it.
            guard failure.code == JetStreamFailure.nameInUse,
                let stream = try? open(connection, requirements: requirements, patience: patience),
                stream.identity == identity
            else { throw failure.error(of: connection) }
            return stream
        }
    }

    /// Deletes the stream with all its entries.
    ///
    /// - Parameter patience: microseconds.
    /// - Throws: ``ReplicationError/Code/anotherStream`` when it is not the one that was opened.
    package func remove(patience: Int64? = standardPatience) throws(ReplicationError) {
        _ = try info(patience: patience)
        switch try connection.call("$JS.API.STREAM.DELETE.\(name)", patience: patience, read: { _ in }) {
        case .success: return
        case .failure(let failure): throw failure.error(of: connection)
        }
    }
}

// MARK: - State

extension ReplicatedStream {
    /// - Parameter patience: microseconds; nil for ever.
    /// - Throws: ``ReplicationError/Code/anotherStream``, ``ReplicationError/Code/noStream``, or
    ///   ``ReplicationError/Code/unavailable``.
    package func status(patience: Int64? = standardPatience) throws(ReplicationError) -> StreamStatus {
        try info(patience: patience).status
    }

    /// Deletes all entries up to a position. Every replica must have applied them, and a backup must contain them.
    ///
    /// - Parameter patience: microseconds.
    package func trim(through position: Int64, patience: Int64? = standardPatience) throws(ReplicationError) {
        _ = try info(patience: patience)
        var writer = JSONWriter()
        writer.object { $0.member("seq", position + 1) }
        switch try connection.call("$JS.API.STREAM.PURGE.\(name)", writer.bytes, patience: patience, read: { _ in }) {
        case .success: return
        case .failure(let failure): throw failure.error(of: connection)
        }
    }

    /// The description by the leader, after a comparison of the identity.
    ///
    /// - Parameter patience: nil for ever; then servers that have just started get time to find the stream.
    func info(patience: Int64?, _ token: StopToken? = nil) throws(ReplicationError) -> StreamInfo {
        let start = monotonicMicroseconds()
        while true {
            switch try connection.call(
                "$JS.API.STREAM.INFO.\(name)", patience: patience, token, read: { StreamInfo($0) })
            {
            case .success(let info):
                try checkIdentity(info)
                return info
            case .failure(let failure):
                guard patience == nil, failure.code == JetStreamFailure.streamNotFound,
                    monotonicMicroseconds() - start < requirements.settlingTime
                else { throw failure.error(of: connection) }
            }
            try connection.pause(Self.pauseTime, token)
        }
    }

    /// Microseconds until the servers are asked again for a stream that they do not know.
    private static let pauseTime: Int64 = 200_000

    private func checkIdentity(_ info: StreamInfo) throws(ReplicationError) {
        guard info.identity != identity else { return }
        throw ReplicationError(
            .anotherStream,
            "The stream \(name) at \(connection.address.hosts) is another one than before: its identity is "
                + "\(info.identity?.description ?? "none") and must be \(identity). Check the address; if the stream was "
                + "created again, begin with a new store.")
    }
}

extension JetStreamFailure {
    /// As an error of a call about a stream.
    func error(of connection: StreamConnection) -> ReplicationError {
        let place = "\(connection.address.stream) at \(connection.address.hosts)"
        if hasNoJetStream { return connection.noJetStream }
        switch code {
        case Self.streamNotFound:
            return ReplicationError(
                .noStream, "There is no stream \(place). Check the address, or create it by `broker log create`.")
        case Self.nameInUse:
            return ReplicationError(
                .streamExists,
                "There is a stream \(place) already. Choose another name.")
        case Self.replicasNeedCluster, Self.noPeers:
            return ReplicationError(
                .tooFewPeers,
                "The stream \(place) cannot have \(StreamConfiguration.copies) copies: \(text). Start three servers of one "
                    + "cluster, each with JetStream.")
        default:
            return ReplicationError(
                hasNoRoom ? .full : .refused, "JetStream refused a request about the stream \(place): \(text).")
        }
    }
}
#endif
