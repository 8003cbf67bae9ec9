internal import BrokerModel
internal import BrokerStore

extension Statistics.Counters {
    /// Counts a transaction that has become durable.
    mutating func note(_ applied: [AppliedJob], _ committedAt: Int64) {
        commits += 1
        batches.record(jobs: applied.count)
        for applied in applied {
            switch applied.end {
            case .failed(let fault), .conflict(let fault, _): noteFailure(fault.code)
            case .duplicate: duplicates += 1
            case .completed(let outcome):
                completed += 1
                if !applied.job.accepted.isDryRun { for (_, counts) in outcome.changes { objects.add(counts) } }
            }
            let timing = applied.job.timing
            latencies.record(
                queued: timing.queued, staged: timing.staged, merged: applied.mergedMicroseconds,
                committed: committedAt - applied.appliedAt, total: committedAt - applied.job.accepted.admittedAt)
        }
    }
}
