internal import BrokerModel

extension Interpreter {
    /// Applies a record, then what is nested in it.
    ///
    /// - Parameter parent: the column of the record's link to the object that holds it, and that object: a new object is
    ///   linked at once.
    /// - Returns: its object; nil when there is none.
    func apply(
        _ mapped: MappedRecord, _ parameters: PathParameters?, parent: (column: Int, object: AppliedObject)? = nil
    ) throws(ApplyingFault) -> AppliedObject? {
        let record = try reading { reader throws(StagingFault) in try reader.read(mapped, parameters) }
        var isIgnored = false
        defer {
            reader.close(record)
            wasIgnored = isIgnored
        }
        let known = try object(of: record)
        if record.hasIdentity || known != nil { noteName(known, record.entity, record.cells) }
        if record.isTombstone { return try delete(known, record) }
        if self.isIgnored(record.entity, known) {
            isIgnored = true
            return try ignore(record, known, makesStubs: true)
        }
        let concreteEntity = try concreteEntity(of: known, record)
        if let known, try isStale(record, known) {
            try store.touch(known, namesLinks: false)
            return try ignore(record, known, makesStubs: false)
        }
        reader.valueWarnings.note(entity: record.entity.ownIndex, record.notes)
        var linked: Set<Int> = []
        let object =
            if let known {
                try update(known, as: concreteEntity, record)
            } else {
                try insert(concreteEntity, record, parent, &linked)
            }
        if known == nil { noteName(object, record.entity, record.cells) }
        if record.isTarget { target = object }
        noteModified(record, object, isNew: known == nil)
        try store.touch(object, namesLinks: false)
        var source = LinkingRecord(entity: record.entity, object: object, values: .record(record))
        try applyRelationships(record, parameters, &source, except: linked)
        return source.object
    }

    func object(of record: OpenRecord) throws(ApplyingFault) -> AppliedObject? {
        if record.isTarget { return target }
        guard record.hasIdentity else { return nil }
        return try reader.scratch.withCells(at: record.cells) { cells throws(ApplyingFault) in
            try store.object(record.entity.ownIndex, identity: cells)
        }
    }

    private func insert(
        _ entity: Int, _ record: OpenRecord, _ parent: (column: Int, object: AppliedObject)?, _ linked: inout Set<Int>
    ) throws(ApplyingFault) -> AppliedObject {
        let layout = plan.layout.entities[entity]
        var (links, nulls): ([Int: AppliedObject], Set<Int>) = ([:], [])
        if let parent { links[parent.column] = parent.object }
        for column in store.required(entity) where column >= layout.attributeCount && links[column] == nil {
            let relationship = record.entity.relationships[layout.link(atColumn: column).relationship]
            guard let value = reader.value(of: relationship, record.slots) else { continue }
            // The table says what it has against it.
            guard !relationship.isNone(value) else {
                nulls.insert(column)
                continue
            }
            var source = LinkingRecord(entity: record.entity, object: nil, values: .record(record))
            if case .object(let object) = try element(value, relationship, &source) {
                links[column] = object
                linked.insert(relationship.index)
            }
        }
        let lacking = store.required(entity).first { column in
            column < layout.attributeCount
                ? reader.scratch[record.cells + column].kind == .absent
                : links[column] == nil && !nulls.contains(column)
        }
        if let lacking { throw .invalid(MissingObject.lacks(lacking, plan.entities[entity], .record), offset: nil) }
        return try reader.scratch.withCells(at: record.cells) { cells throws(ApplyingFault) in
            try store.insert(entity, cells, links: links, claimedAt: record.offset)
        }
    }

    private func update(
        _ object: AppliedObject, as entity: Int, _ record: OpenRecord
    ) throws(ApplyingFault) -> AppliedObject {
        if entity != object.entity {
            let before = plan.model.entities[object.entity]
            let lacking = store.required(entity).first { column in
                reader.scratch[record.cells + column].kind == .absent && !before.attributeIndices.contains(column)
            }
            if let lacking {
                throw .invalid(
                    MissingObject.lacks(lacking, plan.entities[entity], .becoming(before.name)),
                    offset: record.isTarget ? record.offset : nil)
            }
        }
        var object = object
        try reader.scratch.withCells(at: record.cells) { cells throws(ApplyingFault) in
            if record.isTarget, reader.target?.isRenamed ?? false {
                object = try store.rename(object, cells)
            }
            object = try store.update(object, as: entity, cells, claimedAt: record.offset)
        }
        return object
    }

    /// Deletes the object of a record that asks for it. Nothing nested in the record is read.
    private func delete(_ object: AppliedObject?, _ record: OpenRecord) throws(ApplyingFault) -> AppliedObject? {
        guard let object else { return nil }
        if !isKind(object.entity, of: record.entity.ownIndex), !isKind(record.entity.ownIndex, of: object.entity) {
            throw unrelated(object, record)
        }
        if try isStale(record, object) {
            try store.touch(object, namesLinks: false)
            return object
        }
        do throws(ApplyingFault) {
            try store.delete(object)
        } catch .invalid(var fault, let offset) {
            // It names the object that must stay; the record is the one that is rejected.
            fault.entity = record.entity.name
            throw .invalid(fault, offset: offset)
        }
        return nil
    }

    /// Applies only what is nested in the record, without links to it.
    ///
    /// - Parameter makesStubs: bare keys make objects, though they are not linked.
    private func ignore(
        _ record: OpenRecord, _ object: AppliedObject?, makesStubs: Bool
    ) throws(ApplyingFault) -> AppliedObject? {
        var source = LinkingRecord(entity: record.entity, object: nil, values: object == nil ? .none : .record(record))
        source.isIgnored = !makesStubs
        var object = object
        for (value, relationship) in reader.valuesInTextOrder(record.entity, record.slots)
        where !relationship.isNone(value) && !relationship.relationship.isOwned {
            _ = try elements(of: value, relationship, &source)
            if let known = object { object = try store.current(known) }
        }
        return object
    }

    /// Whether the record is not newer than its object.
    private func isStale(_ record: OpenRecord, _ object: AppliedObject) throws(ApplyingFault) -> Bool {
        guard let modified = record.entity.modified else { return false }
        guard let value = reader.sentModified(of: record), !value.isNil else { return false }
        if let sent = sentModified[object.withoutEntity] { return modified.isStale(value, against: sent.cell) }
        return modified.isStale(value, against: try store.value(of: modified.column, object))
    }

    /// Notes the accepted record's value of `modified`, of which the store may have fewer digits.
    private func noteModified(_ record: OpenRecord, _ object: AppliedObject, isNew: Bool) {
        guard let value = reader.sentModified(of: record), value.kind != .absent || isNew else { return }
        let isValue = !value.isNil
        setSentModified(isValue ? OwnedCell(copying: value) : nil, of: object.withoutEntity)
    }

    /// The concrete entity that the record's object has after it.
    private func concreteEntity(of object: AppliedObject?, _ record: OpenRecord) throws(ApplyingFault) -> Int {
        let entity = record.entity
        guard let object else {
            if entity.isAbstract { throw invalid(reader.abstract(entity, offset: record.offset)) }
            return entity.ownIndex
        }
        if isKind(object.entity, of: entity.ownIndex) { return object.entity }
        guard isKind(entity.ownIndex, of: object.entity) else { throw unrelated(object, record) }
        if entity.isAbstract { throw invalid(reader.abstract(entity, offset: record.offset)) }
        return entity.ownIndex
    }

    private func unrelated(_ object: AppliedObject, _ record: OpenRecord) -> ApplyingFault {
        invalid(reader.unrelatedObject(record.entity, object.entity, offset: record.offset))
    }

    func invalid(_ fault: StagingFault) -> ApplyingFault {
        guard case .invalid(let fault, let offset) = fault else { return .skipped }
        return .invalid(fault, offset: offset)
    }

    /// Applies the values of the record's relationships, in the order of the text.
    ///
    /// - Parameter linked: relationships that have been applied.
    private func applyRelationships(
        _ record: OpenRecord, _ parameters: PathParameters?, _ source: inout LinkingRecord, except linked: Set<Int>
    ) throws(ApplyingFault) {
        for (value, relationship) in reader.valuesInTextOrder(record.entity, record.slots)
        where !linked.contains(relationship.index) {
            try apply(value, relationship, &source)
        }
        guard let parameters else { return }
        // The key of a path parameter is not in the record's text: a fault in it is reported at the record.
        let outerRange = reader.rewrittenAt
        defer { reader.rewrittenAt = outerRange }
        reader.rewrittenAt = record.offset..<record.offset + 1
        for relationship in record.entity.ownRelationships
        where reader.value(of: relationship, record.slots) == nil {
            guard let key = parameters.value(of: relationship.relationship.name) else { continue }
            try apply(key, relationship, &source)
        }
    }
}

/// Messages for objects that cannot be made.
enum MissingObject {
    enum Cause {
        case record
        case stub
        /// The object becomes one of the entity, and was one of this one.
        case becoming(String)
    }

    /// - Parameter column: the required column for which there is no value.
    static func lacks(_ column: Int, _ entity: EntityPlan, _ cause: Cause) -> Fault {
        let isAttribute = column < entity.layout.attributeCount
        let name =
            isAttribute
            ? entity.attributes[column].converter.name
            : entity.relationships[entity.layout.link(atColumn: column).relationship].relationship.name
        let what =
            switch cause {
            case .record: "A new \(entity.name) has no value for \(name), which is required."
            case .stub:
                "A bare key names a \(entity.name) that does not exist yet, and a stub cannot be made of it, because "
                    + "\(name) is required."
            case .becoming(let before):
                "An object of \(before) becomes one of \(entity.name), and has no value for \(name), which is required."
            }
        return Fault(
            .missingValue, what + " Send the value, or give the attribute a default or make it optional.",
            entity: entity.name, attribute: name)
    }

    static func notFound(_ entity: EntityPlan) -> Fault {
        Fault(
            .objectNotFound,
            "There is no \(entity.name) with the key given here. Send it first, or set the relationship's "
                + "\"missing\" to \"stub\" or \"ignore\" in the model.", entity: entity.name)
    }
}
