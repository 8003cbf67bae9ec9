internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// Applies the steps of one job one after the other inside its savepoint, and counts the changes of each object.
///
/// ```
/// the first step, if it merges rows ─▶ counted row by row, as it goes
///                   (if others follow: the net changes store a digest of each row that it changes)
/// every other step                  ─▶ recorded by the net changes, which know the state before
/// ```
///
/// So a job of one step needs no bookkeeping, a large first step little, and a job of many steps counts each object
/// once, by its state before the job and after it.
struct JobRun {
    let merger: Merger
    let savepoints: Savepoints
    private let syncParts: SyncParts
    let job: StoreJob
    /// The only step, so that rolling it back rolls back the job.
    let isSingle: Bool
    private(set) var base: (rows: StagedRows, merged: MergedRows)?
    private(set) var history: NetChanges?
    private(set) var reported = ReportedFaults()
    /// The number of batches of steps that were staged again because of their tombstones.
    private var batchCount = 0
    let resources: MergeResources
    /// Further work of the job follows the merge of the step's rows, so objects may still give up unique values.
    private var isFollowed = false
    /// Owned objects with unique values may be deleted after the merge of the step's rows.
    private var endsOwnedObjects = false
    /// Nil unless the job asks for them.
    private(set) var objects: PayloadObjects?

    init(
        _ merger: Merger, _ savepoints: Savepoints, _ syncParts: SyncParts, _ job: StoreJob, stepCount: Int,
        parked: ParkedValues
    ) {
        resources = MergeResources(parked: parked)
        self.merger = merger
        self.savepoints = savepoints
        self.syncParts = syncParts
        self.job = job
        isSingle = stepCount == 1
        objects = job.wantsObjects ? PayloadObjects(merger, dates: job.objectDates) : nil
    }

    mutating func apply(_ step: StagedStep, isFirst: Bool, isLast: Bool) throws(MergeFailure) {
        endsOwnedObjects = mayEndOwnedObjects(step)
        isFollowed = !isLast || step.rows?.tombstoneDeletions != nil || endsOwnedObjects
        if case .sync(let sync) = step.action, sync.deletes { isFollowed = true }
        try JobWork.counting(step, on: merger.connection.work) { () throws(MergeFailure) in
            try act(step, isFirst: isFirst, isLast: isLast)
        }
    }

    private mutating func act(_ step: StagedStep, isFirst: Bool, isLast: Bool) throws(MergeFailure) {
        switch step.action {
        case .merge where merger.interpretsAll:
            let applied = try interpret(step, nil)
            try objects?.note(applied.payload, applied.renamings)
        case .sync(let sync) where merger.interpretsAll:
            let part = try sync.part.map { part throws(MergeFailure) in
                try syncParts.begin(part, at: step.pointer, now: job.now)
            }
            let applied = try interpret(step, sync)
            try objects?.note(applied.payload, applied.renamings)
            try deleteUnnamed(applied, sync, part, step, isLast: isLast)
        case .merge:
            let merged = try merge(step, isFirst: isFirst, isLast: isLast)
            try objects?.note(step.rows!, merged)
        case .sync(let sync):
            let part = try sync.part.map { part throws(MergeFailure) in
                try syncParts.begin(part, at: step.pointer, now: job.now)
            }
            let merged = try merge(step, isFirst: isFirst, isLast: isLast, sync)
            try objects?.note(step.rows!, merged)
            try deleteUnnamed(merged, sync, part, step, isLast: isLast)
        case .delete(let entity):
            objects?.noteDeletion()
            let rows = step.rows!
            reported.add(rows)
            let deletion = Deletion(merger: merger, entity: entity, pointer: step.pointer)
            var missing = 0
            try recording(isLast) { () throws(MergeFailure) in missing = try deletion.delete(named: rows) }
            if missing > 0 {
                reported.warnings.append(
                    Warning(.objectNotFound, entity: merger.plan.model.entities[entity].name, count: missing))
            }
        case .deleteMatching(let selection):
            objects?.noteDeletion()
            try resources.parked.restore(job.policy, askedBy: selection)
            let selected = SelectedObjects(selection, merger)
            let deletion = Deletion(merger: merger, entity: selection.entity, pointer: step.pointer)
            try recording(isLast) { () throws(MergeFailure) in
                try selected.searching(at: step.pointer) { () throws(MergeFailure) in
                    try deletion.delete(where: selected.condition) { selected.bind(to: $0) }
                }
            }
        }
    }

    // MARK: - Interpreting

    /// Applies the step record by record.
    private mutating func interpret(_ step: StagedStep, _ sync: StagedSync?) throws(MergeFailure) -> AppliedStep {
        let (history, rows) = (started(), step.rows!)
        let objects = StoredObjects(merger, savepoints, history, job.policy, resources.parked, at: step.pointer)
        objects.unique.locate = rows.located
        let memory = resources.memory()
        resources.retain(memory)
        let interpreter = Interpreter(rows, merger.plan, job.policy, objects, sync: sync, memory)
        do throws(ApplyingFault) {
            try history.record { () throws(ApplyingFault) in try interpreter.apply() }
        } catch {
            switch error {
            case .invalid(let fault, _): throw .fault(fault)
            case .ended(let failure as MergeFailure): throw failure
            case .ended(let refusal as StagingRefusal): throw MergeFailure(refusal)
            case .ended, .skipped: preconditionFailure("a step ends by its fault, or the store's: \(error)")
            }
        }
        reported.add(interpreter)
        return try storing { () throws(StoreError) in try AppliedStep(interpreter, objects) }
    }

    // MARK: - Merging

    /// Merges the rows, and deletes the objects of their tombstones.
    ///
    /// - Returns: the merged batches in their order; empty when all records were rejected.
    private mutating func merge(
        _ step: StagedStep, isFirst: Bool, isLast: Bool, _ sync: StagedSync? = nil
    ) throws(MergeFailure) -> [MergedBatch] {
        let rows = step.rows!
        guard rows.tombstoneDeletions == nil else { return try mergeInOrder(rows, nil, step, sync) }
        // The stored names of a sync's part, and parked values, must outlast an attempt that is rolled back.
        let merged = try merge(
            rows, isFirst: isFirst, isLast: isLast, isAlone: isSingle && sync == nil && !endsOwnedObjects, sync,
            at: step.pointer, preparing: { _ in })
        return merged.map { [$0] } ?? []
    }

    /// Merges records and tombstones with the result of applying them one after the other.
    ///
    /// 1. All tombstones first, then all records. The result is the same unless a tombstone deletes, by cascade, an
    ///    object that a record names, or deletes an object that an earlier record named, or a `deny` rule prevents the
    ///    deletion.
    /// 2. Otherwise the first half of the records, then the second half, each by these rules.
    /// 3. A single record: first the rows that it names again after the tombstone, then the record, then the other
    ///    tombstones inside it.
    ///
    /// - Parameter batch: the records of the rows; nil for all.
    private mutating func mergeInOrder(
        _ rows: StagedRows, _ batch: RecordBatch?, _ step: StagedStep, _ sync: StagedSync?
    ) throws(MergeFailure) -> [MergedBatch] {
        if batch?.count != 1 {
            do throws(MergeFailure) {
                return try merge(rows, batch, step, sync, isOneRecord: false)
            } catch {
                guard case .entangled = error else { throw error }
            }
        }
        let batch = batch ?? rows.batch
        guard batch.count > 1 else { return try merge(rows, batch, step, sync, isOneRecord: true) }
        var merged: [MergedBatch] = []
        let (first, second) = batch.halves()
        for half in [first, second] {
            batchCount += 1
            guard batchCount <= Self.maximumBatches else { throw .fault(Self.tooEntangled(step)) }
            let retained = resources.retainedCount
            let batches = try mergeInOrder(try staged(half), half, step, sync)
            // Rows that no later part of the job needs are released.
            if objects != nil || sync != nil { merged += batches } else { resources.release(after: retained) }
        }
        return merged
    }

    private func staged(_ batch: RecordBatch) throws(MergeFailure) -> StagedRows {
        let memory = resources.memory()
        resources.retain(memory)
        do throws(StagingRefusal) {
            let rows = try batch.staged(merger.plan, job.policy, memory)
            merger.connection.work.budget.charge(rows.stagingWork)
            return rows
        } catch {
            throw MergeFailure(error)
        }
    }

    /// The maximum number of batches of a job that are staged again because tombstones and records depend on each
    /// other.
    static let maximumBatches = 8_000

    private static func tooEntangled(_ step: StagedStep) -> Fault {
        .busy(
            "Too many tombstones of this operation delete, by cascade, objects that its other records name, and these "
                + "have to be applied one after the other. Send the operation in several jobs.", path: step.pointer)
    }

    private mutating func merge(
        _ rows: StagedRows, _ batch: RecordBatch?, _ step: StagedStep, _ sync: StagedSync?, isOneRecord: Bool
    ) throws(MergeFailure) -> [MergedBatch] {
        let merger = merger
        let isPiece = batch != nil
        func tombstones(_ rows: StagedRows, _ parts: (TombstoneDeletions) -> [FrozenTables]) -> Tombstones? {
            guard let deletions = rows.tombstoneDeletions else { return nil }
            let tables = parts(deletions).joined().compactMap { $0 }
            guard !tables.isEmpty else { return nil }
            return Tombstones(tables: tables, otherDeletions: isPiece ? step.rows!.tombstoneDeletions?.all ?? [] : [])
        }
        let merged = try merge(rows, isFirst: false, isLast: false, isAlone: false, sync, at: step.pointer) {
            rows throws(MergeFailure) in
            let isNamedBefore =
                rows.tombstoneDeletions?.namedBefore.contains { merger.deletions.reachesOthers[$0] } ?? false
            if !isOneRecord, isNamedBefore { throw .entangled }
            guard var first = tombstones(rows, { isOneRecord ? [$0.reinserted] : [$0.reinserted, $0.alone] }) else {
                return
            }
            if !isOneRecord { first.records = rows }
            try Deletion.delete(first, merger, at: step.pointer)
        }
        guard var merged else { return [] }
        if let last = tombstones(merged.rows, { isOneRecord ? [$0.alone, $0.afterMerge] : [$0.afterMerge] }) {
            try recording(false) { () throws(MergeFailure) in try Deletion.delete(last, merger, at: step.pointer) }
        }
        merged.firstOperation = batch?.firstOperation ?? 0
        return [merged]
    }

    /// - Parameters:
    ///   - isLast: nothing but deletions follows in the job.
    ///   - prepare: called before each attempt to merge the rows.
    /// - Returns: the rows of the last attempt, and their states; nil when all of them were rejected.
    private mutating func merge(
        _ rows: StagedRows, isFirst: Bool, isLast: Bool, isAlone: Bool, _ sync: StagedSync?, at pointer: String,
        preparing prepare: (StagedRows) throws(MergeFailure) -> Void
    ) throws(MergeFailure) -> MergedBatch? {
        let isBase = isFirst && rows.target == nil
        let merge = StepMerge(
            merger: merger, savepoints: savepoints, policy: job.policy, isSingle: isAlone, sync: sync,
            resources: resources, isFollowed: isFollowed)
        if isBase {
            let history = isAlone && sync == nil ? nil : started()
            let (rows, merged) = try merge.run(rows, history, isBase: true)
            base = (rows, merged)
            merger.digest?.add(rows, merged)
            reported.add(rows)
            try deleteOrphans(merged, isLast: isLast, at: pointer)
            return MergedBatch(rows: rows, result: merged)
        }
        let history = started()
        do throws(MergeFailure) {
            let (rows, merged) = try merge.run(rows, history, prepare: prepare)
            reported.add(rows)
            try touch(rows, merged, history)
            try deleteOrphans(merged, isLast: isLast, at: pointer)
            return MergedBatch(rows: rows, result: merged)
        } catch {
            guard case .targetRejected(let fault) = error else { throw error }
            guard job.policy == .skip else { throw .fault(fault) }
            reported.reject(fault)
            return nil
        }
    }

    /// Whether the step names owned objects, or owners of objects, with unique values that a deletion may free.
    private func mayEndOwnedObjects(_ step: StagedStep) -> Bool {
        guard let rows = step.rows else { return false }
        let model = merger.plan.model
        return model.holders.owners.contains { entity, owner in
            rows.tables[model.topmost(of: owner.entity)] != nil && !model.entities[entity].unique.isEmpty
        }
    }

    /// Deletes the owned objects that no owner names any more.
    private mutating func deleteOrphans(
        _ merged: MergedRows, isLast: Bool, at pointer: String
    ) throws(MergeFailure) {
        guard merged.orphans.contains(where: { !$0.value.isEmpty }) else { return }
        let (merger, history) = (merger, started())
        history.ownedEntities = merger.plan.model.holders.owners
        defer { history.ownedEntities = [:] }
        try recording(isLast) { () throws(MergeFailure) in
            try Deletion.delete(orphans: merged.orphans, merger, at: pointer)
        }
    }

    /// Counts the objects that the rows named, even if nothing in them changes.
    private func touch(_ rows: StagedRows, _ merged: MergedRows, _ history: NetChanges) throws(MergeFailure) {
        try storing { () throws(StoreError) in
            for (entity, table) in rows.tables.enumerated() {
                guard let table else { continue }
                for row in 0..<table.rowCount where table.namings[row].origin != .ignored {
                    let key = try merger.key(of: row, table, merged)
                    // That the object was read, and its values compared, is charged here; changes are charged when they
                    // are recorded.
                    let long = merger.historyTables.longColumns[entity]
                    guard let object = try merger.entities[entity].find(key, charging: long) else { continue }
                    history.touch(
                        entity, concreteEntity: object.concreteEntity, object.number, key,
                        isLinkChanged: merged.isLinkChanged(entity, row))
                }
            }
        }
    }

    // MARK: - Deleting

    /// - Parameter part: the part of a sync in several jobs; only the last part deletes the objects that none of them
    ///   named.
    private mutating func deleteUnnamed(
        _ merged: [MergedBatch], _ sync: StagedSync, _ part: OpenSyncPart?,
        _ step: StagedStep, isLast: Bool
    ) throws(MergeFailure) {
        let selection = sync.selection
        var isComplete =
            !merged.isEmpty
            && merged.allSatisfy { $0.rows.rejected.isEmpty && $0.rows.unlistedRejections.isEmpty }
        if let part, !merged.isEmpty {
            let table = merger.plan.model.topmost(of: selection.entity)
            for batch in merged {
                isComplete = try part.note(batch.rows, batch.result, table, merger, isComplete: isComplete)
            }
            guard part.isLast else { return }
        }
        try deleteSelected(sync, part, step, isLast: isLast, isComplete: isComplete) { run throws(MergeFailure) in
            try run.isUnnamed(merged.count == 1 ? merged[0].rows : step.rows!, merged, selection)
        }
    }

    /// The same, after a step that the interpreter has applied.
    private mutating func deleteUnnamed(
        _ applied: AppliedStep, _ sync: StagedSync, _ part: OpenSyncPart?, _ step: StagedStep, isLast: Bool
    ) throws(MergeFailure) {
        var isComplete = applied.isComplete
        let table = merger.plan.model.topmost(of: sync.selection.entity)
        if let part {
            isComplete = try part.note(applied, table, merger, isComplete: isComplete)
            guard part.isLast else { return }
        }
        try deleteSelected(sync, part, step, isLast: isLast, isComplete: isComplete) { run in
            "NOT \(run.merger.namedObjects(applied.named, table))"
        }
    }

    /// - Parameter isUnnamed: returns the condition that the step did not name an object `o`; nil when there is no memory for
    ///   the names.
    private mutating func deleteSelected(
        _ sync: StagedSync, _ part: OpenSyncPart?, _ step: StagedStep, isLast: Bool, isComplete: Bool,
        _ isUnnamed: (JobRun) throws(MergeFailure) -> String?
    ) throws(MergeFailure) {
        let selection = sync.selection
        guard sync.deletes else {
            try part?.end()
            return
        }
        guard isComplete else {
            try part?.end()
            let name = merger.plan.model.entities[selection.entity].name
            return reported.warnings.append(Warning(.deletionSkipped, entity: name, count: 1))
        }
        try resources.parked.restore(job.policy, askedBy: selection)
        let selected = SelectedObjects(selection, merger)
        let unnamed: String? =
            if let part { part.isUnnamed(merger.entities[selection.entity]) } else { try isUnnamed(self) }
        guard let unnamed else { throw .fault(Self.tooManyNames(step)) }
        defer { merger.clearNamedObjects() }
        let deletion = Deletion(merger: merger, entity: selection.entity, pointer: step.pointer)
        try recording(isLast) { () throws(MergeFailure) in
            try selected.searching(at: step.pointer) { () throws(MergeFailure) in
                try deletion.delete(where: "\(selected.condition) AND \(unnamed)") { selected.bind(to: $0) }
            }
        }
        try part?.end()
    }

    private static func tooManyNames(_ step: StagedStep) -> Fault {
        .busy(
            "The objects that this operation names take more memory than one job may. Send it in parts (`part`).",
            path: step.pointer)
    }

    /// The condition that no row named an object `o`; nil when there is no memory for the names.
    private func isUnnamed(
        _ rows: StagedRows, _ merged: [MergedBatch], _ selection: StagedSelection
    ) throws(MergeFailure) -> String? {
        return try storing { () throws(StoreError) in
            let table = merger.plan.model.topmost(of: selection.entity)
            let innerNames = merged.compactMap(\.rows.innerNames)
            let memory = resources.memory()
            resources.retain(memory)
            let tables = [rows.tables[table]].compactMap(\.self) + innerNames
            guard memory.take(merger.namedMemory(of: tables, table)) else { return nil }
            return "NOT \(try merger.namedObjects(rows, merged.map(\.result), innerNames: innerNames, table))"
        }
    }

    /// - Parameter isLast: nothing but deletions follows in the job, so counting suffices for most objects.
    private mutating func recording(
        _ isLast: Bool, _ body: () throws(MergeFailure) -> Void
    ) throws(MergeFailure) {
        let history = started()
        if isLast, !job.wantsKeys, history.needsEntry == nil {
            history.needsEntry = try entryCondition()
            if job.isDryRun {
                history.countedKeys = CountedKeys(merger.entities, ofEach: JobTally.exampleCount)
            } else if merger.keepsFeedKeys {
                history.countedKeys = CountedKeys(merger.entities)
            }
        }
        try history.record(body)
    }

    /// Whether more than a count is needed of an object: of one that the first step touched, the changes of that step
    /// count, too.
    private func entryCondition() throws(MergeFailure) -> (Int, Int64, StoredKey) -> Bool {
        guard let base else { return { _, _, _ in false } }
        let finder = try BaseRows(base.rows, base.merged, merger)
        return { entity, number, key in
            finder.row(of: key, entity) != nil || base.merged.changedOutside[entity].contains(number)
        }
    }

    private mutating func started() -> NetChanges {
        if let history { return history }
        let history = NetChanges(
            merger.historyTables, on: merger.connection, resources.memory(), hasDigest: merger.digest != nil)
        self.history = history
        resources.parked.history = history
        return history
    }
}

/// Rows of a step that were merged together, and their states: all rows of the step, unless its tombstones require that
/// its records take effect one after the other.
struct MergedBatch {
    let rows: StagedRows
    let result: MergedRows
    /// The index, among the step's operations, of the first operation with a record in the batch.
    var firstOperation = 0
}
