internal import BrokerStore

/// Failures that were sent to clients but could not be written to the ledger, retained for `await` until they can. A pure
/// value.
///
/// Beyond ``maximumCount`` the oldest is forgotten, so that a store that takes no writes does not cost more and more memory.
struct UnrecordedFailures {
    /// The number of jobs in a transaction. Each failure holds the text of one error, some hundred bytes.
    static let maximumCount = 1_024

    private var failures: [JobID: (job: StoreJob, outcome: JobCompletion)] = [:]

    var isEmpty: Bool { failures.isEmpty }

    /// In the order in which the jobs failed.
    var jobs: [StoreJob] { failures.values.map(\.job).sorted { $0.sequence < $1.sequence } }

    /// The jobs that the asker may see, the newest first, with their completions.
    func newest(as asker: JobOwner) -> [(job: StoreJob, outcome: JobCompletion)] {
        failures.values.filter { asker.maySee(jobOf: $0.job.owner) }.sorted { $0.job.sequence > $1.job.sequence }
    }

    func outcome(of id: JobID, as asker: JobOwner) -> JobCompletion? {
        failures[id].flatMap { asker.maySee(jobOf: $0.job.owner) ? $0.outcome : nil }
    }

    /// - Parameter job: the job without its rows, which are not needed any more.
    mutating func keep(_ job: StoreJob, _ outcome: JobCompletion) {
        failures[JobID(job.id)] = (job, outcome)
        guard failures.count > Self.maximumCount else { return }
        let oldest = failures.min { $0.value.job.sequence < $1.value.job.sequence }
        if let oldest { failures[oldest.key] = nil }
    }

    /// The ledger has the jobs now.
    mutating func remove(_ jobs: [StoreJob]) {
        for job in jobs where failures[JobID(job.id)]?.job.sequence == job.sequence { failures[JobID(job.id)] = nil }
    }
}

extension UnrecordedFailures {
    /// Checks the invariants: the number is limited, and each failure is found by its own id.
    func checkInvariants() throws(InvariantViolation) {
        try InvariantViolation.require(failures.count <= Self.maximumCount, "unrecorded failures are limited")
        try InvariantViolation.require(
            failures.allSatisfy { $0.key == JobID($0.value.job.id) }, "a failure is found by its id")
    }
}
