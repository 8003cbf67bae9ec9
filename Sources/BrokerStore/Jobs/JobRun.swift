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
    /// Unique values of other objects that records claim.
    let parked: ParkedValues
    /// The memory of interpreted steps, until the job's end.
    private var retained: [MergeMemory] = []
    /// Nil unless the job asks for them.
    private(set) var objects: PayloadObjects?

    init(
        _ merger: Merger, _ savepoints: Savepoints, _ syncParts: SyncParts, _ job: StoreJob, stepCount: Int,
        parked: ParkedValues
    ) {
        self.parked = parked
        self.merger = merger
        self.savepoints = savepoints
        self.syncParts = syncParts
        self.job = job
        isSingle = stepCount == 1
        objects = job.wantsObjects ? PayloadObjects(merger, dates: job.objectDates) : nil
    }

    mutating func apply(_ step: StagedStep, isFirst: Bool, isLast: Bool) throws(MergeFailure) {
        try JobWork.counting(step, on: merger.connection.work) { () throws(MergeFailure) in
            try act(step, isFirst: isFirst, isLast: isLast)
        }
    }

    private mutating func act(_ step: StagedStep, isFirst: Bool, isLast: Bool) throws(MergeFailure) {
        switch step.action {
        case .merge: try apply(step, nil, isFirst: isFirst, isLast: isLast)
        case .sync(let sync):
            let part = try sync.part.map { part throws(MergeFailure) in
                try syncParts.begin(part, at: step.pointer, now: job.now)
            }
            let applied = try apply(step, sync, isFirst: isFirst, isLast: isLast)
            try deleteUnnamed(applied, sync, part, step, isLast: isLast)
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
            try parked.restore(askedBy: selection)
            let selected = SelectedObjects(selection, merger)
            let deletion = Deletion(merger: merger, entity: selection.entity, pointer: step.pointer)
            try recording(isLast) { () throws(MergeFailure) in
                try selected.searching(at: step.pointer) { () throws(MergeFailure) in
                    try deletion.delete(where: selected.condition) { selected.bind(to: $0) }
                }
            }
        }
    }

    // MARK: - Applying records

    /// How the records of a step were applied.
    private enum Applied {
        case merged(StagedRows, MergedRows)
        case interpreted(AppliedStep)
    }

    /// Applies the records of a step: as sets, where that is certain to have the result of applying them one after the other.
    @discardableResult
    private mutating func apply(
        _ step: StagedStep, _ sync: StagedSync?, isFirst: Bool, isLast: Bool
    ) throws(MergeFailure) -> Applied {
        let rows = step.rows!
        var reason = sync?.ignoresRecords ?? false ? .roles : rows.reason
        if reason == nil, !merger.interpretsAll {
            do throws(MergeFailure) {
                let merged = try merge(rows, isFirst: isFirst, isAlone: isSingle && sync == nil)
                reported.add(rows)
                try deleteOrphans(merged, isLast: isLast, at: step.pointer)
                try objects?.note(rows, merged)
                return .merged(rows, merged)
            } catch {
                guard case .surprise(let met) = error else { throw error }
                reason = met
            }
        }
        if let reason { merger.interpretations[reason, default: 0] += 1 }
        let applied = try interpret(step, sync)
        try objects?.note(applied.payload, applied.renamings)
        return .interpreted(applied)
    }

    /// Applies the step record by record.
    private mutating func interpret(_ step: StagedStep, _ sync: StagedSync?) throws(MergeFailure) -> AppliedStep {
        let (history, rows) = (started(), step.rows!)
        merger.connection.work.budget.charge(rows.readingWork)
        let objects = StoredObjects(merger, savepoints, history, job.policy, parked, at: step.pointer)
        objects.unique.locate = rows.located
        // One by one, records take more statements.
        merger.connection.work.budget.raise(
            by: rows.links.reduce(rows.rowCount) { $0 + $1.count } * JobWork.unitsPerRow)
        let memory = MergeMemory(parked.memory.allowance)
        retained.append(memory)
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

    /// Merges the rows.
    ///
    /// - Parameter isAlone: the step is the whole job, whose savepoint is also the step's.
    /// - Throws: ``MergeFailure/surprise(_:)`` when the result may be another than the interpreter's; nothing is changed then.
    private mutating func merge(
        _ rows: StagedRows, isFirst: Bool, isAlone: Bool
    ) throws(MergeFailure) -> MergedRows {
        let history = isFirst && isAlone ? nil : started()
        if !isAlone { try savepoints.beginStep() }
        do throws(MergeFailure) {
            let merged: MergedRows
            if let history {
                history.mark()
                var result: MergedRows?
                try history.record(toBase: isFirst) { () throws(MergeFailure) in result = try merger.merge(rows) }
                merged = result!
            } else {
                merged = try merger.merge(rows)
            }
            if !isAlone { try savepoints.endStep() }
            history?.accept()
            if isFirst {
                base = (rows, merged)
                merger.digest?.add(rows, merged)
            } else {
                try touch(rows, merged, history!)
            }
            return merged
        } catch {
            history?.rollBack()
            // After some errors SQLite has rolled back the whole transaction.
            if case .store = error, merger.connection.isAutocommit { throw error }
            guard !merger.connection.isAutocommit else {
                throw .store(StoreError(.unavailable, "SQLite gave the transaction up."))
            }
            try savepoints.undoStep(isSingle: isAlone)
            throw error
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
                for row in 0..<table.rowCount {
                    let key = try merger.key(of: row, table, merged)
                    // That the object was read, and its values compared, is charged here; changes are charged when they
                    // are recorded.
                    let long = merger.historyTables.longColumns[entity]
                    guard let object = try merger.entities[entity].find(key, charging: long) else { continue }
                    history.touch(
                        entity, concreteEntity: object.concreteEntity, object.number, key,
                        namesLinks: table.namings[row].namesLinks)
                }
            }
        }
    }

    // MARK: - Deleting

    /// - Parameter part: the part of a sync in several jobs; only the last part deletes the objects that none of them
    ///   named.
    private mutating func deleteUnnamed(
        _ applied: Applied, _ sync: StagedSync, _ part: OpenSyncPart?, _ step: StagedStep, isLast: Bool
    ) throws(MergeFailure) {
        let table = merger.plan.model.topmost(of: sync.selection.entity)
        var isComplete =
            switch applied {
            case .merged(let rows, _): rows.rejected.isEmpty && rows.unlistedRejections.isEmpty
            case .interpreted(let step): step.isComplete
            }
        if let part {
            isComplete =
                switch applied {
                case .merged(let rows, let merged):
                    try part.note(rows, merged, table, merger, isComplete: isComplete)
                case .interpreted(let step): try part.note(step, table, merger, isComplete: isComplete)
                }
            guard part.isLast else { return }
        }
        try deleteSelected(sync, part, step, isLast: isLast, isComplete: isComplete) { run throws(MergeFailure) in
            switch applied {
            case .merged(let rows, let merged): try run.isUnnamed(rows, merged, table)
            case .interpreted(let step): "NOT \(run.merger.namedObjects(step.named, table))"
            }
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
        try parked.restore(askedBy: selection)
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
        _ rows: StagedRows, _ merged: MergedRows, _ table: Int
    ) throws(MergeFailure) -> String? {
        try storing { () throws(StoreError) in
            let tables = [rows.tables[table]].compactMap(\.self)
            guard parked.memory.take(merger.namedMemory(of: tables, table)) else { return nil }
            return "NOT \(try merger.namedObjects(rows, merged, table))"
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
            merger.historyTables, on: merger.connection, MergeMemory(parked.memory.allowance),
            hasDigest: merger.digest != nil)
        self.history = history
        parked.history = history
        return history
    }
}
