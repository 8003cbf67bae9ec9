internal import BrokerJSON
internal import BrokerModel

/// A record whose attributes have been converted.
struct OpenRecord {
    let entity: EntityPlan
    /// Without its wrapper, and as a hook has rewritten it.
    let value: JSONValue
    let offset: Int
    let source: RecordSource
    /// Index of the cells on the stack.
    let cells: Int
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

/// Reads one record at a time, for an ``Interpreter``.
extension StagingContext {
    /// Reads a record and converts its attributes. ``close(_:)`` gives back the space.
    mutating func read(
        _ mapped: MappedRecord, _ parameters: PathParameters?
    ) throws(StagingFault) -> OpenRecord {
        let entity = mapped.entity
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
        scratch.pop(record.entity.attributes.count)
        scanner.close(record.source.slots)
        rewrittenAt = record.outerRange
    }

    private mutating func read(
        _ record: JSONValue, _ entity: EntityPlan, _ source: RecordSource, _ outerRange: Range<Int>?
    ) throws(StagingFault) -> OpenRecord {
        let isTarget = try isTarget(record, entity, nestedIn: source.holder)
        let cells = scratch.push(entity.attributes.count)
        do throws(StagingFault) {
            var (failed, notes): (Set<Int>, [ValueNote]) = ([], [])
            let (first, _) = convertAttributes(record, entity, source, cells, &failed, &notes)
            if let holder = source.holder { takeHolderValues(entity, holder, cells) }
            let isTombstone =
                try entity.tombstone.map { tombstone throws(StagingFault) in
                    try isMet(tombstone, record, entity, cells, failed)
                } ?? false
            let sent = entity.modified.map { wholeModified ?? scratch[cells + $0.column] }
            if let first, !isTombstone { throw first }
            if !isTombstone { try validate(record, entity, cells) }
            try take(arena.takeFresh())
            if isTarget { completeIdentity(entity, cells) }
            let hasIdentity = try identity(record, entity, cells, isTarget: isTarget)
            if source.hasOnlyUnknownKeys { throw noKnownKey(record, entity) }
            return OpenRecord(
                entity: entity, value: record, offset: textOffset(of: record), source: source, cells: cells,
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
