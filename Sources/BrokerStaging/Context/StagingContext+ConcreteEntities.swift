internal import BrokerFastJSON
internal import BrokerJSON
internal import BrokerModel

/// The concrete entity of an object in a hierarchy.
///
/// A record of an entity, or a bare key that makes its object, finds the object of its identity in the whole hierarchy. A bare
/// key that makes nothing decides no object's entity.
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
        let table = tables[entity.index]
        let row = scratch.withCells(at: identity) {
            table.pointee.find(identity: $0, concreteEntity: entity.ownIndex)
        }
        let origin = entity.isAbstract && origin == .stub ? RowOrigin.mustExist : origin
        let known = row.map { table.pointee.concreteEntity(of: $0) }
        if origin.makesNothing { return (known ?? hierarchy.identityHead, origin) }
        // Whose records come first decides, and the store's object does.
        let isMade = row.map { !table.pointee.namings[$0].origin.makesNothing } ?? false
        if entity.isAbstract || isMade && known != entity.ownIndex { note(.entity) }
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
