internal import BrokerJSON
internal import BrokerModel

/// The holder of the values of relationships: a record, or the `json` of a `relate`.
struct LinkingRecord {
    /// The values that nested records take from it.
    enum Values {
        case record(OpenRecord)
        /// The values of the identity, or the store's own key.
        case key([Cell])
        case none
    }

    let entity: EntityPlan
    /// Nil where its elements are applied without links.
    var object: AppliedObject?
    let values: Values
    /// The row of its values in the reader, once a nested record needs them.
    var row: Int?
    /// The position of the next element among the values of its relationship.
    var position: UInt32 = 0
    /// Its elements are records of the operation.
    var isNoted = false
    /// Its bare keys link nothing, and so make nothing.
    var isIgnored = false
    /// Whether the value replaces the links of a to-many; nil for what the model says.
    var replaces: Bool?

    fileprivate func replaces(_ relationship: Relationship) -> Bool {
        replaces ?? (relationship.assignment == .replace)
    }
}

/// An element of a relationship's value.
enum LinkedElement {
    case object(AppliedObject)
    /// A key of an object that does not exist yet.
    case key(PendingKey)
    /// It is rejected or skipped: the existing link to this object, if any, stays.
    case skipped(AppliedObject?)
}

extension Interpreter {
    /// Applies the value of a relationship: nested records and bare keys, which it links, or null.
    func apply(
        _ value: JSONValue, _ plan: EntityPlan.RelationshipPlan, _ source: inout LinkingRecord
    ) throws(ApplyingFault) {
        guard let object = source.object else { return }
        let relationship = plan.relationship
        if case .linkTable = plan.form { try store.touch(object, namesLinks: true) }
        if plan.isNone(value) {
            pending.replace(LinkSet(object: object, relationship: plan.index))
            if relationship.isToMany {
                return try store.set([], of: object, plan.index, replacing: true, retaining: [])
            }
            return try store.link(object, plan.index, to: nil)
        }
        let deletions = store.deletions
        var elements = try elements(of: value, plan, &source)
        if source.isNoted { for element in elements { note(element.object) } }
        if store.deletions != deletions {
            source.object = try standing(source)
            for index in elements.indices { elements[index] = try standing(elements[index], plan) }
        }
        guard let object = source.object else { return }
        let set = LinkSet(object: object, relationship: plan.index)
        guard relationship.isToMany else {
            guard let element = elements.first else { return }
            switch element {
            case .object(let destination):
                pending.replace(set)
                try store.link(object, plan.index, to: destination)
            case .key:
                pending.replace(set)
                pending.add(set, plan, elements, of: source.entity.ownIndex, replaces: false)
            case .skipped: break
            }
            return
        }
        let replaces = source.replaces(relationship)
        if replaces { pending.replace(set) }
        try store.set(
            elements.compactMap(\.object), of: object, plan.index, replacing: replaces,
            retaining: elements.compactMap(\.retained))
        if elements.contains(where: \.isPending) {
            pending.add(set, plan, elements, of: source.entity.ownIndex, replaces: replaces)
        }
    }

    /// The object of the record's identity, after a record nested in it may have deleted it.
    private func standing(_ source: LinkingRecord) throws(ApplyingFault) -> AppliedObject? {
        switch source.values {
        case .record(let record) where record.hasIdentity && !record.isTarget: return try object(of: record)
        case .key(let cells): return try store.object(source.entity.ownIndex, key: cells)
        case .record, .none:
            guard let object = source.object else { return nil }
            return try store.current(object)
        }
    }

    /// The element, after a later one may have deleted its object, or made it again as one of another entity.
    private func standing(
        _ element: LinkedElement, _ plan: EntityPlan.RelationshipPlan
    ) throws(ApplyingFault) -> LinkedElement {
        guard let known = element.object else { return element }
        guard let object = try store.current(known), isKind(object.entity, of: plan.relationship.destination) else {
            return .skipped(nil)
        }
        return .object(object)
    }

    /// Applies the elements of a relationship's value, in their order.
    func elements(
        of value: JSONValue, _ plan: EntityPlan.RelationshipPlan, _ source: inout LinkingRecord
    ) throws(ApplyingFault) -> [LinkedElement] {
        source.position = 0
        guard plan.relationship.isToMany, value.kind == .array else {
            var elements: [LinkedElement] = []
            try apply(oneOrMore: value, plan, &source, &elements)
            return elements
        }
        var elements: [LinkedElement] = []
        for element in value.elements {
            guard plan.isNone(element: element) else {
                try apply(oneOrMore: element, plan, &source, &elements)
                continue
            }
            elements.append(.skipped(nil))
            source.position += 1
        }
        return elements
    }

    /// Applies one element, or the members of a dictionary of records.
    private func apply(
        oneOrMore value: JSONValue, _ plan: EntityPlan.RelationshipPlan, _ source: inout LinkingRecord,
        _ elements: inout [LinkedElement]
    ) throws(ApplyingFault) {
        let dictionary =
            plan.relationship.isToMany
            ? try reading { reader throws(StagingFault) in try reader.dictionaryPlan(value, plan) } : nil
        guard let dictionary else {
            elements.append(try element(value, plan, &source))
            source.position += 1
            return
        }
        for (key, record) in value.members {
            let mapped = MappedRecord(value: record, entity: dictionary, nestedKey: key)
            elements.append(try element(record, plan, &source, mapped))
            source.position += 1
        }
    }

    /// Applies an element: a record, or a bare key.
    func element(
        _ value: JSONValue, _ plan: EntityPlan.RelationshipPlan, _ source: inout LinkingRecord,
        _ mapped: MappedRecord? = nil
    ) throws(ApplyingFault) -> LinkedElement {
        let destination = self.plan.entities[plan.relationship.destination]
        var record = mapped ?? MappedRecord(value: value, entity: destination)
        var (isApplied, key): (Bool, PendingKey?) = (false, nil)
        let object = try guarded(at: reader.textOffset(of: value)) { () throws(ApplyingFault) in
            if record.entity.needsHolder { record.holder = try holder(plan, &source) }
            if mapped == nil, value.kind == .object, let mapping = plan.mapping {
                let chosen = try reading { reader throws(StagingFault) in try reader.plan(of: mapping, for: value) }
                guard let chosen else {
                    isApplied = true
                    return nil
                }
                record = MappedRecord(value: value, entity: chosen)
                if chosen.needsHolder { record.holder = try holder(plan, &source) }
            }
            guard value.kind == .object || mapped != nil else {
                let object = try bareKey(value, plan, source, destination, &key)
                isApplied = true
                return object
            }
            let object = try apply(record, nil, parent: parent(plan, source))
            isApplied = true
            return object
        }
        if let key { return .key(key) }
        if let object, isKind(object.entity, of: destination.ownIndex) { return .object(object) }
        // A record that is not newer leaves its object one of an entity above.
        if object != nil { noteIgnoredKey(plan, of: source.entity.ownIndex) }
        guard !isApplied, plan.relationship.isToMany, source.replaces(plan.relationship) else {
            return .skipped(nil)
        }
        return .skipped(try storedObject(of: record))
    }

    /// The link that a new element must have from its first moment. All others are made after the last element was applied.
    private func parent(
        _ plan: EntityPlan.RelationshipPlan, _ source: LinkingRecord
    ) -> (column: Int, object: AppliedObject)? {
        guard let object = source.object, case .destinationColumn(let column) = plan.form,
            store.required(plan.relationship.destination).contains(column)
        else { return nil }
        return (column, object)
    }

    /// The stored object of a rejected element, if its identity is readable.
    private func storedObject(of record: MappedRecord) throws(ApplyingFault) -> AppliedObject? {
        let entity = record.entity
        guard let identity = try readableIdentity(of: record) else { return nil }
        return try Cell.row(identity, at: entity.identity, width: entity.columnCount).withUnsafeBufferPointer {
            cells throws(ApplyingFault) in try store.object(entity.ownIndex, identity: cells.baseAddress!)
        }
    }

    private func readableIdentity(of record: MappedRecord) throws(ApplyingFault) -> [Cell]? {
        do throws(ApplyingFault) {
            return try reading { reader throws(StagingFault) in try reader.identityCells(of: record) }
        } catch {
            // The fault is that of the rejected record.
            if case .ended = error { throw error }
            return nil
        }
    }

    /// The values that nested records take from the record that holds them.
    ///
    /// - Throws: `skipped` when they are not known.
    private func holder(
        _ plan: EntityPlan.RelationshipPlan, _ source: inout LinkingRecord
    ) throws(ApplyingFault) -> RecordHolder {
        let row: Int
        if let known = source.row {
            row = known
        } else {
            let (entity, values) = (source.entity, source.values)
            row = try reading { reader throws(StagingFault) in
                switch values {
                case .record(let record):
                    return try reader.holderRow(
                        entity, entity.ownColumns.map { ($0, reader.scratch[record.cells + $0]) })
                case .key(let cells):
                    // The store's own key is no value of the object.
                    let isOwnKey = reader.plan.model.entities[entity.ownIndex].isNamedByRowKey
                    return try reader.holderRow(entity, isOwnKey ? [] : Array(zip(entity.identity, cells)))
                case .none: throw .skipped
                }
            }
            source.row = row
        }
        return RecordHolder(
            entity: UInt32(source.entity.index), row: UInt32(row), relationship: UInt32(plan.index),
            position: source.position)
    }

    // MARK: - Unlinking

    /// Ends the links to the objects that records or bare keys name. Nothing else of the records is read.
    func unlink(
        _ value: JSONValue, _ plan: EntityPlan.RelationshipPlan, _ source: LinkingRecord, from object: AppliedObject
    ) throws(ApplyingFault) {
        if case .linkTable = plan.form { try store.touch(object, namesLinks: true) }
        var named: [AppliedObject] = []
        func unlink(_ element: JSONValue) throws(ApplyingFault) {
            let known = try self.object(namedBy: element, plan, source)
            note(known)
            guard let known else { return }
            try store.touch(known, namesLinks: false)
            named.append(known)
        }
        if value.kind == .array {
            for element in value.elements { try unlink(element) }
        } else {
            try unlink(value)
        }
        try store.unlink(named, from: object, plan.index)
    }

    private func object(
        namedBy element: JSONValue, _ plan: EntityPlan.RelationshipPlan, _ source: LinkingRecord
    ) throws(ApplyingFault) -> AppliedObject? {
        var destination = self.plan.entities[plan.relationship.destination]
        let known: AppliedObject?
        if element.kind == .object {
            if let mapping = plan.mapping {
                let chosen = try reading { reader throws(StagingFault) in try reader.plan(of: mapping, for: element) }
                guard let chosen else { return nil }
                destination = chosen
            }
            known = try storedObject(of: MappedRecord(value: element, entity: destination))
        } else {
            let cells = try reading { reader throws(StagingFault) in
                try reader.readKey(element, plan.relationship, of: source.entity.ownIndex, to: destination)
            }
            defer { reader.scratch.pop(destination.attributes.count) }
            known = try reader.scratch.withCells(at: cells) { cells throws(ApplyingFault) in
                try store.object(destination.ownIndex, identity: cells)
            }
        }
        return known.flatMap { isKind($0.entity, of: plan.relationship.destination) ? $0 : nil }
    }

    // MARK: - Bare keys

    /// - Parameter pending: set when the object does not exist, and the key does not make it now.
    private func bareKey(
        _ value: JSONValue, _ plan: EntityPlan.RelationshipPlan, _ source: LinkingRecord, _ destination: EntityPlan,
        _ pending: inout PendingKey?
    ) throws(ApplyingFault) -> AppliedObject? {
        let relationship = plan.relationship
        let cells = try reading { reader throws(StagingFault) in
            try reader.readKey(value, relationship, of: source.entity.ownIndex, to: destination)
        }
        defer { reader.scratch.pop(destination.attributes.count) }
        let offset = reader.textOffset(of: value)
        let known = try reader.scratch.withCells(at: cells) { cells throws(ApplyingFault) in
            try store.object(destination.ownIndex, identity: cells)
        }
        noteName(known, destination, cells)
        if source.isIgnored || known == nil && isIgnored(destination, nil) { return nil }
        reader.noteInexactKey(destination, destination.identity[0])
        if let known, isKind(known.entity, of: destination.ownIndex) {
            try store.touch(known, namesLinks: false)
            return known
        }
        func isPending(_ fault: Fault?) {
            pending = PendingKey(
                entity: destination, key: OwnedCell(copying: reader.scratch[cells + destination.identity[0]]),
                offset: offset, fault: fault)
        }
        guard relationship.missing == .stub, !destination.isAbstract else {
            isPending(relationship.missing == .ignore ? nil : MissingObject.notFound(destination))
            return nil
        }
        if let known, !isKind(destination.ownIndex, of: known.entity) {
            throw invalid(reader.unrelatedObject(destination, known.entity, offset: offset))
        }
        let before = known.map { self.plan.model.entities[$0.entity] }
        let lacking = store.required(destination.ownIndex).first { column in
            !destination.identity.contains(column) && !(before?.attributeIndices.contains(column) ?? false)
        }
        if let lacking {
            isPending(MissingObject.lacks(lacking, destination, before.map { .becoming($0.name) } ?? .stub))
            return nil
        }
        let object = try reader.scratch.withCells(at: cells) { cells throws(ApplyingFault) in
            guard let known else {
                let stub = try store.insert(destination.ownIndex, cells, links: [:], claimedAt: offset)
                if sentModified[stub.withoutEntity] != nil { setSentModified(nil, of: stub.withoutEntity) }
                try store.touch(stub, namesLinks: false)
                return stub
            }
            let object = try store.update(known, as: destination.ownIndex, cells, claimedAt: offset)
            try store.touch(object, namesLinks: false)
            return object
        }
        if known == nil { noteName(object, destination, cells) }
        return object
    }

    /// Looks up the keys of the operation whose objects did not exist, and links the objects that exist by now.
    func settlePendingKeys() throws(ApplyingFault) {
        for value in pending.takeAll() {
            guard let object = try store.current(value.set.object), isKind(object.entity, of: value.source) else {
                continue
            }
            var found: [AppliedObject] = []
            var all: [AppliedObject] = []
            for element in value.elements {
                if let object = element.object { all.append(object) }
                guard case .key(let key) = element else { continue }
                if let object = try settle(key, of: value) {
                    found.append(object)
                    all.append(object)
                }
            }
            guard !found.isEmpty else { continue }
            let (index, relationship) = (value.set.relationship, value.plan.relationship)
            guard relationship.isToMany else {
                try store.link(object, index, to: found[0])
                continue
            }
            try store.set(found, of: object, index, replacing: false, retaining: [])
            if relationship.isOrdered, value.replaces {
                try store.order(all, of: object, index)
            }
        }
    }

    private func noteIgnoredKey(_ plan: EntityPlan.RelationshipPlan, of entity: Int) {
        reader.valueWarnings.note(entity: entity, [ValueNote(property: plan.index, code: .ignoredKey)])
    }

    private func settle(_ key: PendingKey, of value: PendingKeys.Value) throws(ApplyingFault) -> AppliedObject? {
        let entity = key.entity
        let object = try Cell.row([key.key.cell], at: entity.identity, width: entity.columnCount)
            .withUnsafeBufferPointer { cells throws(ApplyingFault) in
                try store.object(entity.ownIndex, identity: cells.baseAddress!)
            }
        if let object, isKind(object.entity, of: entity.ownIndex) {
            try store.touch(object, namesLinks: false)
            return object
        }
        guard var fault = key.fault else {
            noteIgnoredKey(value.plan, of: value.source)
            return nil
        }
        if let object, fault.code == .objectNotFound,
            case .invalid(let other, _) = reader.notFound(entity, object.entity, offset: key.offset)
        {
            fault = other
        }
        guard policy == .skip else { throw .invalid(fault, offset: key.offset) }
        try reject(fault, at: key.offset)
        return nil
    }
}

extension LinkedElement {
    var object: AppliedObject? { if case .object(let object) = self { object } else { nil } }
    fileprivate var retained: AppliedObject? { if case .skipped(let object) = self { object } else { nil } }
    fileprivate var isPending: Bool { if case .key = self { true } else { false } }
}

/// The links of one relationship of one object, whatever entity the object has by then.
struct LinkSet: Hashable {
    let object: AppliedObject
    let relationship: Int

    init(object: AppliedObject, relationship: Int) {
        self.object = object.withoutEntity
        self.relationship = relationship
    }
}

/// A bare key of an object that did not exist when its record was applied.
struct PendingKey {
    let entity: EntityPlan
    /// The value of the identity.
    let key: OwnedCell
    let offset: Int
    /// The fault if the object does not exist at the end of the operation; nil ends no job.
    let fault: Fault?
}

/// Values of relationships with keys whose objects did not exist: they are looked up at the end of the operation.
struct PendingKeys {
    struct Value {
        let set: LinkSet
        /// The entity of the record that has the value.
        let source: Int
        let plan: EntityPlan.RelationshipPlan
        /// All elements of the value, in their order.
        let elements: [LinkedElement]
        /// The value replaces the links of a to-many.
        let replaces: Bool
    }

    private enum Entry {
        case value(Value)
        /// A later value took the place of all earlier ones.
        case replaced(LinkSet)
    }

    private var entries: [Entry] = []

    mutating func add(
        _ set: LinkSet, _ plan: EntityPlan.RelationshipPlan, _ elements: [LinkedElement], of source: Int,
        replaces: Bool
    ) {
        entries.append(.value(Value(set: set, source: source, plan: plan, elements: elements, replaces: replaces)))
    }

    /// Notes that a value takes the place of all earlier ones.
    mutating func replace(_ set: LinkSet) {
        if !entries.isEmpty { entries.append(.replaced(set)) }
    }

    func mark() -> Int { entries.count }

    mutating func undo(to mark: Int) { entries.removeLast(entries.count - mark) }

    /// The values that count, in their order. None is left.
    mutating func takeAll() -> [Value] {
        guard !entries.isEmpty else { return [] }
        defer { entries = [] }
        var replaced: Set<LinkSet> = []
        var values: [Value] = []
        for entry in entries.reversed() {
            switch entry {
            case .value(let value): if !replaced.contains(value.set) { values.append(value) }
            case .replaced(let set): replaced.insert(set)
            }
        }
        return values.reversed()
    }
}
