internal import BrokerModel

extension StagedTombstones {
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
