internal import BrokerModel
public import BrokerStore

/// What became of the wish to take a job back.
public enum Cancellation: Sendable {
    /// It has failed with `cancelled`, which its observer has been told, and keeps its place in the order.
    case cancelled
    /// Its merge has begun, or it has ended.
    case tooLate
    case unknown
    case failed(StoreError)
}

/// Jobs that are taken back, and the work of whoever operates the server.
extension Coordinator {
    /// Takes back the jobs of that id before a place, if the merge of none has begun.
    ///
    /// A job that is taken back ends at once, before those in front of it; its place in the order stays its own, and the
    /// ledger takes its failure there.
    ///
    /// - Parameters:
    ///   - place: of the wish among the frames; nil means all that was admitted so far.
    ///   - asker: nobody knows a job that it may not see.
    ///   - tell: called once, on a thread of the coordinator's, and before the job's observer.
    public func cancel(
        _ id: String, before place: Int? = nil, as asker: JobOwner = .server,
        _ tell: @escaping @Sendable (Cancellation) -> Void
    ) {
        var isDone = false
        jobTable.broadcast { jobTable in
            switch jobTable.cancel(JobID(id), before: place, as: asker, tell) {
            case .unknown: return false
            case .tooLate: completions.run { tell(.tooLate) }
            case .cancelled(let tasks): completions.run(tasks)
            case .pending: break
            }
            isDone = true
            return jobTable.hasWork
        }
        if isDone { return }
        // What is not in flight has ended, or nobody has sent it.
        self.await(id, before: place, as: asker) { result in
            switch result {
            case .success(nil): tell(.unknown)
            case .success: tell(.tooLate)
            case .failure(let error): tell(.failed(error))
            }
        }
    }

    /// Jobs are accepted and staged, and none is merged until ``resume()``. Once new jobs are refused, nothing is held any
    /// longer. Any number of calls.
    ///
    /// - Returns: false while the model is changed, which waits for jobs.
    public func pause() -> Bool {
        jobTable.withLock { jobTable in
            guard jobTable.holdsBehind == nil else { return false }
            if !jobTable.isDraining { jobTable.isPaused = true }
            return true
        }
    }

    public func resume() {
        jobTable.broadcast { jobTable in
            jobTable.isPaused = false
            return jobTable.hasWork
        }
    }

    /// Copies SQLite's log into the database and empties its file, as far as readers allow.
    ///
    /// - Parameter tell: called once, on the writer's thread, with what is left of the log.
    public func checkpoint(_ tell: @escaping @Sendable (Result<WALStatus, StoreError>) -> Void) {
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

    /// What the store has become by the jobs of its log; nil without one.
    ///
    /// - Parameter tell: called once, on the writer's thread.
    package func history(_ tell: @escaping @Sendable (StateDigest?) -> Void) {
        jobTable.broadcast { jobTable in
            jobTable.writerTasks.append { tell($0.history) }
            return true
        }
    }
}
