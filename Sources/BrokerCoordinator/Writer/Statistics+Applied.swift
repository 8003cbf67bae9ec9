internal import BrokerModel
internal import BrokerStore

extension Statistics.Counters {
    /// Counts a transaction that has become durable. Returns its slow jobs.
    mutating func note(_ applied: [AppliedJob], _ committedAt: Int64) -> [SlowJob] {
        var slowJobs: [SlowJob] = []
        commits += 1
        recent.note(at: committedAt) { $0.commits += 1 }
        batches.record(jobs: applied.count)
        for applied in applied {
            switch applied.end {
            case .failed(let fault), .conflict(let fault, _): noteFailure(fault.code, at: committedAt)
            case .duplicate:
                duplicates += 1
                recent.note(at: committedAt) { $0.duplicates += 1 }
            case .completed(let outcome):
                noteCompletion(applied.job.accepted.isDryRun ? [] : outcome.changes, committedAt)
            }
            let times = applied.times(committedAt)
            note(times, committedAt)
            guard times.total >= slow.microseconds else { continue }
            slowJobs.append(applied.slowJob(times))
        }
        for job in slowJobs { slow.add(job) }
        return slowJobs
    }

    /// - Parameter changes: those that are committed.
    private mutating func noteCompletion(
        _ changes: [(entity: String, counts: ChangeCounts)], _ committedAt: Int64
    ) {
        completed += 1
        var sum = ChangeCounts()
        for (entity, counts) in changes {
            sum.add(counts)
            if counts.rejected > 0 { rejects[entity, default: 0] += counts.rejected }
        }
        objects.add(sum)
        recent.note(at: committedAt) {
            $0.completed += 1
            $0.objects.add(sum)
        }
    }

    private mutating func note(_ times: StageTimes, _ committedAt: Int64) {
        latencies.record(times)
        for (stage, value) in times.values.enumerated() { buckets[stage].record(max(0, value)) }
        recent.note(at: committedAt) { $0.latencies.record(times) }
    }
}

extension AppliedJob {
    fileprivate func times(_ committedAt: Int64) -> StageTimes {
        StageTimes(
            queued: job.timing.queued, staged: job.timing.staged, merged: mergedMicroseconds,
            committed: committedAt - appliedAt, total: committedAt - job.accepted.admittedAt)
    }

    fileprivate func slowJob(_ times: StageTimes) -> SlowJob {
        SlowJob(
            id: job.id.text, sequence: sequence, owner: job.owner, isFailed: !isCommitted,
            acceptedAt: job.accepted.acceptedAt, times: times)
    }
}
