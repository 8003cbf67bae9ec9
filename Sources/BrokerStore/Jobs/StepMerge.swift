internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging

/// Merges one step's rows, and repeats that without the records that turn out to be rejected.
struct StepMerge {
    let merger: Merger
    let savepoints: Savepoints
    let policy: InvalidRecordPolicy
    /// The step is the whole job, so the job's savepoint is also the step's.
    let isSingle: Bool
    /// The actions that a sync may take; nil for other steps.
    var sync: StagedSync?
    let resources: MergeResources
    /// Further work of the job follows the merge of the rows, so objects may still give up unique values.
    let isFollowed: Bool

    /// - Parameters:
    ///   - history: records the changes; nil where the merge's own count suffices.
    ///   - isBase: the merge counts its rows itself, and the net changes store their state before.
    ///   - prepare: called before each attempt to merge rows; its changes are rolled back with them.
    /// - Returns: the rows of the last attempt, and their states.
    func run(
        _ staged: StagedRows, _ history: NetChanges?, isBase: Bool = false,
        prepare: (StagedRows) throws(MergeFailure) -> Void = { _ in }
    ) throws(MergeFailure) -> (StagedRows, MergedRows) {
        var exclusions = try ignoredRecords(staged)
        var isCareful = false
        var count = 0
        /// The memory of the stored facts, and of the rows of the newest staging.
        let (knowledge, memory) = (resources.memory(), resources.memory())
        resources.retain(memory)
        var rows = staged
        if let exclusions { rows = try restaged(staged, without: exclusions, memory) }
        while true {
            do throws(MergeFailure) {
                return (rows, try attempt(rows, isCareful: isCareful, history, isBase: isBase, prepare))
            } catch {
                switch error {
                case .contended: isCareful = true
                case .occupied(let values): try resources.parked.park(values, staged.located)
                case .rejected, .stale, .misjudged, .mismatchedKeys, .needsTargetIdentity:
                    try resources.chargeStaging(staged, after: count)
                    merger.connection.work.budget.charge(staged.stagingWork)
                    count += 1
                    let known = exclusions ?? StagedExclusions(merger.plan, policy)
                    exclusions = known
                    try note(error, of: rows, in: known, knowledge)
                    // The new staging replaces the last attempt, so there are never three.
                    rows = staged
                    memory.release()
                    rows = try restaged(staged, without: known, memory)
                    if policy == .fail, let fault = rows.rejected.first { throw .fault(fault) }
                case .fault, .store, .targetRejected, .entangled, .unsettled: throw error
                }
                try storing { () throws(StoreError) in try merger.chargeLongValues(of: rows) }
            }
        }
    }

    /// The records that a sync ignores because not all actions are allowed: determined outside of the store, before
    /// anything is merged.
    private func ignoredRecords(_ staged: StagedRows) throws(MergeFailure) -> StagedExclusions? {
        guard let sync, sync.ignoresRecords else { return nil }
        let ignored = IgnoredRecords(
            of: sync.selection.entity, inserts: sync.inserts, updates: sync.updates, merger.plan)
        let entity = merger.plan.model.topmost(of: sync.selection.entity)
        try storing { () throws(StoreError) in
            if let table = staged.tables[entity] {
                for row in 0..<table.rowCount where table.hasIdentity(row) {
                    if try merger.object(of: table.row(row), table.concreteEntity(of: row)) != nil {
                        ignored.noteExisting(row, of: table)
                    }
                }
            }
        }
        let exclusions = StagedExclusions(merger.plan, policy)
        exclusions.ignoredRecords = ignored
        return exclusions
    }

    private func note(
        _ failure: MergeFailure, of rows: StagedRows, in known: StagedExclusions, _ memory: MergeMemory
    ) throws(MergeFailure) {
        if case .rejected(let rejected) = failure {
            guard memory.take(rejected.count * Self.bytesPerRejection) else { throw .fault(MergeMemory.refusal) }
            for object in rejected {
                known.add(
                    row: object.row, of: rows.tables[object.entity]!, object.fault, absence: object.absence,
                    keysBelow: object.keysBelow)
            }
            return
        }
        if case .needsTargetIdentity(let identity, let kind) = failure {
            identity.withCells { known.note(targetIdentity: $0, concreteEntity: kind) }
            return
        }
        // The stored facts of an object take about as much memory as its staged row.
        let bytes = rows.tables.reduce(0) { $0 + ($1.map { $0.rowCount * $0.rowByteCount } ?? 0) }
        guard memory.hold(bytes) else { throw .fault(MergeMemory.refusal) }
        try storing { () throws(StoreError) in
            if case .stale = failure { return try merger.noteModified(rows, in: known) }
            try merger.noteConcreteEntities(rows, in: known)
        }
        guard case .mismatchedKeys(let mismatched) = failure else { return }
        for keys in mismatched {
            known.note(finalEntity: keys.concreteEntity, of: keys.row, in: rows.tables[keys.entity]!)
        }
    }

    /// Bytes of a rejected object's record, with its identity and its messages.
    private static let bytesPerRejection = 600

    private func restaged(
        _ staged: StagedRows, without known: StagedExclusions, _ memory: MergeMemory
    ) throws(MergeFailure) -> StagedRows {
        do throws(StagingRefusal) {
            return try staged.staged(without: known, merger.plan, memory)
        } catch {
            throw MergeFailure(error)
        }
    }

    /// Before anything is written: checks that all records are newer than their objects, and that none is at fault.
    private func checkRecords(_ rows: StagedRows) throws(MergeFailure) {
        if try storing({ () throws(StoreError) in try merger.hasStaleRecords(rows) }) { throw .stale }
        if rows.hasUncertainEntities { throw .misjudged }
        if try storing({ () throws(StoreError) in try merger.hasUnrelatedTombstones(rows) }) { throw .misjudged }
        if let fault = rows.openFault { throw .fault(fault) }
    }

    private func attempt(
        _ rows: StagedRows, isCareful: Bool, _ history: NetChanges?, isBase: Bool,
        _ prepare: (StagedRows) throws(MergeFailure) -> Void
    ) throws(MergeFailure) -> MergedRows {
        try checkRecords(rows)
        let memory = resources.memory()
        let parked = isFollowed ? resources.parked : nil
        if !isSingle { try savepoints.beginStep() }
        do throws(MergeFailure) {
            let merged: MergedRows
            if let history {
                history.mark()
                var result: MergedRows?
                try history.record(toBase: isBase) { () throws(MergeFailure) in
                    try prepare(rows)
                    result = try merger.merge(rows, policy, isCareful: isCareful, memory, parked)
                }
                merged = result!
            } else {
                merged = try merger.merge(rows, policy, isCareful: isCareful, memory, parked)
            }
            if !isSingle { try savepoints.endStep() }
            history?.accept()
            return merged
        } catch {
            history?.rollBack()
            // After some errors SQLite has rolled back the whole transaction.
            if case .store = error, merger.connection.isAutocommit { throw error }
            guard !merger.connection.isAutocommit else {
                throw .store(StoreError(.unavailable, "SQLite gave the transaction up."))
            }
            try savepoints.undoStep(isSingle: isSingle)
            throw error
        }
    }
}

/// The resources that the steps of one job share while they are merged.
final class MergeResources {
    let parked: ParkedValues
    private let allowance: (any MemoryAllowance)?
    /// The memory of rows that were staged again, until the job's end.
    private var retained: [MergeMemory] = []

    init(parked: ParkedValues) {
        allowance = parked.memory.allowance
        self.parked = parked
    }

    func memory() -> MergeMemory { MergeMemory(allowance) }

    var retainedCount: Int { retained.count }

    /// Releases the memory of all rows that were staged again after the first `count`.
    func release(after count: Int) { retained.removeLast(retained.count - count) }

    func retain(_ memory: MergeMemory) { retained.append(memory) }

    // MARK: - Stagings on the writer's thread

    /// Stagings of each step that do not count.
    private static let freeStagings = 4
    /// The maximum number of stagings of one step.
    private static let mostStagings = 100
    /// Units of ``StagedRows/stagingWork`` for all further stagings of the job's steps: a tenth of a second or two.
    private static let mostStagingWork = 16 << 20

    private var stagingWork = 0

    /// Limits how often the rows of a job's steps are staged again on the writer's thread, so that no job occupies the
    /// thread for much longer than its own bytes need. It counts work and not time: a job ends the same way on every
    /// machine.
    ///
    /// - Parameter count: how often the step was staged again before.
    func chargeStaging(_ rows: StagedRows, after count: Int) throws(MergeFailure) {
        guard count >= Self.freeStagings else { return }
        stagingWork += rows.stagingWork
        guard count >= Self.mostStagings || stagingWork > Self.mostStagingWork else { return }
        throw .fault(
            Fault(
                .constraintViolation,
                "Skipping the records that cannot be stored makes ever more of them impossible (\(count) times over). "
                    + "Send the job in smaller pieces to find them."))
    }
}

/// Savepoints inside a transaction: one for each job, and one for each of its steps when there are several.
struct Savepoints {
    private struct Savepoint {
        let begin: Statement
        let release: Statement
        let undo: Statement

        init(_ name: String, on connection: Connection) throws(StoreError) {
            begin = try connection.prepare("SAVEPOINT \(name)")
            release = try connection.prepare("RELEASE \(name)")
            undo = try connection.prepare("ROLLBACK TO \(name)")
        }
    }

    private let job: Savepoint
    private let step: Savepoint
    /// The savepoint of a record. That of a nested record is inside the outer one, and has the same name.
    private let record: Savepoint

    init(on connection: Connection) throws(StoreError) {
        job = try Savepoint("job", on: connection)
        step = try Savepoint("step", on: connection)
        record = try Savepoint("record", on: connection)
    }

    func beginJob() throws(StoreError) { try job.begin.run() }

    func endJob() throws(MergeFailure) { try run(job.release) }

    func undoJob() throws(StoreError) {
        try job.undo.run()
        try job.release.run()
    }

    func beginStep() throws(MergeFailure) { try run(step.begin) }

    func endStep() throws(MergeFailure) { try run(step.release) }

    func beginRecord() throws(StoreError) { try record.begin.run() }

    func endRecord() throws(StoreError) { try record.release.run() }

    func undoRecord() throws(StoreError) {
        try record.undo.run()
        try record.release.run()
    }

    /// - Parameter isSingle: the step is the whole job, whose savepoint stays.
    func undoStep(isSingle: Bool) throws(MergeFailure) {
        guard !isSingle else { return try run(job.undo) }
        try run(step.undo)
        try run(step.release)
    }

    private func run(_ statement: Statement) throws(MergeFailure) {
        try storing { () throws(StoreError) in try statement.run() }
    }
}
