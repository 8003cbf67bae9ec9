internal import BrokerJSON
internal import BrokerModel

/// Values that a nested record takes from the record that contains it, and records that must be nested.
extension StagingContext {
    /// Writes the values of the holder into the record's cells.
    ///
    /// - Parameter cells: index of the record's converted attributes on the stack.
    mutating func takeHolderValues(_ entity: EntityPlan, _ holder: RecordHolder, _ cells: Int) {
        for value in entity.holderValues {
            let cell = cell(of: value, holder)
            guard cell.kind.rawValue > Cell.Kind.null.rawValue,
                value.isPreferred || scratch[cells + value.column].kind.rawValue <= Cell.Kind.null.rawValue
            else { continue }
            scratch[cells + value.column] = cell
        }
    }

    /// Returns the value of the attribute at that column that the holder brings; nil without one.
    ///
    /// - Parameter hasOwn: the record's own keys bring a value, too.
    func holderCell(
        _ column: Int, _ entity: EntityPlan, _ holder: RecordHolder?, hasOwn: Bool = false
    ) -> Cell? {
        guard let holder, let value = entity.holderValues.first(where: { $0.column == column }),
            value.isPreferred || !hasOwn
        else { return nil }
        let cell = cell(of: value, holder)
        return cell.kind.rawValue > Cell.Kind.null.rawValue ? cell : nil
    }

    /// Returns the holder of a record of an entity that needs one.
    ///
    /// - Throws: `skipped` when the holder's identity is not known: a sync ignores its record, or the record is at fault.
    func holder(
        _ source: LinkSource, _ relationship: EntityPlan.RelationshipPlan
    ) throws(StagingFault) -> RecordHolder {
        guard source.row >= 0 else { throw .skipped }
        let entity = plan.entities[source.entity]
        if !entity.identity.isEmpty, !entity.isIdentityOptional, !tables[source.table].pointee.hasIdentity(source.row) {
            throw .skipped
        }
        return RecordHolder(
            entity: UInt32(source.table), row: UInt32(source.row), relationship: UInt32(relationship.index),
            position: source.position)
    }

    private func cell(of value: HolderValuePlan, _ holder: RecordHolder) -> Cell {
        guard let source = value.source(holder) else { return .absent }
        guard let column = source.column else { return .integer(Int64(holder.position)) }
        return tables.cell(Int(holder.entity), Int(holder.row), column).pointee
    }

    /// Whether the record is the one for the object that the operation names.
    ///
    /// - Throws: `missingIdentity` for any other record of an owned entity that is not nested in its owner's.
    @inline(__always)
    func isTarget(
        _ record: JSONValue, _ entity: EntityPlan, nestedIn holder: RecordHolder?
    ) throws(StagingFault) -> Bool {
        if let target, target.isMadeOf(recordAt: textOffset(of: record), entity) { return true }
        guard let owner = entity.owner, !owner.isHolder(holder) else { return false }
        throw fault(
            .missingIdentity,
            "An object of \(entity.name) lives in its \(owner.name). Send its record nested there, or name an object "
                + "that exists with `object`.", record, entity)
    }
}
