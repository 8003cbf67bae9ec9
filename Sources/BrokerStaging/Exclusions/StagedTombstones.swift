/// The objects that records delete, and whether records before and after the tombstone name the same objects.
///
/// ``TombstoneDeletions`` says when a step deletes them, so that the result is as if the records were applied one by
/// one.
///
/// Belongs to one context, then to that context's part.
final class StagedTombstones {
    private let plan: StagingPlan
    let tables: TableSet
    /// By entity index and row: whether records before, and after, the tombstone name the object.
    private(set) var isNamedBefore: [[Bool]]
    private(set) var isNamedAfter: [[Bool]]
    /// Offset of the last record that deletes the object.
    private(set) var offsets: [[UInt32]]

    init(_ plan: StagingPlan) {
        self.plan = plan
        tables = TableSet(plan)
        isNamedBefore = Array(repeating: [], count: plan.entities.count)
        isNamedAfter = isNamedBefore
        offsets = Array(repeating: [], count: plan.entities.count)
    }

    /// - Parameter identity: a row's worth of cells, valid as long as the part.
    func add(_ entity: EntityPlan, _ identity: UnsafePointer<Cell>, at offset: Int, isNamedBefore isBefore: Bool) {
        let row = tables[entity.index].pointee.findOrAdd(
            identity: identity, offset: offset, origin: .record, concreteEntity: entity.ownIndex)
        if row == isNamedBefore[entity.index].count {
            isNamedBefore[entity.index].append(false)
            isNamedAfter[entity.index].append(false)
            offsets[entity.index].append(0)
        }
        offsets[entity.index][row] = UInt32(offset)
        isNamedBefore[entity.index][row] = isBefore
        isNamedAfter[entity.index][row] = false
    }

    /// Notes that a record or bare key names the row's object. An object deleted before is inserted as a new one,
    /// without its old values.
    func revive(_ entity: EntityPlan, _ row: Int, of table: UnsafeMutablePointer<StagedTable>) {
        let cells = table.pointee.row(row)
        guard let own = find(entity, UnsafePointer(cells)), !isNamedAfter[entity.index][own] else { return }
        isNamedAfter[entity.index][own] = true
        for column in 0..<entity.layout.columnCount where !entity.identity.contains(column) { cells[column] = .absent }
    }

    /// Returns the offset of the last record that deletes the object; 0 without one.
    func deletionOffset(_ entity: Int, _ identity: UnsafePointer<Cell>, concreteEntity: Int) -> UInt32 {
        find(entity, identity, concreteEntity: concreteEntity).map { offsets[entity][$0] } ?? 0
    }

    /// Whether the last record or key of the object deletes it.
    func isDeleted(_ entity: EntityPlan, _ identity: UnsafePointer<Cell>) -> Bool {
        find(entity, identity).map { !isNamedAfter[entity.index][$0] } ?? false
    }

    private func find(_ entity: EntityPlan, _ identity: UnsafePointer<Cell>) -> Int? {
        find(entity.index, identity, concreteEntity: entity.ownIndex)
    }

    func find(_ entity: Int, _ identity: UnsafePointer<Cell>, concreteEntity: Int) -> Int? {
        guard tables.exists(entity) else { return nil }
        return tables[entity].pointee.find(identity: identity, concreteEntity: concreteEntity)
    }
}
