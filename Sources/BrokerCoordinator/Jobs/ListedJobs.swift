package import BrokerStore

/// A job that has not ended, for a list of those.
package struct RunningJob: Sendable {
    package enum Stage: String, Sendable {
        /// It waits for a worker, or one stages it.
        case staging
        /// It waits for its turn with the writer.
        case staged
        /// The writer merges it, or makes it durable.
        case merging
        /// It was cancelled, and keeps its place in the order until its turn comes.
        case cancelled
    }

    package let id: String
    /// Nil while frames before it are not opened, and while the writer has the job.
    package let sequence: Int64?
    package let owner: JobOwner
    package let stage: Stage
    /// Microseconds since its frame was complete.
    package let age: Int64
}

/// A job that failed, for a list of those.
package struct FailedJob: Sendable {
    package let id: String
    package let sequence: Int64
    /// Nil for a job that ended before owners were stored.
    package let owner: JobOwner?
    /// In milliseconds since 1970.
    package let acceptedAt: Int64
    /// The `error` object: JSON.
    package let error: [UInt8]
}
