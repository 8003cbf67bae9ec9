internal import BrokerModel
package import BrokerStore

/// Cancellation, and the operator's commands.
extension Coordinator {
    /// Cancels the jobs of that id before a ticket, if the merge of none has begun.
    ///
    /// A cancelled job ends at once, before earlier ones; it keeps its ticket, and the ledger records its failure in
    /// its turn.
    ///
    /// - Parameters:
    ///   - ticket: the ticket of the cancellation; nil means all jobs that were admitted so far.
    ///   - asker: a job that it may not see counts as unknown.
    ///   - tell: called once, on a thread of the coordinator's, and before the job's observer.
    package func cancel(
        _ id: String, before ticket: Int? = nil, as asker: JobOwner = .server,
        _ tell: @escaping @Sendable (Cancellation) -> Void
    ) {
        var isInFlight = false
        jobTable.change(completions) { jobTable in
            let effects = jobTable.cancel(JobID(id), before: ticket, as: asker, tell)
            isInFlight = effects != nil
            return effects ?? Effects()
        }
        if isInFlight { return }
        // A job that is not in flight has ended, or is unknown.
        self.await(id, before: ticket, as: asker) { result in
            switch result {
            case .success(nil): tell(.unknown)
            case .success: tell(.tooLate)
            case .failure(let error): tell(.failed(error))
            }
        }
    }

    /// Jobs are accepted and staged, and none is merged until ``resume()``. A coordinator that refuses new jobs pauses
    /// no longer. Any number of calls.
    ///
    /// - Returns: false while the model is changed, which waits for jobs.
    package func pause() -> Bool {
        jobTable.withLock { jobTable in
            guard jobTable.reloadTicket == nil else { return false }
            if !jobTable.isDraining { jobTable.isPaused = true }
            return true
        }
    }

    package func resume() {
        jobTable.broadcast { jobTable in
            jobTable.isPaused = false
            return jobTable.hasWork
        }
    }

    /// Copies the WAL into the database and truncates its file, as far as readers allow.
    ///
    /// - Parameter tell: called once, on the writer's thread, with the rest of the WAL.
    package func checkpoint(_ tell: @escaping @Sendable (Result<WALStatus, StoreError>) -> Void) {
        let statistics = statistics
        jobTable.broadcast { jobTable in
            jobTable.writerTasks.append { store in
                let result = Result { () throws(StoreError) in try store.checkpointAtOnce() }
                let log = store.log
                statistics.count { $0.log = log }
                tell(result)
            }
            return true
        }
    }

    /// The digest of the journal's jobs and of the rows that they wrote; nil without a journal.
    ///
    /// - Parameter tell: called once, on the writer's thread.
    package func history(_ tell: @escaping @Sendable (StateDigest?) -> Void) {
        jobTable.broadcast { jobTable in
            jobTable.writerTasks.append { tell($0.history) }
            return true
        }
    }
}
