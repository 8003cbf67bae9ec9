internal import BrokerModel
internal import BrokerStore
internal import Logging

/// Jobs that fail for the store's sake, and the end of a store whose disk has failed.
extension WriterLoop {
    // MARK: - One job

    func failed(_ error: StoreError, _ sequence: Int64, _ job: ReadyJob) -> Applied {
        logger.error("A job could not be stored.", metadata: ["id": "\(job.id.text)", "cause": "\(error)"])
        let fault = Fault(error.faultCode, error.message)
        return Applied(sequence: sequence, job: job, end: .failed(fault), unwritten: fault)
    }

    /// The store cannot apply a job of the log, and neither the job nor the machine is at fault. A server that went on would apply
    /// later jobs without this one.
    func stop(at sequence: Int64, _ job: ReadyJob, _ error: StoreError) {
        logger.critical(
            """
            A job of the journal cannot be applied because of a defect. The server ends; the job and all after it stay in the \
            journal. Report the defect, then start a version of the server without it.
            """, metadata: ["id": "\(job.id.text)", "sequence": "\(sequence)", "cause": "\(error)"])
        store.fail(error)
    }

    /// No more sequences can be set aside, so who waits for one fails without.
    func failStarved(_ error: StoreError) -> [Applied] {
        let jobs = jobTable.withLock { jobTable in
            let (jobs, tasks) = jobTable.takeStarved()
            completions.run(tasks)
            return jobs
        }
        return jobs.map { Applied(sequence: nil, job: $0, end: .failed(Fault(error.faultCode, error.message))) }
    }

    // MARK: - The store

    // The disk has failed, or the file is damaged: nobody knows what of the last transaction is in it. Nobody is told anything
    // from then on: of the jobs of that transaction it would be a guess, and those behind it could not be stored. They leave
    // the flight without a word, so that whoever stops the coordinator need not wait for them.

    /// The jobs that the store was at when it failed.
    func drop(_ jobs: [ReadyJob]) {
        tellFailure()
        let now = monotonicMicroseconds()
        var woken: [@Sendable () -> Void] = []
        jobTable.broadcast { jobTable in
            for job in jobs { _ = jobTable.ended(job.accepted, isCommitted: false, owner: nil, took: 0, at: now) }
            // What waits for these jobs finds out by itself that the store has failed.
            completions.run(jobTable.ends.takeReady())
            woken = jobTable.takeWoken(limits)
            return true
        }
        for tell in woken { tell() }
    }

    /// Everything, until the coordinator stops.
    func dropAll() {
        tellFailure()
        while let rest = jobTable.wait(takeAll) {
            for task in rest.tasks { task(store) }
            if let failure = store.failure { rest.reload?.tell(.failure(failure)) }
            drop(rest.jobs)
        }
    }

    /// Tells the operator, `stats`, and whoever asked to be told; once, and that one after all ends that were told before.
    private func tellFailure() {
        guard let failure = store.failure else { return }
        storageFailure.happened(failure, statistics, completions) {
            logger.critical(
                """
                The store has failed, and nobody knows what of the last transaction is on the disk. No job is answered any \
                more. Look at the disk, then start again: what was told completed is kept, and a job with an id can be sent \
                again.
                """, metadata: ["cause": "\(failure)"])
        }
    }

    private struct Rest {
        var jobs: [ReadyJob] = []
        var tasks: [@Sendable (Store) -> Void] = []
        var reload: Reload?
    }

    /// The inner nil when there will be no more, the outer one when there is nothing yet.
    private func takeAll(_ jobTable: inout JobTable) -> Rest?? {
        var rest = Rest()
        while let next = jobTable.takeNext(behind: []) { rest.jobs.append(next.job) }
        let (starved, settled) = jobTable.takeStarved()
        completions.run(settled)
        rest.jobs += starved
        swap(&rest.tasks, &jobTable.writerTasks)
        swap(&rest.reload, &jobTable.reload)
        if rest.jobs.isEmpty, rest.tasks.isEmpty, rest.reload == nil { return jobTable.isStopped ? .some(nil) : nil }
        return rest
    }
}
