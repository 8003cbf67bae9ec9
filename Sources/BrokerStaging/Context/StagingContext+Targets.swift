internal import BrokerJSON
internal import BrokerModel

/// Objects that operations name by their keys.
extension StagingContext {
    /// Stages the record for an object that the operation names by its key.
    mutating func change(_ json: JSONValue, _ key: JSONValue, _ entity: EntityPlan) throws(StagingFault) {
        guard json.kind == .object else {
            throw fault(
                .invalidValue,
                "With `object`, `json` is one record of \(entity.name), not \(json.kind.phrase). Send one operation for "
                    + "each object.", json, entity)
        }
        let cells = try keyCells(key, entity)
        let record = entity.unwrap(json)
        target = StagedTarget(
            entity: entity.index, concreteEntity: entity.ownIndex, mayBecome: true, row: 0, key: cells,
            offset: key.offset,
            recordOffset: record.offset)
        do throws(StagingFault) {
            try stageOwn(MappedRecord(value: json, entity: entity))
        } catch {
            // A rejected record asserts nothing about the object.
            target = nil
            throw error
        }
    }

    /// Stages the value of a relationship of an object that the operation names by its key.
    mutating func relate(
        _ json: JSONValue, _ key: JSONValue, _ entity: EntityPlan, _ relationship: Int
    ) throws(StagingFault) {
        guard !entity.relationships[relationship].leadsToOwner else {
            throw fault(
                .invalidValue,
                "An object of \(entity.name) lives in its owner and has no other one. Process the record of the owner "
                    + "that is to have it, or delete it.", json, entity)
        }
        let cells = try keyCells(key, entity)
        isRelating = true
        let row = try row(ofKey: cells, at: key.offset, entity, .mustExist)
        target = StagedTarget(
            entity: entity.index, concreteEntity: entity.ownIndex, mayBecome: false, row: row, key: cells,
            offset: key.offset,
            recordOffset: -1)
        // The assertion counts as a record that contains the value and begins before it, so assertions of nested
        // records are later.
        operationOffset = UInt32(json.offset - 1)
        relatedAt = operationOffset
        let linkSource = LinkSource(entity: entity, row: row, sourceOffset: operationOffset)
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
        guard !plan.model.entities[target.concreteEntity].isNamedByRowKey else {
            guard let known = exclusions?.targetIdentity else { return }
            for column in entity.identity where scratch[cells + column].kind == .absent {
                scratch[cells + column] = known.cells[column]
            }
            return
        }
        for (position, column) in entity.identity.enumerated() {
            if scratch[cells + column].kind == .absent { scratch[cells + column] = target.key[position] }
            if !scratch[cells + column].isSame(as: target.key[position]) { self.target?.isRenamed = true }
        }
    }

    mutating func targetRow(
        of record: JSONValue, _ entity: EntityPlan, identity: Int?
    ) throws(StagingFault) -> Int {
        guard let target, plan.model.entities[target.concreteEntity].isNamedByRowKey else {
            let row =
                if let identity {
                    try findOrAdd(
                        entity, identity: identity, offset: textOffset(of: record), .record, isTarget: true)
                } else {
                    try row(of: record, entity, identity: nil)
                }
            self.target?.row = row
            return row
        }
        let key = target.key[0].integer
        if let exclusions, exclusions.excludes(recordAt: textOffset(of: record)) { throw .skipped }
        let row =
            if let identity {
                try Cell.row(
                    entity.identity.map { scratch[identity + $0] }, at: entity.identity,
                    width: entity.columnCount
                ).withUnsafeBufferPointer { cells throws(StagingFault) in
                    try self.row(
                        ofKey: key, cells.baseAddress, at: textOffset(of: record), entity, .record,
                        concreteEntity: entity.ownIndex)
                }
            } else {
                try rowOfTarget(key, at: textOffset(of: record), entity, .record, concreteEntity: entity.ownIndex)
            }
        self.target?.row = row
        return row
    }

    /// Returns the row of the object that the operation names by the store's own key, with the object's identity if
    /// that is known.
    private mutating func rowOfTarget(
        _ key: Int64, at offset: Int, _ entity: EntityPlan, _ origin: RowOrigin, concreteEntity: Int
    ) throws(StagingFault) -> Int {
        guard let known = exclusions?.targetIdentity,
            EntityPlan.has(plan.entities[known.concreteEntity].identity, known.cells)
        else {
            return try row(ofKey: key, nil, at: offset, entity, origin, concreteEntity: concreteEntity)
        }
        return try known.cells.withUnsafeBufferPointer { cells throws(StagingFault) in
            try row(ofKey: key, cells.baseAddress, at: offset, entity, origin, concreteEntity: known.concreteEntity)
        }
    }

    /// - Parameter identity: a row's worth of cells.
    private mutating func row(
        ofKey key: Int64, _ identity: UnsafePointer<Cell>?, at offset: Int, _ entity: EntityPlan, _ origin: RowOrigin,
        concreteEntity: Int
    ) throws(StagingFault) -> Int {
        if let identity, let exclusions,
            exclusions.excludes(plan.entities[concreteEntity], identity: identity, at: offset, as: origin)
        {
            throw .skipped
        }
        try take(entity.rowByteCount)
        return tables[entity.index].pointee.findOrAdd(
            key: key, identity: identity, offset: offset, origin: origin, concreteEntity: concreteEntity)
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
            // Keys that only name objects belong to many objects.
            guard target != nil || isRelating else {
                return try row(ofKey: cells[0].integer, nil, at: offset, entity, origin, concreteEntity: entity.index)
            }
            return try rowOfTarget(cells[0].integer, at: offset, entity, origin, concreteEntity: entity.index)
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
