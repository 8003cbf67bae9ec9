internal import BrokerStore

extension Store {
    /// The servers that share the store's log, as of its position.
    func replicas() throws(StoreError) -> ReplicaTable {
        try fact(.replicas).flatMap { ReplicaTable($0) } ?? ReplicaTable()
    }

    /// Why the store takes no more entries of its log: it differed from the others, or this server would apply them in another way.
    /// A store that was just begun gets the fingerprint of this server.
    func haltInForce() throws(StoreError) -> StoreError? {
        if let reason = try fact(.halt) { return StoreError(.unavailable, reason) }
        let inForce = try fact(.fingerprint).flatMap { ApplicationFingerprint($0) }
        guard let inForce, inForce.digits != fingerprint.digits else {
            _ = try updateFingerprint()
            return nil
        }
        return StoreError(
            .unavailable,
            "The log's fingerprint is \(inForce.digits), and this server has \(fingerprint.digits) "
                + "(\(fingerprint.differences(from: inForce).joined(separator: "; "))): it would apply entries in another way. Install the "
                + "versions with that fingerprint, or change that of all servers by `broker log upgrade`.")
    }
}
