#if Replication
internal import BrokerJSON

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

    /// The number of copies.
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
#endif
