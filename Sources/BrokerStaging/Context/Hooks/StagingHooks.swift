internal import BrokerJSON
internal import BrokerModel

/// Code of the embedding program that has a say while records are staged. JSON goes in and comes out as text.
///
/// It is called by threads of the coordinator's, several at once, must not block, and gives the same for the same: a job may
/// be staged more than once.
public struct StagingHooks: Sendable {
    /// What a chooser says of a record.
    public enum Choice: Sendable {
        /// The mapping of that index.
        case mapping(Int)
        /// The record is passed over.
        case decline
        /// As the model says.
        case asModelled
    }

    public typealias Chooser = @Sendable ([UInt8]) throws -> Choice
    /// - Returns: the record in its place; nil passes it over.
    public typealias Rewriter = @Sendable ([UInt8]) throws -> [UInt8]?
    public typealias Validator = @Sendable ([UInt8]) throws -> Void
    public typealias Conversion = @Sendable ([UInt8]) throws -> [UInt8]

    /// By mapping index.
    public var choosers: [Int: Chooser] = [:]
    /// By entity index; what an entity has not, it has of the nearest that it inherits from.
    public var rewriters: [Int: Rewriter] = [:]
    public var validators: [Int: Validator] = [:]
    /// By entity index and attribute index.
    public var conversions: [Int: [Int: Conversion]] = [:]

    public init() {}

    /// With what entities inherit.
    func completed(for model: Model) -> StagingHooks {
        var hooks = self
        for index in model.entities.indices {
            for ancestor in model.ancestors(of: index) {
                if hooks.rewriters[index] == nil { hooks.rewriters[index] = rewriters[ancestor] }
                if hooks.validators[index] == nil { hooks.validators[index] = validators[ancestor] }
                hooks.conversions[index, default: [:]].merge(conversions[ancestor] ?? [:]) { own, _ in own }
            }
        }
        return hooks
    }
}

extension StagingContext {
    /// The mapping that the embedding program chooses for a record; nil where it has no say.
    func chosen(by mapping: Int, for value: JSONValue) throws(StagingFault) -> StagingHooks.Choice? {
        guard let chooser = plan.hooks?.choosers[mapping] else { return nil }
        let record = value.jsonText
        return try heard(.unmappable, nil, value) { () throws(HookError) in
            do { return try chooser(record) } catch { throw HookError(description: "\(error)") }
        }
    }

    /// The record that stands in the place of this one; the same where nobody rewrites it.
    ///
    /// - Throws: `leftOut` of a record that is passed over.
    mutating func rewritten(_ record: JSONValue, _ entity: EntityPlan) throws(StagingFault) -> JSONValue? {
        guard let rewriter = plan.hooks?.rewriters[entity.kind] else { return nil }
        let before = record.jsonText
        let text = try heard(.invalidValue, entity, record) { () throws(HookError) in
            do { return try rewriter(before) } catch { throw HookError(description: "\(error)") }
        }
        guard let text else { throw .leftOut }
        try take(4 * text.count)
        return try held(text, .invalidValue, entity, record)
    }

    /// Asks the embedding program whether a record's values may become an object's.
    ///
    /// - Parameter cells: where the record's converted attributes begin on the stack.
    /// Mutating, though it changes nothing: else the context would be copied for the call, and it is large.
    mutating func validate(_ record: JSONValue, _ entity: EntityPlan, _ cells: Int) throws(StagingFault) {
        guard let validator = plan.hooks?.validators[entity.kind] else { return }
        try validate(record, entity, cells, by: validator)
    }

    private mutating func validate(
        _ record: JSONValue, _ entity: EntityPlan, _ cells: Int, by validator: StagingHooks.Validator
    ) throws(StagingFault) {
        let attributes = plan.model.entities[entity.kind].attributes
        var writer = JSONWriter()
        writer.object { writer in
            for column in entity.ownColumns where scratch[cells + column].kind != .absent {
                writer.key(attributes[column].name)
                plan.valueWriter(entity: entity.kind, attribute: column, .local).write(
                    scratch[cells + column], to: &writer)
            }
        }
        let object = writer.bytes
        try heard(.validationFailed, entity, record) { () throws(HookError) in
            do { try validator(object) } catch { throw HookError(description: "\(error)") }
        }
    }

    /// The value that the embedding program makes of one; nil where it makes none.
    mutating func converted(
        _ value: JSONValue, _ column: Int, _ entity: EntityPlan
    ) throws(StagingFault) -> JSONValue? {
        guard let conversion = plan.hooks?.conversions[entity.kind]?[column] else { return nil }
        let before = value.jsonText
        let text = try heard(.invalidValue, entity, value) { () throws(HookError) in
            do { return try conversion(before) } catch { throw HookError(description: "\(error)") }
        }
        try take(4 * text.count)
        return try held(text, .invalidValue, entity, value)
    }

    private struct HookError: Error {
        let description: String
    }

    private func heard<Result>(
        _ code: FaultCode, _ entity: EntityPlan?, _ value: JSONValue, _ body: () throws(HookError) -> Result
    ) throws(StagingFault) -> Result {
        do throws(HookError) {
            return try body()
        } catch {
            throw .invalid(Fault(code, error.description, entity: entity?.name), offset: place(value))
        }
    }

    /// What the text says; it lives as long as the rows do.
    private mutating func held(
        _ text: [UInt8], _ code: FaultCode, _ entity: EntityPlan, _ value: JSONValue
    ) throws(StagingFault) -> JSONValue {
        let document: JSONDocument
        do {
            document = try JSONDocument(parsing: JSONText(copying: text))
        } catch {
            throw .invalid(
                Fault(code, "The embedding program made no JSON of this: \(error.reason).", entity: entity.name),
                offset: place(value))
        }
        arena.hold(document)
        return document.root
    }
}

// MARK: - Places in rewritten records

extension StagingContext {
    /// Where a value stands in the job's text; one of a rewritten record inside the record that it stands for.
    @inline(__always)
    func place(_ value: JSONValue) -> Int {
        guard let rewrittenAt else { return value.offset }
        return min(rewrittenAt.lowerBound + value.offset, rewrittenAt.upperBound - 1)
    }

    /// The text of a record in the job's text.
    func extent(of record: JSONValue) -> Range<Int> {
        let start = place(record)
        let end = start + max(1, record.bytes.count)
        return start..<min(end, max(start + 1, rewrittenAt?.upperBound ?? end))
    }
}
