internal import BrokerModel
internal import BrokerStaging

/// Records that are not newer than their stored rows. Nothing is written here: the job is staged again without them,
/// with the stored values.
extension Merger {
    /// Whether a record of the job must be skipped, because the stored row, or an earlier record, is as new.
    func hasStaleRecords(_ rows: StagedRows) throws(StoreError) -> Bool {
        if rows.isCompared { return false }
        if rows.needsComparison { return true }
        for entity in plan.entitiesWithModified {
            guard let table = rows.tables[entity] else { continue }
            var isStale = false
            try eachStored(entity, table, rows.target, of: table.isComparable) { row, stored in
                isStale = table.isStale(row, against: stored)
                return !isStale
            }
            if isStale { return true }
        }
        return false
    }

    /// Adds the stored values of the objects that the job names to the exclusions.
    func noteModified(_ rows: StagedRows, in exclusions: StagedExclusions) throws(StoreError) {
        for entity in plan.entitiesWithModified {
            for table in rows.tombstoneDeletions?.all ?? [] where table.entityIndex == entity {
                try eachStored(entity, table, nil) { row, stored in
                    exclusions.note(modified: stored, entity: entity, identity: table.row(row))
                    return true
                }
                noteKnown(entity, table, in: exclusions)
            }
            guard let table = rows.tables[entity] else { continue }
            try eachStored(entity, table, rows.target) { row, stored in
                if let target = rows.target, target.entity == entity, target.row == row {
                    exclusions.note(targetModified: stored)
                    // The target's record may have another identity, which the object does not have yet.
                    if target.isRenamed || !table.hasIdentity(row) { return true }
                }
                exclusions.note(modified: stored, entity: entity, identity: table.row(row))
                return true
            }
            noteKnown(entity, table, in: exclusions)
        }
        exclusions.noteAllModified()
    }

    /// Objects that do not exist have no stored values.
    private func noteKnown(_ entity: Int, _ table: FrozenTable, in exclusions: StagedExclusions) {
        for row in 0..<table.rowCount where table.hasIdentity(row) {
            exclusions.noteModifiedKnown(entity: entity, identity: table.row(row))
        }
    }

    /// Reads the existing rows among those that `isWanted` selects, the target's row by its key, until `body` returns
    /// false.
    private func eachStored(
        _ entity: Int, _ table: FrozenTable, _ target: StagedTarget?, of isAsked: (Int) -> Bool = { _ in true },
        _ body: (_ row: Int, _ stored: Cell) -> Bool
    ) throws(StoreError) {
        let statements = entities[entity]
        let column = statements.entity.modified!
        if let target, target.entity == entity {
            let find = try statements.values(of: [column])
            // An object that does not exist has no row with a NULL key, either.
            let key = try storedKey(of: target) ?? StoredKey([.null])
            key.bind(to: find, from: 1)
            if try find.step(), !body(target.row, find.cell(0)) { return }
        }
        let find = try statements.modified(column)
        for position in 0..<table.rowCount {
            let row = table.order[position]
            guard isAsked(row), table.hasIdentity(row), target?.entity != entity || target?.row != row else {
                continue
            }
            statements.bindIdentity(table.row(row), to: find, from: 1)
            defer { find.reset() }
            if try find.step(), !body(row, find.cell(0)) { return }
        }
    }
}
