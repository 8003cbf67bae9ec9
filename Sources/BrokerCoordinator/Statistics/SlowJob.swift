package import BrokerStore

/// A job that took long from its frame to the durable transaction.
package struct SlowJob: Sendable {
    package let id: String
    /// Nil when the job got none.
    package let sequence: Int64?
    package let owner: JobOwner
    package let isFailed: Bool
    /// In milliseconds since 1970.
    package let acceptedAt: Int64
    package let times: StageTimes
}

/// The newest slow jobs. A pure value.
struct SlowJobs {
    /// Some 300 bytes each.
    static let maximumCount = 64
    /// From this time on a job is slow, unless the operator gives another one.
    static let defaultMicroseconds: Int64 = 1_000_000

    let microseconds: Int64
    /// In the order in which they ended.
    private(set) var jobs: [SlowJob] = []

    init(from microseconds: Int64) { self.microseconds = microseconds }

    mutating func add(_ job: SlowJob) {
        if jobs.count == Self.maximumCount { jobs.removeFirst() }
        jobs.append(job)
    }
}
