internal import BrokerFastJSON
internal import BrokerJSON
internal import BrokerModel

/// Code of the embedding program that takes part in staging.
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
        let rewritten = try parsed(text, entity, record)
        guard rewritten.kind == .object else {
            throw fault(
                .invalidValue,
                "The embedding program made \(rewritten.kind.phrase) of a record of \(entity.name), and an object is wanted.",
                record, entity)
        }
        return rewritten
    }

    /// Asks the embedding program whether to accept a record's values.
    ///
    /// - Parameter cells: index of the record's converted attributes on the stack.
    func validate(_ record: JSONValue, _ entity: EntityPlan, _ cells: Int) throws(StagingFault) {
        guard let validator = plan.hooks?.validators[entity.ownIndex] else { return }
        let attributes = plan.model.entities[entity.ownIndex].attributes
        var writer = JSONWriter()
        writer.object { writer in
            for column in entity.ownColumns
            where column != entity.extraColumn && scratch[cells + column].kind != .absent {
                writer.key(attributes[column].name)
                plan.valueWriter(entity: entity.ownIndex, attribute: column, .iso8601).write(
                    scratch[cells + column], to: &writer)
            }
        }
        let object = writer.bytes
        try callHook(.validationFailed, entity, record) { try validator(object) }
    }

    /// Returns the value that the embedding program makes of a value; nil without a conversion.
    mutating func converted(
        _ value: JSONValue, _ column: Int, _ entity: EntityPlan
    ) throws(StagingFault) -> JSONValue? {
        guard let conversion = plan.hooks?.conversions[entity.ownIndex]?[column] else { return nil }
        let before = value.jsonText
        let text = try callHook(.invalidValue, entity, value) { try conversion(before) }
        return try parsed(text, entity, value)
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
        _ text: [UInt8], _ entity: EntityPlan, _ value: JSONValue
    ) throws(StagingFault) -> JSONValue {
        try take(4 * text.count)
        let document: JSONDocument
        do {
            document = try JSONDocument(fast: JSONText(copying: text))
        } catch {
            throw .invalid(
                Fault(
                    .invalidValue, "The embedding program made no JSON of this: \(error.reason).", entity: entity.name),
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
