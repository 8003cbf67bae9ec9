internal import BrokerJSON
internal import BrokerModel

/// The object that an operation names by its key and works on. It must exist.
public struct StagedSubject: @unchecked Sendable {
    /// The entity in whose table it is.
    public let entity: Int
    /// What it must be: that entity, or one of its subentities.
    public let kind: Int
    /// An object of an ancestor becomes one of that entity.
    public let mayBecome: Bool
    /// Its staged row.
    public internal(set) var row: Int
    /// The key that it was named by: the identity's values, or the store's own key. The rows keep alive what these cells
    /// point at.
    public let key: [Cell]
    /// The record brings another identity: the object is to get that one.
    public internal(set) var isRenamed = false
    /// Where the key stands in the text.
    public let offset: Int
    /// Where the record begins that is about it.
    let recordOffset: Int

    /// - Parameter offset: where a record of the entity begins.
    func isMadeOf(recordAt offset: Int, _ entity: EntityPlan) -> Bool {
        offset == recordOffset && entity.index == self.entity
    }
}

/// Objects that are named by their keys.
extension StagingContext {
    /// Stages the record of an object that is named by its key.
    mutating func change(_ json: JSONValue, _ key: JSONValue, _ entity: EntityPlan) throws(StagingFault) {
        guard json.kind == .object else {
            throw fault(
                .invalidValue,
                "With `object`, `json` is one record of \(entity.name), not \(json.kind.phrase). Send one operation for "
                    + "each object.", json, entity)
        }
        let cells = try keyCells(key, entity)
        let record = entity.unwrap(json)
        subject = StagedSubject(
            entity: entity.index, kind: entity.kind, mayBecome: true, row: 0, key: cells, offset: key.offset,
            recordOffset: record.offset)
        do throws(StagingFault) {
            try stageOwn(MappedRecord(value: json, entity: entity))
        } catch {
            // What is left out says nothing of the object, either.
            subject = nil
            throw error
        }
    }

    /// Stages what an object that is named by its key holds at a relationship.
    mutating func relate(
        _ json: JSONValue, _ key: JSONValue, _ entity: EntityPlan, _ relationship: Int
    ) throws(StagingFault) {
        let cells = try keyCells(key, entity)
        let row = try row(ofKey: cells, at: key.offset, entity, .mustExist)
        subject = StagedSubject(
            entity: entity.index, kind: entity.kind, mayBecome: false, row: row, key: cells, offset: key.offset,
            recordOffset: -1)
        // As if a record said it that held it and would begin before it: what is nested has the later word.
        operationOffset = UInt32(json.offset - 1)
        relatedAt = operationOffset
        let speaker = Speaker(entity: entity, row: row, saidAt: operationOffset)
        try stage(json, entity.relationships[relationship], speaker)
    }

    /// Stages an array of keys: objects that need not exist.
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

    // MARK: - The record of a subject

    /// A record that brings no identity takes its object's.
    mutating func completeIdentity(_ entity: EntityPlan, _ cells: Int) {
        guard let subject, !plan.model.entities[entity.index].hasRowKey else { return }
        for (position, column) in entity.identity.enumerated() {
            if scratch[cells + column].kind == .absent { scratch[cells + column] = subject.key[position] }
            if !scratch[cells + column].isSame(as: subject.key[position]) { self.subject?.isRenamed = true }
        }
    }

    mutating func subjectRow(
        of record: JSONValue, _ entity: EntityPlan, identity: Int?
    ) throws(StagingFault) -> Int {
        guard plan.model.entities[entity.index].hasRowKey, let key = subject?.key[0].integer else {
            let row =
                if let identity {
                    try findOrAdd(
                        entity, identity: identity, offset: place(record), .record, ofSubject: true)
                } else {
                    try row(of: record, entity, identity: nil)
                }
            subject?.row = row
            return row
        }
        if let exclusions, exclusions.meet(recordAt: place(record)) { throw .leftOut }
        try take(entity.rowByteCount)
        let row = tables[entity.index].pointee.findOrAdd(
            key: key, offset: place(record), origin: .record, kind: entity.kind)
        subject?.row = row
        return row
    }

    // MARK: - Keys

    /// The key's cells: of the identity, in its order, or the store's own key.
    private mutating func keyCells(_ key: JSONValue, _ entity: EntityPlan) throws(StagingFault) -> [Cell] {
        let model = plan.model.entities[entity.index]
        guard !model.hasRowKey else {
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
        let cell: Cell
        do throws(ValueFault) {
            cell = try entity.attributes[column].converter.convert(value, arena: &arena)
        } catch {
            throw invalid(error, value, column, entity)
        }
        try take(arena.takeFresh())
        return cell
    }

    mutating func row(
        ofKey cells: [Cell], at offset: Int, _ entity: EntityPlan, _ origin: RowOrigin
    ) throws(StagingFault) -> Int {
        if plan.model.entities[entity.index].hasRowKey {
            try take(entity.rowByteCount)
            return tables[entity.index].pointee.findOrAdd(
                key: cells[0].integer, offset: offset, origin: origin, kind: entity.index)
        }
        // A key says nothing of what its object is.
        let entity = plan.entities[entity.index]
        let first = scratch.push(entity.attributes.count)
        defer { scratch.pop(entity.attributes.count) }
        for (cell, column) in zip(cells, entity.identity) { scratch[first + column] = cell }
        return try findOrAdd(entity, identity: first, offset: offset, origin)
    }

    private func a(_ name: String) -> String { "AEIOU".contains(name.first ?? " ") ? "an \(name)" : "a \(name)" }
}
