internal import BrokerCoordinator
internal import BrokerSchema
internal import BrokerStore

/// How much an ``EmbeddedBroker`` takes on at once, and how durable it is.
public struct EmbeddedBrokerConfiguration: Sendable {
    /// When SQLite waits for the disk.
    public struct Durability: Sendable, Hashable {
        let synchronous: Synchronous

        /// At every COMMIT: a completed job survives a power failure.
        public static let full = Durability(synchronous: .full)
        /// When the WAL is copied: a completed job survives a crash of the process, not of the machine.
        public static let normal = Durability(synchronous: .normal)
        /// Never: for tests, and for stores that can be made again.
        public static let off = Durability(synchronous: .off)
    }

    /// The treatment of tables and columns that the model no longer has.
    public struct RemovedParts: Sendable, Hashable {
        let policy: RemovalPolicy

        /// The store is not opened, and the error lists them.
        public static let refuse = RemovedParts(policy: .refuse)
        /// They stay in the store, and nothing is written to them.
        public static let keep = RemovedParts(policy: .keep)
        /// They are deleted with their values.
        public static let drop = RemovedParts(policy: .drop)
    }

    var limits = CoordinatorLimits()
    var store = StoreOptions()

    public init() {}

    /// Threads that stage large jobs; there is one more for small ones. As many as there are processors, at least two.
    public var workers: Int {
        get { limits.workers }
        set { limits.workers = max(1, newValue) }
    }

    /// Bytes of memory for one job: some five times the bytes of its JSON. 128 MiB.
    public var jobMemory: Int {
        get { limits.jobMemory }
        set { limits.jobMemory = newValue }
    }

    /// Bytes of memory for the jobs in work, but for the first. 64 MiB.
    public var memory: Int {
        get { limits.memory }
        set { limits.memory = newValue }
    }

    /// ``Durability/full``.
    public var durability: Durability {
        get { Durability(synchronous: store.synchronous) }
        set { store.synchronous = newValue.synchronous }
    }

    /// How many outcomes are remembered, and with them the ids that are applied once. A million.
    public var outcomesKept: Int {
        get { store.retention.count }
        set { store.retention.count = newValue }
    }

    /// For how long. A week.
    public var outcomesKeptFor: Duration {
        get { .seconds(store.retention.seconds) }
        set { store.retention.seconds = Int(newValue.components.seconds) }
    }

    /// Bytes of the keys that are stored for followers of the feed, the oldest deleted first; 0 stores none. 64 MiB.
    public var feedBytes: Int {
        get { store.feedBytes }
        set { store.feedBytes = max(0, newValue) }
    }

    /// ``RemovedParts/refuse``.
    public var removedParts: RemovedParts {
        get { RemovedParts(policy: store.removal) }
        set { store.removal = newValue.policy }
    }

    /// Permissions of the store's files, whatever the umask is; nil makes new ones readable by their owner only and does not
    /// change existing ones.
    public var fileMode: UInt32? {
        get { store.fileMode }
        set { store.fileMode = newValue }
    }
}
