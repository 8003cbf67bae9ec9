internal import BrokerJSON
internal import BrokerModel

/// A record whose attributes have been converted.
struct OpenRecord {
    // The plan has it for as long as the staging lasts. All workers share it: to count references would take their time.
    unowned(unsafe) let entity: EntityPlan
    /// Without its wrapper, and as a hook has rewritten it.
    let value: JSONValue
    let offset: Int
    let source: RecordSource
    /// Index of the cells on the stack, and their number.
    let cells: Int
    let cellCount: Int
    let isTarget: Bool
    /// It has a value for each part of its identity.
    let hasIdentity: Bool
    let isTombstone: Bool
    /// The value of `modified`, with all the digits that were sent; nil for an entity without.
    let sentModified: Cell?
    let notes: [ValueNote]
    /// The range of the record around it that a hook has rewritten.
    fileprivate let outerRange: Range<Int>?
}

/// Reads one record at a time.
extension StagingContext {
    /// Reads a record and converts its attributes. ``close(_:)`` gives back the space.
    mutating func read(
        _ mapped: MappedRecord, _ parameters: PathParameters?
    ) throws(StagingFault) -> OpenRecord {
        try mapped.withEntity { entity throws(StagingFault) in try read(mapped, entity, parameters) }
    }

    @inline(__always)
    mutating func read(
        _ mapped: MappedRecord, _ entity: EntityPlan, _ parameters: PathParameters?
    ) throws(StagingFault) -> OpenRecord {
        guard mapped.value.kind == .object else {
            throw fault(
                .invalidValue, "A record of \(entity.name) must be an object, not \(mapped.value.kind.phrase).",
                mapped.value, entity)
        }
        let outerRange = rewrittenAt
        do throws(StagingFault) {
            var record = entity.unwrap(mapped.value)
            if let rewritten = try rewrittenObject(record, entity) {
                rewrittenAt = extent(of: record)
                record = rewritten
            }
            let source = try open(mapped, record, entity, parameters)
            do throws(StagingFault) {
                try checkKeys(of: record, entity)
                return try read(record, entity, source, outerRange)
            } catch {
                scanner.close(source.slots)
                throw error
            }
        } catch {
            rewrittenAt = outerRange
            throw error
        }
    }

    mutating func close(_ record: OpenRecord) {
        scratch.pop(record.cellCount)
        scanner.close(record.source.slots)
        rewrittenAt = record.outerRange
    }

    @inline(__always)
    private mutating func read(
        _ record: JSONValue, _ entity: EntityPlan, _ source: RecordSource, _ outerRange: Range<Int>?
    ) throws(StagingFault) -> OpenRecord {
        let isTarget = try isTarget(record, entity, nestedIn: source.holder)
        let cells = scratch.push(entity.attributes.count)
        do throws(StagingFault) {
            var (failed, notes): (Set<Int>, [ValueNote]) = ([], [])
            let (first, firstOffset) = convertAttributes(record, entity, source, cells, &failed, &notes)
            if let holder = source.holder { takeHolderValues(entity, holder, cells) }
            let isTombstone =
                try entity.tombstone.map { tombstone throws(StagingFault) in
                    try isMet(tombstone, record, entity, cells, failed)
                } ?? false
            let sent = entity.modified.map { wholeModified ?? scratch[cells + $0.column] }
            if let first, !isTombstone { throw try earliest(first, at: firstOffset, record, entity, source, cells) }
            if !isTombstone { try validate(record, entity, cells) }
            try take(arena.takeFresh())
            if isTarget { completeIdentity(entity, cells) }
            let hasIdentity = try identity(record, entity, cells, isTarget: isTarget)
            if source.hasOnlyUnknownKeys { throw noKnownKey(record, entity) }
            return OpenRecord(
                entity: entity, value: record, offset: textOffset(of: record), source: source, cells: cells,
                cellCount: entity.attributes.count,
                isTarget: isTarget, hasIdentity: hasIdentity, isTombstone: isTombstone, sentModified: sent,
                notes: notes,
                outerRange: outerRange)
        } catch {
            scratch.pop(entity.attributes.count)
            throw error
        }
    }

    private mutating func rewrittenObject(
        _ record: JSONValue, _ entity: EntityPlan
    ) throws(StagingFault) -> JSONValue? {
        guard let rewritten = try rewritten(record, entity) else { return nil }
        guard rewritten.kind == .object else {
            throw fault(
                .invalidValue,
                "The embedding program made \(rewritten.kind.phrase) of a record of \(entity.name), and an object is wanted.",
                record, entity)
        }
        return rewritten
    }

    private func checkKeys(of record: JSONValue, _ entity: EntityPlan) throws(StagingFault) {
        guard collection.refusesUnknownKeys, let unknown = scanner.firstUnknownKey else { return }
        throw fault(.unknownKey, entity.unknownKeyMessage(unknown.key, at: unknown.node), record, entity)
    }

    /// Adds a row with the record's cells, for the nested records that take values from it.
    mutating func holderRow(_ record: OpenRecord) throws(StagingFault) -> Int {
        let entity = record.entity
        try take(entity.rowByteCount)
        let row = tables[entity.index].pointee.findOrAdd(
            identity: nil, offset: record.offset, origin: .record, concreteEntity: entity.ownIndex)
        let own = tables[entity.index].pointee.row(row)
        for column in entity.ownColumns { own[column] = scratch[record.cells + column] }
        return row
    }
}

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

/// The identities of records, also of those that are rejected.
extension StagingContext {
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
            throw .invalid(error.of(entity: entity.name), offset: textOffset(of: record))
        }
    }
}

/// Where the values of a record's attributes are.
struct RecordSource {
    /// The scanner's slots with the record's own values.
    let slots: Int
    /// The dictionary key of the record, where that key is one of its values.
    var nestedKey: JSONValue?
    /// The record that contains it, where that one brings values of its own, or owns it.
    var holder: RecordHolder?
    /// Values of path parameters, for attributes that a record of the operation lacks.
    var parameters: PathParameters?
    /// The record has keys, and none of them is known.
    var hasOnlyUnknownKeys = false

    /// Moves a fault in a path parameter to the record, because the parameter is not in the record's text.
    ///
    /// - Parameter extent: the text of the record.
    func relocated(_ fault: StagingFault, at offset: Int, in extent: Range<Int>) -> (StagingFault, Int) {
        guard parameters != nil, case .invalid(let fault, let own) = fault, !extent.contains(own) else {
            return (fault, offset)
        }
        return (.invalid(fault, offset: extent.lowerBound), extent.lowerBound)
    }
}
