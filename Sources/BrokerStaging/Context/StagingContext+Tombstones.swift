internal import BrokerJSON
internal import BrokerModel

/// Records that delete their objects (`tombstone` of the model).
extension StagingContext {
    /// Whether the record deletes its object.
    ///
    /// - Parameters:
    ///   - cells: index of its converted attributes on the stack.
    ///   - failed: attributes that could not be converted. They are ignored with the others, unless the identity or the
    /// predicate needs them.
    mutating func isMet(
        _ tombstone: Tombstone, _ record: JSONValue, _ entity: EntityPlan, _ cells: Int, _ failed: Set<Int>
    ) throws(StagingFault) -> Bool {
        if failed.contains(where: { tombstone.asks(for: $0) || entity.identity.contains($0) }) { return false }
        do throws(Fault) {
            return try scratch.withCells(at: cells) { row throws(Fault) in
                try tombstone.isMet(budget: &arena.workBudget) { row[$0] }
            }
        } catch {
            throw .invalid(error.of(entity: entity.name), offset: textOffset(of: record))
        }
    }

    /// Notes the deletion of the record's object, and returns the row of a target's record.
    ///
    /// - Parameter identity: index of its cells on the stack; nil when it has none.
    /// - Throws: `constraintViolation` when the object is of another branch of the hierarchy; else `skipped`, because any
    ///   other record has no row.
    mutating func deleteObject(
        _ record: JSONValue, _ entity: EntityPlan, _ identity: Int?, isTarget: Bool
    ) throws(StagingFault) -> Int {
        // The merge checks a target's concrete entity.
        if let identity, !isTarget { try checkBranch(of: entity, identity: identity, offset: textOffset(of: record)) }
        let row = isTarget ? try targetRow(of: record, entity, identity: identity) : nil
        if let identity {
            try take(entity.rowByteCount)
            let known = tombstones ?? StagedTombstones(plan)
            tombstones = known
            let table = tables[entity.index]
            scratch.withCells(at: identity) {
                let isNamedBefore = table.pointee.find(identity: $0, concreteEntity: entity.ownIndex) != nil
                known.add(entity, $0, at: textOffset(of: record), isNamedBefore: isNamedBefore)
                exclusions?.knownEntities?.noteDeletion(entity, $0)
                if entity.modified != nil { exclusions?.modified?.noteDeletion(entity.index, identity: $0) }
            }
        }
        guard let row else { throw .skipped }
        return row
    }

    /// Returns the source offset of a link to the row: the offset of its record, or, if a tombstone inside that record
    /// has deleted the row's object before the record names it again, the offset of the tombstone.
    @inline(__always)
    func sourceOffset(_ linkSource: LinkSource, linkingTo row: Int, of entity: Int) -> UInt32 {
        guard let tombstones, tables[entity].pointee.hasIdentity(row) else { return linkSource.sourceOffset }
        let table = tables[entity]
        return max(
            linkSource.sourceOffset,
            tombstones.deletionOffset(
                entity, UnsafePointer(table.pointee.row(row)), concreteEntity: table.pointee.concreteEntity(of: row)))
    }
}
