package import BrokerJSON

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// A server's counters and measurements since its start: the `stats` message of the protocol.
public struct Statistics: Sendable, Hashable, Codable {
    /// Numbers of jobs.
    public struct Jobs: Sendable, Hashable, Codable {
        /// Jobs that got a position in the order.
        public var accepted: Int
        /// Jobs that were applied.
        public var completed: Int
        /// Jobs that ended with an error, without an effect.
        public var failed: Int
        /// Jobs that had been applied before.
        public var duplicate: Int
        /// Jobs that have not ended.
        public var inFlight: Int
    }

    /// What happened to objects, summed over all jobs.
    public struct Objects: Sendable, Hashable, Codable {
        /// Objects that were made.
        public var inserted: Int
        /// Objects that were changed.
        public var updated: Int
        /// Objects that were compared and not written.
        public var unchanged: Int
        /// Objects that were deleted.
        public var deleted: Int
        /// Records that were rejected.
        public var rejected: Int
    }

    /// How many of the measurements were at most that.
    public struct Percentiles: Sendable, Hashable, Codable {
        /// Half of them.
        public var p50: Int
        /// 90 of 100.
        public var p90: Int
        /// 99 of 100.
        public var p99: Int
        /// All of them.
        public var max: Int
    }

    /// How many of the times were at most that.
    public struct DurationPercentiles: Sendable, Hashable, Codable {
        /// Half of them.
        public var p50: Duration
        /// 90 of 100.
        public var p90: Duration
        /// 99 of 100.
        public var p99: Duration
        /// All of them.
        public var max: Duration

        /// Reads microseconds, as the protocol has them.
        public init(from decoder: any Decoder) throws {
            let microseconds = try Percentiles(from: decoder)
            (p50, p90) = (.microseconds(microseconds.p50), .microseconds(microseconds.p90))
            (p99, max) = (.microseconds(microseconds.p99), .microseconds(microseconds.max))
        }

        /// Writes microseconds.
        public func encode(to encoder: any Encoder) throws {
            func microseconds(_ time: Duration) -> Int { Int(time / .microseconds(1)) }
            try Percentiles(
                p50: microseconds(p50), p90: microseconds(p90), p99: microseconds(p99), max: microseconds(max)
            ).encode(to: encoder)
        }
    }

    /// The times of each stage, and of the whole from the frame to the durable transaction.
    public struct Latencies: Sendable, Hashable, Codable {
        /// From the whole frame to a worker that opens it.
        public var queued: DurationPercentiles
        /// Decompressing, parsing and staging.
        public var staged: DurationPercentiles
        /// Nil without a journal.
        public var journalWaited: DurationPercentiles?
        /// Nil without a journal.
        public var journalSynced: DurationPercentiles?
        /// Staged and in the journal, while other jobs were merged, or merging was paused.
        public var waited: DurationPercentiles
        /// The writer's work.
        public var merged: DurationPercentiles
        /// From there until the transaction was durable.
        public var committed: DurationPercentiles
        /// From the frame to the durable transaction.
        public var total: DurationPercentiles
    }

    /// Sizes of transactions.
    public struct Batches: Sendable, Hashable, Codable {
        /// Jobs of a transaction.
        public var jobs: Percentiles
        /// How long its COMMIT took.
        public var commit: DurationPercentiles

        private enum CodingKeys: String, CodingKey {
            case jobs
            case commit = "commitMicroseconds"
        }
    }

    /// Frames and collections that wait, and the memory of all jobs in flight.
    public struct Queues: Sendable, Hashable, Codable {
        /// Frames that are not opened yet.
        public var opening: Int
        /// Collections that are not staged yet.
        public var staging: Int
        /// The memory of all jobs in flight.
        public var bytes: Int
        /// The age of the oldest job in flight; zero when there is none, nil of an earlier server.
        public var oldestAge: Duration? { oldestMilliseconds.map { .milliseconds($0) } }
        package var oldestMilliseconds: Int?
    }

    /// The journal of accepted jobs.
    public struct Journal: Sendable, Hashable, Codable {
        /// The size of its files.
        public var bytes: Int
        /// Entries that are not durable yet.
        public var waiting: Int
        /// The sequence of the newest job that was applied.
        public var applied: Int64
        /// A hash of all jobs up to that one and of what they did; see `protocol/running.md`.
        public var history: String
        /// A hash of what decides outcomes besides the jobs; see `protocol/running.md`. Nil from an earlier server.
        public var fingerprint: String?
    }

    /// A log that several servers share.
    public struct Log: Sendable, Hashable, Codable {
        /// A server that shares the log.
        public struct Replica: Sendable, Hashable, Codable {
            /// When the log got the newest entry of it.
            public var date: Date { Date(milliseconds: time) }
            package var time: Int64
            /// Entries up to this position are on its disk.
            public var durable: Int64
            /// Entries up to this position are in a backup of it; 0 for none.
            public var backup: Int64
        }

        /// `nats`.
        public var kind: String
        /// The stream's name, and its identity.
        public var stream: String?
        /// The stream's identity: another stream of the same name has another one.
        public var identity: String
        /// The name of this server in it.
        public var replica: String
        /// Where an accepted job is.
        public var durability: ServerInformation.Durability
        /// Entries of this server that are on their way to the log.
        public var waiting: Int
        /// Why they wait, or why nothing can be read; nil while the log serves.
        public var cause: String?
        /// Whether this server is connected to the log; nil for a log without connections.
        public var isConnected: Bool?
        /// The server of the log that it is connected to.
        public var server: String?
        /// The newest position of the log that this server knows.
        public var last: Int64
        /// Everything up to it is applied.
        public var position: Int64
        /// Entries that are known and not applied.
        public var lag: Int64
        /// A hash of all entries up to the position and of what they did: equal on all servers at one position.
        public var digest: String
        /// A hash of what decides outcomes besides the jobs; see `protocol/running.md`. Nil from an earlier server.
        public var fingerprint: String?
        /// Nothing more is applied; reads go on.
        public var isHalted: Bool
        /// Why it has halted.
        public var reason: String?
        /// The servers that share the log, by name, as of the position.
        public var replicas: [String: Replica]?

        private enum CodingKeys: String, CodingKey {
            case kind, stream, identity, replica, durability, waiting, cause, server, last, position, lag, digest
            case fingerprint, reason, replicas
            case isConnected = "connected"
            case isHalted = "halted"
        }
    }

    /// The database.
    public struct Store: Sendable, Hashable, Codable {
        /// A newer server may have other words.
        public struct State: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
            /// The protocol's word.
            public let rawValue: String

            public init(rawValue: String) { self.rawValue = rawValue }

            public var description: String { rawValue }

            /// Jobs are applied.
            public static let serving = State(rawValue: "serving")
            /// Jobs wait for a store that takes nothing now.
            public static let waiting = State(rawValue: "waiting")
            /// Its disk has failed.
            public static let failed = State(rawValue: "failed")
            /// It stores nothing more: its files were moved or replaced, or a log that several servers share cannot be applied
            /// further. Reads go on.
            public static let halted = State(rawValue: "halted")
        }

        /// Whether jobs are applied.
        public var state: State
        /// For people: what it waits for.
        public var cause: String?
        /// The size of the database's file. Like the following, nil of an earlier server.
        public var bytes: Int?
        /// Free bytes of its file system.
        public var freeDiskBytes: Int?
        /// Outcomes of jobs that are stored.
        public var outcomes: Int?
        /// As many are stored at most; nil of an earlier server.
        public var maximumOutcomes: Int?
        /// When the job of the oldest of them ended; nil for none, and of an earlier server.
        public var oldestOutcomeDate: Date? { oldestOutcomeAt.map(Date.init(milliseconds:)) }
        package var oldestOutcomeAt: Int64?
        /// When the whole WAL was last copied into the database; nil for not since the start.
        public var checkpointDate: Date? { checkpointedAt.map(Date.init(milliseconds:)) }
        package var checkpointedAt: Int64?
        /// When the last backup was done, also before the start; nil for none.
        public var backupDate: Date? { backedUpAt.map(Date.init(milliseconds:)) }
        package var backedUpAt: Int64?
        /// Rejected records that are kept; nil of an earlier server.
        public var rejects: Rejects?

        /// Rejected records that are kept.
        public struct Rejects: Sendable, Hashable, Codable {
            /// Their number.
            public var count: Int
            /// Their size in bytes.
            public var bytes: Int
            /// Those that were not kept, or gave way to later ones, since the start.
            public var omitted: Int
        }
    }

    /// SQLite's write-ahead log.
    public struct WAL: Sendable, Hashable, Codable {
        /// The size of its file.
        public var bytes: Int
        /// Pages that are not in the database yet.
        public var uncheckpointedPages: Int
        /// Other processes that have a read transaction open, and so may hold the WAL; nil for none, and of an earlier
        /// server.
        public var readers: [Reader]?

        /// Another process that reads the store.
        public struct Reader: Sendable, Hashable, Codable {
            /// The name of its program; nil where the kernel does not report it.
            public var process: String?
            /// Its process id.
            public var pid: Int?
        }

        /// A WAL without readers, for doubles of a broker.
        public init(bytes: Int, uncheckpointedPages: Int) {
            self.bytes = bytes
            self.uncheckpointedPages = uncheckpointedPages
        }
    }

    /// About the last minute; see ``duration``.
    public struct LastMinute: Sendable, Hashable, Codable {
        /// Numbers of jobs that ended.
        public struct Jobs: Sendable, Hashable, Codable {
            /// Jobs that were applied.
            public var completed: Int
            /// Jobs that ended with an error, without an effect.
            public var failed: Int
            /// Jobs that had been applied before.
            public var duplicate: Int
        }

        /// The time that the numbers cover: 50 to 60 seconds, or the time since the start.
        public var duration: Duration { .milliseconds(milliseconds) }
        package var milliseconds: Int
        /// Jobs that ended.
        public var jobs: Jobs
        /// What happened to objects.
        public var objects: Objects
        /// Transactions.
        public var commits: Int
        /// With an error of 6 %.
        public var latencies: Latencies

        private enum CodingKeys: String, CodingKey {
            case milliseconds, jobs, objects, commits
            case latencies = "latencyMicroseconds"
        }
    }

    /// How long jobs took, by stage and in all, and transactions, since the start.
    public struct Histograms: Sendable, Hashable, Codable {
        /// The distribution of one stage's times.
        public struct Histogram: Sendable, Hashable, Codable {
            /// How many of the times were at most each of the bounds.
            public var counts: [Int]
            /// All of them.
            public var count: Int
            /// Their sum.
            public var sum: Duration { .microseconds(sumMicroseconds) }
            package var sumMicroseconds: Int
        }

        /// The bounds of all histograms, in ascending order.
        public var bounds: [Duration] { boundsMicroseconds.map { .microseconds($0) } }
        package var boundsMicroseconds: [Int]
        /// From the whole frame to a worker that opens it.
        public var queued: Histogram
        /// Decompressing, parsing and staging.
        public var staged: Histogram
        /// Nil without a journal.
        public var journalWaited: Histogram?
        /// Nil without a journal.
        public var journalSynced: Histogram?
        /// Staged and in the journal, while other jobs were merged, or merging was paused.
        public var waited: Histogram
        /// The writer's work.
        public var merged: Histogram
        /// From there until the transaction was durable.
        public var committed: Histogram
        /// From the frame to the durable transaction.
        public var total: Histogram
        /// The COMMITs of transactions.
        public var commit: Histogram
    }

    /// The last change of the model by a reload or a migration.
    public struct Reload: Sendable, Hashable, Codable {
        /// When it ended.
        public var date: Date { Date(milliseconds: at) }
        package var at: Int64
        /// The new model is in effect.
        public var isSuccessful: Bool
        /// Why the model before it stays in effect.
        public var reason: String?

        private enum CodingKeys: String, CodingKey {
            case at, reason
            case isSuccessful = "successful"
        }
    }

    /// Clients that are connected.
    public struct Connections: Sendable, Hashable, Codable {
        /// Connections that are open now.
        public var open: Int
        /// The most that the server accepts at once.
        public var maximum: Int
    }

    /// The memory of the server's process.
    public struct Memory: Sendable, Hashable, Codable {
        /// Its resident set, in bytes.
        public var residentBytes: Int
        /// Allocations of the process since its start; nil where its allocator does not count them.
        public var allocations: Int?
    }

    /// Numbers of jobs.
    public var jobs: Jobs
    /// Failed jobs by the code of their fault.
    public var failures: [String: Int]
    /// What happened to objects.
    public var objects: Objects
    /// Rejected records by entity; nil of an earlier server.
    public var rejects: [String: Int]?
    /// What warnings of jobs counted, by entity and code, such as `extraKey`. Nil from a server that does not say it.
    public var warnings: [String: [String: Int]]?
    /// Operations whose records were applied one after the other, and not as sets, by the reason; nil of an earlier server.
    public var interpreted: [String: Int]?
    /// Transactions.
    public var commits: Int
    /// Transactions and their sizes.
    public var batches: Batches
    /// What waits now.
    public var queues: Queues
    /// How long jobs took since the start.
    public var latencies: Latencies
    /// Nil of an earlier server.
    public var lastMinute: LastMinute?
    /// Nil of an earlier server.
    public var histograms: Histograms?
    /// The database.
    public var store: Store
    /// SQLite's write-ahead log.
    public var wal: WAL
    /// Subscriptions of the feed that are open now.
    public var subscriptions: Int
    /// Nil without a journal.
    public var journal: Journal?
    /// Nil without a log that several servers share.
    public var log: Log?
    /// Nil of an embedded broker.
    public var memory: Memory?
    /// Nil of an embedded broker.
    public var uptime: Duration? { uptimeMilliseconds.map { .milliseconds($0) } }
    package var uptimeMilliseconds: Int?
    /// An administrator has paused merging.
    public var isPaused: Bool
    /// New jobs are refused, because the server ends; nil of an earlier server.
    public var isDraining: Bool?
    /// Nil before the first reload, and of an earlier server.
    public var lastReload: Reload?
    /// The server's name and version; nil of an embedded broker.
    public var server: String?
    /// The path of the database's file; nil of an embedded broker, of a store that a command opens itself, and of an earlier server.
    public var storeFile: String?
    /// Nil of an embedded broker.
    public var connections: Connections?
    /// The whole message, with what a newer server adds to it.
    public var json: RawJSON { RawJSON(text) }
    private var text: [UInt8] = []

    private enum CodingKeys: String, CodingKey {
        case jobs, failures, objects, commits, batches, queues, store, wal, subscriptions, journal
        case log, memory, uptimeMilliseconds, rejects, warnings, interpreted, lastMinute, histograms
        case server, lastReload, storeFile, connections
        case latencies = "latencyMicroseconds"
        case isPaused = "paused"
        case isDraining = "draining"
    }

    package init(json: [UInt8]) throws {
        self = try ValueDecoder.decode(Self.self, from: json)
        text = json
    }
}

/// A server's description of itself.
public struct ServerInformation: Sendable, Hashable {
    /// A server's limits and retention; nil for those that it does not report.
    public struct Limits: Sendable, Hashable {
        /// A message as it goes over the socket, compressed.
        public var maximumFrameBytes: Int?
        /// A message before it is compressed.
        public var maximumContentBytes: Int?
        /// The maximum depth of nested JSON.
        public var maximumDepth: Int?
        /// The maximum bytes of a job's id.
        public var maximumIDBytes: Int?
        /// The maximum bytes of a message's `tag`.
        public var maximumTagBytes: Int?
        /// The memory in bytes that one job may take: some five times the bytes of its JSON.
        public var jobMemory: Int?
        /// Jobs that the server has in work at once, of all clients.
        public var jobsInFlight: Int?
        /// How many outcomes are remembered, and with them the ids that are applied once.
        public var outcomesKept: Int?
        /// For how long.
        public var outcomesKeptFor: Duration?
        /// The newest job whose outcome was forgotten; 0 when none was.
        public var outcomesForgottenThrough: Int64?

        /// No limits are reported.
        public init() {}
    }

    /// The server's name and version.
    public var name: String
    /// The version of the protocol that the connection uses.
    public var protocolVersion: Int
    /// Accepted jobs are in a journal, and survive a crash; nil when the server does not report it.
    public var hasJournal: Bool?
    /// Where an accepted job is; nil when the server does not report it.
    public var durability: Durability?
    /// The server's name among those that share its log; nil without such a log.
    public var replica: String?
    /// The messages that the server takes from this client; nil when the server does not report it.
    public var role: Role?
    /// Fields of jobs that the server knows and servers before it ignored: `dryRun`, `maximumDeletions`, `bookmark`.
    public var features: Set<String> = []
    /// The entities of its model, in the model's order.
    public var entities: [String]
    /// Its limits and retention.
    public var limits: Limits

    /// A description, for doubles of a server.
    public init(name: String, protocolVersion: Int = 1, entities: [String] = [], limits: Limits = Limits()) {
        self.name = name
        self.protocolVersion = protocolVersion
        self.entities = entities
        self.limits = limits
    }
}

extension ServerInformation {
    /// Where an accepted job is. A newer server may have other words.
    public struct Durability: RawRepresentable, Sendable, Hashable, Codable {
        /// The protocol's word.
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        /// In the server's memory.
        public static let queued = Durability(rawValue: "queued")
        /// In the journal.
        public static let disk = Durability(rawValue: "disk")
        /// On the disks of most servers that hold a shared log.
        public static let quorum = Durability(rawValue: "quorum")
        /// In the memory of most servers that hold a shared log.
        public static let quorumMemory = Durability(rawValue: "quorum-memory")
    }

    /// The messages that a server takes from a client. A newer server may have other words.
    public struct Role: RawRepresentable, Sendable, Hashable {
        /// The protocol's word.
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        /// No jobs.
        public static let read = Role(rawValue: "read")
        /// Jobs that delete nothing.
        public static let insert = Role(rawValue: "insert")
        /// All jobs.
        public static let write = Role(rawValue: "write")
    }
}

extension ServerInformation {
    /// - Parameter root: an object with the members of `welcome`.
    package init(protocolVersion: Int, members root: JSONValue) {
        self.init(
            name: root["server"]?.string ?? "", protocolVersion: protocolVersion,
            entities: root.strings("entities"), limits: root["limits"].map(Limits.init) ?? Limits())
        hasJournal = root["journal"]?.bool
        durability = root["durability"]?.string.map(Durability.init)
        replica = root["replica"]?.string
        role = root["role"]?.string.map(Role.init)
        features = Set(root.strings("features"))
    }
}

extension ServerInformation.Limits {
    fileprivate init(_ limits: JSONValue) {
        self.init()
        maximumFrameBytes = limits.count("maximumFrameBytes")
        maximumContentBytes = limits.count("maximumContentBytes")
        maximumDepth = limits.count("maximumDepth")
        maximumIDBytes = limits.count("maximumIdBytes")
        maximumTagBytes = limits.count("maximumTagBytes")
        jobMemory = limits.count("jobMemory")
        jobsInFlight = limits.count("jobsInFlight")
        outcomesKept = limits.count("outcomesKept")
        outcomesKeptFor = limits.count("outcomesKeptSeconds").map { .seconds($0) }
        outcomesForgottenThrough = limits["outcomesForgottenThrough"]?.int64
    }
}

extension Date {
    fileprivate init(milliseconds: Int64) { self.init(timeIntervalSince1970: Double(milliseconds) / 1_000) }
}

extension JSONValue {
    package func count(_ key: String) -> Int? { self[key]?.int64.flatMap { Int(exactly: $0) } }

    fileprivate func strings(_ key: String) -> [String] { self[key]?.elements.compactMap(\.string) ?? [] }
}
