internal import BrokerJSON
internal import BrokerModel

extension StagingContext {
    /// Notes the objects that are named inside a record, at any depth. Faults in the record are ignored.
    mutating func nameInside(_ entity: EntityPlan, _ slots: Int) throws(StagingFault) {
        guard innerNames != nil else { return }
        for relationship in entity.ownRelationships {
            guard let value = value(of: relationship, slots), !relationship.isNone(value) else { continue }
            if value.kind == .array {
                for element in value.elements where !relationship.isNone(element: element) {
                    try name(element, at: relationship)
                }
            } else {
                try name(value, at: relationship)
            }
        }
    }

    private mutating func name(
        _ value: JSONValue, at relationship: EntityPlan.RelationshipPlan
    ) throws(StagingFault) {
        guard !value.isNull else { return }
        var entity = plan.entities[relationship.relationship.destination]
        if value.kind == .object, let mapping = relationship.mapping {
            do throws(StagingFault) {
                guard let chosen = try plan(of: mapping, for: value) else { return }
                entity = chosen
            } catch {
                return try ignore(error)
            }
            if entity.nesting?.isCollection ?? false {
                for (key, record) in value.members {
                    try name(MappedRecord(value: record, entity: entity, nestedKey: key))
                }
                return
            }
        }
        try name(MappedRecord(value: value, entity: entity))
    }

    private mutating func knownIdentity(of record: MappedRecord) throws(StagingFault) -> [Cell]? {
        do throws(StagingFault) {
            return try identityCells(of: record)
        } catch {
            try ignore(error)
            return nil
        }
    }

    private func ignore(_ fault: StagingFault) throws(StagingFault) {
        if case .noRoom = fault { throw fault }
    }

    private mutating func name(_ record: MappedRecord) throws(StagingFault) {
        let entity = record.entity
        if entity.index == innerNames?.table, let identity = try knownIdentity(of: record) {
            try take(entity.rowByteCount + arena.takeFresh())
            innerNames?.add(identity, of: entity, at: textOffset(of: record.value))
        }
        guard record.value.kind == .object, !entity.ownRelationships.isEmpty else { return }
        let source: RecordSource
        do throws(StagingFault) {
            source = try open(record, entity.unwrap(record.value), entity, nil)
        } catch {
            return try ignore(error)
        }
        defer { scanner.close(source.slots) }
        try nameInside(entity, source.slots)
    }
}
