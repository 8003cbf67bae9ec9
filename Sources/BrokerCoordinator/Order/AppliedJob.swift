internal import BrokerModel
internal import BrokerStore

/// A job that the store has applied, or failed to apply.
struct AppliedJob: Sendable {
    let place: LogPlace
    let job: ReadyJob
    let end: JobOutcome
    /// The ledger could not record the failure.
    let isUnwritten: Bool
    let mergedMicroseconds: Int64
    /// The part of them that the writer spent on this job alone.
    let ownMicroseconds: Int64
    let appliedAt: Int64
    /// Bytes of the objects in its answer.
    let objectBytes: Int

    init(
        place: LogPlace, job: ReadyJob, end: JobOutcome, isUnwritten: Bool = false, mergedMicroseconds: Int64 = 0,
        ownMicroseconds: Int64? = nil, appliedAt: Int64 = monotonicMicroseconds()
    ) {
        self.place = place
        self.job = job
        self.end = end
        self.isUnwritten = isUnwritten
        self.mergedMicroseconds = mergedMicroseconds
        self.ownMicroseconds = ownMicroseconds ?? mergedMicroseconds
        self.appliedAt = appliedAt
        objectBytes = if case .completed(let outcome) = end { outcome.objects?.json?.count ?? 0 } else { 0 }
    }

    /// The end of a job that the log refused.
    ///
    /// - Parameter place: one without a position.
    init(refused job: ReadyJob, at place: LogPlace) {
        guard case .refused(let fault) = job.work else { preconditionFailure("a refused job has failed") }
        self.place = place
        self.job = job
        end = .failed(fault)
        isUnwritten = false
        mergedMicroseconds = 0
        ownMicroseconds = 0
        appliedAt = monotonicMicroseconds()
        objectBytes = 0
    }

    /// Nil when the job could get none.
    var sequence: Int64? { place.position }
}

extension AppliedJob {
    /// Whether a job is committed under the id: this one, or one before it.
    var isCommitted: Bool {
        switch end {
        case .failed: false
        case .completed: !job.accepted.isDryRun
        case .duplicate, .conflict: true
        }
    }

    /// The owner of the job that is committed under the id.
    var committedOwner: JobOwner? {
        switch end {
        case .failed, .completed: job.owner
        case .duplicate(let outcome), .conflict(_, let outcome): outcome.owner
        }
    }

    /// Calls the job's observer, and the waiters for its id, with the outcome.
    func notify(_ waiters: [RunningJobs.Waiter], _ committedAt: Int64) {
        let completion = completion(committedAt)
        job.notify(.ended(completion))
        guard !waiters.isEmpty else { return }
        var shared = committed(completion) ?? completion
        shared.objects = nil
        for waiter in waiters { waiter.notify(waiter.asker.maySee(jobOf: shared.owner) ? shared : completion) }
    }

    func times(_ committedAt: Int64) -> StageTimes {
        var times = job.times
        times.work += ownMicroseconds
        times.merged = mergedMicroseconds
        times.committed = committedAt - appliedAt
        if place.durableAt > 0 {
            // A small job is staged while the journal stores it.
            let stagedAt = job.accepted.admittedAt + times.queued + times.staged
            times.isJournaled = true
            times.journalWaited = max(0, place.writtenAt - stagedAt)
            times.journalSynced = max(0, place.durableAt - max(place.writtenAt, stagedAt))
        }
        times.waited = max(0, committedAt - job.accepted.admittedAt - times.total)
        return times
    }

    func completion(_ committedAt: Int64) -> JobCompletion {
        switch end {
        case .failed(let fault), .conflict(let fault, _):
            return .failed(fault, id: job.id, owner: job.owner, sequence: sequence)
        case .duplicate(let outcome):
            // The changes are those of the first time; the timing is this message's own.
            var completion = JobCompletion(stored: outcome, id: job.id, isDuplicate: true, timing: times(committedAt))
            completion.isDryRun = job.accepted.isDryRun
            return completion
        case .completed(let outcome):
            var completion = JobCompletion(
                id: job.id, owner: job.owner, sequence: sequence,
                result: .completed(members: outcome.members, isDuplicate: false))
            completion.timing = times(committedAt)
            completion.objects = outcome.objects
            completion.cause = outcome.rejected.lazy.compactMap(\.cause).first
            completion.isDryRun = job.accepted.isDryRun
            return completion
        }
    }

    /// The outcome of the job that is committed under the id; nil when none is.
    ///
    /// - Parameter completion: this job's own.
    func committed(_ completion: JobCompletion) -> JobCompletion? {
        switch end {
        case .failed: nil
        case .completed: job.accepted.isDryRun ? nil : completion
        case .duplicate(let outcome), .conflict(_, let outcome):
            JobCompletion(stored: outcome, id: job.id, isDuplicate: false, timing: nil)
        }
    }
}
