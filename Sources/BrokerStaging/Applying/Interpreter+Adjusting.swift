internal import BrokerJSON
internal import BrokerModel

extension Interpreter {
    /// Changes attributes of the object that the operation names, then applies the record beside them, if there is one.
    func adjust(
        _ json: JSONValue, _ key: JSONValue, _ adjustment: JobAdjustment, _ entity: EntityPlan
    ) throws(ApplyingFault) -> AppliedObject? {
        let cells = try reading { reader throws(StagingFault) in try reader.keyCells(key, entity) }
        let object = try namedObject(entity, cells, key) { isKind($0, of: entity.ownIndex) }
        try store.touch(object, namesLinks: false)
        let first = reader.scratch.push(entity.attributes.count)
        defer { reader.scratch.pop(entity.attributes.count) }
        var documents: [JSONDocument] = []
        for (name, value, appends) in adjustment.changes {
            let column = try reading { reader throws(StagingFault) in
                try reader.adjustedAttribute(name, value, appends, entity)
            }
            let stored = try store.value(of: column, object)
            let (cell, document) = try reading { reader throws(StagingFault) in
                try reader.adjusted(stored, by: value, column, appends, entity)
            }
            reader.scratch[first + column] = cell
            documents.append(document)
        }
        let changed = try withExtendedLifetime(documents) { () throws(ApplyingFault) in
            try reader.scratch.withCells(at: first) { cells throws(ApplyingFault) in
                try store.update(object, as: object.entity, cells, claimedAt: key.offset)
            }
        }
        return adjustment.hasRecord ? try change(json, key, entity) : changed
    }
}
