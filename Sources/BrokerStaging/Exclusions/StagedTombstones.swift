/// The objects that records delete, and whether records before and after the tombstone name the same objects.
///
/// ``TombstoneDeletions`` says when a step deletes them, so that the result is as if the records were applied one by
/// one.
///
/// Belongs to one context, then to that context's part.
final class StagedTombstones {
    private let plan: StagingPlan
    private let tables: TableSet
    /// By entity index and row: whether records before, and after, the tombstone name the object.
    private var isNamedBefore: [[Bool]]
    private var isNamedAfter: [[Bool]]
    /// Offset of the last record that deletes the object.
    private var offsets: [[UInt32]]

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

    private func find(_ entity: Int, _ identity: UnsafePointer<Cell>, concreteEntity: Int) -> Int? {
        guard tables.exists(entity) else { return nil }
        return tables[entity].pointee.find(identity: identity, concreteEntity: concreteEntity)
    }

    /// Returns all objects that the parts' records delete.
    static func deletions(_ parts: [StagedPart], _ plan: StagingPlan) -> [StagedDeletion] {
        parts.compactMap(\.tombstones).flatMap { own in
            plan.entities.indices.filter(own.tables.exists).flatMap { entity in
                own.offsets[entity].enumerated().map { row, offset in
                    StagedDeletion(
                        entity: entity, concreteEntity: own.tables[entity].pointee.concreteEntity(of: row),
                        identity: UnsafePointer(own.tables[entity].pointee.row(row)), offset: offset)
                }
            }
        }
    }

    /// Unites the tombstones of a job's parts. The parts themselves are not united yet.
    static func united(_ parts: [StagedPart], _ plan: StagingPlan) -> TombstoneDeletions? {
        guard parts.contains(where: { $0.tombstones != nil }) else { return nil }
        let reinserted = TableSet(plan), alone = TableSet(plan), afterMerge = TableSet(plan)
        var namedBefore: Set<Int> = []
        for (position, part) in parts.enumerated() {
            guard let own = part.tombstones else { continue }
            for entity in plan.entities where entity.index == entity.ownIndex && own.tables.exists(entity.index) {
                let table = own.tables[entity.index]
                for row in 0..<table.pointee.rowCount {
                    let identity = UnsafePointer(table.pointee.row(row))
                    let concreteEntity = table.pointee.concreteEntity(of: row)
                    func isNamed(by others: ArraySlice<StagedPart>) -> Bool {
                        others.contains { other in
                            other.tables.exists(entity.index)
                                && other.tables[entity.index].pointee.find(
                                    identity: identity, concreteEntity: concreteEntity) != nil
                        }
                    }
                    let later = parts[(position + 1)...]
                    if later.contains(where: {
                        $0.tombstones?.find(entity.index, identity, concreteEntity: concreteEntity) != nil
                    }) {
                        continue
                    }
                    let isAfter = own.isNamedAfter[entity.index][row] || isNamed(by: later)
                    let isBefore = own.isNamedBefore[entity.index][row] || isNamed(by: parts[..<position])
                    if isBefore { namedBefore.insert(entity.index) }
                    let target = isAfter ? reinserted : isBefore ? afterMerge : alone
                    _ = target[entity.index].pointee.findOrAdd(
                        identity: identity, offset: Int(table.pointee.offsets[row]), origin: .record,
                        concreteEntity: concreteEntity)
                }
            }
        }
        return TombstoneDeletions(
            reinserted: reinserted.freeze(), alone: alone.freeze(), afterMerge: afterMerge.freeze(),
            namedBefore: namedBefore)
    }
}

/// The objects that a step's records delete, by entity index.
package struct TombstoneDeletions: Sendable {
    /// Records after the tombstone name them again: deleted before the step's rows are merged.
    package let reinserted: [FrozenTable?]
    /// Only tombstones name them.
    package let alone: [FrozenTable?]
    /// Records before the tombstone name them, and none after it: deleted after the step's rows are merged.
    package let afterMerge: [FrozenTable?]
    /// The entities whose tables have objects that records name before their tombstones.
    package let namedBefore: Set<Int>

    package var all: [FrozenTable] { (reinserted + alone + afterMerge).compactMap { $0 } }
}
