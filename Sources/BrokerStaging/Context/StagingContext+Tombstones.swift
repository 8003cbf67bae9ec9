internal import BrokerJSON
internal import BrokerModel

/// The compiled predicate of records that delete their objects (`tombstone` of the model).
struct Tombstone: Sendable {
    private let predicate: RecordPredicate

    /// Returns nil when the entity has none.
    ///
    /// - Throws: the fault in the predicate.
    init?(of entity: Int, in model: Model) throws(ModelError) {
        guard let text = model.entities[entity].tombstone else { return nil }
        let message: String
        do throws(Fault) {
            let checked = try model.predicate(text, arguments: nil, ofEntity: entity)
            if let predicate = RecordPredicate(checked) {
                self.predicate = predicate
                return
            }
            message = "It asks for relationships, and a record is asked for its own attributes alone. Compare those."
        } catch {
            message = error.message
        }
        let name = model.entities[entity].name
        throw ModelError(
            faults: [ModelFault("\"tombstone\" of \(name): \(message)", at: model.entities[entity].place)])
    }

    func asks(for attribute: Int) -> Bool { predicate.attributes.contains(attribute) }

    func isMet(budget: inout WorkBudget, _ value: (Int) -> Cell) throws(Fault) -> Bool {
        try predicate.matches(budget: &budget, value)
    }
}

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
            var fault = error
            fault.entity = entity.name
            throw .invalid(fault, offset: textOffset(of: record))
        }
    }

    /// Notes the deletion of the record's object, and returns the row of a target's record.
    ///
    /// - Parameter identity: index of its cells on the stack; nil when it has none.
    /// - Throws: `skipped`, because any other record has no row.
    mutating func deleteObject(
        _ record: JSONValue, _ entity: EntityPlan, _ identity: Int?, isTarget: Bool
    ) throws(StagingFault) -> Int {
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
