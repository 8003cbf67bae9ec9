internal import BrokerFastJSON
internal import BrokerJSON
internal import BrokerModel

/// The concrete entity of an object in a hierarchy.
///
/// A record of an entity, or a bare key that makes its object, finds the object of its identity in the whole hierarchy.
/// An object of a subentity stays one. An object of an ancestor becomes an object of the entity. Any other object is a
/// fault.
///
/// A bare key that makes nothing decides no object's entity. The merge checks that the object is of the key's entity after
/// the job's records, and otherwise the job is staged again without the key.
/// ```
/// first staging    compares the records of the job; the merge then asks the store
/// staged again     has the stored facts (``KnownEntities``), and the order over all parts
/// ```
extension StagingContext {
    /// Returns the object's concrete entity for a record or a bare key, and the origin of its row.
    ///
    /// A key of an abstract entity cannot insert an object, so the object must exist.
    ///
    /// - Parameter identity: index of its cells on the stack.
    /// - Throws: `constraintViolation` when the object is of another branch, `unmappable` when the entity is abstract
    ///   and the object does not exist; for a key that makes nothing `objectNotFound` or `skipped`.
    @inline(__always)
    mutating func concreteEntity(
        of entity: EntityPlan, identity: Int, offset: Int, _ origin: RowOrigin
    ) throws(StagingFault) -> (concreteEntity: Int, RowOrigin) {
        guard let hierarchy = entity.hierarchy else { return (entity.ownIndex, origin) }
        return try concreteEntity(of: entity, hierarchy, identity: identity, offset: offset, origin)
    }

    private mutating func concreteEntity(
        of entity: EntityPlan, _ hierarchy: HierarchyPlan, identity: Int, offset: Int, _ origin: RowOrigin
    ) throws(StagingFault) -> (concreteEntity: Int, RowOrigin) {
        let known = knownEntity(of: entity, identity: identity)
        let origin = entity.isAbstract && origin == .stub ? RowOrigin.mustExist : origin
        if origin.makesNothing {
            try checkKey(of: entity, identity: identity, offset: offset, origin)
            let current = stagedEntity(of: entity, identity: identity) ?? known?.concreteEntity
            return (current ?? hierarchy.identityHead, origin)
        }
        let staged = if let known { known.concreteEntity } else { stagedEntity(of: entity, identity: identity) }
        if let staged, staged != entity.ownIndex, !hierarchy.inherits(from: staged) {
            if !hierarchy.isInherited(by: staged) {
                guard known == nil else { throw unrelatedObject(entity, staged, offset: offset) }
                // The merge may find that the record that put the object into that branch does not count.
                hasUncertainEntities = true
            }
            return (staged, origin)
        }
        if entity.isAbstract {
            guard known == nil else { throw abstract(entity, offset: offset) }
            hasUncertainEntities = true
        } else if let knownEntities = exclusions?.knownEntities,
            staged != nil || origin.rawValue <= RowOrigin.stub.rawValue
        {
            scratch.withCells(at: identity) { knownEntities.note(current: entity.ownIndex, entity, $0) }
        }
        return (entity.ownIndex, origin)
    }

    /// Checks that the merge has not found the object of a bare key that makes nothing to be of another entity.
    private func checkKey(
        of entity: EntityPlan, identity: Int, offset: Int, _ origin: RowOrigin
    ) throws(StagingFault) {
        guard let knownEntities = exclusions?.knownEntities else { return }
        let final = scratch.withCells(at: identity) { knownEntities.finalEntity(of: $0, unlike: entity) }
        guard let final else { return }
        throw origin == .mayBeMissing ? .skipped : notFound(entity, final, offset: offset)
    }

    /// Returns the stored fact, and the effect on it of the records before this one.
    private func knownEntity(of entity: EntityPlan, identity: Int) -> KnownEntities.Known? {
        exclusions?.knownEntities.flatMap { known in scratch.withCells(at: identity) { known.find(entity, $0) } }
    }

    /// Returns the object's concrete entity as far as this part says; nil when no record or key has named it, or when a
    /// tombstone deleted it.
    private func stagedEntity(of entity: EntityPlan, identity: Int) -> Int? {
        let table = tables[entity.index]
        return scratch.withCells(at: identity) { cells in
            if tombstones?.isDeleted(entity, cells) ?? false { return nil }
            return table.pointee.find(identity: cells, concreteEntity: entity.ownIndex).map {
                table.pointee.concreteEntity(of: $0)
            }
        }
    }

    /// Checks that a tombstone's object is not known to be of another branch. The merge compares it with the stored
    /// object.
    ///
    /// - Parameter identity: index of its cells on the stack.
    mutating func checkBranch(of entity: EntityPlan, identity: Int, offset: Int) throws(StagingFault) {
        guard let hierarchy = entity.hierarchy else { return }
        let known = knownEntity(of: entity, identity: identity)
        let current = if let known { known.concreteEntity } else { stagedEntity(of: entity, identity: identity) }
        guard let current, current != entity.ownIndex, !hierarchy.inherits(from: current),
            !hierarchy.isInherited(by: current)
        else { return }
        guard known == nil else { throw unrelatedObject(entity, current, offset: offset) }
        // As for a record: the record that put the object into that branch may not count.
        hasUncertainEntities = true
    }

    /// Checks that the object of a record that is not newer is of the relationship's entity, since the record does not
    /// make it so.
    ///
    /// - Throws: `skipped` when it is not.
    mutating func checkEntity(ofRow row: Int, for destination: EntityPlan) throws(StagingFault) {
        guard destination.ownIndex != destination.index, let hierarchy = destination.hierarchy else { return }
        let table = tables[destination.index]
        let concreteEntity = table.pointee.concreteEntity(of: row)
        guard concreteEntity != destination.ownIndex, !hierarchy.isInherited(by: concreteEntity) else { return }
        let known = exclusions?.knownEntities?.find(plan.entities[concreteEntity], table.pointee.row(row))
        guard known == nil else { throw .skipped }
        hasUncertainEntities = true
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
            guard cell.kind.rawValue > Cell.Kind.null.rawValue,
                value.isPreferred || scratch[cells + value.column].kind.rawValue <= Cell.Kind.null.rawValue
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
        return cell.kind.rawValue > Cell.Kind.null.rawValue ? cell : nil
    }

    /// Returns the holder of a record of an entity that needs one.
    ///
    /// - Throws: `skipped` when the holder's identity is not known: a sync ignores its record, or the record is at fault.
    func holder(
        _ source: LinkSource, _ relationship: EntityPlan.RelationshipPlan
    ) throws(StagingFault) -> RecordHolder {
        guard source.row >= 0 else { throw .skipped }
        let entity = plan.entities[source.entity]
        if !entity.identity.isEmpty, !entity.isIdentityOptional, !tables[source.table].pointee.hasIdentity(source.row) {
            throw .skipped
        }
        return RecordHolder(
            entity: UInt32(source.table), row: UInt32(source.row), relationship: UInt32(relationship.index),
            position: source.position)
    }

    private func cell(of value: HolderValuePlan, _ holder: RecordHolder) -> Cell {
        guard let source = value.source(holder) else { return .absent }
        guard let column = source.column else { return .integer(Int64(holder.position)) }
        return tables.cell(Int(holder.entity), Int(holder.row), column).pointee
    }

    /// Whether the record is the one for the object that the operation names.
    ///
    /// - Throws: `missingIdentity` for any other record of an owned entity that is not nested in its owner's.
    @inline(__always)
    func isTarget(
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

extension StagingContext {
    /// Returns the mapping that the embedding program chooses for a record; nil without a chooser.
    func chosen(by mapping: Int, for value: JSONValue) throws(StagingFault) -> StagingHooks.Choice? {
        guard let chooser = plan.hooks?.choosers[mapping] else { return nil }
        let record = value.jsonText
        return try callHook(.unmappable, nil, value) { try chooser(record) }
    }

    /// Returns the record that a rewriter made of this one; nil without a rewriter.
    ///
    /// - Throws: `skipped` when the rewriter ignores the record.
    mutating func rewritten(_ record: JSONValue, _ entity: EntityPlan) throws(StagingFault) -> JSONValue? {
        guard let rewriter = plan.hooks?.rewriters[entity.ownIndex] else { return nil }
        let before = record.jsonText
        let text = try callHook(.invalidValue, entity, record) { try rewriter(before) }
        guard let text else { throw .skipped }
        try take(4 * text.count)
        return try parsed(text, .invalidValue, entity, record)
    }

    /// Asks the embedding program whether to accept a record's values.
    ///
    /// - Parameter cells: index of the record's converted attributes on the stack.
    ///
    /// Mutating, though it changes nothing: otherwise Swift copies the context, which is large, for the call.
    mutating func validate(_ record: JSONValue, _ entity: EntityPlan, _ cells: Int) throws(StagingFault) {
        guard let validator = plan.hooks?.validators[entity.ownIndex] else { return }
        try validate(record, entity, cells, by: validator)
    }

    private mutating func validate(
        _ record: JSONValue, _ entity: EntityPlan, _ cells: Int, by validator: StagingHooks.Validator
    ) throws(StagingFault) {
        let attributes = plan.model.entities[entity.ownIndex].attributes
        var writer = JSONWriter()
        writer.object { writer in
            for column in entity.ownColumns where scratch[cells + column].kind != .absent {
                writer.key(attributes[column].name)
                plan.valueWriter(entity: entity.ownIndex, attribute: column, .iso8601).write(
                    scratch[cells + column], to: &writer)
            }
        }
        let object = writer.bytes
        try callHook(.validationFailed, entity, record) { try validator(object) }
    }

    /// Returns the value that the embedding program makes of a value; nil without a conversion.
    @inline(__always)
    mutating func converted(
        _ value: JSONValue, _ column: Int, _ entity: EntityPlan
    ) throws(StagingFault) -> JSONValue? {
        plan.hooks == nil ? nil : try convertedByHook(value, column, entity)
    }

    private mutating func convertedByHook(
        _ value: JSONValue, _ column: Int, _ entity: EntityPlan
    ) throws(StagingFault) -> JSONValue? {
        guard let conversion = plan.hooks?.conversions[entity.ownIndex]?[column] else { return nil }
        let before = value.jsonText
        let text = try callHook(.invalidValue, entity, value) { try conversion(before) }
        try take(4 * text.count)
        return try parsed(text, .invalidValue, entity, value)
    }

    private func callHook<Result>(
        _ code: FaultCode, _ entity: EntityPlan?, _ value: JSONValue, _ body: () throws -> Result
    ) throws(StagingFault) -> Result {
        do {
            return try body()
        } catch {
            throw .invalid(Fault(code, "\(error)", entity: entity?.name), offset: textOffset(of: value))
        }
    }

    /// Parses the text of a hook. The value lives as long as the rows.
    private mutating func parsed(
        _ text: [UInt8], _ code: FaultCode, _ entity: EntityPlan, _ value: JSONValue
    ) throws(StagingFault) -> JSONValue {
        let document: JSONDocument
        do {
            document = try JSONDocument(fast: JSONText(copying: text))
        } catch {
            throw .invalid(
                Fault(code, "The embedding program made no JSON of this: \(error.reason).", entity: entity.name),
                offset: textOffset(of: value))
        }
        arena.retain(document)
        return document.root
    }
}

// MARK: - Offsets in rewritten records

extension StagingContext {
    /// Returns the offset of a value in the job's text; for a value of a rewritten record, an offset inside the
    /// original record.
    @inline(__always)
    func textOffset(of value: JSONValue) -> Int {
        guard let rewrittenAt else { return value.offset }
        return min(rewrittenAt.lowerBound + value.offset, rewrittenAt.upperBound - 1)
    }

    /// Returns the range of a record in the job's text.
    func extent(of record: JSONValue) -> Range<Int> {
        let start = textOffset(of: record)
        let end = start + max(1, record.bytes.count)
        return start..<min(end, max(start + 1, rewrittenAt?.upperBound ?? end))
    }
}

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
