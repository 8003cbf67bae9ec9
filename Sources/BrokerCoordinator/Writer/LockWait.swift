internal import Logging

/// One incident of a store that another program has locked: how long it lasts, and what the log and `stats` report of
/// it.
///
/// The wait uses the job table's condition, with growing pauses, so that it costs next to nothing and ends when the
/// server stops.
struct LockWait {
    /// A lock held for a shorter time is normal, and is not logged.
    private static let silentMicroseconds: Int64 = 1_000_000
    /// The longest pause between two attempts, by which jobs may go on too late.
    private static let longestPauseMicroseconds: Int64 = 50_000

    private let statistics: Statistics
    private let logger: Logger
    private var beganAt: Int64?
    private var pauseMicroseconds: Int64 = 1_000
    private var isReported = false

    init(_ statistics: Statistics, _ logger: Logger) {
        self.statistics = statistics
        self.logger = logger
    }

    /// Waits before the next attempt. Returns false when there must be none, because the server stops.
    mutating func pause(_ jobTable: Monitor<JobTable>) -> Bool {
        let now = monotonicMicroseconds()
        let beganAt = beganAt ?? now
        self.beganAt = beganAt
        if !isReported, now - beganAt >= Self.silentMicroseconds {
            isReported = true
            statistics.count { $0.store = .waiting(cause: "Another program has locked the store.") }
            logger.warning("Another program has locked the store; jobs wait until it releases the lock.")
        }
        let isOver = jobTable.wait(until: now + pauseMicroseconds) { jobTable -> Bool? in
            guard let deadline = jobTable.lockDeadline, deadline <= monotonicMicroseconds() else { return nil }
            return true
        }
        pauseMicroseconds = min(2 * pauseMicroseconds, Self.longestPauseMicroseconds)
        if isOver == true {
            reportEnd("The server stops, and the store is still locked by another program; jobs fail.")
        }
        return isOver == nil
    }

    /// The transaction has succeeded.
    func ended() { reportEnd("The store is no longer locked; jobs continue.") }

    private func reportEnd(_ words: Logger.Message) {
        guard isReported, let beganAt else { return }
        statistics.count { $0.noteServing() }
        logger.warning(words, metadata: ["milliseconds": "\((monotonicMicroseconds() - beganAt) / 1_000)"])
    }
}
