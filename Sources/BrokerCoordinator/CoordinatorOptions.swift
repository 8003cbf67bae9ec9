public import BrokerStore

/// How much work the coordinator takes on at once.
public struct CoordinatorLimits: Sendable {
    /// Jobs admitted and not ended. More than the clients' windows together need, little enough to answer within a second.
    public static let defaultJobs = 4_096
    /// Bytes of frames and decoded messages admitted and not ended: with its tape and rows, a job takes about eight
    /// times its text, so this keeps the server below 300 MiB.
    public static let defaultBytes = 16 << 20
    /// A payload up to this is opened even when there is no room, so that `stats` is answered under any load.
    public static let smallPayloadBytes = 4 << 10
    /// Jobs in one transaction at most: one COMMIT then costs each of them next to nothing.
    public static let jobsPerCommit = 1_024
    /// More than twice the jobs in flight, so that none waits for another block.
    public static let defaultSequenceBlock: Int64 = 10_000
    /// For how long a server that stops keeps jobs for a store that another program has locked, before they fail.
    public static let defaultLockSecondsAtStop = 5

    public var jobs = defaultJobs
    public var bytes = defaultBytes
    /// Sequences that are set aside in the store at a time, and so how many numbers a crash leaves unused at most.
    public var sequenceBlock = defaultSequenceBlock
    /// Staging threads. Two at least, so that a large job does not hold up the small ones.
    public var workers: Int

    public init(workers: Int) { self.workers = max(1, workers) }
}

public struct CoordinatorOptions: Sendable {
    public var storePath: String
    public var store = StoreOptions()
    public var limits: CoordinatorLimits

    public init(storePath: String, limits: CoordinatorLimits) {
        self.storePath = storePath
        self.limits = limits
    }
}
