public import BrokerModel
public import BrokerStore

extension WriterLoop {
    /// A job that the store has applied, or could not.
    struct Applied {
        /// Nil when none could be had.
        let sequence: Int64?
        let job: ReadyJob
        let end: JobOutcome
        /// The failure that the ledger could not take.
        var unwritten: Fault?
        var mergedMicroseconds: Int64 = 0
        var appliedAt = monotonicMicroseconds()

        /// Bytes of the objects that its answer tells.
        var objectBytes: Int {
            if case .completed(let outcome) = end { outcome.objects?.json?.count ?? 0 } else { 0 }
        }
    }
}

extension WriterLoop.Applied {
    /// A job is committed under the id: this one, or one before it.
    var isCommitted: Bool {
        if case .failed = end { false } else { true }
    }

    /// Whose the job is that is committed under the id.
    var committedOwner: JobOwner? {
        switch end {
        case .failed, .completed: job.owner
        case .duplicate(let outcome), .conflict(_, let outcome): outcome.owner
        }
    }

    /// Tells the job's observer, and those who asked for the id, how it ended.
    func tell(_ waiters: [RunningJobs.Waiter], _ committedAt: Int64) {
        let toldOutcome = toldOutcome(committedAt)
        job.tell(.ended(toldOutcome))
        guard !waiters.isEmpty else { return }
        var told = committed(toldOutcome) ?? toldOutcome
        told.objects = nil
        for waiter in waiters { waiter.tell(waiter.asker.maySee(jobOf: told.owner) ? told : toldOutcome) }
    }

    func toldOutcome(_ committedAt: Int64) -> JobCompletion {
        var timing = job.timing
        timing.merged = mergedMicroseconds
        timing.committed = committedAt - appliedAt
        switch end {
        case .failed(let fault), .conflict(let fault, _):
            return .failed(fault, id: job.id.text, owner: job.owner, sequence: sequence)
        case .duplicate(let outcome):
            // What happened is of the first time; how long it took is this message's own.
            return JobCompletion(stored: outcome, id: job.id.text, isDuplicate: true, timing: timing)
        case .completed(let outcome):
            var toldOutcome = JobCompletion(
                id: job.id.text, owner: job.owner, sequence: sequence,
                result: .completed(members: timing.appended(toMembers: outcome.members), isDuplicate: false))
            toldOutcome.objects = outcome.objects
            return toldOutcome
        }
    }

    /// How the job ended that is committed under the id; nil when none is.
    ///
    /// - Parameter toldOutcome: this job's own.
    func committed(_ toldOutcome: JobCompletion) -> JobCompletion? {
        switch end {
        case .failed: nil
        case .completed: toldOutcome
        case .duplicate(let outcome), .conflict(_, let outcome):
            JobCompletion(stored: outcome, id: job.id.text, isDuplicate: false, timing: nil)
        }
    }
}

extension ReadyJob {
    /// It is merged, and its COMMIT comes.
    func noteMerged() { progress?.note(merged: rowCount) }

    /// Rows that are staged for it.
    var rowCount: Int {
        guard case .steps(let steps) = work else { return 0 }
        return steps.reduce(0) { $0 + ($1.rows?.rowCount ?? 0) }
    }
}

extension Statistics.Counters {
    /// One transaction has become durable.
    mutating func note(_ applied: [WriterLoop.Applied], _ committedAt: Int64) {
        commits += 1
        batches.record(jobs: applied.count)
        for applied in applied {
            switch applied.end {
            case .failed(let fault), .conflict(let fault, _): noteFailure(fault.code)
            case .duplicate: duplicates += 1
            case .completed(let outcome):
                completed += 1
                for (_, counts) in outcome.changes { objects.add(counts) }
            }
            let timing = applied.job.timing
            latencies.record(
                queued: timing.queued, staged: timing.staged, merged: applied.mergedMicroseconds,
                committed: committedAt - applied.appliedAt, total: committedAt - applied.job.accepted.admittedAt)
        }
    }
}

extension JobCompletion {
    /// As the ledger remembers it.
    ///
    /// - Parameter timing: of the message that is answered; nil when it is no job.
    init(stored outcome: StoredOutcome, id: String, isDuplicate: Bool, timing: Timing?) {
        // The ledger's object without its braces.
        let members = Array(outcome.body.dropFirst().dropLast())
        self.init(
            id: id, owner: outcome.owner, sequence: outcome.sequence,
            result: outcome.isFailure
                ? .failed(error: outcome.body)
                : .completed(members: timing?.appended(toMembers: members) ?? members, isDuplicate: isDuplicate))
    }

    /// It tells what a job did, not that it failed.
    var isCommitted: Bool {
        switch result {
        case .completed: true
        case .failed: false
        }
    }
}

extension StoreError {
    /// What a client is told of it.
    public var faultCode: FaultCode {
        switch code {
        case .full: .storeFull
        case .unavailable, .incompatible: .storeUnavailable
        case .constraint: .constraintViolation
        case .defect: .internal
        case .overworked: .busy
        }
    }
}
