internal import BrokerModel
internal import BrokerStaging

/// Applies several jobs at once, without a savepoint for each: the fast path for jobs that are expected to succeed.
extension Store {
    /// Whether the job may be applied together with others.
    package func canJoin(_ job: StoreJob) -> Bool {
        if case .refused = job.work { return true }
        return joinableRows(job) != nil
    }

    private func joinableRows(_ job: StoreJob) -> StagedRows? {
        guard let rows = job.work.onlyRows, rows.isBatchable, !job.wantsKeys, !job.wantsObjects, !job.isDryRun,
            !merger.isForeign, !merger.interpretsAll
        else { return nil }
        return rows
    }

    /// Applies jobs for which ``canJoin(_:)`` is true inside the open transaction, with the result of ``apply(_:)`` for
    /// one after the other.
    ///
    /// - Returns: the outcome of each job; nil when they cannot be applied together. The caller must then roll the
    ///   transaction back and can apply the jobs one by one.
    package func applyBatch(_ jobs: [StoreJob]) throws(StoreError) -> [JobOutcome]? {
        var ends: [JobOutcome] = []
        ends.reserveCapacity(jobs.count)
        var rest = jobs[...]
        while !rest.isEmpty {
            let part = prefix(of: rest)
            guard let applied = try applyAtOnce(part) else { return nil }
            if part.count == jobs.count { return applied }
            ends += applied
            rest = rest.dropFirst(part.count)
        }
        return ends
    }

    /// The jobs that can be merged at once: a job whose id occurs before it must wait until the ledger has that id.
    private func prefix(of jobs: ArraySlice<StoreJob>) -> ArraySlice<StoreJob> {
        // Different ids with the same hash only end the batch earlier.
        var ids = Set<UInt64>(minimumCapacity: jobs.count)
        return jobs.prefix(BatchMerge.maximumMembers(merger)).prefix { job in
            job.contentHash == nil || ids.insert(JobIndex.hash(job.id)).inserted
        }
    }

    private func applyAtOnce(_ jobs: ArraySlice<StoreJob>) throws(StoreError) -> [JobOutcome]? {
        var found: [(known: StoredOutcome?, end: JobOutcome?)] = []
        var members: [BatchMerge.Member] = []
        found.reserveCapacity(jobs.count)
        members.reserveCapacity(jobs.count)
        for job in jobs {
            found.append(try find(job))
            if found.last?.end != nil { continue }
            if case .refused = job.work { continue }
            guard let rows = joinableRows(job) else { return nil }
            members.append(BatchMerge.Member(job: job, rows: rows))
        }
        merger.digest = ledger.history == nil ? nil : RowDigest()
        let ends = try BatchMerge.run(members, merger) { merge throws(StoreError) in
            try record(zip(jobs, found), merge)
        }
        return ends ?? nil
    }

    /// Records jobs whose steps, if they have any, are merged.
    ///
    /// - Parameter jobs: each with what ``find(_:)`` returned.
    /// - Returns: nil when the line that determines a job's outcome has expired with an earlier job of these.
    private func record(
        _ jobs: Zip2Sequence<ArraySlice<StoreJob>, [(known: StoredOutcome?, end: JobOutcome?)]>, _ merge: BatchMerge
    ) throws(StoreError) -> [JobOutcome]? {
        var ends: [JobOutcome] = []
        ends.reserveCapacity(jobs.underestimatedCount)
        var member = 0
        // Similar jobs share one outcome.
        var shared: JobOutcome?
        var sharedChanges: [(entity: String, counts: ChangeCounts)] = []
        for (job, found) in jobs {
            if let end = found.end {
                if let known = found.known, known.sequence < ledger.firstSequence { return nil }
                try extendDigest(end, of: job, nil)
                ends.append(end)
                continue
            }
            if case .refused(let fault) = job.work {
                ends.append(try record(.failed(fault), of: job, found.known, nil, isWritten: false))
                continue
            }
            let rows = merge.digest(member)
            defer { member += 1 }
            if let shared, merge.isOnly(sharedChanges, member) {
                let feedKeys = merge.feedKeys(member, sharedChanges)
                ends.append(try record(shared, of: job, found.known, rows, feedKeys: feedKeys, isWritten: false))
                continue
            }
            var outcome = merge.outcome(member)
            let feedKeys = merge.feedKeys(member, outcome.changes)
            outcome.writeBrief()
            let end = JobOutcome.completed(outcome)
            if outcome.isOnly(outcome.changes) { (shared, sharedChanges) = (end, outcome.changes) }
            ends.append(try record(end, of: job, found.known, rows, feedKeys: feedKeys, isWritten: false))
        }
        try ledger.write()
        return ends
    }
}

extension StoreJob.Work {
    /// The rows of a job that only merges records; nil for any other.
    fileprivate var onlyRows: StagedRows? {
        switch self {
        case .merge(let rows): return rows
        case .steps(let steps):
            guard steps.count == 1, case .merge = steps[0].action else { return nil }
            return steps[0].rows
        case .refused: return nil
        }
    }
}
