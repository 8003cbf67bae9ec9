internal import BrokerModel
internal import BrokerStaging

extension Store {
    /// Applies a job's steps inside a savepoint of its own.
    ///
    /// - Returns: what became of the job; of one that failed nothing is left.
    func run(_ steps: [StagedStep], _ job: StoreJob) throws(StoreError) -> JobOutcome {
        try savepoints.beginJob()
        do throws(MergeFailure) {
            if steps.count > 1 { try learnRowKeys() }
            var run = JobRun(merger, savepoints, job, stepCount: steps.count)
            for (number, step) in steps.enumerated() {
                try run.apply(step, isFirst: number == 0, isLast: number == steps.count - 1)
            }
            guard !connection.hasDanglingReferences else {
                throw .fault(
                    Fault(
                        .constraintViolation,
                        "The job would leave a link to an object that does not exist in the store."))
            }
            var outcome = try JobTally(run).outcome()
            if let objects = run.objects { outcome.objects = try told(objects) }
            try savepoints.endJob()
            return .completed(outcome)
        } catch {
            if connection.isAutocommit {
                if case .store(let error) = error { throw error }
                throw StoreError(.unavailable, "SQLite gave the transaction up.")
            }
            try savepoints.undoJob()
            switch error {
            case .store(let error) where error.code == .constraint:
                // Of a table that another program made or changed: what the job does to other rows is not allowed there.
                return .failed(
                    Fault(
                        .constraintViolation,
                        "\(error.message) A table requires what the model does not know; look at its constraints."))
            case .store(let error): throw error
            case .fault(let fault), .subjectRefused(let fault): return .failed(fault)
            case .rejected, .contended, .stale, .misjudged: preconditionFailure("a step is tried until it is neither")
            }
        }
    }

    private func learnRowKeys() throws(MergeFailure) {
        do throws(StoreError) {
            try merger.learnRowKeys()
        } catch {
            throw .store(error)
        }
    }

    private func told(_ objects: PayloadObjects) throws(MergeFailure) -> ToldObjects {
        do throws(StoreError) {
            return try objects.told(within: ToldObjects.maximumBytes)
        } catch {
            throw .store(error)
        }
    }
}
