internal import BrokerModel
internal import BrokerStaging

/// Merges one step's rows, again and again without what turns out to be left out.
struct StepMerge {
    let merger: Merger
    let savepoints: Savepoints
    let policy: InvalidRecordPolicy
    /// The step is the whole job, so that the job's savepoint is its own.
    let isSingle: Bool
    /// What a sync may do; nil of other steps.
    var sync: StagedSync?

    /// Tries until nothing more must be left out. Each try leaves out an object at least; that objects lack what others
    /// would have brought that were left out is so rare that a job with long chains of it is no job that was meant.
    private static let maximumAttempts = 100

    /// - Parameters:
    ///   - history: hears of what happens; nil where the merge's own count is enough.
    ///   - prepare: called before rows are merged, each time; what it does is undone with them.
    /// - Returns: the rows that were merged in the end, and what became of them.
    func run(
        _ staged: StagedRows, _ history: RowHistory?,
        prepare: (StagedRows) throws(MergeFailure) -> Void = { _ in }
    ) throws(MergeFailure) -> (StagedRows, MergedRows) {
        var exclusions = try passedOver(staged)
        var rows = try exclusions.map { known throws(MergeFailure) in try restaged(staged, without: known) } ?? staged
        var isCareful = false
        for _ in 0..<Self.maximumAttempts {
            do throws(MergeFailure) {
                return (rows, try attempt(rows, isCareful: isCareful, history, prepare))
            } catch {
                switch error {
                case .contended: isCareful = true
                case .rejected, .stale, .misjudged:
                    let known = exclusions ?? StagedExclusions(merger.plan, policy)
                    exclusions = known
                    try note(error, of: rows, in: known)
                    // What is staged again takes the place of the last try, so that there are never three.
                    rows = staged
                    rows = try restaged(staged, without: known)
                case .fault, .store, .subjectRefused: throw error
                }
            }
        }
        throw .fault(
            Fault(
                .constraintViolation,
                "Leaving out the records that cannot be stored makes ever more of them impossible "
                    + "(\(Self.maximumAttempts) times over). Send the job in smaller pieces to find them."))
    }

    /// Of a sync that may not do everything, what is passed over: found out beside the store, before anything is merged.
    private func passedOver(_ staged: StagedRows) throws(MergeFailure) -> StagedExclusions? {
        guard let sync, sync.passesOver else { return nil }
        let passedOver = PassedOver(sync, merger.plan)
        let entity = merger.plan.model.topmost(of: sync.selection.entity)
        do throws(StoreError) {
            if let table = staged.tables[entity] {
                for row in 0..<table.rowCount where table.hasIdentity(row) {
                    if try merger.hasObject(of: table.row(row), table.kind(of: row)) {
                        passedOver.noteExisting(row, of: staged)
                    }
                }
            }
        } catch {
            throw .store(error)
        }
        let exclusions = StagedExclusions(merger.plan, policy)
        exclusions.passedOver = passedOver
        return exclusions
    }

    private func note(
        _ failure: MergeFailure, of rows: StagedRows, in known: StagedExclusions
    ) throws(MergeFailure) {
        if case .rejected(let rejected) = failure {
            for object in rejected {
                known.add(entity: object.entity, row: object.row, of: rows, object.fault, absence: object.absence)
            }
            return
        }
        do throws(StoreError) {
            if case .misjudged = failure {
                try merger.noteKinds(rows, in: known)
            } else {
                try merger.noteModified(rows, in: known)
            }
        } catch {
            throw .store(error)
        }
    }

    private func restaged(_ staged: StagedRows, without known: StagedExclusions) throws(MergeFailure) -> StagedRows {
        do throws(StagingRefusal) {
            return try staged.staged(without: known, merger.plan)
        } catch {
            guard case .fault(let fault) = error else { preconditionFailure("no allowance was given") }
            throw .fault(fault)
        }
    }

    /// Before anything is written: whether all records are newer than their objects, and none of them is at fault.
    private func checkRecords(_ rows: StagedRows) throws(MergeFailure) {
        let isStale: Bool
        do throws(StoreError) {
            isStale = try merger.hasStaleRecords(rows)
        } catch {
            throw .store(error)
        }
        if isStale { throw .stale }
        if rows.hasDoubtfulKinds { throw .misjudged }
        if let fault = rows.openFault { throw .fault(fault) }
    }

    private func attempt(
        _ rows: StagedRows, isCareful: Bool, _ history: RowHistory?,
        _ prepare: (StagedRows) throws(MergeFailure) -> Void
    ) throws(MergeFailure) -> MergedRows {
        try checkRecords(rows)
        if !isSingle { try savepoints.beginStep() }
        do throws(MergeFailure) {
            let merged: MergedRows
            if let history {
                history.mark()
                var heard: MergedRows?
                try history.listen { () throws(MergeFailure) in
                    try prepare(rows)
                    heard = try merger.merge(rows, policy, isCareful: isCareful, countsLinksAlone: true)
                }
                merged = heard!
            } else {
                merged = try merger.merge(rows, policy, isCareful: isCareful, countsLinksAlone: false)
            }
            if !isSingle { try savepoints.endStep() }
            return merged
        } catch {
            history?.takeBack()
            // After some errors SQLite has undone the whole transaction.
            if case .store = error, merger.connection.isAutocommit { throw error }
            guard !merger.connection.isAutocommit else {
                throw .store(StoreError(.unavailable, "SQLite gave the transaction up."))
            }
            try savepoints.undoStep(isSingle: isSingle)
            throw error
        }
    }
}

/// Savepoints inside a transaction: one for each job, and one for each of its steps when there are several.
struct Savepoints {
    private let begin: Statement
    private let release: Statement
    private let undo: Statement
    private let stepBegin: Statement
    private let stepRelease: Statement
    private let stepUndo: Statement

    init(on connection: Connection) throws(StoreError) {
        begin = try connection.prepare("SAVEPOINT job")
        release = try connection.prepare("RELEASE job")
        undo = try connection.prepare("ROLLBACK TO job")
        stepBegin = try connection.prepare("SAVEPOINT step")
        stepRelease = try connection.prepare("RELEASE step")
        stepUndo = try connection.prepare("ROLLBACK TO step")
    }

    func beginJob() throws(StoreError) { try begin.run() }

    func endJob() throws(MergeFailure) { try run(release) }

    func undoJob() throws(StoreError) {
        try undo.run()
        try release.run()
    }

    func beginStep() throws(MergeFailure) { try run(stepBegin) }

    func endStep() throws(MergeFailure) { try run(stepRelease) }

    /// - Parameter isSingle: it is the whole job, whose savepoint stays.
    func undoStep(isSingle: Bool) throws(MergeFailure) {
        guard !isSingle else { return try run(undo) }
        try run(stepUndo)
        try run(stepRelease)
    }

    private func run(_ statement: Statement) throws(MergeFailure) {
        do throws(StoreError) {
            try statement.run()
        } catch {
            throw .store(error)
        }
    }
}
