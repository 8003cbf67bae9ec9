public import BrokerJSON

/// How many objects of one entity a job touched; each object counts once per job.
public struct ChangeCounts: Sendable, Equatable {
    public var inserted = 0
    public var updated = 0
    public var unchanged = 0
    public var deleted = 0
    public var rejected = 0

    public init(inserted: Int = 0, updated: Int = 0, unchanged: Int = 0, deleted: Int = 0, rejected: Int = 0) {
        self.inserted = inserted
        self.updated = updated
        self.unchanged = unchanged
        self.deleted = deleted
        self.rejected = rejected
    }
}

/// Something a job's sender should know, though nothing failed. Counted, not repeated.
public struct Warning: Sendable, Equatable {
    public enum Code: String, Sendable {
        /// A record brought a key that the model does not name; `key` is its path in the record.
        case unknownKey
        /// More records were rejected than are listed; `count` is how many are not.
        case rejectedNotListed
    }

    public var code: Code
    public var entity: String
    public var key: String?
    public var count: Int

    public init(_ code: Code, entity: String, key: String? = nil, count: Int) {
        self.code = code
        self.entity = entity
        self.key = key
        self.count = count
    }
}

/// How long a job spent where, in microseconds.
public struct Timing: Sendable, Equatable {
    /// From the whole frame to the start of staging.
    public var queued: Int64 = 0
    /// Decoding, parsing and staging.
    public var staged: Int64 = 0
    /// The writer's work on this job.
    public var merged: Int64 = 0
    /// From the end of its merge until its COMMIT was durable; zero in a stored outcome, which is written before that.
    public var committed: Int64 = 0

    public init() {}
}

/// What one job did to the store.
public struct Outcome: Sendable {
    /// By entity name, sorted; only the entities that the job touched.
    public var changes: [(entity: String, counts: ChangeCounts)] = []
    public var rejected: [Fault] = []
    public var warnings: [Warning] = []
    /// The `keys` of the answer as JSON, when the job asked for them.
    public var keys: [UInt8]?
    public var timing = Timing()

    public init() {}

    /// The members of the contract's `completed` that tell the outcome, but for `timing`: JSON without the braces.
    public var members: [UInt8] {
        var writer = JSONWriter(capacity: 512)
        writer.key("changes")
        writer.object { writer in
            for (entity, counts) in changes {
                writer.key(entity)
                counts.write(to: &writer)
            }
        }
        writer.key("rejected")
        writer.array { writer in
            for fault in rejected { fault.write(to: &writer) }
        }
        writer.key("warnings")
        writer.array { writer in
            for warning in warnings { warning.write(to: &writer) }
        }
        if let keys {
            writer.key("keys")
            writer.raw(keys)
        }
        return writer.bytes
    }
}

extension ChangeCounts {
    public func write(to writer: inout JSONWriter) {
        writer.object { writer in
            let members = [
                ("inserted", inserted), ("updated", updated), ("unchanged", unchanged), ("deleted", deleted),
                ("rejected", rejected),
            ]
            for (key, count) in members {
                writer.key(key)
                writer.integer(count)
            }
        }
    }
}

extension Warning {
    public func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.key("code")
            writer.string(code.rawValue)
            writer.key("entity")
            writer.string(entity)
            if let key {
                writer.key("key")
                writer.string(key)
            }
            writer.key("count")
            writer.integer(count)
        }
    }
}

extension Timing {
    /// Members that are JSON text already, and `timing` behind them.
    public func appended(toMembers members: [UInt8]) -> [UInt8] {
        var writer = JSONWriter(capacity: members.count + 128)
        writer.rawMembers(members)
        writer.key("timing")
        write(to: &writer)
        return writer.bytes
    }

    public func write(to writer: inout JSONWriter) {
        writer.object { writer in
            for (key, value) in [("queued", queued), ("staged", staged), ("merged", merged), ("committed", committed)] {
                writer.key(key)
                writer.integer(value)
            }
        }
    }
}
