package import BrokerJSON

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// A server's counters and measurements since its start: the `stats` message of the protocol.
public struct Statistics: Sendable, Decodable {
    /// Numbers of jobs.
    public struct Jobs: Sendable, Decodable {
        /// Jobs that got a position in the order.
        public let accepted: Int
        /// Jobs that were applied.
        public let completed: Int
        /// Jobs that ended with an error, without an effect.
        public let failed: Int
        /// Jobs that had been applied before.
        public let duplicate: Int
        /// Jobs that have not ended.
        public let inFlight: Int
    }

    /// What happened to objects, summed over all jobs.
    public struct Objects: Sendable, Decodable {
        /// Objects that were made.
        public let inserted: Int
        /// Objects that were changed.
        public let updated: Int
        /// Objects that were compared and not written.
        public let unchanged: Int
        /// Objects that were deleted.
        public let deleted: Int
        /// Records that were rejected.
        public let rejected: Int
    }

    /// How many of the measurements were at most that.
    public struct Percentiles: Sendable, Decodable {
        /// Half of them.
        public let p50: Int
        /// 90 of 100.
        public let p90: Int
        /// 99 of 100.
        public let p99: Int
        /// All of them.
        public let max: Int
    }

    /// How many of the times were at most that.
    public struct DurationPercentiles: Sendable, Decodable {
        /// Half of them.
        public let p50: Duration
        /// 90 of 100.
        public let p90: Duration
        /// 99 of 100.
        public let p99: Duration
        /// All of them.
        public let max: Duration

        /// Reads microseconds, as the protocol has them.
        public init(from decoder: any Decoder) throws {
            let microseconds = try Percentiles(from: decoder)
            (p50, p90) = (.microseconds(microseconds.p50), .microseconds(microseconds.p90))
            (p99, max) = (.microseconds(microseconds.p99), .microseconds(microseconds.max))
        }
    }

    /// A measurement of each stage of jobs, and of the whole.
    public struct Stages<Times: Sendable & Decodable>: Sendable, Decodable {
        /// From the whole frame to a worker that opens it.
        public let queued: Times
        /// Decompressing, parsing and staging.
        public let staged: Times
        /// Nil without a journal.
        public let journalWaited: Times?
        /// Nil without a journal.
        public let journalSynced: Times?
        /// Staged and in the journal, while other jobs were merged, or merging was paused.
        public let waited: Times
        /// The writer's work.
        public let merged: Times
        /// From there until the transaction was durable.
        public let committed: Times
        /// From the frame to the durable transaction.
        public let total: Times
    }

    /// Sizes of transactions.
    public struct Batches: Sendable, Decodable {
        /// Jobs of a transaction.
        public let jobs: Percentiles
        /// How long its COMMIT took.
        public let commit: DurationPercentiles

        private enum CodingKeys: String, CodingKey {
            case jobs
            case commit = "commitMicroseconds"
        }
    }

    /// Frames and collections that wait, and the memory of all jobs in flight.
    public struct Queues: Sendable, Decodable {
        /// Frames that are not opened yet.
        public let opening: Int
        /// Collections that are not staged yet.
        public let staging: Int
        /// The memory of all jobs in flight.
        public let bytes: Int
        /// The age of the oldest job in flight; zero when there is none, nil of an earlier server.
        public var oldestAge: Duration? { oldestMilliseconds.map { .milliseconds($0) } }
        package let oldestMilliseconds: Int?
    }

    /// The journal of accepted jobs.
    public struct Journal: Sendable, Decodable {
        /// The size of its files.
        public let bytes: Int
        /// Entries that are not durable yet.
        public let waiting: Int
        /// The sequence of the newest job that was applied.
        public let applied: Int64
        /// A hash of all jobs up to that one and of what they did; see `protocol/messages.md`.
        public let history: String
        /// A hash of what decides outcomes besides the jobs; see `protocol/messages.md`. Nil from an earlier server.
        public let fingerprint: String?
    }

    /// A log that several servers share.
    public struct Log: Sendable, Decodable {
        /// A server that shares the log.
        public struct Replica: Sendable, Decodable {
            /// When the log got the newest entry of it.
            public var date: Date { Date(milliseconds: time) }
            package let time: Int64
            /// Entries up to this position are on its disk.
            public let durable: Int64
            /// Entries up to this position are in a backup of it; 0 for none.
            public let backup: Int64
        }

        /// `nats`.
        public let kind: String
        /// The stream's name, and its identity.
        public let stream: String?
        /// The stream's identity: another stream of the same name has another one.
        public let identity: String
        /// The name of this server in it.
        public let replica: String
        /// Where an accepted job is.
        public let durability: ServerInformation.Durability
        /// Entries of this server that are on their way to the log.
        public let waiting: Int
        /// Why they wait, or why nothing can be read; nil while the log serves.
        public let cause: String?
        /// Whether this server is connected to the log; nil for a log without connections.
        public let isConnected: Bool?
        /// The server of the log that it is connected to.
        public let server: String?
        /// The newest position of the log that this server knows.
        public let last: Int64
        /// Everything up to it is applied.
        public let position: Int64
        /// Entries that are known and not applied.
        public let lag: Int64
        /// A hash of all entries up to the position and of what they did: equal on all servers at one position.
        public let digest: String
        /// A hash of what decides outcomes besides the jobs; see `protocol/messages.md`. Nil from an earlier server.
        public let fingerprint: String?
        /// Nothing more is applied; reads go on.
        public let isHalted: Bool
        /// Why it has halted.
        public let reason: String?
        /// The servers that share the log, by name, as of the position.
        public let replicas: [String: Replica]?

        private enum CodingKeys: String, CodingKey {
            case kind, stream, identity, replica, durability, waiting, cause, server, last, position, lag, digest
            case fingerprint, reason, replicas
            case isConnected = "connected"
            case isHalted = "halted"
        }
    }

    /// The database.
    public struct Store: Sendable, Decodable {
        /// A newer server may have other words.
        public struct State: RawRepresentable, Sendable, Hashable, Decodable, CustomStringConvertible {
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
        public let state: State
        /// For people: what it waits for.
        public let cause: String?
        /// The size of the database's file. Like the following, nil of an earlier server.
        public let bytes: Int?
        /// Free bytes of its file system.
        public let freeDiskBytes: Int?
        /// Outcomes of jobs that are stored.
        public let outcomes: Int?
        /// As many are stored at most; nil of an earlier server.
        public let maximumOutcomes: Int?
        /// When the job of the oldest of them ended; nil for none, and of an earlier server.
        public var oldestOutcomeDate: Date? { oldestOutcomeAt.map(Date.init(milliseconds:)) }
        package let oldestOutcomeAt: Int64?
        /// When the whole WAL was last copied into the database; nil for not since the start.
        public var checkpointDate: Date? { checkpointedAt.map(Date.init(milliseconds:)) }
        package let checkpointedAt: Int64?
        /// When the last backup was done, also before the start; nil for none.
        public var backupDate: Date? { backedUpAt.map(Date.init(milliseconds:)) }
        package let backedUpAt: Int64?
        /// Rejected records that are kept; nil of an earlier server.
        public let rejects: Rejects?

        /// Rejected records that are kept.
        public struct Rejects: Sendable, Decodable {
            /// Their number.
            public let count: Int
            /// Their size in bytes.
            public let bytes: Int
            /// Those that were not kept, or gave way to later ones, since the start.
            public let omitted: Int
        }
    }

    /// SQLite's write-ahead log.
    public struct WAL: Sendable, Equatable, Decodable {
        /// The size of its file.
        public let bytes: Int
        /// Pages that are not in the database yet.
        public let uncheckpointedPages: Int
        /// Other processes that have a read transaction open, and so may hold the WAL; nil for none, and of an earlier
        /// server.
        public let readers: [Reader]?

        /// Another process that reads the store.
        public struct Reader: Sendable, Equatable, Decodable {
            /// The name of its program; nil where the kernel does not report it.
            public let process: String?
            /// Its process id.
            public let pid: Int?
        }

        /// A WAL without readers, for doubles of a broker.
        public init(bytes: Int, uncheckpointedPages: Int) {
            self.bytes = bytes
            self.uncheckpointedPages = uncheckpointedPages
            readers = nil
        }
    }

    /// About the last minute; see ``duration``.
    public struct LastMinute: Sendable, Decodable {
        /// Numbers of jobs that ended.
        public struct Jobs: Sendable, Decodable {
            /// Jobs that were applied.
            public let completed: Int
            /// Jobs that ended with an error, without an effect.
            public let failed: Int
            /// Jobs that had been applied before.
            public let duplicate: Int
        }

        /// The time that the numbers cover: 50 to 60 seconds, or the time since the start.
        public var duration: Duration { .milliseconds(milliseconds) }
        package let milliseconds: Int
        /// Jobs that ended.
        public let jobs: Jobs
        /// What happened to objects.
        public let objects: Objects
        /// Transactions.
        public let commits: Int
        /// With an error of 6 %.
        public let latencies: Stages<DurationPercentiles>

        private enum CodingKeys: String, CodingKey {
            case milliseconds, jobs, objects, commits
            case latencies = "latencyMicroseconds"
        }
    }

    /// How long jobs took, by stage and in all, and transactions, since the start.
    public struct Histograms: Sendable, Decodable {
        /// The distribution of one stage's times.
        public struct Histogram: Sendable, Decodable {
            /// How many of the times were at most each of the bounds.
            public let counts: [Int]
            /// All of them.
            public let count: Int
            /// Their sum.
            public var sum: Duration { .microseconds(sumMicroseconds) }
            package let sumMicroseconds: Int
        }

        /// The bounds of all histograms, in ascending order.
        public var bounds: [Duration] { boundsMicroseconds.map { .microseconds($0) } }
        package let boundsMicroseconds: [Int]
        /// The times of jobs.
        public let stages: Stages<Histogram>
        /// The COMMITs of transactions.
        public let commit: Histogram

        private enum CodingKeys: String, CodingKey { case boundsMicroseconds, commit }

        /// Reads the protocol's members, of which each stage is one.
        public init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            boundsMicroseconds = try container.decode([Int].self, forKey: .boundsMicroseconds)
            commit = try container.decode(Histogram.self, forKey: .commit)
            stages = try Stages(from: decoder)
        }
    }

    /// The last change of the model by a reload or a migration.
    public struct Reload: Sendable, Decodable {
        /// When it ended.
        public var date: Date { Date(milliseconds: at) }
        package let at: Int64
        /// The new model is in effect.
        public let isSuccessful: Bool
        /// Why the model before it stays in effect.
        public let reason: String?

        private enum CodingKeys: String, CodingKey {
            case at, reason
            case isSuccessful = "successful"
        }
    }

    /// Clients that are connected.
    public struct Connections: Sendable, Decodable {
        /// Connections that are open now.
        public let open: Int
        /// The most that the server accepts at once.
        public let maximum: Int
    }

    /// The memory of the server's process.
    public struct Memory: Sendable, Decodable {
        /// Its resident set, in bytes.
        public let residentBytes: Int
        /// Allocations of the process since its start; nil where its allocator does not count them.
        public let allocations: Int?
    }

    /// Numbers of jobs.
    public let jobs: Jobs
    /// Failed jobs by the code of their fault.
    public let failures: [String: Int]
    /// What happened to objects.
    public let objects: Objects
    /// Rejected records by entity; nil of an earlier server.
    public let rejects: [String: Int]?
    /// What warnings of jobs counted, by entity and code, such as `extraKey`. Nil from a server that does not say it.
    public let warnings: [String: [String: Int]]?
    /// Operations whose records were applied one after the other, and not as sets, by the reason; nil of an earlier server.
    public let interpreted: [String: Int]?
    /// Transactions.
    public let commits: Int
    /// Transactions and their sizes.
    public let batches: Batches
    /// What waits now.
    public let queues: Queues
    /// How long jobs took since the start.
    public let latencies: Stages<DurationPercentiles>
    /// Nil of an earlier server.
    public let lastMinute: LastMinute?
    /// Nil of an earlier server.
    public let histograms: Histograms?
    /// The database.
    public let store: Store
    /// SQLite's write-ahead log.
    public let wal: WAL
    /// Subscriptions of the feed that are open now.
    public let subscriptions: Int
    /// Nil without a journal.
    public let journal: Journal?
    /// Nil without a log that several servers share.
    public let log: Log?
    /// Nil of an embedded broker.
    public let memory: Memory?
    /// Nil of an embedded broker.
    public var uptime: Duration? { uptimeMilliseconds.map { .milliseconds($0) } }
    package let uptimeMilliseconds: Int?
    /// An administrator has paused merging.
    public let isPaused: Bool
    /// New jobs are refused, because the server ends; nil of an earlier server.
    public let isDraining: Bool?
    /// Nil before the first reload, and of an earlier server.
    public let lastReload: Reload?
    /// The server's name and version; nil of an embedded broker.
    public let server: String?
    /// The path of the database's file; nil of an embedded broker, of a store that a command opens itself, and of an earlier server.
    public let storeFile: String?
    /// Nil of an embedded broker.
    public let connections: Connections?
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
public struct ServerInformation: Sendable {
    /// A server's limits and retention; nil for those that it does not report.
    public struct Limits: Sendable {
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
    public struct Durability: RawRepresentable, Sendable, Hashable, Decodable {
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
