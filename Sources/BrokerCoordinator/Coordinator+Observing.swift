package import BrokerJSON
package import BrokerStore

/// Measurements, and lists of jobs.
extension Coordinator {
    /// Writes the members of `stats`.
    package func writeStatistics(to writer: inout JSONWriter) {
        let depths = pool.depths
        let (jobs, oldest, isPaused, isDraining) = jobTable.withLock {
            ($0.jobCount, $0.ends.oldest?.admittedAt, $0.isPaused, $0.isDraining)
        }
        var counters = statistics.now
        counters.store = storeState
        let report = StatisticsReport(
            counters: counters, startedAt: statistics.startedAt, opening: depths.opening,
            staging: depths.staging, inFlight: jobs, bytes: memoryTotal, oldest: oldest, isPaused: isPaused,
            isDraining: isDraining, storePath: storePath, allocations: allocations?())
        report.write(to: &writer, self.writer.log, logReader.withLock { $0 }?.replicas?.table)
        writer.member("subscriptions", readers.feed.count)
    }

    /// Calls `notify` for each slow job from now on, on a thread of the coordinator's; must not block.
    package func onSlowJob(_ notify: @escaping @Sendable (SlowJob) -> Void) { statistics.observeSlow(notify) }

    /// The jobs that have not ended, the oldest first.
    package func runningJobs(_ count: Int, as asker: JobOwner) -> [RunningJob] {
        let now = monotonicMicroseconds()
        return jobTable.withLock { jobTable in
            jobTable.ends.oldest(count, as: asker).map { job in
                let isHeld = jobTable.application.holds(job.ticket)
                return RunningJob(
                    id: job.id, sequence: jobTable.application.place(of: job.ticket)?.position, owner: job.owner,
                    stage: jobTable.stage(of: job.ticket, isHeld: isHeld), age: max(0, now - job.admittedAt))
            }
        }
    }

    /// The slow jobs that are remembered, those with the most work of their own first.
    package func slowJobs(_ count: Int, as asker: JobOwner) -> [SlowJob] {
        Array(statistics.slowJobs.filter { asker.maySee(jobOf: $0.owner) }.prefix(count))
    }

    /// The newest failed jobs that have outcomes and pass the filter: the newest first. Refused jobs have none.
    ///
    /// - Parameter notify: called once, on a thread of the coordinator's.
    package func failedJobs(
        _ count: Int, _ filter: FailureFilter = FailureFilter(), as asker: JobOwner,
        _ notify: @escaping @Sendable (Result<[FailedJob], StoreError>) -> Void
    ) {
        let unrecorded = jobTable.withLock { $0.unrecorded.newest(as: asker) }.compactMap { job, outcome in
            if case .failed(let error) = outcome.result,
                filter.includes(acceptedAt: job.now, of: job.owner, error: error)
            {
                FailedJob(id: job.id, sequence: job.sequence, owner: job.owner, acceptedAt: job.now, error: error)
            } else {
                nil
            }
        }
        failures.findFailures(count, filter, as: asker) { result in
            notify(
                result.map { recorded in
                    let known = Set(recorded.map(\.sequence))
                    let all = recorded + unrecorded.filter { !known.contains($0.sequence) }
                    return Array(all.sorted { $0.sequence > $1.sequence }.prefix(count))
                })
        }
    }
}

extension JobTable {
    /// - Parameter isHeld: the job is in the order still.
    fileprivate func stage(of ticket: Int, isHeld: Bool) -> RunningJob.Stage {
        if cancelled.contains(ticket) { return .cancelled }
        guard isHeld else { return .merging }
        return application.isReady(ticket) ? .staged : .staging
    }
}
