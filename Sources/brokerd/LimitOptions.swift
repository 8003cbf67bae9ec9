import ArgumentParser
import BrokerCommandLine
import BrokerCoordinator
import BrokerServer
import BrokerStore
import BrokerWire

/// The limits on the server's load, and the retention of outcomes and of the feed's keys.
struct LimitOptions: ParsableArguments {
    @Option(help: "Threads that decode and stage large jobs; there is one more for small ones.")
    var workers = CoordinatorLimits.defaultWorkers

    @Option(help: ArgumentHelp("The maximum bytes of a frame.", valueName: "size"))
    var maxFrameBytes = ByteSize(FrameLimits.largestPayloadCount)

    @Option(
        help: ArgumentHelp("The maximum bytes of a frame's decoded content.", valueName: "size"))
    var maxContentBytes = ByteSize(FrameLimits.defaultMaximumContentCount)

    @Option(
        help: ArgumentHelp("Bytes of jobs in flight before clients have to wait.", valueName: "size"))
    var maxBytesInFlight = ByteSize(CoordinatorLimits.defaultBytes)

    @Option(
        help: ArgumentHelp(
            "Bytes of memory for jobs in flight, beside the one whose turn it is. Others wait.", valueName: "size"))
    var maxMemory = ByteSize(CoordinatorLimits.defaultMemory)

    @Option(
        help: ArgumentHelp("Bytes of memory that one job may take. One that needs more fails.", valueName: "size"))
    var maxJobMemory = ByteSize(CoordinatorLimits.defaultJobMemory)

    @Option(help: ArgumentHelp("Jobs in flight before clients have to wait.", valueName: "count"))
    var maxJobsInFlight = CoordinatorLimits.defaultJobs

    @Option(help: ArgumentHelp("Jobs of one connection in flight before it has to wait.", valueName: "count"))
    var jobsPerConnection = ServerOptions.defaultJobsPerConnection

    @Option(help: ArgumentHelp("The maximum number of open connections.", valueName: "count"))
    var connections = ServerOptions.defaultConnections

    @Option(
        help: ArgumentHelp("How long clients may take their answers when the server stops.", valueName: "time"))
    var drainTimeout = TimeSpan.seconds(ServerOptions.defaultDrainSeconds)

    @Option(help: ArgumentHelp("The maximum number of outcomes that are remembered.", valueName: "count"))
    var keepOutcomes = LedgerRetention.defaultCount

    @Option(
        help: ArgumentHelp("How long the outcome of a job is remembered.", valueName: "time"))
    var keepOutcomesSeconds = TimeSpan.seconds(LedgerRetention.defaultSeconds)

    @Option(
        help: ArgumentHelp(
            "Bytes of the keys that are stored for followers of the feed, oldest deleted first; 0 stores none.",
            valueName: "size"))
    var feedBytes = ByteSize(StoreOptions.defaultFeedBytes)

    /// A tebibyte: more than any machine's memory.
    private static let mostBytesInFlight = ByteSize(1 << 40)
    /// Each takes an entry in a table, and a client's window is some thousands.
    private static let mostAtOnce = 1_000_000
    /// At some 300 bytes each, a store of 300 GB.
    private static let mostOutcomes = 1_000_000_000
    /// A hundred years.
    private static let longest = TimeSpan.seconds(100 * 365 * 24 * 3_600)

    mutating func validate() throws {
        try [
            NumberOption("--workers", workers, in: 1...CoordinatorLimits.mostWorkers),
            NumberOption("--max-frame-bytes", maxFrameBytes, in: 1...ByteSize(FrameLimits.largestPayloadCount)),
            NumberOption("--max-content-bytes", maxContentBytes, in: 1...ByteSize(FrameLimits.largestContentCount)),
            NumberOption("--max-bytes-in-flight", maxBytesInFlight, in: 1...Self.mostBytesInFlight),
            NumberOption("--max-memory", maxMemory, in: 1...Self.mostBytesInFlight),
            NumberOption("--max-job-memory", maxJobMemory, in: 1...Self.mostBytesInFlight),
            NumberOption("--max-jobs-in-flight", maxJobsInFlight, in: 1...Self.mostAtOnce),
            NumberOption("--jobs-per-connection", jobsPerConnection, in: 1...Self.mostAtOnce),
            NumberOption("--connections", connections, in: 1...Self.mostAtOnce),
            NumberOption("--keep-outcomes", keepOutcomes, in: 1...Self.mostOutcomes),
            NumberOption("--keep-outcomes-seconds", keepOutcomesSeconds, in: .seconds(1)...Self.longest),
            NumberOption("--feed-bytes", feedBytes, in: 0...Self.mostBytesInFlight),
            NumberOption("--drain-timeout", drainTimeout, in: .seconds(0)...Self.longest),
        ].check()
    }

    var coordinator: CoordinatorLimits {
        var limits = CoordinatorLimits(workers: workers)
        limits.bytes = maxBytesInFlight.bytes
        limits.memory = maxMemory.bytes
        limits.jobMemory = maxJobMemory.bytes
        limits.jobs = maxJobsInFlight
        return limits
    }

    var frames: FrameLimits {
        FrameLimits(maximumPayloadCount: maxFrameBytes.bytes, maximumContentCount: maxContentBytes.bytes)
    }
}

/// The log and the measurements.
struct ObservingOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            The form of the log on standard error: text, json (an object in each line), or journald (the priority as \
            sd-daemon(3) has it, and no time). Default: journald when standard error is the journal, else text.
            """, valueName: "format"))
    var logFormat: LogFormat?

    @Option(
        help: ArgumentHelp(
            "Log each job that takes that long from its frame to the COMMIT, with its stages; 0 logs none.",
            valueName: "time"))
    var slowJob = TimeSpan.seconds(0)

    @Option(
        help: ArgumentHelp(
            """
            Write the measurements there every 15 seconds, in Prometheus' text format, for node_exporter's textfile \
            collector: FOLDER/broker.prom
            """, valueName: "file"), completion: .file())
    var metricsFile: String?

    var format: LogFormat { logFormat ?? .detected }

    /// Nil when slow jobs are not logged.
    var slowJobMicroseconds: Int64? {
        slowJob > .seconds(0) ? Int64(slowJob.duration / .microseconds(1)) : nil
    }
}
