#if Replication
internal import BrokerJSON
internal import BrokerJournal

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

    /// Opens the stream of the connection's address; it must be the one of that identity, from which a store was filled. Times are
    /// in microseconds.
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
    /// - Parameter maximumBytes: of one copy; nil for as much as the disks have. A stream that is full refuses entries.
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

    /// Deletes the stream with all its entries, if it is the one that was opened.
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
    /// The patience is in microseconds; nil for ever.
    package func status(patience: Int64? = standardPatience) throws(ReplicationError) -> StreamStatus {
        try info(patience: patience).status
    }

    /// Deletes all entries up to a position. Every replica must have applied them, and a backup must contain them.
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

extension ReplicatedStream {
    /// Runs a part of an operator's command that waits as long as the stream has no quorum. The stream is stopped when the patience
    /// ends.
    ///
    /// - Parameters:
    ///   - failure: what the servers did not do, after "The servers".
    ///   - body: returns nil when the stream was stopped.
    package func within<Result>(
        patience: Int64 = standardPatience, failure: String, _ body: () throws(ReplicationError) -> Result?
    ) throws(ReplicationError) -> Result {
        let watch = Task.detached {
            try await Task.sleep(for: .microseconds(patience))
            self.stop()
        }
        defer { watch.cancel() }
        do throws(ReplicationError) {
            if let result = try body() { return result }
        } catch {
            guard error.code == .stopped else { throw error }
        }
        throw ReplicationError(
            .unavailable,
            "The servers \(failure), in \(patience / 1_000_000) s. Check that two of them run and reach each other; then try again."
        )
    }
}

/// The properties that a stream and its servers must have.
package struct StreamRequirements: Sendable {
    /// The versions of nats-server that Broker's rounds of faults have passed.
    package static let provenVersions: Set<String> = ["2.15.1"]

    package static let standard = StreamRequirements()

    // Only tests need other values.
    var versions = provenVersions
    var copies = StreamConfiguration.copies
    /// Bytes of a message without its headers.
    var largestMessage = EntryEncoding.largest
    var comparesConfiguration = true
    /// Microseconds that one leader must lack an entry, or the servers the stream, until that is taken for a loss: servers that have
    /// just started, and a leader that was just elected, may not have everything yet.
    var settlingTime: Int64 = 10_000_000
}

/// A stream as its leader describes it.
struct StreamInfo {
    let identity: StreamIdentity?
    let configuration: StreamConfiguration
    let status: StreamStatus
    /// The version of the server that answered.
    let version: String?

    init(_ answer: JSONValue) {
        let config = answer["config"]
        let metadata = config?["metadata"]
        identity = (metadata?[StreamConfiguration.identityKey]?.string).flatMap { StreamIdentity($0) }
        version = metadata?["_nats.ver"]?.string
        configuration = StreamConfiguration(config)
        status = StreamStatus(answer)
    }
}

/// The state of a stream, as an operator sees it.
package struct StreamStatus: Sendable {
    /// A server with a copy, other than the leader.
    package struct Peer: Sendable {
        package let name: String
        /// Whether it has all that the leader has, or is about to.
        package let isCurrent: Bool
        package let isOffline: Bool
        /// Operations that it lacks.
        package let lag: Int64
        /// Milliseconds since the leader heard of it.
        package let silence: Int64
    }

    /// The position of the newest entry that is still or was in the stream; 0 before the first.
    package let lastPosition: Int64
    /// The position of the oldest entry; that after ``lastPosition`` when there is none.
    package let firstPosition: Int64
    package let entries: Int64
    /// On the disk of one server.
    package let bytes: Int64
    /// nil while there is none.
    package let leader: String?
    package let peers: [Peer]

    package var copies: Int { peers.count + 1 }

    init(_ answer: JSONValue) {
        let state = answer["state"]
        lastPosition = state?["last_seq"]?.int64 ?? 0
        entries = state?["messages"]?.int64 ?? 0
        let first = state?["first_seq"]?.int64 ?? 0
        firstPosition = entries == 0 ? max(first, lastPosition + 1) : first
        bytes = state?["bytes"]?.int64 ?? 0
        let cluster = answer["cluster"]
        leader = (cluster?["leader"]?.string).flatMap { $0.isEmpty ? nil : $0 }
        peers =
            (cluster?["replicas"]).map { replicas in
                replicas.elements.map { peer in
                    Peer(
                        name: peer["name"]?.string ?? "", isCurrent: peer["current"]?.bool ?? false,
                        isOffline: peer["offline"]?.bool ?? false, lag: peer["lag"]?.int64 ?? 0,
                        silence: (peer["active"]?.int64 ?? 0) / 1_000_000)
                }
            } ?? []
    }
}

/// The configuration of a stream: what Broker needs, and how another one differs from it.
///
/// `deny_delete` is set, so that no entry in the middle can be deleted. `deny_purge` is not: nats-server 2.15.1 refuses each purge of
/// such a stream and never lets the flag be taken off again, and its only other way to trim, `discard: old` with `max_msgs` for a
/// moment, removes entries that are appended in that moment. A purge by another program is noticed: readers that have not read what
/// it removed halt.
struct StreamConfiguration {
    static let identityKey = "broker.identity"
    static let copies = 3

    /// The members that matter, as JSON texts; those that an answer lacks have their default.
    private var members: [String: String] = [:]

    /// nil is no configuration at all.
    init(_ config: JSONValue?) {
        guard let config else { return }
        for member in config.members {
            if let key = member.key.string { members[key] = String(decoding: member.value.jsonText, as: UTF8.self) }
        }
    }

    var copies: Int { members["num_replicas"].flatMap { Int($0) } ?? 1 }

    /// The value that each member must have, and its value when an answer lacks it.
    private static func required(_ name: String) -> [(key: String, value: String, absent: String)] {
        [
            ("subjects", "[\"\(name).>\"]", "[]"), ("storage", "\"file\"", "\"file\""),
            ("retention", "\"limits\"", "\"limits\""), ("discard", "\"new\"", "\"old\""),
            ("deny_delete", "true", "false"), ("deny_purge", "false", "false"),
            ("allow_atomic", "true", "false"), ("max_age", "0", "0"), ("max_msgs", "-1", "-1"),
            ("max_msgs_per_subject", "-1", "-1"), ("max_msg_size", "-1", "-1"), ("max_consumers", "-1", "-1"),
            ("allow_rollup_hdrs", "false", "false"), ("allow_msg_ttl", "false", "false"),
            ("allow_msg_counter", "false", "false"),
            ("allow_msg_schedules", "false", "false"), ("sealed", "false", "false"), ("no_ack", "false", "false"),
            ("mirror", "absent", "absent"), ("sources", "absent", "absent"), ("republish", "absent", "absent"),
            ("subject_transform", "absent", "absent"), ("persist_mode", "absent", "absent"),
            ("first_seq", "absent", "absent"),
        ]
    }

    /// The members that differ from what Broker needs, each as a part of a sentence. The number of copies is not compared.
    func differences(from name: String) -> [String] {
        // JetStream escapes the sign in answers.
        let own = members.mapValues { $0.replacing("\\u003e", with: ">") }
        return Self.required(name).compactMap { key, value, absent in
            let found = own[key] ?? absent
            return found == value ? nil : "\(key) is \(found) and must be \(value)"
        }
    }

    /// The text of the request that creates the stream. The bytes are those of one copy; nil for as much as the disks have.
    static func request(_ name: String, _ identity: StreamIdentity, copies: Int, maximumBytes: Int64?) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("name", name)
            writer.member("description", "A log of Broker. Do not change, purge or delete it by hand.")
            writer.object("metadata") { $0.member(identityKey, identity.description) }
            writer.member("num_replicas", copies)
            writer.member("max_bytes", maximumBytes ?? -1)
            for (key, value, absent) in required(name) where value != absent {
                writer.member(key, raw: value.utf8)
            }
        }
        return writer.bytes
    }
}
#endif
