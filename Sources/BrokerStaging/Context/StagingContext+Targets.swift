internal import BrokerJSON
internal import BrokerModel

/// Objects that operations name by their keys.
extension StagingContext {
    /// Stages the record for an object that the operation names by its key.
    mutating func change(_ json: JSONValue, _ key: JSONValue, _ entity: EntityPlan) throws(StagingFault) {
        note(.object)
        guard json.kind == .object else {
            throw fault(
                .invalidValue,
                "With `object`, `json` is one record of \(entity.name), not \(json.kind.phrase). Send one operation for "
                    + "each object.", json, entity)
        }
        target = StagedTarget(
            entity: entity.index, concreteEntity: entity.ownIndex, key: try keyCells(key, entity),
            recordOffset: entity.unwrap(json).offset)
        defer { target = nil }
        try stageOwn(MappedRecord(value: json, entity: entity))
    }

    /// Stages the value of a relationship of an object that the operation names by its key.
    mutating func relate(
        _ json: JSONValue, _ key: JSONValue, _ entity: EntityPlan, _ relationship: Int
    ) throws(StagingFault) {
        note(.object)
        guard !entity.relationships[relationship].leadsToOwner else {
            throw fault(
                .invalidValue,
                "An object of \(entity.name) lives in its owner and has no other one. Process the record of the owner "
                    + "that is to have it, or delete it.", json, entity)
        }
        _ = try keyCells(key, entity)
        try take(entity.rowByteCount)
        let row = tables[entity.index].pointee.findOrAdd(
            identity: nil, offset: key.offset, origin: .record, concreteEntity: entity.ownIndex)
        let linkSource = LinkSource(entity: entity, row: row, sourceOffset: UInt32(json.offset))
        try stage(json, entity.relationships[relationship], linkSource)
    }

    /// Stages an array of keys. The objects need not exist.
    mutating func name(_ keys: JSONValue, _ entity: EntityPlan) throws(StagingFault) {
        for key in keys.elements {
            do throws(StagingFault) {
                _ = try row(ofKey: keyCells(key, entity), at: key.offset, entity, .mayBeMissing)
            } catch {
                guard case .invalid(let fault, let offset) = error, policy == .skip else { throw error }
                guard reject(fault, at: offset) else { throw .noRoom }
            }
        }
    }

    // MARK: - The record of a target

    /// Takes the parts of the identity that a record lacks, or that are null there, from the target's key. An object that is
    /// named by its row key retains them.
    mutating func completeIdentity(_ entity: EntityPlan, _ cells: Int) {
        for column in entity.identity where scratch[cells + column].kind == .null { scratch[cells + column] = .absent }
        guard let target else { return }
        guard !plan.model.entities[target.concreteEntity].isNamedByRowKey else { return }
        for (position, column) in entity.identity.enumerated() {
            if scratch[cells + column].kind == .absent { scratch[cells + column] = target.key[position] }
            if !scratch[cells + column].isSame(as: target.key[position]) { self.target?.isRenamed = true }
        }
    }

    // MARK: - Keys

    /// Returns the key's cells: of the identity, in its order, or the store's own key.
    mutating func keyCells(_ key: JSONValue, _ entity: EntityPlan) throws(StagingFault) -> [Cell] {
        let model = plan.model.entities[entity.ownIndex]
        guard !model.isNamedByRowKey else {
            guard key.kind == .number, let number = key.int64 else {
                throw fault(
                    .invalidValue,
                    "The key of \(a(entity.name)) is the whole number in its column _pk, not \(key.kind.phrase).", key,
                    entity)
            }
            return [.integer(number)]
        }
        guard model.identity.count > 1 else { return [try keyCell(key, entity, model.identity[0])] }
        let names = model.identity.map { model.attributes[$0].name }
        guard key.kind == .object else {
            throw fault(
                .invalidValue,
                "The key of \(a(entity.name)) is an object with \(names.joined(separator: ", ")), not "
                    + "\(key.kind.phrase).", key, entity)
        }
        var cells: [Cell] = []
        for (column, name) in zip(model.identity, names) {
            guard let value = key[name] else {
                throw fault(
                    .missingIdentity,
                    "The key of \(a(entity.name)) is an object with \(names.joined(separator: ", ")); this one lacks "
                        + "\(name).", key, entity)
            }
            cells.append(try keyCell(value, entity, column))
        }
        return cells
    }

    private mutating func keyCell(
        _ value: JSONValue, _ entity: EntityPlan, _ column: Int
    ) throws(StagingFault) -> Cell {
        guard !value.isNull else {
            throw fault(.missingIdentity, "null is the key of no \(entity.name).", value, entity)
        }
        let cell = try convertedKey(value, value, column, entity)
        noteInexactKey(entity, column)
        return cell
    }

    /// Converts the value of a key that is no part of a record.
    ///
    /// - Parameter value: the value in the text, for faults.
    mutating func convertedKey(
        _ meant: JSONValue, _ value: JSONValue, _ column: Int, _ entity: EntityPlan
    ) throws(StagingFault) -> Cell {
        let cell: Cell
        do throws(ValueFault) {
            cell = try entity.attributes[column].converter.convert(key: meant, arena: &arena)
        } catch {
            throw invalid(error, value, column, entity)
        }
        try take(arena.takeFresh())
        return cell
    }

    /// Counts the key that was converted last, if it names the object of another number.
    mutating func noteInexactKey(_ entity: EntityPlan, _ column: Int) {
        guard arena.isInexact else { return }
        valueWarnings.note(entity: entity.ownIndex, [ValueNote(property: column, code: .inexact)])
    }

    mutating func row(
        ofKey cells: [Cell], at offset: Int, _ entity: EntityPlan, _ origin: RowOrigin
    ) throws(StagingFault) -> Int {
        if plan.model.entities[entity.ownIndex].isNamedByRowKey {
            try take(entity.rowByteCount)
            return tables[entity.index].pointee.findOrAdd(
                key: cells[0].integer, offset: offset, origin: origin, concreteEntity: entity.index)
        }
        // A key does not decide its object's concrete entity, unless it is the identity of entities below the topmost.
        let entity = plan.model.entities[entity.index].hasRowKey ? entity : plan.entities[entity.index]
        let first = scratch.push(entity.attributes.count)
        defer { scratch.pop(entity.attributes.count) }
        for (cell, column) in zip(cells, entity.identity) { scratch[first + column] = cell }
        return try findOrAdd(entity, identity: first, offset: offset, origin)
    }

    private func a(_ name: String) -> String { "AEIOU".contains(name.first ?? " ") ? "an \(name)" : "a \(name)" }
}
