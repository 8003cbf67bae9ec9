internal import BrokerJSON

/// The counters of a server's `stats` at one time; 0 for a missing one.
package struct ServerSample: Sendable, Equatable {
    /// Nanoseconds from the start of the run.
    package var at: UInt64 = 0
    package var commits = 0
    package var completed = 0
    package var opening = 0
    package var staging = 0
    package var queuedBytes = 0
    package var logBytes = 0
    package var uncheckpointedPages = 0
    package var residentBytes = 0
    /// Processor seconds so far, of proc(5).
    package var processorSeconds = 0.0

    init(_ stats: JSONValue, at: UInt64) {
        func count(_ group: String, _ name: String) -> Int { stats[group]?[name]?.int64.map { Int($0) } ?? 0 }
        self.at = at
        commits = stats["commits"]?.int64.map { Int($0) } ?? 0
        completed = count("jobs", "completed")
        opening = count("queues", "opening")
        staging = count("queues", "staging")
        queuedBytes = count("queues", "bytes")
        logBytes = count("wal", "bytes")
        uncheckpointedPages = count("wal", "uncheckpointedPages")
        residentBytes = count("memory", "residentBytes")
    }
}

/// The transactions of a server since its start, from `stats`; nil when missing.
package struct ServerBatches: Sendable, Equatable {
    /// Percentiles by their names: how many jobs a transaction bore, and how long its COMMIT took in microseconds.
    package var jobs: [String: Int]
    package var commitMicroseconds: [String: Int]

    init?(_ stats: JSONValue) {
        guard let batches = stats["batches"], let jobs = batches["jobs"], let times = batches["commitMicroseconds"]
        else { return nil }
        func percentiles(_ value: JSONValue) -> [String: Int] {
            var found: [String: Int] = [:]
            for (key, value) in value.members { found[key.string ?? ""] = value.int64.map { Int($0) } }
            return found
        }
        self.jobs = percentiles(jobs)
        commitMicroseconds = percentiles(times)
    }
}

/// A server as a run saw it.
package struct ServerObservations: Sendable {
    /// The server's name.
    package var name = ""
    package var process: Int32?
    package var before: ProcessUsage?
    package var after: ProcessUsage?
    package var samples: [ServerSample] = []
    package var batches: ServerBatches?
    /// The last `stats` as JSON text; nil when there was none.
    package var stats: [UInt8]?
}
