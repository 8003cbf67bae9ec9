internal import BrokerJSON
internal import BrokerModel

/// The identities of records, also of those that are rejected.
extension StagingContext {
    /// Retains the existing link of a rejected element, if the element's identity is readable.
    mutating func retainLink(
        _ record: MappedRecord, _ plan: EntityPlan.RelationshipPlan, _ linkSource: LinkSource
    ) throws(StagingFault) {
        guard let identity = try identityCells(of: record) else { return }
        try take(MemoryLayout<RetainedLink>.stride + identity.count * MemoryLayout<Cell>.stride + arena.takeFresh())
        retainedLinks.append(
            RetainedLink(
                entity: linkSource.table, row: linkSource.row, relationship: plan.index,
                concreteEntity: record.entity.ownIndex,
                identity: identity, operation: replacementOffset(plan, linkSource)))
    }

    mutating func identityCells(of mapped: MappedRecord) throws(StagingFault) -> [Cell]? {
        let (value, entity) = (mapped.value, mapped.entity)
        guard !entity.identity.isEmpty else { return nil }
        var cells: [Cell] = []
        if value.kind != .object {
            cells = entity.identity.map { column in
                if let cell = holderCell(column, entity, mapped.holder) { return cell }
                if let key = mapped.nestedKey {
                    return entity.nesting?.column == column ? identityCell(key, entity, column) : .null
                }
                let isBareKey = entity.identity.count == 1 && value.kind != .array && !value.isNull
                return isBareKey ? identityCell(value, entity, column) : .null
            }
        } else {
            let source = try open(mapped, entity.unwrap(value), entity, nil)
            defer { scanner.close(source.slots) }
            cells = entity.identity.map { column in
                let value = self.value(of: entity.attributes[column], column, source, entity)
                let own = value.map { identityCell($0, entity, column) } ?? .null
                return holderCell(column, entity, mapped.holder, hasOwn: own.kind != .null) ?? own
            }
        }
        return cells.contains { $0.kind == .null } ? nil : cells
    }

    /// Returns null for a value that is not an identity.
    private mutating func identityCell(_ value: JSONValue, _ entity: EntityPlan, _ column: Int) -> Cell {
        guard !scanner.isMisplaced(value) else { return .null }
        do throws(ValueFault) {
            return try entity.attributes[column].converter.convert(value, arena: &arena)
        } catch {
            // The fault has been reported, or the record reports it.
            return .null
        }
    }
}
