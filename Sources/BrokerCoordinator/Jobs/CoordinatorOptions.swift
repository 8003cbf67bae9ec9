package import BrokerJournal
package import BrokerStore
internal import Glibc

/// Limits on the work that the coordinator takes on at once.
package struct CoordinatorLimits: Sendable {
    /// Jobs admitted and not ended. More than the clients' windows together need, few enough to answer within a second.
    package static let defaultJobs = 4_096
    /// Bytes of frames and of their contents admitted and not ended; a frame that is not opened yet counts for the most
    /// that it can hold. Two transactions of bulk jobs, so that one is staged while the other is merged; that much is
    /// opened, staged and merged within half a second, so later jobs wait no longer.
    package static let defaultBytes = 16 << 20
    /// The least that each key or value of a job counts for: ordinary JSON takes more, and three bytes to an object are
    /// as much work as if they did.
    static let bytesPerElement = 8
    /// How many times its bytes a large frame that is not opened yet counts for: it may have that many elements.
    static let unopenedFactor = 3
    /// Frames that may be in flight whatever their bytes are: one is staged while another is merged.
    static let framesOfAnySize = 2
    /// Bytes of memory for the jobs in flight, but for the first in merge order: frames, contents, tapes, rows. Two or
    /// three bulk jobs of 4 MiB, so that they are staged while others are merged.
    package static let defaultMemory = 64 << 20
    /// Bytes of memory for one job: some 25 MiB of ordinary JSON. With the memory of the others, SQLite's cache of 64
    /// MiB and the process's own needs, the server stays below 300 MiB.
    package static let defaultJobMemory = 128 << 20
    /// Frames in flight whose content is unknown: more than ever wait to be opened under an ordinary load, few enough
    /// that much work is not taken on many times over.
    static let unopenedFrames = 64
    /// The weight of a job that asks for its objects, however few its bytes are: it may read as much as an answer
    /// holds.
    static let objectsBytes = 512 << 10
    /// A frame up to this size is opened briefly, before its content is known to be small.
    static let briefBytes = 64 << 10
    /// A frame whose content can have no more bytes may be opened by the thread that reads the socket while nothing else is in
    /// flight: that takes about as long as waking a worker, and a quarter of a millisecond at worst.
    static let openedHereBytes = 64 << 10
    /// The same while other frames are in flight, so that no client waits long for the thread that reads all sockets.
    static let openedBesideOthersBytes = 8 << 10
    /// The memory that a worker may take for such a frame without asking: enough for 64 KiB of JSON. A frame that needs
    /// more is not small.
    static let briefMemory = 256 << 10
    /// A frame whose content is not larger may be admitted when there is no room, so that `stats` is answered under any
    /// load.
    package static let smallContentBytes = 64 << 10
    /// Frames whose content may be larger take turns: reading 256 MiB takes about a second. Ordinary JSON of this size needs more
    /// memory than a job has by default.
    static let largeContentBytes = 32 << 20
    /// Jobs in one transaction at most: the COMMIT then costs each of them next to nothing.
    package static let jobsPerCommit = 1_024
    /// Bytes of jobs and their frames above which a transaction takes no more: eight bulk jobs.
    static let transactionBytes = 8 << 20
    /// After this time a transaction begins no other job: small jobs may do much work, too. Bulk loads gain most of what
    /// is possible from eight jobs to a COMMIT, and no client waits for an answer much longer than its job takes.
    static let defaultTransactionMicroseconds: Int64 = 100_000
    /// Bytes of a job and its frame from which it is large: merging it takes about as long as a COMMIT.
    static let largeBytes = 256 << 10
    /// Bytes of a job and its frame of which the rows are merged in a microsecond at least. What takes longer, the job does
    /// beside its own rows.
    static let bytesPerMicrosecond = 8
    /// More than twice the jobs in flight, so that none waits for another block.
    package static let defaultSequenceBlock: Int64 = 10_000
    /// How long a server that stops waits for a store that another program has locked, before jobs fail.
    package static let defaultLockSecondsAtStop = 5

    package var jobs = defaultJobs
    package var bytes = defaultBytes
    /// Sequences that are reserved in the store at a time, and so the most numbers that a crash leaves unused.
    package var sequenceBlock = defaultSequenceBlock
    package var memory = defaultMemory
    package var jobMemory = defaultJobMemory
    /// Threads that stage large jobs; there is one more for small ones.
    package var workers: Int
    package var streams = StreamLimits()
    var transactionMicroseconds = defaultTransactionMicroseconds

    /// One for each processor, two at least.
    package static var defaultWorkers: Int { min(mostWorkers, max(2, processors)) }
    static var processors: Int { Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))) }
    /// More threads than the processors of any machine with which one writer could keep up.
    package static let mostWorkers = 1_024

    package init(workers: Int = defaultWorkers) { self.workers = max(1, workers) }
}

package struct CoordinatorOptions: Sendable {
    package var storePath: String
    package var store = StoreOptions()
    package var limits: CoordinatorLimits
    /// Jobs are stored on the disk, beside the store, before they are accepted, and applied after any crash.
    package var keepsJournal = false
    /// The log that this server shares with others, instead of a journal.
    package var sharedLog: SharedLogSource?
    /// Jobs that take that long from their frame to the durable transaction are slow; nil for a second.
    package var slowJobMicroseconds: Int64?
    /// The number of the process's allocations so far, for `stats`; nil where they are not counted.
    package var allocations: (@Sendable () -> Int)?
    /// A store of the same model, which another process has open: fetches read it instead of this one's store.
    package var fetched: OpenedFiles?
    /// The system calls of the journal; tests inject faults.
    package var journalSystem: any JournalSystem = PosixSystem()

    package init(storePath: String, limits: CoordinatorLimits) {
        self.storePath = storePath
        self.limits = limits
    }

    /// Jobs are applied in the order of a log that survives this server.
    var hasLog: Bool { keepsJournal || sharedLog != nil }
}

/// Limits on the streamed fetches of all clients. Times are in microseconds.
package struct StreamLimits: Sendable {
    /// Streams that are open at a time: each has a read transaction, SQLite's cache of 2 MiB, and up to 1 MiB of objects
    /// that are read and not sent.
    package var open = 8
    /// How long a stream may wait for its client altogether, once the writer waits to copy the WAL or another stream
    /// waits to be opened. A client that writes what it reads to a disk waits less; at the writer's full rate the WAL
    /// grows by some hundred megabytes in that time.
    package var wait: Int64 = 5_000_000
    /// How long a stream may wait for its client to take one frame, whatever else waits.
    package var frameWait: Int64 = 30_000_000
    /// Bytes by which the WAL may grow while the snapshot of a stream or of a long fetch is open. The writer copies so much in
    /// some tenths of a second.
    package var snapshotBytes = 256 << 20

    package init() {}
}
