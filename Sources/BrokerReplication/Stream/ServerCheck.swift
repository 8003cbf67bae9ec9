#if Replication
internal import BrokerJSON

/// The server of a connection.
package struct ServerDescription: Sendable {
    package let name: String
    package let version: String
    /// nil for a server that is alone.
    package let cluster: String?

    init?(_ answer: JSONValue) {
        guard let server = answer["server"], let version = server["ver"]?.string else { return nil }
        name = server["name"]?.string ?? ""
        self.version = version
        cluster = server["cluster"]?.string
    }
}

extension StreamConnection {
    /// The server that the connection is made to. A client of any account may ask it.
    ///
    /// - Parameter patience: microseconds; nil for ever.
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

    /// Checks a stream, and the version of its leader.
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
#endif
