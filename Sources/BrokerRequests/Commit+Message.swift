package import Broker
package import BrokerWire

extension Commit {
    package init(_ message: CommittedMessage) {
        self.init(
            sequence: message.sequence, id: message.id.map { JobID($0) },
            changes: message.changes.mapValues(Completion.Changes.init), keys: message.keys.map { RawJSON($0) })
    }
}

extension CommitQuery {
    /// Names of one subscription.
    private static let maximumEntities = 5_000

    /// The members of the message.
    ///
    /// - Throws: for what the server would refuse whatever its model is, the server's code.
    package func members() throws(BrokerError) -> [(key: String, value: ProvenJSON)] {
        var members: [(key: String, value: ProvenJSON)] = []
        if let entities {
            guard (1...Self.maximumEntities).contains(entities.count) else {
                throw .refused(
                    .unsupportedMessage,
                    "1 to \(Self.maximumEntities) entities can be followed, not \(entities.count). Give nil for all entities."
                )
            }
            guard !entities.contains("") else { throw .refused(.unknownEntity, "The name of an entity is empty.") }
            members.append(("entities", .array(entities.map(ProvenJSON.string))))
        }
        if let after {
            guard after >= 0 else {
                throw .refused(.unsupportedMessage, "A feed begins after a sequence from 0, not after \(after).")
            }
            members.append(("after", .integer(Int(after))))
        }
        guard [.summary, .keys].contains(reply) else { throw .unknownWord(reply.rawValue, of: "reply") }
        if reply != .summary { members.append(("reply", .string(reply.rawValue))) }
        return members
    }
}
