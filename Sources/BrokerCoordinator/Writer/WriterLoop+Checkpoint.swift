internal import BrokerStore

extension WriterLoop {
    /// A server that lacks more positions of a shared log does not report: the others compare newer ones.
    private static let farBehind = 10 * StateDigest.checkpointInterval

    /// Reports the digest at the newest checkpoint to the servers that share the log.
    mutating func reportCheckpoint() {
        guard let shared, let checkpoint = store.history?.checkpoint,
            checkpoint.position > checkpointed
        else { return }
        checkpointed = checkpoint.position
        guard shared.lastPosition - checkpoint.position < Self.farBehind else { return }
        var backup: Int64 = 0
        statistics.count { backup = $0.backedUpThrough }
        shared.append(
            .checkpoint(
                ReplicaCheckpoint(
                    replica: shared.replica, position: checkpoint.position, digest: checkpoint.digits,
                    fingerprint: store.fingerprint.digits, durable: store.durablePosition ?? 0, backup: backup)))
    }
}
