internal import BrokerJSON
internal import BrokerModel

extension Interpreter {
    /// Changes attributes of the object that the operation names, then applies the record beside them, if there is one.
    func adjust(
        _ json: JSONValue, _ key: JSONValue, _ adjustment: JobAdjustment, _ entity: EntityPlan
    ) throws(ApplyingFault) -> AppliedObject? {
        let cells = try reading { reader throws(StagingFault) in try reader.keyCells(key, entity) }
        let object = try namedObject(entity, cells, key) { isKind($0, of: entity.ownIndex) }
        try store.touch(object, namesLinks: false)
        let first = reader.scratch.push(entity.attributes.count)
        defer { reader.scratch.pop(entity.attributes.count) }
        var documents: [JSONDocument] = []
        for (name, value, appends) in adjustment.changes {
            let column = try reading { reader throws(StagingFault) in
                try reader.adjustedAttribute(name, value, appends, entity)
            }
            let stored = try store.value(of: column, object)
            let (cell, document) = try reading { reader throws(StagingFault) in
                try reader.adjusted(stored, by: value, column, appends, entity)
            }
            reader.scratch[first + column] = cell
            documents.append(document)
        }
        let changed = try withExtendedLifetime(documents) { () throws(ApplyingFault) in
            try reader.scratch.withCells(at: first) { cells throws(ApplyingFault) in
                try store.update(object, as: object.entity, cells, claimedAt: key.offset)
            }
        }
        return adjustment.hasRecord ? try change(json, key, entity) : changed
    }
}

/// Changes of an object's attributes by their stored values.
extension StagingContext {
    /// Stages the changes of an object that the operation names by its key, and the record beside them.
    mutating func adjust(
        _ json: JSONValue, _ key: JSONValue, _ adjustment: JobAdjustment, _ entity: EntityPlan
    ) throws(StagingFault) {
        staged.note(.object)
        var changed: Set<Int> = []
        for (name, value, appends) in adjustment.changes {
            let column = try adjustedAttribute(name, value, appends, entity)
            guard changed.insert(column).inserted else {
                throw fault(
                    .invalidValue, "The operation changes \(name.quotedBriefly) twice. Send one change of it.", value,
                    entity)
            }
        }
        guard !adjustment.hasRecord else { return try self.change(json, key, entity) }
        _ = try keyCells(key, entity)
        try take(entity.rowByteCount)
        let row = staged.tables[entity.index].pointee.findOrAdd(
            identity: nil, offset: key.offset, origin: .record, concreteEntity: entity.ownIndex)
        try notePayload((entity.index, row))
    }

    /// Returns the index of an attribute that takes the change.
    func adjustedAttribute(
        _ name: JSONValue, _ value: JSONValue, _ appends: Bool, _ entity: EntityPlan
    ) throws(StagingFault) -> Int {
        let model = plan.model.entities[entity.ownIndex]
        let text = String(decoding: name.bytes.prefix(ModelLimits.longestName + 1), as: UTF8.self)
        guard let column = model.index(ofAttribute: text), !model.attributes[column].isExtra else {
            let ending = NearMiss.ending(text.briefly, among: entity.ownColumns.map { model.attributes[$0].name })
            throw fault(.unknownKey, "\(model.name) has no attribute \(text.quotedBriefly)\(ending)", value, entity)
        }
        let attribute = model.attributes[column]
        func refusal(_ reason: String) -> StagingFault {
            fault(
                .invalidValue, "\(model.name).\(attribute.name) \(reason)", at: textOffset(of: value), entity,
                attribute.name)
        }
        guard !entity.identity.contains(column) else {
            throw refusal("identifies the object. Send its new value in `json`.")
        }
        let (isFitting, needs) =
            switch (appends, attribute.type) {
            case (true, .string): (value.kind == .string, "a string")
            case (true, .transformable): (value.kind == .array, "an array of elements")
            case (true, _):
                throw refusal("is \(attribute.type.rawValue), and only strings and arrays can be appended to.")
            case (false, _): (value.kind == .number, "a number")
            }
        guard appends || attribute.type.isNumber else {
            throw refusal("is \(attribute.type.rawValue), and only numbers can be incremented.")
        }
        guard isFitting else {
            throw refusal("can be changed by \(needs), and this is \(value.kind.phrase).")
        }
        return column
    }

    /// Returns the value that an attribute gets by a change. Its cell is valid while the document and the context are.
    mutating func adjusted(
        _ stored: Cell, by value: JSONValue, _ column: Int, _ appends: Bool, _ entity: EntityPlan
    ) throws(StagingFault) -> (Cell, JSONDocument) {
        let attribute = plan.model.entities[entity.ownIndex].attributes[column]
        var written = JSONWriter()
        plan.valueWriter(entity: entity.ownIndex, attribute: column, .model).write(stored, to: &written)
        let old = written.bytes
        let new =
            if !appends {
                sum(of: stored.isNil ? [UInt8(ascii: "0")] : old, value, attribute.type)
            } else {
                Self.joined(stored.isNil ? nil : old, value)
            }
        guard let new, let document = JSONDocument(extra: new) else {
            let reason =
                appends ? "The stored value is no array, so nothing can be appended to it." : "The sum is too large."
            throw fault(
                .invalidValue, "\(attribute.name): \(reason) Send its new value in `json`.", at: textOffset(of: value),
                entity, attribute.name)
        }
        if new.count > Self.freeBytes { try take(4 * new.count) }
        let cell: Cell
        do throws(ValueFault) {
            cell = try entity.attributes[column].converter.convert(document.root, arena: &arena)
        } catch {
            throw invalid(error, value, column, entity)
        }
        if arena.isInexact {
            valueWarnings.note(entity: entity.ownIndex, [ValueNote(property: column, code: .inexact)])
        }
        try take(arena.takeFresh())
        return (cell, document)
    }

    /// The memory of shorter values is that of the operation's staged row.
    private static var freeBytes: Int { 1_024 }

    private func sum(of old: [UInt8], _ amount: JSONValue, _ type: AttributeType) -> [UInt8]? {
        old.withUnsafeBufferPointer { old in
            guard let stored = NumberText(old), let added = NumberText(amount.bytes) else { return nil }
            guard type == .double || type == .float else { return DecimalSum.text(stored, added) }
            guard let one = stored.double, let other = added.double, (one + other).isFinite else { return nil }
            var writer = JSONWriter()
            writer.double(one + other)
            return writer.bytes
        }
    }

    /// The JSON text of two strings or arrays, one after the other.
    private static func joined(_ old: [UInt8]?, _ value: JSONValue) -> [UInt8]? {
        let new = value.jsonText
        guard let old else { return new }
        guard old.first == new.first else { return nil }
        let isArray = new.first == UInt8(ascii: "[")
        let isOldEmpty = !old.dropFirst().contains { !" \t\r\n]".utf8.contains($0) }
        let isNewEmpty = value.elementCount == 1
        let comma = isArray && !isOldEmpty && !isNewEmpty ? [UInt8(ascii: ",")] : []
        return old.dropLast() + comma + new.dropFirst()
    }
}
