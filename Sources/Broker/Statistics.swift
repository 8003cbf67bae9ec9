/// A server's counters and measurements since its start: the `stats` message of the protocol.
public struct Statistics: Sendable, Decodable {
    public struct Jobs: Sendable, Decodable {
        /// Jobs that got a position in the order.
        public var accepted: Int
        public var completed: Int
        public var failed: Int
        /// Jobs that had been applied before.
        public var duplicate: Int
        /// Jobs that have not ended.
        public var inFlight: Int
    }

    /// What happened to objects, summed over all jobs.
    public struct Objects: Sendable, Decodable {
        public var inserted: Int
        public var updated: Int
        public var unchanged: Int
        public var deleted: Int
        public var rejected: Int
    }

    /// How many of the measurements were at most that.
    public struct Percentiles: Sendable, Decodable {
        public var p50: Int
        public var p90: Int
        public var p99: Int
        public var max: Int
    }

    /// Microseconds of each stage, and of the whole from the frame to the durable transaction.
    public struct Latencies: Sendable, Decodable {
        public var queued: Percentiles
        public var staged: Percentiles
        public var merged: Percentiles
        public var committed: Percentiles
        public var total: Percentiles
    }

    public struct Store: Sendable, Decodable {
        /// `serving`, `waiting` or `failed`; a newer server may have other words.
        public var state: String
        /// For people: what it waits for.
        public var cause: String?
    }

    public struct WAL: Sendable, Decodable {
        public var bytes: Int
        /// Pages that are not in the database yet.
        public var uncheckpointedPages: Int
    }

    public struct Memory: Sendable, Decodable {
        public var residentBytes: Int
    }

    public var jobs: Jobs
    /// Failed jobs by the code of their fault.
    public var failures: [String: Int]
    public var objects: Objects
    /// Transactions.
    public var commits: Int
    public var latencyMicroseconds: Latencies
    public var store: Store
    public var wal: WAL
    public var memory: Memory?
    /// Nil of an embedded broker.
    public var uptimeMilliseconds: Int?
    /// An administrator has paused merging.
    public var paused: Bool
    /// The whole message, for what is not listed here.
    public var json: RawJSON { RawJSON(text) }
    private var text: [UInt8] = []

    private enum CodingKeys: String, CodingKey {
        case jobs, failures, objects, commits, latencyMicroseconds, store, wal, memory, uptimeMilliseconds, paused
    }

    package init(json: [UInt8]) throws {
        self = try ValueDecoder.decode(Self.self, from: json)
        text = json
    }
}
