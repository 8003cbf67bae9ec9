internal import BrokerModel
internal import BrokerStore

extension Statistics.Counters {
    /// Counts a transaction that has become durable. Returns its slow jobs.
    mutating func note(_ applied: [AppliedJob], _ committedAt: Int64) -> [SlowJob] {
        var slowJobs: [SlowJob] = []
        var slot = RecentJobs.Slot.Counts(commits: 1)
        var allTimes: [StageTimes] = []
        allTimes.reserveCapacity(applied.count)
        commits += 1
        batches.record(jobs: applied.count)
        for applied in applied {
            switch applied.end {
            case .failed(let fault), .conflict(let fault, _): noteFailure(fault.code, at: committedAt)
            case .duplicate: slot.duplicates += 1
            case .completed(let outcome):
                slot.completed += 1
                if !applied.job.accepted.isDryRun { note(outcome.changes, &slot.objects) }
            }
            let times = applied.times(committedAt)
            note(times)
            allTimes.append(times)
            guard times.total >= slow.microseconds else { continue }
            slowJobs.append(applied.slowJob(times))
        }
        for job in slowJobs { slow.add(job) }
        completed += slot.completed
        duplicates += slot.duplicates
        objects.add(slot.objects)
        recent.note(at: committedAt) { recent in
            recent.counts.add(slot)
            for times in allTimes { recent.latencies.record(times) }
        }
        return slowJobs
    }

    /// - Parameter changes: those that are committed.
    private mutating func note(_ changes: [(entity: String, counts: ChangeCounts)], _ sum: inout ChangeCounts) {
        for change in changes {
            sum.add(change.counts)
            if change.counts.rejected > 0 { rejects[change.entity, default: 0] += change.counts.rejected }
        }
    }

    private mutating func note(_ times: StageTimes) {
        latencies.record(times)
        let values = times.values
        for stage in StageTimes.stages(isJournaled: times.isJournaled) { buckets[stage].record(max(0, values[stage])) }
    }
}

extension AppliedJob {
    fileprivate func slowJob(_ times: StageTimes) -> SlowJob {
        var changed: [String] = []
        if case .completed(let outcome) = end { changed = outcome.changes.map(\.entity) }
        return SlowJob(
            id: job.id, sequence: sequence, owner: job.owner, operations: job.accepted.contents.operationNames,
            entities: job.accepted.contents.entityNames(changed), isFailed: !isCommitted,
            acceptedAt: job.accepted.acceptedAt, times: times)
    }
}
