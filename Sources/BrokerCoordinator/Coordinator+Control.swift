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
    ///   - notify: called once, on a thread of the coordinator's, and before the job's observer.
    package func cancel(
        _ id: String, before ticket: Int? = nil, as asker: JobOwner = .server,
        _ notify: @escaping @Sendable (Cancellation) -> Void
    ) {
        var isInFlight = false
        jobTable.change(completions) { jobTable in
            let effects = jobTable.cancel(JobID(id), before: ticket, as: asker, notify)
            isInFlight = effects != nil
            return effects ?? Effects()
        }
        if isInFlight { return }
        // A job that is not in flight has ended, or is unknown.
        self.await(id, before: ticket, as: asker) { result in
            switch result {
            case .success(nil): notify(.unknown)
            case .success: notify(.tooLate)
            case .failure(let error): notify(.failed(error))
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
    /// - Parameter notify: called once, on the writer's thread, with the rest of the WAL.
    package func checkpoint(_ notify: @escaping @Sendable (Result<WALStatus, StoreError>) -> Void) {
        let statistics = statistics
        jobTable.update { jobTable in
            jobTable.writerTasks.append { store in
                let result = Result { () throws(StoreError) in try store.checkpointAtOnce() }
                let wal = store.wal
                statistics.count { $0.wal = wal }
                notify(result)
            }
        }
    }

    /// The digest of the journal's jobs and of the rows that they wrote; nil without a journal.
    ///
    /// - Parameter notify: called once, on the writer's thread.
    package func history(_ notify: @escaping @Sendable (StateDigest?) -> Void) {
        jobTable.update { jobTable in jobTable.writerTasks.append { notify($0.history) } }
    }
}
