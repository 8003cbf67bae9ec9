internal import BrokerJSON
internal import BrokerModel

extension StagingContext {
    /// Stages one record with everything nested in it, and returns its row.
    ///
    /// - Throws: when this very record is to be left out; faults deeper inside are rejected there.
    mutating func stage(_ value: JSONValue, _ entity: EntityPlan) throws(StagingFault) -> Int {
        guard value.kind == .object else {
            throw fault(
                .invalidValue, "A record of \(entity.name) must be an object, not \(value.kind.phrase).", value, entity)
        }
        let record = entity.unwrap(value)
        let slots = scanner.open(record, entity)
        defer { scanner.close(slots) }
        let row = try convert(record, entity, slots)
        for relationship in entity.relationships {
            guard let value = scanner.value(relationship.nodes, slots) else { continue }
            try stage(value, relationship, of: entity, row)
        }
        return row
    }

    /// Converts the record's attributes and writes them to its row.
    private mutating func convert(_ record: JSONValue, _ entity: EntityPlan, _ slots: Int) throws(StagingFault) -> Int {
        let cells = scratch.push(entity.attributes.count)
        defer { scratch.pop(entity.attributes.count) }
        for column in 0..<entity.attributes.count {
            let attribute = entity.attributes[column]
            guard let value = scanner.value(attribute.nodes, slots) else { continue }
            scratch[cells + column] = try cell(value, attribute, column, entity)
        }
        let identity = try identity(record, entity, cells)
        let offset = record.offset
        let table = tables[entity.index]
        let row = scratch.withCells(at: cells) { cells in
            table.pointee!.findOrAdd(identity: identity ? cells : nil, offset: offset, origin: .record)
        }
        let own = table.pointee!.row(row)
        for column in 0..<entity.attributes.count {
            let cell = scratch[cells + column]
            if cell.kind != .absent { own[column] = cell }
        }
        return row
    }

    /// Whether the record has an identity; when it has none but may, what is missing of it becomes NULL.
    private mutating func identity(_ record: JSONValue, _ entity: EntityPlan, _ cells: Int) throws(StagingFault) -> Bool
    {
        let missing = entity.identity.first { scratch[cells + $0].kind.rawValue <= Cell.Kind.null.rawValue }
        guard let missing else { return !entity.identity.isEmpty }
        let attribute = plan.model.entities[entity.index].attributes[missing]
        guard entity.isIdentityOptional else {
            let keys = attribute.keyPaths.map { "\"\($0.joined(separator: "."))\"" }.joined(separator: " or ")
            throw StagingFault(
                Fault(
                    .missingIdentity,
                    "A record of \(entity.name) has no value for its identity \(attribute.name) (key \(keys)). "
                        + "Send it, or set identityOptional in the model.",
                    entity: entity.name, attribute: attribute.name), at: record.offset)
        }
        for column in entity.identity where scratch[cells + column].kind == .absent { scratch[cells + column] = .null }
        return false
    }

    @inline(__always)
    private mutating func cell(
        _ value: JSONValue, _ attribute: EntityPlan.AttributePlan, _ column: Int, _ entity: EntityPlan
    ) throws(StagingFault) -> Cell {
        do throws(ValueFault) {
            if value.isNull { return try nullCell(column, entity) }
            do throws(ValueFault) {
                return try attribute.converter.convert(value, arena: &arena)
            } catch {
                switch attribute.onInvalid {
                case .skip: return .absent
                case .null: return try nullCell(column, entity)
                case .fail: throw error
                }
            }
        } catch {
            throw StagingFault(
                Fault(
                    error.code, error.message, entity: entity.name,
                    attribute: plan.model.entities[entity.index].attributes[column].name), at: value.offset)
        }
    }

    private func nullCell(_ column: Int, _ entity: EntityPlan) throws(ValueFault) -> Cell {
        let attribute = plan.model.entities[entity.index].attributes[column]
        guard attribute.isOptional || entity.attributes[column].isIdentity else {
            throw ValueFault(
                reason: .missing,
                message: "\(attribute.name) of \(entity.name) is required and may not be null. "
                    + "Send a value, or make the attribute optional.")
        }
        return .null
    }

    func fault(_ code: FaultCode, _ message: String, _ value: JSONValue, _ entity: EntityPlan) -> StagingFault {
        StagingFault(Fault(code, message, entity: entity.name), at: value.offset)
    }
}

extension EntityPlan {
    /// The record inside `{"employee": {…}}`, or the value itself.
    func unwrap(_ value: JSONValue) -> JSONValue {
        var members = value.members
        guard let only = members.next(), members.next() == nil, only.value.kind == .object else { return value }
        for wrapper in wrappers {
            let isWrapper = wrapper.withUnsafeBufferPointer { Bytes.areEqual($0, only.key.bytes) }
            if isWrapper { return only.value }
        }
        return value
    }
}

extension ValueFault {
    fileprivate var code: FaultCode {
        switch reason {
        case .inconvertible: .invalidValue
        case .notAllowed: .validationFailed
        case .missing: .missingValue
        }
    }
}

/// A stack of cells: records being converted, the outer ones below the inner.
struct ScratchStack: ~Copyable {
    private var cells: [Cell] = []
    private var depth = 0

    /// Takes `count` cells, all absent, and returns where they begin.
    mutating func push(_ count: Int) -> Int {
        let base = depth
        depth += count
        if cells.count < depth { cells.append(contentsOf: repeatElement(.absent, count: depth - cells.count)) }
        for index in base..<depth { cells[index] = .absent }
        return base
    }

    mutating func pop(_ count: Int) { depth -= count }

    subscript(index: Int) -> Cell {
        get { cells[index] }
        set { cells[index] = newValue }
    }

    func withCells<Result>(at base: Int, _ body: (UnsafePointer<Cell>) -> Result) -> Result {
        cells.withUnsafeBufferPointer { body($0.baseAddress! + base) }
    }
}
