package import BrokerJournal
public import BrokerStore
internal import Glibc

/// How much work the coordinator takes on at once.
public struct CoordinatorLimits: Sendable {
    /// Jobs admitted and not ended. More than the clients' windows together need, little enough to answer within a second.
    public static let defaultJobs = 4_096
    /// Bytes of frames and of their contents admitted and not ended; a frame that is not opened yet counts as the most
    /// that can be in it. Two transactions of bulk jobs, so that one is staged while the other is merged; so much is opened,
    /// staged and merged within half a second, and who comes behind waits no longer.
    public static let defaultBytes = 16 << 20
    /// What each key or value of a job counts for at least: ordinary JSON takes more, and what has three bytes to an object is
    /// as much work as if it had.
    static let bytesPerElement = 8
    /// How many times its bytes a large frame counts for that is not opened yet: it may have so many elements in them.
    static let unopenedFactor = 3
    /// Frames that may be in flight whatever their bytes are: one is staged while another is merged.
    static let framesOfAnySize = 2
    /// Bytes of memory for the jobs in flight, but for the first in merge order: frames, contents, tapes, rows. Two or
    /// three bulk jobs of 4 MiB, so that they are staged while others are merged.
    public static let defaultMemory = 64 << 20
    /// Bytes of memory for one job: some 25 MiB of ordinary JSON. With those of the others, SQLite's cache of 64 MiB and
    /// what the process needs itself, the server stays below 300 MiB.
    public static let defaultJobMemory = 128 << 20
    /// Frames at a time of which nobody knows yet what is in them: more than are ever waiting to be opened under an
    /// ordinary load, few enough that what turns out to be much work has not been taken on many times over.
    static let unopenedFrames = 64
    /// What a job counts for that asks for its objects, however few its bytes are: it may read as much as an answer holds.
    static let objectsBytes = 512 << 10
    /// A frame up to this is opened briefly, before it is known to be small.
    static let briefBytes = 64 << 10
    /// A frame of which that is the most that can be in it may be opened by the thread that reads the socket: that takes
    /// about as long as to wake a worker, and a quarter of a millisecond at worst.
    static let openedHereBytes = 64 << 10
    /// What a worker may take for such a frame without asking: enough for 64 KiB of JSON. What needs more is not small.
    static let briefMemory = 256 << 10
    /// A frame whose content is not larger may be admitted when there is no room, so that `stats` is answered under any
    /// load.
    public static let smallContentBytes = 64 << 10
    /// Jobs in one transaction at most: one COMMIT then costs each of them next to nothing.
    public static let jobsPerCommit = 1_024
    /// Bytes of jobs and their frames from which a transaction takes on no more: eight bulk jobs.
    static let transactionBytes = 8 << 20
    /// For how long a transaction takes on what has become ready meanwhile. Bulk loads gain most of what there is to gain
    /// by eight jobs to a COMMIT, and nobody waits for an answer for much longer than its job takes.
    static let transactionMicroseconds: Int64 = 100_000
    /// Bytes of a job and its frame from which it is large: merging it takes about as long as a COMMIT.
    static let largeBytes = 256 << 10
    /// More than twice the jobs in flight, so that none waits for another block.
    public static let defaultSequenceBlock: Int64 = 10_000
    /// For how long a server that stops keeps jobs for a store that another program has locked, before they fail.
    public static let defaultLockSecondsAtStop = 5

    public var jobs = defaultJobs
    public var bytes = defaultBytes
    /// Sequences that are set aside in the store at a time, and so how many numbers a crash leaves unused at most.
    public var sequenceBlock = defaultSequenceBlock
    public var memory = defaultMemory
    public var jobMemory = defaultJobMemory
    /// Threads that stage large jobs; there is one more for small ones.
    public var workers: Int

    /// One for each processor, two at least.
    public static var defaultWorkers: Int { min(mostWorkers, max(2, processors)) }
    static var processors: Int { Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))) }
    /// More threads than the processors of any machine that one writer could keep up with.
    public static let mostWorkers = 1_024

    public init(workers: Int = defaultWorkers) { self.workers = max(1, workers) }
}

public struct CoordinatorOptions: Sendable {
    public var storePath: String
    public var store = StoreOptions()
    public var limits: CoordinatorLimits
    /// Jobs are kept on the disk, beside the store, before they are accepted, and applied after any crash.
    public var keepsJournal = false
    /// What writes the journal; a seam for faults.
    package var journalSystem: any JournalSystem = PosixSystem()

    public init(storePath: String, limits: CoordinatorLimits) {
        self.storePath = storePath
        self.limits = limits
    }
}
