internal import BrokerJSON
internal import BrokerModel

extension StagingContext {
    /// Scans a record. The caller gives the slots back.
    ///
    /// - Parameter record: the record without its wrapper.
    mutating func open(
        _ mapped: MappedRecord, _ record: JSONValue, _ entity: EntityPlan, _ parameters: PathParameters?
    ) throws(StagingFault) -> RecordSource {
        var source = try scan(mapped, record, entity, parameters)
        source.hasOnlyUnknownKeys = scanner.hasOnlyUnknownKeys
        source.holder = mapped.holder
        return source
    }

    private mutating func scan(
        _ mapped: MappedRecord, _ record: JSONValue, _ entity: EntityPlan, _ parameters: PathParameters?
    ) throws(StagingFault) -> RecordSource {
        guard let nesting = entity.nesting else {
            return RecordSource(slots: scanner.open(record, entity), parameters: parameters)
        }
        if let key = mapped.nestedKey {
            let slots = scanner.open(nil, nested: (key, record), entity)
            return RecordSource(slots: slots, nestedKey: key, parameters: parameters)
        }
        let nested = try nested(in: record, nesting, entity)
        return RecordSource(
            slots: scanner.open(record, nested: nested, entity), nestedKey: nested?.key, parameters: parameters)
    }

    /// Returns the one member of the record that is an object and that no path of the mapping leads to. Its key is a
    /// value.
    private func nested(
        in record: JSONValue, _ nesting: NestingPlan, _ entity: EntityPlan
    ) throws(StagingFault) -> (key: JSONValue, value: JSONValue)? {
        var found: (key: JSONValue, value: JSONValue)?
        for member in record.members
        where member.value.kind == .object && entity.tree.child(of: 0, member.key.bytes) == nil {
            // The last of duplicate keys wins.
            guard let known = found, !Bytes.areEqual(known.key.bytes, member.key.bytes) else {
                found = (member.key, member.value)
                continue
            }
            let name = plan.model.entities[entity.ownIndex].attributes[nesting.column].name
            throw fault(
                .invalidValue,
                "Two keys of this record may be its \(name): \(known.key.quotedBriefly) and \(member.key.quotedBriefly). If "
                    + "it is a dictionary of many, give the mapping \"collection\": true.", record, entity)
        }
        return found
    }

    /// Returns the value that the record has for the attribute; nil when it has none.
    @inline(__always)
    func value(
        of attribute: EntityPlan.AttributePlan, _ column: Int, _ source: RecordSource, _ entity: EntityPlan
    ) -> JSONValue? {
        if attribute.node >= 0 {
            if let value = scanner.value(attribute.node, source.slots) { return value }
        } else if let value = scanner.value(attribute.nodes, source.slots) {
            return value
        }
        if let key = source.nestedKey, entity.nesting?.column == column { return key }
        return source.parameters?.value(of: attribute.converter.name)
    }
}
