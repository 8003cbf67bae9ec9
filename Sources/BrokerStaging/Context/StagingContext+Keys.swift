internal import BrokerJSON
internal import BrokerModel

/// The object that an operation names by its key and works on.
struct StagedTarget {
    /// The entity whose table has the object.
    let entity: Int
    /// The entity by which the operation names it.
    let concreteEntity: Int
    /// The object's key: the values of the identity of ``concreteEntity``, or the store's own key.
    let key: [Cell]
    /// The record has another identity, which the object gets.
    var isRenamed = false
    /// Offset of the record for the object.
    let recordOffset: Int

    /// - Parameter offset: offset of a record of the entity.
    func isMadeOf(recordAt offset: Int, _ entity: EntityPlan) -> Bool {
        offset == recordOffset && entity.index == self.entity
    }
}

/// Objects that operations name by their keys.
extension StagingContext {
    /// Stages the record for an object that the operation names by its key.
    mutating func change(_ json: JSONValue, _ key: JSONValue, _ entity: EntityPlan) throws(StagingFault) {
        staged.note(.object)
        guard json.kind == .object else { throw noRecord(json, entity) }
        target = StagedTarget(
            entity: entity.index, concreteEntity: entity.ownIndex, key: try keyCells(key, entity),
            recordOffset: entity.unwrap(json).offset)
        defer { target = nil }
        let row = try stage(MappedRecord(value: json, entity: entity))
        try notePayload((entity.index, row))
    }

    /// The fault of a `json` that is no record for an object.
    func noRecord(_ json: JSONValue, _ entity: EntityPlan) -> StagingFault {
        fault(
            .invalidValue,
            "With `object`, `json` is one record of \(entity.name), not \(json.kind.phrase). Send one operation for "
                + "each object.", json, entity)
    }

    /// Stages the value of a relationship of an object that the operation names by its key.
    mutating func relate(
        _ json: JSONValue, _ key: JSONValue, _ entity: EntityPlan, _ relationship: Int
    ) throws(StagingFault) {
        staged.note(.object)
        try checkOwner(json, entity, relationship)
        let cells = try keyCells(key, entity)
        try take(entity.rowByteCount)
        let row = staged.tables[entity.index].pointee.findOrAdd(
            identity: nil, offset: key.offset, origin: .record, concreteEntity: entity.ownIndex)
        // The store's own key is no value of the object.
        if !plan.model.entities[entity.ownIndex].isNamedByRowKey {
            for (cell, column) in zip(cells, entity.identity) {
                staged.tables[entity.index].pointee.row(row)[column] = cell
            }
        }
        let linkSource = LinkSource(entity: entity, row: row, sourceOffset: UInt32(json.offset))
        try stage(json, entity.relationships[relationship], linkSource)
    }

    /// - Throws: when the relationship leads to the owner of the entity's objects.
    func checkOwner(_ json: JSONValue, _ entity: EntityPlan, _ relationship: Int) throws(StagingFault) {
        guard entity.relationships[relationship].leadsToOwner else { return }
        throw fault(
            .invalidValue,
            "An object of \(entity.name) lives in its owner and has no other one. Process the record of the owner "
                + "that is to have it, or delete it.", json, entity)
    }

    /// Stages an array of keys. The objects need not exist.
    mutating func name(_ keys: JSONValue, _ entity: EntityPlan) throws(StagingFault) {
        for key in keys.elements {
            try rejectingFaults { context throws(StagingFault) in try context.name(key: key, entity) }
        }
    }

    mutating func name(key: JSONValue, _ entity: EntityPlan) throws(StagingFault) {
        let cells = try keyCells(key, entity)
        guard !plan.model.entities[entity.ownIndex].isNamedByRowKey else {
            try take(entity.rowByteCount)
            staged.tables[entity.index].pointee.addGivenKey(
                cells[0].integer, offset: key.offset, origin: .mayBeMissing, concreteEntity: entity.index)
            return
        }
        // A key does not decide its object's concrete entity, unless it is the identity of entities below the topmost.
        let entity = plan.model.entities[entity.index].hasRowKey ? entity : plan.entities[entity.index]
        let first = scratch.push(entity.attributes.count)
        defer { scratch.pop(entity.attributes.count) }
        for (cell, column) in zip(cells, entity.identity) { scratch[first + column] = cell }
        _ = try findOrAdd(entity, identity: first, offset: key.offset, .mayBeMissing)
    }

    /// Names the object of a record, which need not exist. A record without an identity names none.
    mutating func name(objectOf json: JSONValue, _ entity: EntityPlan) throws(StagingFault) {
        let record = try read(MappedRecord(value: json, entity: entity), nil)
        defer { close(record) }
        guard record.hasIdentity else { return }
        let entity = plan.model.entities[entity.index].hasRowKey ? entity : plan.entities[entity.index]
        _ = try findOrAdd(entity, identity: record.cells, offset: record.offset, .mayBeMissing)
    }

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
            // As in a record of the entity: another text would be another object.
            if entity.extraColumn >= 0, arena.isInexact || arena.isPadded {
                throw entity.attributes[column].converter.inexactness(of: value)
            }
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

    private func a(_ name: String) -> String { "AEIOU".contains(name.first ?? " ") ? "an \(name)" : "a \(name)" }
}

/// The concrete entity of an object in a hierarchy.
///
/// A record, or a bare key that makes its object, finds the object of its identity in the whole hierarchy. A bare key that makes
/// nothing decides no object's entity.
extension StagingContext {
    /// Returns the object's concrete entity for a record or a bare key, and the origin of its row.
    ///
    /// A key of an abstract entity cannot insert an object, so the object must exist.
    ///
    /// - Parameter identity: index of its cells on the stack.
    @inline(__always)
    mutating func concreteEntity(
        of entity: EntityPlan, identity: Int, _ origin: RowOrigin
    ) -> (concreteEntity: Int, RowOrigin) {
        guard let hierarchy = entity.hierarchy else { return (entity.ownIndex, origin) }
        return concreteEntity(of: entity, hierarchy, identity: identity, origin)
    }

    private mutating func concreteEntity(
        of entity: EntityPlan, _ hierarchy: HierarchyPlan, identity: Int, _ origin: RowOrigin
    ) -> (concreteEntity: Int, RowOrigin) {
        let table = staged.tables[entity.index]
        let row = scratch.withCells(at: identity) {
            table.pointee.find(identity: $0, concreteEntity: entity.ownIndex)
        }
        let origin = entity.isAbstract && origin == .stub ? RowOrigin.mustExist : origin
        let known = row.map { table.pointee.concreteEntity(of: $0) }
        if origin.makesNothing { return (known ?? hierarchy.identityHead, origin) }
        // Whose records come first decides, and the store's object does.
        let isMade = row.map { !table.pointee.namings[$0].origin.makesNothing } ?? false
        if entity.isAbstract || isMade && known != entity.ownIndex { staged.note(.entity) }
        return (entity.ownIndex, origin)
    }

    /// Returns the concrete entity of a record without identity.
    func concreteEntity(ofNew entity: EntityPlan, at offset: Int) throws(StagingFault) -> Int {
        if entity.isAbstract { throw abstract(entity, offset: offset) }
        return entity.ownIndex
    }

    func abstract(_ entity: EntityPlan, offset: Int) -> StagingFault {
        let below = plan.model.subentities(of: entity.ownIndex).filter { !plan.model.entities[$0].isAbstract }
        let names = below.map { plan.model.entities[$0].name }.prefix(20).joined(separator: ", ")
        return fault(
            .unmappable,
            "\(entity.name) is abstract, so a record of it can make no object, and there is none with this identity. "
                + (names.isEmpty ? "No entity inherits from it." : "Process it as one of: \(names)."),
            at: offset, entity)
    }

    func notFound(_ entity: EntityPlan, _ concreteEntity: Int, offset: Int) -> StagingFault {
        fault(
            .objectNotFound,
            "The object with the key given here is one of \(plan.model.entities[concreteEntity].name), not of "
                + "\(entity.name), and a key that makes no object does not change that. Send a record of \(entity.name) "
                + "with this identity, or another key.", at: offset, entity)
    }

    func unrelatedObject(_ entity: EntityPlan, _ concreteEntity: Int, offset: Int) -> StagingFault {
        fault(
            .constraintViolation,
            "The object with this identity is one of \(plan.model.entities[concreteEntity].name), and cannot be one of "
                + "\(entity.name), too: both share one space of identities. Send another identity, or delete the object "
                + "first.", at: offset, entity)
    }
}

/// Values that a nested record takes from the record that contains it, and records that must be nested.
extension StagingContext {
    /// Writes the values of the holder into the record's cells.
    ///
    /// - Parameter cells: index of the record's converted attributes on the stack.
    mutating func takeHolderValues(_ entity: EntityPlan, _ holder: RecordHolder, _ cells: Int) {
        for value in entity.holderValues {
            let cell = cell(of: value, holder)
            guard !cell.isNil,
                value.isPreferred || scratch[cells + value.column].isNil
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
        return !cell.isNil ? cell : nil
    }

    /// Returns the holder of a record of an entity that needs one.
    ///
    /// - Throws: `skipped` when the holder's identity is not known: a sync ignores its record, or the record is at fault.
    func holder(
        _ source: LinkSource, _ relationship: EntityPlan.RelationshipPlan
    ) throws(StagingFault) -> RecordHolder {
        let entity = plan.entities[source.entity]
        if !entity.identity.isEmpty, !entity.isIdentityOptional,
            !staged.tables[source.table].pointee.hasIdentity(source.row)
        {
            throw .skipped
        }
        return RecordHolder(
            entity: UInt32(source.table), row: UInt32(source.row), relationship: UInt32(relationship.index),
            position: source.position)
    }

    private func cell(of value: HolderValuePlan, _ holder: RecordHolder) -> Cell {
        guard let source = value.source(holder) else { return .absent }
        guard let column = source.column else { return .integer(Int64(holder.position)) }
        return staged.tables.cell(Int(holder.entity), Int(holder.row), column).pointee
    }

    /// Whether the record is the one for the object that the operation names.
    ///
    /// - Throws: `missingIdentity` for any other record of an owned entity that is not nested in its owner's.
    // `mutating`, because the compiler copies the whole context for a call that only reads it.
    @inline(__always)
    mutating func isTarget(
        _ record: JSONValue, _ entity: EntityPlan, nestedIn holder: RecordHolder?
    ) throws(StagingFault) -> Bool {
        guard target != nil || entity.owner != nil else { return false }
        return try isTargetOrOwned(record, entity, nestedIn: holder)
    }

    private mutating func isTargetOrOwned(
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
