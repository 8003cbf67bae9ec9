internal import BrokerModel
internal import BrokerStore
internal import Logging

/// Jobs that fail because of the store, and the end of a store whose disk has failed.
extension WriterLoop {
    // MARK: - One job

    mutating func failed(_ error: StoreError, _ place: LogPlace, _ job: ReadyJob) -> AppliedJob {
        logger.error("A job could not be stored.", metadata: ["id": "\(job.id)", "cause": "\(error)"])
        noteWaiting(error, bytes: job.accepted.weight)
        let fault = Fault(ofJob: error)
        return AppliedJob(place: place, job: job, end: .failed(fault), isUnwritten: true)
    }

    /// The store cannot apply a job of the journal, and neither the job nor the machine is at fault. If the server went
    /// on, later jobs would be applied without this one.
    func stop(at place: LogPlace, _ job: ReadyJob, _ error: StoreError) {
        logger.critical(
            """
            A job of the journal cannot be applied because of a defect. The server ends; the job and all after it stay \
            in the journal. Report the defect, then start a version of the server without it.
            """, metadata: ["id": "\(job.id)", "sequence": "\(place.position ?? 0)", "cause": "\(error)"])
        store.fail(error)
    }

    /// No more sequences can be reserved, so the jobs that wait for one fail without.
    mutating func failStarved(_ error: StoreError) {
        noteWaiting(error, bytes: 0)
        jobTable.change(completions) { jobTable in
            Effects(completions: jobTable.refuseStarved(Fault(ofJob: error)))
        }
    }

    /// Reports to `stats` that the store takes no writes, until a transaction succeeds; of a full store, until there is room for
    /// the job, too, because a smaller transaction may succeed before.
    private mutating func noteWaiting(_ error: StoreError, bytes: Int) {
        recordFailuresAt = recordFailuresAt ?? monotonicMicroseconds()
        guard error.isOfMachine else { return }
        statistics.count {
            $0.store = .waiting(cause: error.message)
            // A disk that has room for as much serves, though it has none for a job of gigabytes.
            if error.code == .full { $0.refusedBytes = max($0.refusedBytes ?? 0, min(bytes, 1 << 20)) }
        }
    }

    // MARK: - The store

    // The disk has failed, or the file is damaged: how much of the last transaction is in the file is unknown. From
    // then on no client is sent an outcome: for the jobs of that transaction it would be a guess, and the jobs after
    // them could not be stored. They leave the job table without an answer, so that a caller that stops the coordinator
    // need not wait for them.

    /// Drops the jobs of the transaction in which the store failed.
    func drop(_ jobs: [ReadyJob]) {
        reportFailure()
        let now = monotonicMicroseconds()
        jobTable.change(completions) { $0.drop(jobs, at: now) }
    }

    /// Drops all jobs, until the coordinator stops.
    func dropAll() {
        reportFailure()
        while let rest = jobTable.wait(takeAll) {
            for task in rest.tasks { task(store) }
            if let failure = store.failure { rest.reopening?.notify(.failure(failure)) }
            drop(rest.jobs)
        }
    }

    /// Reports the failure once to the log, to `stats` and to the observers, after all ends that were sent before.
    private func reportFailure() {
        guard let failure = store.failure else { return }
        storageFailure.happened(
            .failed(cause: failure.message), failure, statistics, completions
        ) {
            logger.critical(
                """
                The store has failed, and it is unknown whether the last transaction is on the disk. No job is \
                answered any more. Check the disk, then start again: every job that was reported as completed is \
                stored, and a job with an id can be sent again.
                """, metadata: ["cause": "\(failure)"])
        }
    }

    private struct Rest {
        var jobs: [ReadyJob] = []
        var tasks: [@Sendable (Store) -> Void] = []
        var reopening: StoreReopening?
    }

    /// The inner nil means that no more will come, the outer one that nothing is ready.
    private func takeAll(_ jobTable: inout JobTable) -> Rest?? {
        var rest = Rest()
        completions.run(jobTable.refuseStarved(Fault(.storeUnavailable, store.failure?.message ?? "")))
        var count = -1
        while rest.jobs.count > count {
            count = rest.jobs.count
            rest.jobs += jobTable.takeRefused().map(\.job)
            while let next = jobTable.takeNext(after: []) { rest.jobs.append(next.job) }
        }
        swap(&rest.tasks, &jobTable.writerTasks)
        swap(&rest.reopening, &jobTable.reopening)
        if rest.jobs.isEmpty, rest.tasks.isEmpty, rest.reopening == nil { return jobTable.isStopped ? .some(nil) : nil }
        return rest
    }
}

extension Fault {
    /// The fault of a job that the store did not take. Where the machine is at fault it has the cause; else it has no
    /// text of SQLite's and no path.
    fileprivate init(ofJob error: StoreError) {
        self.init(
            error.faultCode,
            error.isOfMachine
                ? error.message
                : "The store could not apply the job because of a defect of Broker's, and nothing of the job was stored. Report it: the "
                    + "server's log has the cause.")
    }
}
