#if Replication
internal import BrokerJSON
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

    /// Asks until all servers of the cluster have answered.
    ///
    /// - Parameters:
    ///   - connection: of a user of the system account.
    ///   - patience: microseconds. Servers that have not answered by then are missing in the result.
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

    /// - Throws: ``ReplicationError/Code/tooFewPeers``, ``ReplicationError/Code/noJetStream``,
    ///   ``ReplicationError/Code/unprovenVersion`` or ``ReplicationError/Code/notSynced``.
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
#endif
