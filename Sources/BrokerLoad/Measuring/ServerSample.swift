internal import BrokerJSON

/// The counters of a server's `stats` at one time; 0 for a missing one.
package struct ServerSample: Sendable, Equatable {
    package var commits = 0
    package var completed = 0
    package var opening = 0
    package var staging = 0
    package var queuedBytes = 0
    package var logBytes = 0

    init(_ stats: JSONValue) {
        func count(_ group: String, _ name: String) -> Int { stats[group]?[name]?.int64.map { Int($0) } ?? 0 }
        commits = stats["commits"]?.int64.map { Int($0) } ?? 0
        completed = count("jobs", "completed")
        opening = count("queues", "opening")
        staging = count("queues", "staging")
        queuedBytes = count("queues", "bytes")
        logBytes = count("wal", "bytes")
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
    /// The last `stats` as JSON text; nil when there was none.
    package var stats: [UInt8]?
}
