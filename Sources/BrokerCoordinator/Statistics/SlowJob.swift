package import BrokerStore

/// A job that took long from its frame to the durable transaction.
package struct SlowJob: Sendable {
    package let id: String
    /// Nil when the job got none.
    package let sequence: Int64?
    package let owner: JobOwner
    package let operations: [String]
    package let entities: [String]
    package let isFailed: Bool
    /// In milliseconds since 1970.
    package let acceptedAt: Int64
    package let times: StageTimes
}

/// The slow jobs that are remembered. A pure value.
///
/// One long job makes many others wait, which end after it. So the jobs with the least work of their own are forgotten first,
/// after those of more than an hour ago.
struct SlowJobs {
    /// Some 500 bytes each.
    static let maximumCount = 64
    /// From this time on a job is slow, unless the operator gives another one.
    static let defaultMicroseconds: Int64 = 1_000_000
    private static let agedMilliseconds: Int64 = 3_600_000

    let microseconds: Int64
    /// In the order in which they ended.
    private(set) var jobs: [SlowJob] = []

    init(from microseconds: Int64) { self.microseconds = microseconds }

    mutating func add(_ job: SlowJob) {
        jobs.append(job)
        guard jobs.count > Self.maximumCount else { return }
        let aged = jobs.firstIndex { $0.acceptedAt < job.acceptedAt - Self.agedMilliseconds }
        jobs.remove(at: aged ?? jobs.indices.min { jobs[$0].times.work < jobs[$1].times.work }!)
    }

    /// Those with the most work of their own first.
    var byWork: [SlowJob] { jobs.reversed().sorted { $0.times.work > $1.times.work } }
}
