#if Replication
internal import BrokerJSON
internal import BrokerJournal
internal import CNATS

/// The descriptions that all servers of a cluster give of themselves.
///
/// Only the system account may ask: nats-server 2.15.1 answers `$SYS.REQ.SERVER.PING.JSZ`, which has the version, the members of the
/// cluster and `sync_always`, to no other one. A client of another account sees the version of the server that it is connected to
/// (`$SYS.REQ.USER.INFO`) and that of the stream's leader (`_nats.ver` in the stream's metadata), and nothing of `sync_interval`.
package struct ServerSurvey: Sendable {
    package struct Server: Sendable {
        package let name: String
        package let version: String
        package let hasJetStream: Bool
        /// `sync_interval: always`: a write is on the disk before it is acknowledged.
        package let syncsAlways: Bool
    }

    /// In the order of their names.
    package let servers: [Server]
    /// The servers that should have answered.
    package let clusterSize: Int
}

extension ServerSurvey {
    fileprivate struct Answers {
        var servers: [String: Server] = [:]
        var clusterSize = 1
        var isComplete: Bool { servers.count >= clusterSize }
    }

    /// Microseconds between two questions.
    private static let roundTime: Int64 = 500_000

    /// Asks until all servers of the cluster have answered. Servers that have not answered after so many microseconds are missing
    /// in the result.
    ///
    /// - Parameter connection: of a user of the system account.
    /// - Throws: ``ReplicationError/Code/notAuthorized`` when none has answered.
    package init(_ connection: StreamConnection, patience: Int64) throws(ReplicationError) {
        let id = SessionID()
        let inbox = connection.router.open(id)
        defer { connection.router.close(id) }
        let reply = connection.router.subject(of: id, 0)
        let deadline = monotonicMicroseconds() + patience
        var answers = Answers()
        repeat {
            try connection.checkStopped(nil)
            natsConnection_PublishRequestString(connection.connection, "$SYS.REQ.SERVER.PING.JSZ", reply, "")
            let round = min(deadline, monotonicMicroseconds() + Self.roundTime)
            while !answers.isComplete, monotonicMicroseconds() < round {
                for message in inbox.take(until: round, { false }) {
                    let bytes = Array(message.bytes)
                    message.destroy()
                    _ = StreamConnection.parse(bytes) { answers.add($0) }
                }
            }
        } while !answers.isComplete && monotonicMicroseconds() < deadline
        servers = answers.servers.values.sorted { $0.name < $1.name }
        clusterSize = answers.clusterSize
        guard servers.isEmpty else { return }
        throw ReplicationError(
            .notAuthorized,
            "No server of \(connection.address.hosts) says how it is configured. Give the credentials of a user of the system "
                + "account.")
    }

    package func check(
        _ connection: StreamConnection, _ requirements: StreamRequirements = .standard
    ) throws(ReplicationError) {
        let hosts = connection.address.hosts
        guard servers.count >= requirements.copies else {
            throw ReplicationError(
                .tooFewPeers,
                "\(servers.count) of the \(clusterSize) servers of \(hosts) answered, and \(requirements.copies) are needed. Start "
                    + "the others.")
        }
        for server in servers {
            try connection.check(version: server.version, of: server.name, requirements)
            guard server.hasJetStream else {
                throw ReplicationError(
                    .noJetStream,
                    "JetStream is not enabled on the server \(server.name) of \(hosts). Add a block `jetstream` to its "
                        + "configuration.")
            }
            guard server.syncsAlways else {
                throw ReplicationError(
                    .notSynced,
                    "The server \(server.name) of \(hosts) does not sync each write to its disk: a power loss may lose accepted "
                        + "jobs. Set `sync_interval: always` in the block `jetstream` of its configuration.")
            }
        }
    }
}

extension ServerSurvey.Answers {
    fileprivate mutating func add(_ answer: JSONValue) {
        guard let description = ServerDescription(answer), let data = answer["data"] else { return }
        servers[description.name] = ServerSurvey.Server(
            name: description.name, version: description.version, hasJetStream: data["disabled"]?.bool != true,
            syncsAlways: data["config"]?["sync_always"]?.bool ?? false)
        let size = data["meta_cluster"]?["cluster_size"]?.int64 ?? 1
        clusterSize = max(clusterSize, Int(size))
    }
}

package struct ServerDescription: Sendable {
    package let name: String
    package let version: String

    init?(_ answer: JSONValue) {
        guard let server = answer["server"], let version = server["ver"]?.string else { return nil }
        name = server["name"]?.string ?? ""
        self.version = version
    }
}

extension StreamConnection {
    /// The server that the connection is made to. A client of any account may ask it. The patience is in microseconds; nil for
    /// ever.
    package func server(patience: Int64?) throws(ReplicationError) -> ServerDescription {
        let subject = "$SYS.REQ.USER.INFO"
        if case .success(let description?) = try call(subject, patience: patience, read: { ServerDescription($0) }) {
            return description
        }
        throw ReplicationError(
            .notAuthorized,
            "The server of \(address.hosts) does not say its version. Allow the user to publish to \(subject).")
    }

    /// Checks the server of the connection, and that JetStream answers.
    func checkServer(_ requirements: StreamRequirements, _ patience: Int64?) throws(ReplicationError) {
        let server = try server(patience: patience)
        try check(version: server.version, of: server.name, requirements)
        let maximum = maximumPayload
        let needed = requirements.largestMessage + Self.headerRoom
        guard maximum >= needed else {
            throw ReplicationError(
                .payloadTooSmall,
                "The server \(server.name) takes messages of at most \(maximum) bytes, and the largest entry has \(needed). Set "
                    + "`max_payload: \(needed)` in the configuration of every server.")
        }
        if case .failure(let failure) = try call("$JS.API.INFO", patience: patience, read: { _ in }) {
            throw failure.error(of: self)
        }
    }

    /// Bytes that the headers of a group may have.
    private static let headerRoom = 1 << 10

    func check(version: String, of server: String, _ requirements: StreamRequirements) throws(ReplicationError) {
        guard !requirements.versions.contains(version) else { return }
        let proven = requirements.versions.sorted().joined(separator: ", ")
        throw ReplicationError(
            .unprovenVersion,
            "The server \(server) of \(address.hosts) is nats-server \(version), which Broker has not been proven with. Install "
                + "\(proven).")
    }

    func check(_ info: StreamInfo, _ requirements: StreamRequirements) throws(ReplicationError) {
        if let version = info.version { try check(version: version, of: info.status.leader ?? "", requirements) }
        let place = "\(address.stream) at \(address.hosts)"
        guard info.configuration.copies >= requirements.copies, info.status.copies >= requirements.copies else {
            throw ReplicationError(
                .tooFewPeers,
                "The stream \(place) has \(min(info.configuration.copies, info.status.copies)) copies and must have "
                    + "\(requirements.copies). Start three servers, and set num_replicas of the stream to \(requirements.copies)."
            )
        }
        let differences = info.configuration.differences(from: address.stream)
        guard requirements.comparesConfiguration, !differences.isEmpty else { return }
        throw ReplicationError(
            .configuredOtherwise,
            "The stream \(place) is configured otherwise than Broker needs: \(differences.joined(separator: "; ")). Create a "
                + "stream by `broker log create`.")
    }
}

struct JetStreamFailure: Error {
    let code: Int
    let text: String

    // The numbers of nats-server's errors.json.
    static let accountResourcesExceeded = 10_002
    static let notAvailable = 10_008
    static let notLeader = 10_009
    static let insufficientResources = 10_023
    static let noPeers = 10_005
    static let noMessage = 10_037
    static let notEnabledForAccount = 10_039
    static let storageExceeded = 10_047
    static let nameInUse = 10_058
    static let streamNotFound = 10_059
    static let wrongLastSequence = 10_071
    static let replicasNeedCluster = 10_074
    static let notEnabled = 10_076
    static let storeFailed = 10_077
    static let wrongLastSequenceInFlight = 10_164
    static let batchIncomplete = 10_176

    /// The servers cannot answer now, but may later.
    var isTemporary: Bool { code == Self.notAvailable || code == Self.notLeader }

    var hasNoJetStream: Bool { code == Self.notEnabled || code == Self.notEnabledForAccount }

    var hasNoRoom: Bool {
        switch code {
        case Self.accountResourcesExceeded, Self.insufficientResources, Self.storageExceeded, Self.storeFailed: true
        default: false
        }
    }

    /// nil for an answer without an error.
    init?(_ answer: JSONValue) {
        guard let error = answer["error"] else { return nil }
        code = Int(error["err_code"]?.int64 ?? error["code"]?.int64 ?? 0)
        text = "\(error["description"]?.string ?? "no description") (\(code))"
    }
}

extension StreamConnection {
    /// Microseconds until a request is sent again.
    private static let requestTime: Int64 = 3_000_000
    /// Microseconds between two requests when the servers cannot answer.
    private static let pauseTime: Int64 = 150_000

    /// Calls JetStream, again and again until there is an answer.
    ///
    /// - Parameters:
    ///   - patience: microseconds until it throws ``ReplicationError/Code/unavailable``, or
    ///     ``ReplicationError/Code/noJetStream``; nil for ever.
    ///   - body: a JSON text, or nothing.
    ///   - read: takes what is needed of the answer, whose values are valid only there.
    func call<Content>(
        _ subject: String, _ body: [UInt8] = [], patience: Int64?, _ token: StopToken? = nil,
        read: (JSONValue) -> Content
    ) throws(ReplicationError) -> Result<Content, JetStreamFailure> {
        let start = monotonicMicroseconds()
        while true {
            let reason: String
            var isUnknownSubject = false
            try checkStopped(token)
            switch request(subject, body, deadline: monotonicMicroseconds() + Self.requestTime) {
            case .stopped: throw .stopped
            case .disconnected:
                try checkClosed()
                reason = state.lastError.map { "no connection: \($0)" } ?? "no connection"
            case .timedOut: reason = "no answer; JetStream may have no quorum"
            case .noResponders:
                reason = "JetStream does not answer there"
                isUnknownSubject = true
            case .message(let bytes):
                switch Self.parse(bytes, read) {
                case .success(let content): return .success(content)
                case .failure(let failure) where failure.isTemporary: reason = failure.text
                case .failure(let failure): return .failure(failure)
                case nil: reason = "the answer is no JSON"
                }
            }
            if let patience, monotonicMicroseconds() - start >= patience {
                if isUnknownSubject { throw noJetStream }
                throw ReplicationError(
                    .unavailable,
                    "The servers \(address.hosts) did not answer \(subject) in \(patience / 1_000_000) s: \(reason). "
                        + "Check that they run and reach each other.")
            }
            try pause(Self.pauseTime, token)
        }
    }

    /// nil when the bytes are no JSON.
    static func parse<Content>(_ bytes: [UInt8], _ read: (JSONValue) -> Content) -> Result<Content, JetStreamFailure>? {
        guard let document = try? JSONDocument(parsing: JSONText(copying: bytes)) else { return nil }
        return withExtendedLifetime(document) {
            JetStreamFailure(document.root).map { .failure($0) } ?? .success(read(document.root))
        }
    }

    var noJetStream: ReplicationError {
        ReplicationError(
            .noJetStream,
            "JetStream is not enabled for the account at \(address.hosts). Add a block `jetstream` to the configuration of "
                + "the servers, and enable it for the account.")
    }

    /// Throws when libnats has given up.
    func checkClosed() throws(ReplicationError) {
        let (isClosed, error) = events.state.withLock { ($0.isClosed, $0.lastError) }
        guard isClosed else { return }
        throw ReplicationError(
            .notAuthorized,
            "The servers \(address.hosts) closed the connection of the log for good: \(error ?? "no reason"). "
                + "Check the credentials and the certificates, then start again.")
    }
}
#endif
