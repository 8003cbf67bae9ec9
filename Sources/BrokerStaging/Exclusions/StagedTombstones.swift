/// The objects that records delete, and whether records before and after the tombstone name the same objects.
///
/// ``TombstoneDeletions`` says when a step deletes them, so that the result is as if the records were applied one by
/// one.
///
/// Belongs to one context, then to that context's part.
final class StagedTombstones {
    /// An object that one or more records delete.
    struct Object {
        /// Offset of the last record that deletes it.
        var offset: UInt32
        /// Records or bare keys before that one name it.
        var isNamedBefore: Bool
        /// Records or bare keys after that one name it.
        var isNamedAfter = false
        /// Records or bare keys after any of its tombstones name it.
        var isReinserted = false
    }

    private let plan: StagingPlan
    let tables: TableSet
    /// By entity index and row in `tables`.
    private(set) var objects: [[Object]]

    init(_ plan: StagingPlan) {
        self.plan = plan
        tables = TableSet(plan)
        objects = Array(repeating: [], count: plan.entities.count)
    }

    /// Notes a record that deletes its object.
    ///
    /// - Parameter identity: a row's worth of cells, valid as long as the part.
    func add(_ entity: EntityPlan, _ identity: UnsafePointer<Cell>, at offset: Int, isNamedBefore: Bool) {
        set(
            entity.index, identity, concreteEntity: entity.ownIndex,
            Object(offset: UInt32(offset), isNamedBefore: isNamedBefore))
    }

    /// Notes the tombstones of an object in a later part.
    ///
    /// - Parameter isNamedBefore: whether parts before that one name the object.
    func add(_ later: StagedTombstones, _ entity: Int, row: Int, isNamedBefore: Bool) {
        var object = later.objects[entity][row]
        object.isNamedBefore = object.isNamedBefore || isNamedBefore
        let table = later.tables[entity]
        set(
            entity, UnsafePointer(table.pointee.row(row)), concreteEntity: table.pointee.concreteEntity(of: row), object
        )
    }

    private func set(_ entity: Int, _ identity: UnsafePointer<Cell>, concreteEntity: Int, _ object: Object) {
        let row = tables[entity].pointee.findOrAdd(
            identity: identity, offset: Int(object.offset), origin: .record, concreteEntity: concreteEntity)
        guard row < objects[entity].count else { return objects[entity].append(object) }
        let isReinserted = objects[entity][row].isReinserted || object.isReinserted
        objects[entity][row] = object
        objects[entity][row].isReinserted = isReinserted
    }

    /// Notes that a record or bare key names an object.
    ///
    /// - Returns: whether a tombstone has deleted the object, so that a new one is inserted, without its old values.
    func revive(_ entity: Int, _ identity: UnsafePointer<Cell>, concreteEntity: Int) -> Bool {
        guard let row = find(entity, identity, concreteEntity: concreteEntity), !objects[entity][row].isNamedAfter
        else { return false }
        objects[entity][row].isNamedAfter = true
        objects[entity][row].isReinserted = true
        return true
    }

    /// Returns the offset of the last record that deletes the object; 0 without one.
    func deletionOffset(_ entity: Int, _ identity: UnsafePointer<Cell>, concreteEntity: Int) -> UInt32 {
        find(entity, identity, concreteEntity: concreteEntity).map { objects[entity][$0].offset } ?? 0
    }

    /// Whether the last record or key of the object deletes it.
    func isDeleted(_ entity: EntityPlan, _ identity: UnsafePointer<Cell>) -> Bool {
        find(entity.index, identity, concreteEntity: entity.ownIndex)
            .map { !objects[entity.index][$0].isNamedAfter } ?? false
    }

    /// Whether a record or key names the object after a record that deletes it.
    func isNamedAfter(_ entity: Int, _ identity: UnsafePointer<Cell>, concreteEntity: Int) -> Bool {
        find(entity, identity, concreteEntity: concreteEntity).map { objects[entity][$0].isNamedAfter } ?? false
    }

    private func find(_ entity: Int, _ identity: UnsafePointer<Cell>, concreteEntity: Int) -> Int? {
        guard tables.exists(entity) else { return nil }
        return tables[entity].pointee.find(identity: identity, concreteEntity: concreteEntity)
    }

    // MARK: - The whole job

    /// Calls `body` with each object.
    func forEach(
        _ body: (_ entity: Int, _ identity: UnsafePointer<Cell>, _ concreteEntity: Int, Object) -> Void
    ) {
        for entity in objects.indices {
            for (row, object) in objects[entity].enumerated() {
                let table = tables[entity]
                body(entity, UnsafePointer(table.pointee.row(row)), table.pointee.concreteEntity(of: row), object)
            }
        }
    }

    /// Returns when to delete each object.
    func deletions() -> TombstoneDeletions {
        let reinserted = TableSet(plan), alone = TableSet(plan), afterMerge = TableSet(plan)
        var namedBefore: Set<Int> = []
        forEach { entity, identity, concreteEntity, object in
            func add(to tables: TableSet) {
                _ = tables[entity].pointee.findOrAdd(
                    identity: identity, offset: Int(object.offset), origin: .record, concreteEntity: concreteEntity)
            }
            if object.isReinserted { add(to: reinserted) }
            if !object.isNamedAfter { add(to: object.isNamedBefore ? afterMerge : alone) }
            if object.isNamedBefore { namedBefore.insert(entity) }
        }
        return TombstoneDeletions(
            reinserted: reinserted.freeze(), alone: alone.freeze(), afterMerge: afterMerge.freeze(),
            namedBefore: namedBefore)
    }
}
