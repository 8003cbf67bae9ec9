internal import BrokerModel
package import BrokerStaging

extension Store {
    /// Applies a job's steps inside a savepoint of its own.
    ///
    /// - Returns: the job's outcome; a failed job leaves no change.
    func run(_ steps: [StagedStep], _ job: StoreJob) throws(StoreError) -> JobOutcome {
        // Large batches run without them.
        try connection.checkForeignKeys(true)
        connection.work.begin(WorkBudget(limit: connection.work.jobLimit))
        defer { connection.work.begin(.unlimited) }
        let memory = limits.mergeMemory.map { MergeLimit($0, job.memory) } ?? job.memory
        let parked = ParkedValues(merger, MergeMemory(memory))
        try savepoints.beginJob()
        merger.hasRenamed = false
        let (rowKeys, digest) = (merger.rowKeys, merger.digest)
        // The operation that is applied.
        var pointer: String?
        do throws(MergeFailure) {
            var run = JobRun(merger, savepoints, syncParts, job, stepCount: steps.count, parked: parked)
            for (number, step) in steps.enumerated() {
                pointer = step.pointer
                try run.apply(step, isFirst: number == 0, isLast: number == steps.count - 1)
            }
            pointer = nil
            try parked.restore()
            guard !connection.hasDanglingReferences else {
                throw .fault(
                    Fault(
                        .constraintViolation,
                        "The job would leave a link to an object that does not exist in the store."))
            }
            let outcome = try self.outcome(of: run, steps)
            guard !job.isDryRun else {
                try storing { () throws(StoreError) in try savepoints.undoJob() }
                (merger.rowKeys, merger.digest) = (rowKeys, digest)
                return .completed(outcome)
            }
            try savepoints.endJob()
            return .completed(outcome)
        } catch {
            if connection.isAutocommit {
                if case .store(let error) = error { throw error }
                if case .fault(let fault) = error, connection.work.mustEnd {
                    overworked = (job.sequence, fault)
                    throw .overworked
                }
                throw StoreError(.unavailable, "SQLite gave the transaction up.")
            }
            try savepoints.undoJob()
            merger.rowKeys = rowKeys
            merger.digest = digest
            switch error {
            case .store(let error):
                guard let fault = try refusal(error, at: pointer) else { throw error }
                return .failed(fault)
            case .fault(let fault): return .failed(fault)
            case .surprise: preconditionFailure("the interpreter applies the step")
            }
        }
    }

    /// Takes the number of steps, since the last call, whose records were applied one after the other, by the reason.
    package func takeInterpretations() -> [InterpretationReason: Int] {
        defer { merger.interpretations = [:] }
        return merger.interpretations
    }

    /// The fault of a job that another program's constraint or expression does not allow; nil when the store is at fault.
    ///
    /// - Parameter pointer: the location of the operation.
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

    /// The outcome of a job whose steps have been applied.
    private func outcome(of run: JobRun, _ steps: [StagedStep]) throws(MergeFailure) -> Outcome {
        let tally = try JobTally(run)
        var outcome = try tally.outcome()
        if !run.job.mayDelete, let fault = DeletionLimit.unauthorized(tally.deletions, merger.plan.model) {
            throw .fault(fault)
        }
        if let fault = try run.job.maximumDeletions?.fault(of: outcome.changes, merger) { throw .fault(fault) }
        if let objects = run.objects { outcome.objects = try reply(objects) }
        if let changes = run.history?.digest { merger.digest?.add(changes) }
        // Restoring, counting and reading objects are the job's work, too.
        if let last = steps.last { try JobWork.judge(connection.work, at: last.pointer) }
        // Not the job's work: it must end the same way in a store that keeps no keys.
        if run.job.isDryRun {
            outcome.examples = try tally.examples(of: outcome.changes)
        } else if merger.keepsFeedKeys {
            outcome.feedKeys = try tally.feedKeys(of: outcome.changes)
        }
        return outcome
    }

    private func reply(_ objects: PayloadObjects) throws(MergeFailure) -> ReplyObjects {
        return try storing { () throws(StoreError) in try objects.reply(within: ReplyObjects.maximumBytes) }
    }
}

/// SQLite's write-ahead log (WAL) beside the store.
extension Store {
    /// Copies the WAL into the database if it has reached its working size. To be called after every `commit()`, when
    /// the replies to its jobs have been sent: it may take as long as the disk does.
    package func copyWALIfDue() {
        guard loss == nil, failure == nil, walCheckpointer.copyIfDue(), ledger.history != nil else { return }
        noteCopied()
        // A reader may hold the WAL for hours; the jobs that the disk has can leave the journal meanwhile. A failure of the
        // disk is in ``failure``.
        if walCheckpointer.status.uncheckpointedPages > 0 { try? syncWAL() }
    }

    /// The WAL was due for a checkpoint before the last transaction, and that one was appended to it: a reader uses it.
    package var isWALOverdue: Bool { loss == nil && failure == nil && walCheckpointer.isOverdue }

    /// Whether the WAL is as long as one that a reader holds, and a backup tool holds it that copies it into the database
    /// by itself. False again until the WAL has grown by as much.
    package func isWALLeftToBackupTool() -> Bool {
        guard loss == nil, failure == nil, walCheckpointer.isLong else { return false }
        walCheckpointer.notedLong()
        return isReadByBackupTool
    }

    /// Whether a backup tool has a read transaction open. One without a name, such as one in another container, is
    /// recognised by the tables that it made.
    var isReadByBackupTool: Bool {
        WALReader.others(ofStoreAt: location).contains { $0.isBackupTool || $0.process == nil && hasBackupToolTables }
    }

    private var hasBackupToolTables: Bool {
        (try? connection.integer("SELECT 1 FROM sqlite_schema WHERE name = '_litestream_lock'")) == 1
    }

    /// The first bytes of the WAL, which change when it restarts.
    package var walHeader: [UInt8]? { walCheckpointer.header() }

    /// Copies the WAL, however long it is.
    package func copyLog() {
        guard loss == nil, failure == nil else { return }
        walCheckpointer.copyAll()
        noteCopied()
    }

    /// Copies the WAL because a transaction that was rolled back found no room
    /// (``/BrokerSQLite/StoreError/Code/full``): the next one then overwrites it.
    ///
    /// - Returns: whether the next transaction may find more room.
    package func makeRoom() -> Bool { loss == nil && failure == nil && walCheckpointer.makeRoom() }

    /// Whether there is work that is better done now, while no client waits for a transaction.
    package var hasIdleWork: Bool { loss == nil && failure == nil && walCheckpointer.hasIdleWork }

    /// Does such work. To be called while no client waits for a transaction.
    package func idle() {
        guard hasIdleWork else { return }
        walCheckpointer.idle()
        noteCopied()
    }

    /// The WAL after the last commit.
    package var wal: WALStatus { walCheckpointer.status }

    /// The events of the WAL since the last call that an operator should know.
    package func takeWALNotices() -> [WALNotice] { walCheckpointer.takeNotices() }
}
