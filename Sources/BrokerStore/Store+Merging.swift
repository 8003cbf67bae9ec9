internal import BrokerModel
internal import BrokerStaging

extension Store {
    /// How one try to merge a job's rows went; but for `ended`, nothing of it is left.
    private enum Attempt {
        case ended(JobEnd)
        case contended
        /// Records are not newer than their objects.
        case stale
        case rejected([RejectedRow])
    }

    /// Tries until nothing more must be left out. Each try leaves out an object at least; that objects lack what others
    /// would have brought that were left out is so rare that a job with long chains of it is no job that was meant.
    private static let maximumAttempts = 100

    /// Merges a job's rows inside a savepoint of its own.
    ///
    /// - Returns: what became of the job; of one that failed nothing is left.
    func merge(_ staged: StagedRows, _ job: StoreJob) throws(StoreError) -> JobEnd {
        var rows = staged
        var exclusions: StagedExclusions?
        var isCareful = false
        for _ in 0..<Self.maximumAttempts {
            let attempt = try attempt(rows, job, isCareful: isCareful)
            if case .ended(let end) = attempt { return end }
            if case .contended = attempt {
                isCareful = true
                continue
            }
            let known = exclusions ?? StagedExclusions(merger.plan, job.policy)
            exclusions = known
            if case .rejected(let rejected) = attempt {
                for object in rejected { known.add(entity: object.entity, row: object.row, of: rows, object.fault) }
            } else {
                try merger.noteModified(rows, in: known)
            }
            // What is staged again takes the place of the last try, so that there are never three.
            rows = staged
            do throws(StagingRefusal) {
                rows = try staged.staged(without: known, merger.plan)
            } catch {
                guard case .fault(let fault) = error else { preconditionFailure("no allowance was given") }
                return .failed(fault)
            }
        }
        return .failed(
            Fault(
                .constraintViolation,
                "Leaving out the records that cannot be stored makes ever more of them impossible "
                    + "(\(Self.maximumAttempts) times over). Send the job in smaller pieces to find them."))
    }

    private func attempt(_ rows: StagedRows, _ job: StoreJob, isCareful: Bool) throws(StoreError) -> Attempt {
        if try merger.hasStaleRecords(rows) { return .stale }
        if let fault = rows.openFault { return .ended(.failed(fault)) }
        try statements.savepoint.run()
        do throws(MergeFailure) {
            let merged = try merger.merge(rows, job.policy, isCareful: isCareful)
            let outcome = try merger.outcome(of: merged, rows, wantsKeys: job.wantsKeys)
            try release()
            return .ended(.completed(outcome))
        } catch {
            if connection.isAutocommit {
                if case .store(let error) = error { throw error }
                throw StoreError(.unavailable, "SQLite gave the transaction up.")
            }
            try statements.rollbackToSavepoint.run()
            try statements.release.run()
            switch error {
            case .store(let error): throw error
            case .fault(let fault): return .ended(.failed(fault))
            case .rejected(let rejected): return .rejected(rejected)
            case .contended: return .contended
            }
        }
    }

    private func release() throws(MergeFailure) {
        do throws(StoreError) {
            try statements.release.run()
        } catch {
            throw .store(error)
        }
    }
}
