internal import BrokerModel
internal import BrokerStaging

/// The steps of one job, applied one after the other inside its savepoint, and what they did to which object.
///
/// ```
/// the only step, or a large first one, that merges rows ─▶ counted row by row, as it goes
/// every other step                                      ─▶ heard of by the history, which knows what was before
/// ```
///
/// So a job of one step costs no bookkeeping, a large one little, and one of many steps tells each object once.
struct JobRun {
    let merger: Merger
    let savepoints: Savepoints
    let job: StoreJob
    /// The only step, so that undoing it is undoing the job.
    let isSingle: Bool
    private(set) var base: (rows: StagedRows, merged: MergedRows)?
    private(set) var history: RowHistory?
    private(set) var told = ToldFaults()
    private var load = StepLoad()
    /// Nil unless the job asks for them.
    private(set) var objects: PayloadObjects?

    init(_ merger: Merger, _ savepoints: Savepoints, _ job: StoreJob, stepCount: Int) {
        self.merger = merger
        self.savepoints = savepoints
        self.job = job
        isSingle = stepCount == 1
        objects = job.wantsObjects ? PayloadObjects(merger) : nil
    }

    mutating func apply(_ step: StagedStep, isFirst: Bool, isLast: Bool) throws(MergeFailure) {
        let (searched, changed) = (merger.searchedInstructions, merger.connection.totalChanges)
        try act(step, isFirst: isFirst, isLast: isLast)
        let following = step.rows?.subject == nil ? 0 : merger.connection.totalChanges - changed
        try load.note(searched: merger.searchedInstructions - searched, following: following, at: step.pointer)
    }

    private mutating func act(_ step: StagedStep, isFirst: Bool, isLast: Bool) throws(MergeFailure) {
        switch step.action {
        case .merge:
            let merged = try merge(step, isFirst: isFirst)
            try objects?.note(step.rows!, merged)
        case .sync(let sync):
            let part = try sync.part.map { part throws(MergeFailure) in
                try merger.syncParts.begin(part, at: step.pointer, now: job.now)
            }
            let merged = try merge(step, isFirst: isFirst, sync)
            try objects?.note(step.rows!, merged)
            try deleteUnnamed(merged, sync, part, step, isLast: isLast)
        case .delete(let entity):
            objects?.noteDeletion()
            let rows = step.rows!
            told.add(rows)
            let deletion = Deletion(merger: merger, entity: entity, pointer: step.pointer)
            var missing = 0
            try listening(isLast) { () throws(MergeFailure) in missing = try deletion.delete(named: rows) }
            if missing > 0 {
                told.warnings.append(
                    Warning(.objectNotFound, entity: merger.plan.model.entities[entity].name, count: missing))
            }
        case .deleteMatching(let selection):
            objects?.noteDeletion()
            let selected = SelectedObjects(selection, merger)
            let deletion = Deletion(merger: merger, entity: selection.entity, pointer: step.pointer)
            try listening(isLast) { () throws(MergeFailure) in
                try selected.searching(at: step.pointer) { () throws(MergeFailure) in
                    try deletion.delete(where: selected.condition) { selected.bind(to: $0) }
                }
            }
        }
    }

    // MARK: - Merging

    /// Merges the rows, and deletes what their tombstones say: before, or behind.
    private mutating func merge(
        _ step: StagedStep, isFirst: Bool, _ sync: StagedSync? = nil
    ) throws(MergeFailure) -> (rows: StagedRows, result: MergedRows)? {
        guard step.rows!.buried != nil else {
            // What a part of a sync has noted before must outlast a try that is undone.
            return try merge(step, isFirst: isFirst, isAlone: isSingle && sync?.part == nil, sync)
        }
        let merged = try merge(step, isFirst: false, isAlone: false, sync)
        if let behind = merged?.rows.buried?.behind {
            let merger = merger
            try listening(false) { () throws(MergeFailure) in try Self.delete(behind, step, merger) }
        }
        return merged
    }

    private static func delete(
        _ tables: [FrozenTable?], _ step: StagedStep, _ merger: Merger
    ) throws(MergeFailure) {
        for case let table? in tables {
            _ = try Deletion(merger: merger, entity: table.entityIndex, pointer: step.pointer).delete(named: table)
        }
    }

    /// - Returns: the rows that were merged in the end, and what became of them; nil when all of them were left out.
    private mutating func merge(
        _ step: StagedStep, isFirst: Bool, isAlone: Bool, _ sync: StagedSync?
    ) throws(MergeFailure) -> (rows: StagedRows, result: MergedRows)? {
        let rows = step.rows!
        let isBase = isFirst && rows.subject == nil && (isAlone && sync == nil || isLarge(rows))
        let merge = StepMerge(
            merger: merger, savepoints: savepoints, policy: job.policy, isSingle: isAlone, sync: sync)
        if isBase {
            let (rows, merged) = try merge.run(rows, nil)
            base = (rows, merged)
            told.add(rows)
            return (rows, merged)
        }
        let history = started()
        do throws(MergeFailure) {
            let (rows, merged) = try merge.run(rows, history) { rows throws(MergeFailure) in
                if let buried = rows.buried { try Self.delete(buried.before, step, merger) }
            }
            told.add(rows)
            try touch(rows, merged, history)
            try check(history)
            return (rows, merged)
        } catch {
            guard case .subjectRefused(let fault) = error else { throw error }
            guard job.policy == .skip else { throw .fault(fault) }
            told.reject(fault)
            return nil
        }
    }

    /// So many objects that the history does not remember them: what a later step changes back of them counts as updated.
    private func isLarge(_ rows: StagedRows) -> Bool {
        rows.tables.reduce(0) { $0 + ($1?.rowCount ?? 0) } > RowHistory.maximumBaseRows
    }

    /// Counts the objects that the rows named, also those of which nothing changed.
    private func touch(_ rows: StagedRows, _ merged: MergedRows, _ history: RowHistory) throws(MergeFailure) {
        do throws(StoreError) {
            for (entity, table) in rows.tables.enumerated() {
                guard let table else { continue }
                let find = try merger.entities[entity].number()
                for row in 0..<table.rowCount where table.origins[row] != .passedOver {
                    let key = try merger.key(of: row, table, merged)
                    key.bind(to: find, from: 1)
                    defer { find.reset() }
                    guard try find.step() else { continue }
                    let isLinkChanged = merged.states[entity][row] != MergeTally.RowState.unchanged.rawValue
                    let kind =
                        merger.plan.model.isInHierarchy(entity)
                        ? merger.plan.model.index(ofEntity: find.text(1)) ?? entity : entity
                    history.touch(entity, kind: kind, find.integer(0), key, isLinkChanged: isLinkChanged)
                }
            }
        } catch {
            throw .store(error)
        }
    }

    // MARK: - Deleting

    /// - Parameter part: of several jobs; only the last one deletes, what none of them named.
    private mutating func deleteUnnamed(
        _ merged: (rows: StagedRows, result: MergedRows)?, _ sync: StagedSync, _ part: OpenSyncPart?,
        _ step: StagedStep, isLast: Bool
    ) throws(MergeFailure) {
        let selection = sync.selection
        var isComplete = merged.map { $0.rows.rejected.isEmpty && $0.rows.unlistedRejections.isEmpty } ?? false
        if let part, let (rows, result) = merged {
            let table = merger.plan.model.topmost(of: selection.entity)
            isComplete = try part.note(rows, result, table, merger, isComplete: isComplete)
            guard part.isLast else { return }
        }
        guard sync.deletes else {
            try part?.end()
            return
        }
        guard let (rows, result) = merged, isComplete else {
            try part?.end()
            let name = merger.plan.model.entities[selection.entity].name
            return told.warnings.append(Warning(.deletionSkipped, entity: name, count: 1))
        }
        let selected = SelectedObjects(selection, merger)
        let unnamed =
            if let part { part.isUnnamed(merger.entities[selection.entity]) } else {
                try isUnnamed(rows, result, selection)
            }
        defer { merger.forgetNamedObjects() }
        let deletion = Deletion(merger: merger, entity: selection.entity, pointer: step.pointer)
        try listening(isLast) { () throws(MergeFailure) in
            try selected.searching(at: step.pointer) { () throws(MergeFailure) in
                try deletion.delete(where: "\(selected.condition) AND \(unnamed)") { selected.bind(to: $0) }
            }
        }
        try part?.end()
    }

    /// The condition that no row named an object `o`.
    private func isUnnamed(
        _ rows: StagedRows, _ merged: MergedRows, _ selection: StagedSelection
    ) throws(MergeFailure) -> String {
        do throws(StoreError) {
            let table = merger.plan.model.topmost(of: selection.entity)
            return "NOT \(try merger.namedObjects(rows, merged, table))"
        } catch {
            throw .store(error)
        }
    }

    /// - Parameter isLast: nothing comes after it in the job, so that much need only be counted.
    private mutating func listening(
        _ isLast: Bool, _ body: () throws(MergeFailure) -> Void
    ) throws(MergeFailure) {
        let history = started()
        if isLast, !job.wantsKeys { history.wants = try wantsMore() }
        try history.listen(body)
        try check(history)
    }

    /// Of an object that the first step touched, what that did counts, too.
    private func wantsMore() throws(MergeFailure) -> (Int, Int64, StoredKey) -> Bool {
        guard let base else { return { _, _, _ in false } }
        let finder = try BaseRows(base.rows, base.merged, merger)
        return { entity, number, key in
            finder.row(of: key, entity) != nil || base.merged.changedOutside[entity].contains(number)
        }
    }

    private func check(_ history: RowHistory) throws(MergeFailure) {
        guard history.isOverfull else { return }
        throw .fault(
            .busy(
                "The job does more to objects than is kept in mind: \(RowHistory.maximumEntries) of them. Send it as "
                    + "several jobs, or a large `delete` or `sync` as a job of its own and without `reply: keys`."))
    }

    private mutating func started() -> RowHistory {
        if let history { return history }
        let history = RowHistory(merger.historyTables, on: merger.connection)
        self.history = history
        return history
    }
}
