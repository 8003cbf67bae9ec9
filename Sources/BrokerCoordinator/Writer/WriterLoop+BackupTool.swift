internal import BrokerStore

extension WriterLoop {
    /// How long the writer waits for a backup tool: Litestream looks at the WAL every second, and then copies it.
    private static let backupPatience: Int64 = 2_000_000
    /// Between two looks at the WAL.
    private static let backupPause: Int64 = 5_000

    /// Lets a continuous backup tool copy a long WAL, which restarts when the tool has checkpointed it.
    ///
    /// Litestream holds the WAL by a read transaction until it has copied all of it. To checkpoint, it needs SQLite's
    /// write lock, for which it tries ten times a second. Under load the writer releases the lock for less than that, so
    /// the tool never gets it, and the WAL would grow until the load ends.
    func awaitBackupTool() {
        guard store.isWALLeftToBackupTool(), gate.longReader == nil, let header = store.walHeader else { return }
        let deadline = monotonicMicroseconds() + Self.backupPatience
        var now = monotonicMicroseconds()
        while now < deadline, store.walHeader == header {
            let isOver = activity.wait {
                jobTable.wait(until: now + Self.backupPause) { jobTable -> Bool? in
                    guard let end = jobTable.lockDeadline, end <= monotonicMicroseconds() else { return nil }
                    return true
                }
            }
            if isOver == true { return }
            now = monotonicMicroseconds()
        }
    }
}
