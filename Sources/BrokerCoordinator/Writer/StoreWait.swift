internal import BrokerModel
internal import BrokerStore
internal import Logging

/// One incident of a store that takes no writes, while the journal retains the accepted jobs: how long it lasts, what
/// the log and `stats` report of it, and what clients are sent meanwhile.
struct StoreWait {
    private static let longestPauseMicroseconds: Int64 = 1_000_000

    private let statistics: Statistics
    private let logger: Logger
    private var beganAt: Int64?
    private var pauseMicroseconds: Int64 = 10_000

    init(_ statistics: Statistics, _ logger: Logger) {
        self.statistics = statistics
        self.logger = logger
    }

    /// Waits before the next attempt. Returns false when there must be none, because the server stops.
    mutating func pause(_ jobTable: Monitor<JobTable>, _ error: StoreError) -> Bool {
        let now = monotonicMicroseconds()
        // The cause may differ from that of the attempt before.
        statistics.count { $0.store = .waiting(cause: error.message) }
        if beganAt == nil {
            beganAt = now
            let fault = Fault(error.faultCode, error.message)
            jobTable.withLock { $0.refusals.store = fault }
            logger.error(
                "The store cannot be written; accepted jobs stay in the journal, and new jobs are refused.",
                metadata: ["cause": "\(error)"])
        }
        let isOver = jobTable.wait(until: now + pauseMicroseconds) { jobTable -> Bool? in
            guard let deadline = jobTable.lockDeadline, deadline <= monotonicMicroseconds() else { return nil }
            return true
        }
        pauseMicroseconds = min(2 * pauseMicroseconds, Self.longestPauseMicroseconds)
        if isOver == true {
            logger.error(
                """
                The server stops, and the store still cannot be written: accepted jobs stay in the journal, and are \
                applied when the server starts again.
                """
            )
        }
        return isOver == nil
    }

    /// The store has taken the job.
    func ended(_ jobTable: Monitor<JobTable>) {
        guard let beganAt else { return }
        jobTable.withLock { $0.refusals.store = nil }
        logger.notice(
            "The store can be written again.",
            metadata: ["milliseconds": "\((monotonicMicroseconds() - beganAt) / 1_000)"])
    }
}

extension StoreError {
    /// Whether the machine is at fault, not the job, so that a later attempt may succeed.
    var isOfMachine: Bool { code == .full || code == .unavailable }
}

extension Fault {
    static let leftInJournal = Fault(
        .draining,
        "The server stops, and its store could not store this job. It was accepted, stays in the journal, and is "
            + "applied when the server starts again; sent again under its id, it is applied once.")
}
