internal import BrokerJSON
package import BrokerModel

/// Applies the records of one step of a job: one after the other, in the order of the text, each beside what came before it.
///
/// It is the rules of `records.md` as code. Two things are settled later: keys of objects that do not exist (`PendingKeys`) at the
/// end of the step, and unique values, by the store, at the end of the job. With the policy `skip`, each record is undone by
/// itself; with `fail`, the caller undoes the job. One thread uses it.
package final class Interpreter {
    let plan: StagingPlan
    let store: any ObjectStore
    let policy: InvalidRecordPolicy
    private let sync: StagedSync?
    private let collections: ShortList<JobCollection>
    /// Reads the records; its rows are only those of records from which nested ones take values.
    var reader: StagingContext
    /// The object that the operation names.
    var target: AppliedObject?
    var pending = PendingKeys()
    /// The sync may not make the change that the record which was applied last asks for.
    var wasIgnored = false
    /// By object, the newest value of `modified` that a record of the step brought.
    private(set) var sentModified: [AppliedObject: OwnedCell] = [:]
    /// Such values as they were before.
    private var formerModified: [(object: AppliedObject, value: OwnedCell?)] = []

    /// By operation, the objects of its own records in their order; nil for a record without one.
    package private(set) var payload: [[AppliedObject?]] = []
    /// The sync's objects that its records name.
    package private(set) var namedObjects: Set<AppliedObject> = []
    package var named: Set<Int64> { Set(namedObjects.map(\.number)) }
    /// The identities by which the sync's records name objects that do not exist, or that may get another row.
    package private(set) var namedIdentities: [[OwnedCell]] = []

    /// - Parameter allowance: asked for memory; nil grants all.
    package init(
        _ rows: StagedRows, _ plan: StagingPlan, _ policy: InvalidRecordPolicy, _ store: any ObjectStore,
        sync: StagedSync? = nil, _ allowance: (any StagingAllowance)? = nil
    ) {
        self.plan = plan
        self.store = store
        self.policy = policy
        self.sync = sync
        collections = rows.collections
        reader = StagingContext(plan, collections[0], policy, StagingMemory(allowance))
    }

    // MARK: - Results

    /// The listed rejections with their paths, in the order of the text.
    package var rejected: [Fault] { reader.staged.rejections.located(in: collections[0].document) }

    /// By entity name, the number of rejections that are not listed.
    package var unlistedRejections: [String: Int] { reader.staged.rejections.unlisted }

    package var warnings: [Warning] { reader.warnings }

    /// Returns the fault with the path of the value at that offset.
    package func located(_ fault: Fault, at offset: Int) -> Fault {
        ValuePaths.located(fault, at: offset, in: collections[0].document)
    }

    // MARK: - Operations

    /// Applies all operations of the step.
    ///
    /// - Throws: `invalid` with a fault that has its path, when the policy is `fail`; or `ended`.
    package func apply() throws(ApplyingFault) {
        do throws(ApplyingFault) {
            for collection in collections {
                for operation in collection.operations {
                    payload.append([])
                    try apply(operation)
                }
            }
            try settlePendingKeys()
        } catch {
            guard case .invalid(let fault, let offset?) = error else { throw error }
            throw .invalid(located(fault, at: offset), offset: nil)
        }
    }

    private func apply(_ operation: StagingOperation) throws(ApplyingFault) {
        let entity = plan.entities[operation.entity]
        switch operation.action {
        case .process:
            try forEachRecord(of: operation.json) { record throws(ApplyingFault) in
                try applyOwn(MappedRecord(value: record, entity: entity))
            }
        case .map(let mapping, let parameters): try map(operation.json, mapping, parameters)
        case .route(let tree):
            try tree.forEachPart(of: operation.json) { value, target throws(ApplyingFault) in
                try map(value, target.mapping!, target.parameters)
            }
        case .change(let key):
            note(try guarded(at: key.offset) { () throws(ApplyingFault) in try change(operation.json, key, entity) })
        case .adjust(let key, let adjustment):
            note(
                try guarded(at: key.offset) { () throws(ApplyingFault) in
                    try adjust(operation.json, key, adjustment, entity)
                })
        case .relate(let key, let relationship):
            let object = try guarded(at: key.offset) { () throws(ApplyingFault) in
                try relate(operation, key, entity, relationship)
            }
            guard object == nil else { return }
            let count = entity.relationships[relationship].elementCount(of: operation.json)
            payload[payload.count - 1] = Array(repeating: nil, count: count)
        case .name, .identify: return
        }
    }

    /// Calls `body` with each record of an operation. Staging has refused any other value.
    private func forEachRecord(
        of json: JSONValue, _ body: (JSONValue) throws(ApplyingFault) -> Void
    ) throws(ApplyingFault) {
        guard json.kind == .array else { return try body(json) }
        for record in json.elements { try body(record) }
    }

    private func map(_ json: JSONValue, _ mapping: Int, _ parameters: PathParameters?) throws(ApplyingFault) {
        try forEachRecord(of: json) { record throws(ApplyingFault) in
            var chosen: EntityPlan?
            _ = try guarded(at: record.offset) { () throws(ApplyingFault) in
                chosen = try reading { reader throws(StagingFault) in try reader.plan(of: mapping, for: record) }
                return nil
            }
            guard let entity = chosen else { return note(nil) }
            guard entity.nesting?.isCollection ?? false, record.kind == .object else {
                return try applyOwn(MappedRecord(value: record, entity: entity), parameters)
            }
            for (key, value) in record.members {
                try applyOwn(MappedRecord(value: value, entity: entity, nestedKey: key), parameters)
            }
        }
    }

    /// Applies one of the operation's own records.
    private func applyOwn(_ record: MappedRecord, _ parameters: PathParameters? = nil) throws(ApplyingFault) {
        // What fails in a single statement leaves nothing to undo.
        let isOneWrite = record.entity.ownRelationships.isEmpty
        wasIgnored = false
        let object = try guarded(at: reader.textOffset(of: record.value), isOneWrite: isOneWrite) {
            () throws(ApplyingFault) in try apply(record, parameters)
        }
        note(wasIgnored ? nil : object)
    }

    /// Applies a record for the object that the operation names.
    func change(
        _ json: JSONValue, _ key: JSONValue, _ entity: EntityPlan
    ) throws(ApplyingFault) -> AppliedObject? {
        guard json.kind == .object else { throw invalid(reader.noRecord(json, entity)) }
        let cells = try reading { reader throws(StagingFault) in try reader.keyCells(key, entity) }
        let mayBecome = !entity.isAbstract
        let object = try namedObject(entity, cells, key) {
            isKind($0, of: entity.ownIndex) || mayBecome && isKind(entity.ownIndex, of: $0)
        }
        target = object
        reader.target = StagedTarget(
            entity: entity.index, concreteEntity: entity.ownIndex, key: cells, recordOffset: entity.unwrap(json).offset)
        defer { (target, reader.target) = (nil, nil) }
        return try apply(MappedRecord(value: json, entity: entity), nil)
    }

    /// Applies the value of a relationship of the object that the operation names.
    private func relate(
        _ operation: StagingOperation, _ key: JSONValue, _ entity: EntityPlan, _ relationship: Int
    ) throws(ApplyingFault) -> AppliedObject? {
        let json = operation.json
        let cells = try reading { reader throws(StagingFault) in
            try reader.checkOwner(json, entity, relationship)
            return try reader.keyCells(key, entity)
        }
        let object = try namedObject(entity, cells, key) { isKind($0, of: entity.ownIndex) }
        try store.touch(object, namesLinks: false)
        var source = LinkingRecord(entity: entity, object: object, values: .key(cells))
        source.isNoted = true
        source.replaces = operation.links.map { $0 == .replace }
        guard operation.links != .remove else {
            try unlink(json, entity.relationships[relationship], source, from: object)
            return object
        }
        try apply(json, entity.relationships[relationship], &source)
        return object
    }

    func namedObject(
        _ entity: EntityPlan, _ key: [Cell], _ value: JSONValue, _ isFitting: (Int) -> Bool
    ) throws(ApplyingFault) -> AppliedObject {
        guard let object = try store.object(entity.ownIndex, key: key), isFitting(object.entity) else {
            throw .invalid(
                Fault(
                    .objectNotFound,
                    "There is no \(entity.name) \(String(decoding: value.bytes.prefix(200), as: UTF8.self)). Process it without "
                        + "`object` first, or send another key.", entity: entity.name), offset: value.offset)
        }
        return object
    }

    // MARK: - Records that are skipped

    /// Runs `body`. With the policy `skip`, what it did is undone when it is at fault, and the fault is listed.
    ///
    /// - Parameters:
    ///   - offset: that of the record, for a fault without an offset.
    ///   - isOneWrite: what is at fault has changed nothing.
    func guarded(
        at offset: Int, isOneWrite: Bool = false, _ body: () throws(ApplyingFault) -> AppliedObject?
    ) throws(ApplyingFault) -> AppliedObject? {
        guard policy == .skip, !isOneWrite else {
            do throws(ApplyingFault) {
                return try body()
            } catch {
                switch error {
                case .skipped: return nil
                case .invalid(let fault, let own):
                    guard policy == .skip else { throw .invalid(fault, offset: own ?? offset) }
                    try reject(fault, at: own ?? offset)
                    return nil
                case .ended: throw error
                }
            }
        }
        try store.mark()
        let (mark, modifiedMark) = (pending.mark(), formerModified.count)
        do throws(ApplyingFault) {
            let object = try body()
            try store.accept()
            return object
        } catch {
            if case .ended = error { throw error }
            try store.undo()
            pending.undo(to: mark)
            while formerModified.count > modifiedMark, let former = formerModified.popLast() {
                sentModified[former.object] = former.value
            }
            if case .invalid(let fault, let own) = error { try reject(fault, at: own ?? offset) }
            return nil
        }
    }

    func reject(_ fault: Fault, at offset: Int) throws(ApplyingFault) {
        guard reader.reject(fault, at: offset) else { throw .ended(StagingRefusal.noRoom) }
    }

    func reading<Value>(
        _ body: (inout StagingContext) throws(StagingFault) -> Value
    ) throws(ApplyingFault) -> Value {
        do throws(StagingFault) {
            return try body(&reader)
        } catch {
            switch error {
            case .invalid(let fault, let offset): throw .invalid(fault, offset: offset)
            case .skipped: throw .skipped
            case .noRoom: throw .ended(StagingRefusal.noRoom)
            }
        }
    }

    // MARK: - Notes

    func note(_ object: AppliedObject?) { payload[payload.count - 1].append(object) }

    func setSentModified(_ value: OwnedCell?, of object: AppliedObject) {
        if policy == .skip { formerModified.append((object, sentModified[object])) }
        sentModified[object] = value
    }

    /// Notes an object that the sync's records name.
    func noteName(_ object: AppliedObject?, _ entity: EntityPlan, _ cells: Int) {
        guard let sync, entity.index == plan.model.topmost(of: sync.selection.entity) else { return }
        if let object { namedObjects.insert(object) }
        // The identity may be another row's before the last part comes: the key of such a row is the store's own.
        guard object == nil || plan.model.entities[entity.index].hasRowKey else { return }
        let identity = entity.identity.map { OwnedCell(copying: reader.scratch[cells + $0]) }
        if !identity.isEmpty, identity.allSatisfy({ !$0.cell.isNil }) { namedIdentities.append(identity) }
    }

    /// Whether the sync may not make the change that a record of the entity asks for.
    func isIgnored(_ entity: EntityPlan, _ object: AppliedObject?) -> Bool {
        guard let sync, sync.ignoresRecords, isKind(entity.ownIndex, of: sync.selection.entity) else { return false }
        return object == nil ? !sync.inserts : !sync.updates
    }

    func isKind(_ entity: Int, of other: Int) -> Bool { entity == other || plan.model.isKind(entity, of: other) }
}

extension EntityPlan.RelationshipPlan {
    /// The number of objects that a value of the relationship names.
    fileprivate func elementCount(of value: JSONValue) -> Int {
        switch value.kind {
        case _ where isNone(value): 0
        case .array where relationship.isToMany: value.elements.reduce(0) { count, _ in count + 1 }
        default: 1
        }
    }
}

/// An object of the store that a record or a key of a job names.
package struct AppliedObject: Hashable, Sendable {
    /// The entity whose table has the object.
    package let table: Int
    /// The number of the object's row, while the object keeps its identity.
    package let number: Int64
    /// The object's concrete entity.
    package let entity: Int

    package init(table: Int, number: Int64, entity: Int) {
        self.table = table
        self.number = number
        self.entity = entity
    }
}

extension AppliedObject {
    /// The same object, whatever its concrete entity is.
    var withoutEntity: AppliedObject { AppliedObject(table: table, number: number, entity: table) }
}

/// Why a record or a bare key is not applied.
package enum ApplyingFault: Error {
    /// It is at fault. `offset` is that of the value in the text; nil for the record that is being applied.
    indirect case invalid(Fault, offset: Int?)
    /// A hook or a mapping declines it, or the sync may not insert it. This is not a fault.
    case skipped
    /// The job ends: the store failed, or a budget is spent.
    case ended(any Error)
}

/// The primitives by which an ``Interpreter`` finds, changes and links objects, one at a time.
///
/// All calls come from one thread, inside the savepoint of the job. Cells are valid during the call.
package protocol ObjectStore: AnyObject {
    // MARK: Objects

    /// - Parameters:
    ///   - entity: the entity whose identity that is.
    ///   - identity: a row's worth of cells.
    func object(_ entity: Int, identity: UnsafePointer<Cell>) throws(ApplyingFault) -> AppliedObject?

    /// - Parameter key: the values of the entity's identity in its order, or the store's own key.
    func object(_ entity: Int, key: [Cell]) throws(ApplyingFault) -> AppliedObject?

    /// The stored value of an attribute. Valid until the next call.
    func value(of attribute: Int, _ object: AppliedObject) throws(ApplyingFault) -> Cell

    /// The object as it is now, perhaps of another entity; nil after a deletion.
    func current(_ object: AppliedObject) throws(ApplyingFault) -> AppliedObject?

    /// The columns for which a new object of the entity needs a value besides its identity: attributes without a default,
    /// and to-one relationships that another program's table requires.
    func required(_ entity: Int) -> [Int]

    /// - Parameters:
    ///   - cells: a row's worth; absent attributes take their defaults.
    ///   - links: by column, the objects of to-one relationships.
    ///   - offset: of the record, which claims the object's unique values.
    func insert(
        _ entity: Int, _ cells: UnsafePointer<Cell>, links: [Int: AppliedObject], claimedAt offset: Int
    ) throws(ApplyingFault) -> AppliedObject

    /// Sets the attributes that are present. An object of an ancestor becomes one of `entity`.
    func update(
        _ object: AppliedObject, as entity: Int, _ cells: UnsafePointer<Cell>, claimedAt offset: Int
    ) throws(ApplyingFault) -> AppliedObject

    /// Gives the object another identity, where that is its key; references to the object follow.
    func rename(_ object: AppliedObject, _ cells: UnsafePointer<Cell>) throws(ApplyingFault) -> AppliedObject

    /// How often objects were deleted.
    var deletions: Int { get }

    /// Deletes the object by the delete rules.
    func delete(_ object: AppliedObject) throws(ApplyingFault)

    /// Counts the object, also if nothing in it changes.
    ///
    /// - Parameter namesLinks: a record of the object names links in link tables: if they change, the object does.
    func touch(_ object: AppliedObject, namesLinks: Bool) throws(ApplyingFault)

    // MARK: Links

    /// Sets or ends a to-one link.
    func link(_ object: AppliedObject, _ relationship: Int, to destination: AppliedObject?) throws(ApplyingFault)

    /// Adds objects to a to-many relationship, in an ordered one after those that are there.
    ///
    /// - Parameters:
    ///   - replaces: the links to all other objects end, but for `retained`; owned objects are deleted. In an ordered
    ///     relationship the elements then have the positions from 0.
    func set(
        _ elements: [AppliedObject], of object: AppliedObject, _ relationship: Int, replacing replaces: Bool,
        retaining retained: [AppliedObject]
    ) throws(ApplyingFault)

    /// Ends the links of a to-many relationship to those of the objects that are linked.
    func unlink(
        _ elements: [AppliedObject], from object: AppliedObject, _ relationship: Int
    ) throws(ApplyingFault)

    /// Gives the elements of an ordered relationship the positions from 0, in their order. No element takes the position
    /// of another object that stays in the list.
    func order(
        _ elements: [AppliedObject], of object: AppliedObject, _ relationship: Int
    ) throws(ApplyingFault)

    // MARK: Records that are undone

    func mark() throws(ApplyingFault)
    /// The changes since the last mark stay.
    func accept() throws(ApplyingFault)
    func undo() throws(ApplyingFault)
}
