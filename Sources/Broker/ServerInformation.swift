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

        public init() {}
    }

    /// The server's name and version.
    public var name: String
    public var protocolVersion: Int
    /// Accepted jobs are in a journal, and survive a crash; nil when the server does not report it.
    public var hasJournal: Bool?
    /// Where an accepted job is: `queued` (in the server's memory), `disk` (in the journal), `quorum` (on the disks of most servers
    /// that hold a shared log) or `quorum-memory` (in their memory); nil when the server does not report it.
    public var durability: String?
    /// The server's name among those that share its log; nil without such a log.
    public var replica: String?
    /// The messages that the server takes from this client: `read` (no jobs), `insert` (jobs that delete nothing) or
    /// `write`; nil when the server does not report it.
    public var role: String?
    /// Fields of jobs that the server knows and servers before it ignored: `dryRun`, `maximumDeletions`, `bookmark`.
    public var features: Set<String> = []
    /// The entities of its model, in the model's order.
    public var entities: [String]
    public var limits: Limits

    public init(name: String, protocolVersion: Int = 1, entities: [String] = [], limits: Limits = Limits()) {
        self.name = name
        self.protocolVersion = protocolVersion
        self.entities = entities
        self.limits = limits
    }
}
