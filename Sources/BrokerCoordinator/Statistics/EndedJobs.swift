package import BrokerStore

/// A job that has ended. A slow one took long from its frame to the durable transaction.
package struct EndedJob: Sendable {
    package let id: String
    package let sequence: Int64?
    /// Nil for a job that ended before owners were stored.
    package let owner: JobOwner?
    package let isFailed: Bool
    /// What the ledger does not have; nil when it is not known any more.
    package let details: Details?

    package struct Details: Sendable {
        /// The name in the client's `hello`.
        package let client: String?
        /// In milliseconds since 1970.
        package let acceptedAt: Int64
        /// Those that were staged, with nested ones.
        package let records: Int
        package let times: StageTimes
        let contents: JobContents
        let changed: [String]

        package var operations: [String] { contents.operationNames }
        package var entities: [String] { contents.entityNames(changed) }
    }
}

extension EndedJob {
    /// The time that the workers and the writer spent on the job alone.
    var work: Int64 { details?.times.work ?? 0 }
    var acceptedAt: Int64 { details?.acceptedAt ?? 0 }

    init(_ job: AcceptedJob, _ times: StageTimes) {
        var changed: [String] = []
        if job.contents.hasMappings, case .completed(let outcome) = job.end {
            changed = outcome.changes.prefix(JobContents.mostEntities).map(\.entity)
        }
        self.init(
            id: job.id, sequence: job.sequence, owner: job.owner,
            isFailed: !job.isCommitted && !job.facts.terms.isDryRun,
            details: Details(
                client: job.client, acceptedAt: job.acceptedAt, records: job.rowCount, times: times,
                contents: job.contents, changed: changed))
    }

    /// The job as the ledger has it.
    init(_ stored: JobCompletion) {
        self.init(
            id: stored.id, sequence: stored.sequence, owner: stored.owner, isFailed: !stored.isCommitted, details: nil)
    }
}

/// The jobs that ended last. A value.
struct EndedJobs {
    /// Some 400 bytes each.
    static let maximumCount = 1_024

    private var jobs: [EndedJob] = []
    /// The oldest, once all places are taken.
    private var oldest = 0

    mutating func add(_ job: EndedJob) {
        guard jobs.count == Self.maximumCount else { return jobs.append(job) }
        jobs[oldest] = job
        oldest = (oldest + 1) % Self.maximumCount
    }

    /// Those of that id, the newest first.
    func find(_ id: String) -> [EndedJob] {
        (jobs[oldest...] + jobs[..<oldest]).filter { $0.id.hasSameBytes(as: id) }.reversed()
    }
}
