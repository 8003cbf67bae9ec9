internal import BrokerModel
package import BrokerStaging

extension Store {
    /// Applies a job's steps inside a savepoint of its own. A failed job leaves no change.
    func run(_ steps: [StagedStep], _ job: StoreJob) throws(StoreError) -> JobOutcome {
        // Large batches run without them.
        try connection.checkForeignKeys(true)
        connection.work.begin(WorkBudget(limit: connection.work.jobLimit))
        defer { connection.work.begin(.unlimited) }
        try savepoints.job.begin()
        merger.hasRenamed = false
        let (rowKeys, digest) = (merger.rowKeys, merger.digest)
        let run = JobRun(merger, savepoints, syncParts, job, steps, MergeMemory(job.memory, limit: limits.mergeMemory))
        do {
            try run.run()
            guard !connection.hasDanglingReferences else {
                throw MergeFailure.fault(
                    Fault(
                        .constraintViolation,
                        "The job would leave a link to an object that does not exist in the store."))
            }
            let outcome = try self.outcome(of: run, steps)
            if job.terms.isDryRun {
                try savepoints.job.undoAndEnd()
                (merger.rowKeys, merger.digest) = (rowKeys, digest)
            } else {
                try savepoints.job.end()
            }
            return .completed(outcome)
        } catch {
            if connection.isAutocommit {
                if case MergeFailure.fault(let fault) = error, connection.work.mustEnd {
                    overworked = (job.sequence, fault)
                    throw .overworked
                }
                throw error as? StoreError ?? .givenUp
            }
            try savepoints.job.undoAndEnd()
            (merger.rowKeys, merger.digest) = (rowKeys, digest)
            switch error {
            case MergeFailure.fault(let fault): return .failed(fault)
            case let error as StoreError:
                guard let fault = try refusal(error, at: run.pointer) else { throw error }
                return .failed(fault)
            default: preconditionFailure("a step is merged or interpreted: \(error)")
            }
        }
    }

    /// Takes the number of steps, since the last call, whose records were applied one after the other, by the reason.
    package func takeInterpretations() -> [InterpretationReason: Int] {
        defer { merger.interpretations = [:] }
        return merger.interpretations
    }

    /// The fault of a job that another program's constraint or expression does not allow; nil when the store is at fault.
    private func refusal(_ error: StoreError, at pointer: String?) throws(StoreError) -> Fault? {
        let message: String
        if error.isTooLarge {
            message = "\(error.message) Send shorter values."
        } else if error.code == .constraint {
            message = "\(error.message) A table requires what the model does not know; look at its constraints."
        } else if try isOfExpression(error) {
            message =
                "The database does not allow it: an expression of a table, in a CHECK constraint, a generated column or an index, "
                + "cannot be evaluated for a value of the job. Send a value for which it can be, or look at the table's schema."
        } else {
            return nil
        }
        var fault = Fault(.constraintViolation, message, path: pointer)
        fault.cause = error.sqliteMessage
        return fault
    }

    /// Whether an expression of the schema failed for a value, such as a JSON function for a text that is no JSON. SQLite has
    /// no code for that: the schema has such expressions, and the statement compiles.
    private func isOfExpression(_ error: StoreError) throws(StoreError) -> Bool {
        guard error.isPlain, let sql = error.statement else { return false }
        if !merger.isForeign, try !hasExpressionIndex() { return false }
        do throws(StoreError) {
            return try !connection.prepare(sql).isTransactional
        } catch {
            return false
        }
    }

    /// Whether another program has made an index over an expression (sqlite.org/pragma.html#pragma_index_xinfo).
    private func hasExpressionIndex() throws(StoreError) -> Bool {
        try connection.integer(
            "SELECT 1 FROM sqlite_schema AS i, pragma_index_xinfo(i.name) AS x WHERE i.type = 'index' AND x.cid = -2 LIMIT 1"
        )
            != nil
    }

    private func outcome(of run: JobRun, _ steps: [StagedStep]) throws -> Outcome {
        let tally = try JobTally(run)
        var outcome = try tally.outcome()
        if !run.job.terms.mayDelete, let fault = DeletionLimit.unauthorized(tally.deletions, merger.plan.model) {
            throw MergeFailure.fault(fault)
        }
        if let fault = try run.job.terms.maximumDeletions?.fault(of: outcome.changes, merger)
            ?? DeletionLimit.fault(ofModel: merger, outcome.changes)
        {
            throw MergeFailure.fault(fault)
        }
        outcome.objects = try run.objects?.reply(within: ReplyObjects.maximumBytes)
        if let changes = run.history?.digest { merger.digest?.add(changes) }
        // Restoring, counting and reading objects are the job's work, too.
        if let last = steps.last { try JobWork.judge(connection.work, at: last.pointer) }
        // Not the job's work: it must end the same way in a store that keeps no keys.
        if run.job.terms.isDryRun {
            outcome.examples = try tally.examples(of: outcome.changes)
        } else if merger.keepsFeedKeys {
            outcome.feedKeys = try tally.feedKeys(of: outcome.changes)
        }
        return outcome
    }
}

/// Applies several jobs at once, without a savepoint for each: the fast path for jobs that are expected to succeed.
extension Store {
    /// Whether the job may be applied together with others.
    package func canJoin(_ job: StoreJob) -> Bool {
        if case .refused = job.work { return true }
        return joinableRows(job) != nil
    }

    private func joinableRows(_ job: StoreJob) -> StagedRows? {
        guard let rows = job.work.onlyRows, rows.isBatchable, !job.terms.wantsKeys, !job.terms.wantsObjects,
            !job.terms.isDryRun, !merger.isForeign, !merger.interpretsAll
        else { return nil }
        return rows
    }

    /// Applies jobs for which ``canJoin(_:)`` is true inside the open transaction, with the result of ``apply(_:)`` for
    /// one after the other. Returns nil when they cannot be applied together: the caller must roll the transaction back.
    package func applyBatch(_ jobs: [StoreJob]) throws(StoreError) -> [JobOutcome]? {
        var ends: [JobOutcome] = []
        ends.reserveCapacity(jobs.count)
        var rest = jobs[...]
        while !rest.isEmpty {
            let part = prefix(of: rest)
            guard let applied = try applyAtOnce(part) else { return nil }
            if part.count == jobs.count { return applied }
            ends += applied
            rest = rest.dropFirst(part.count)
        }
        return ends
    }

    /// The jobs that can be merged at once: a job whose id occurs before it must wait until the ledger has that id.
    private func prefix(of jobs: ArraySlice<StoreJob>) -> ArraySlice<StoreJob> {
        // Different ids with the same hash only end the batch earlier.
        var ids = Set<UInt64>(minimumCapacity: jobs.count)
        return jobs.prefix(SetMerge.maximumMembers(merger)).prefix { job in
            job.contentHash == nil || ids.insert(JobIndex.hash(job.id)).inserted
        }
    }

    private func applyAtOnce(_ jobs: ArraySlice<StoreJob>) throws(StoreError) -> [JobOutcome]? {
        var found: [(known: StoredOutcome?, end: JobOutcome?)] = []
        var members: [StagedRows] = []
        found.reserveCapacity(jobs.count)
        members.reserveCapacity(jobs.count)
        for job in jobs {
            found.append(try find(job))
            if found.last?.end != nil { continue }
            if case .refused = job.work { continue }
            guard let rows = joinableRows(job) else { return nil }
            members.append(rows)
        }
        merger.digest = ledger.history == nil ? nil : RowDigest()
        let merge = SetMerge(members, merger, isBatch: true)
        do {
            try merge.run()
        } catch let error as StoreError {
            throw error
        } catch {
            // The jobs are then applied one by one, which finds the job at fault.
            return nil
        }
        return try record(zip(jobs, found), merge)
    }

    /// Records jobs, each with what ``find(_:)`` returned, after their steps are merged. Returns nil when the line that determines a
    /// job's outcome has expired with an earlier job of these.
    private func record(
        _ jobs: Zip2Sequence<ArraySlice<StoreJob>, [(known: StoredOutcome?, end: JobOutcome?)]>, _ merge: SetMerge
    ) throws(StoreError) -> [JobOutcome]? {
        var ends: [JobOutcome] = []
        ends.reserveCapacity(jobs.underestimatedCount)
        var member = 0
        // Similar jobs share one outcome.
        var shared: JobOutcome?
        var sharedChanges: [(entity: String, counts: ChangeCounts)] = []
        for (job, found) in jobs {
            if let end = found.end {
                if let known = found.known, known.sequence < ledger.firstSequence { return nil }
                try extendDigest(end, of: job, nil)
                ends.append(end)
                continue
            }
            if case .refused(let fault) = job.work {
                ends.append(try record(.failed(fault), of: job, found.known, nil, isWritten: false))
                continue
            }
            let rows = merge.digest(member)
            defer { member += 1 }
            if let shared, merge.isOnly(sharedChanges, member) {
                let feedKeys = merge.feedKeys(member, sharedChanges)
                ends.append(try record(shared, of: job, found.known, rows, feedKeys: feedKeys, isWritten: false))
                continue
            }
            var outcome = merge.outcome(member)
            let feedKeys = merge.feedKeys(member, outcome.changes)
            outcome.writeBrief()
            let end = JobOutcome.completed(outcome)
            if outcome.isOnly(outcome.changes) { (shared, sharedChanges) = (end, outcome.changes) }
            ends.append(try record(end, of: job, found.known, rows, feedKeys: feedKeys, isWritten: false))
        }
        try ledger.write()
        return ends
    }
}

extension StoreJob.Work {
    /// The rows of a job that only merges records; nil for any other.
    fileprivate var onlyRows: StagedRows? {
        switch self {
        case .merge(let rows): return rows
        case .steps(let steps):
            guard steps.count == 1, case .merge = steps[0].action else { return nil }
            return steps[0].rows
        case .refused: return nil
        }
    }
}
