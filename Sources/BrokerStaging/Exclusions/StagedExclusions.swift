package import BrokerModel

/// Objects that the merge rejected or skipped, with the faults to report. Staging ignores their records and bare keys,
/// so that these have no effect.
// Used only by the thread that merges the job and stages it again.
package final class StagedExclusions: @unchecked Sendable {
    package let policy: InvalidRecordPolicy
    private struct Object {
        /// Nil skips the object without a fault.
        let fault: Fault?
        /// For an object that does not exist and cannot be inserted: the fault to report if no remaining record or key
        /// would insert it.
        let absence: Fault?
        /// Only keys of objects that must exist named it; nothing would have inserted it.
        let isWantedAlone: Bool
        /// Only bare keys of subentities of this entity are ignored: the object cannot become of those entities.
        let keysBelow: Int?
        /// The first offset in the latest staging that named it, and the strongest origin for its row.
        var metAt: Int?
        var metAs = RowOrigin.ignored

        /// The fault to report after the latest staging.
        var faultToReport: Fault? {
            guard let absence else { return fault }
            return metAs.rawValue <= RowOrigin.stub.rawValue ? fault : metAs == .mustExist ? absence : nil
        }
    }

    private var objects: [Object] = []
    private let tables: TableSet
    /// By entity index and row in `tables`, the index of the object.
    private var numbers: [[Int]]
    /// By offset of a record without identity, the index of its object.
    private var records: [Int: Int] = [:]
    private var arena = ByteArena()
    /// Set for a sync that may not insert or not update.
    package var ignoredRecords: IgnoredRecords?
    /// Nil when no entity has a `modified` attribute.
    let modified: ModifiedValues?
    /// Nil until the merge adds stored facts.
    private(set) var knownEntities: KnownEntities?
    /// The identity of the operation's target, which is named by the store's own key: a row's worth of cells, and the
    /// entity whose identity it is. Nil until the merge knows it.
    private(set) var targetIdentity: (cells: [Cell], concreteEntity: Int)?
    private let plan: StagingPlan

    package init(_ plan: StagingPlan, _ policy: InvalidRecordPolicy) {
        self.policy = policy
        self.plan = plan
        tables = TableSet(plan)
        numbers = Array(repeating: [], count: plan.entities.count)
        modified = plan.entitiesWithModified.isEmpty ? nil : ModifiedValues(plan)
    }

    /// Excludes an object.
    ///
    /// - Parameters:
    ///   - fault: reported at the offset that first names the object; nil skips the object without a fault.
    ///   - absence: for an object that does not exist and cannot be inserted: reported instead of `fault` if the
    /// remaining bare keys only require the object. If the remaining keys ignore a missing object, no fault is
    /// reported.
    ///   - keysBelow: excludes only bare keys of subentities of that entity, and not the object.
    package func add(
        row: Int, of table: FrozenTable, _ fault: Fault?, absence: Fault? = nil, keysBelow: Int? = nil
    ) {
        let entity = table.entityIndex
        let offset = Int(table.namings[row].offset)
        if table.hasIdentity(row) {
            // The rows own the memory of the cells and are freed before this object.
            let known = tables[entity].pointee.findOrAdd(
                copying: table.row(row), in: &arena, offset: offset, concreteEntity: table.concreteEntity(of: row))
            if known < numbers[entity].count {
                numbers[entity][known] = objects.count
            } else {
                numbers[entity].append(objects.count)
            }
        } else {
            records[offset] = objects.count
        }
        let isWantedAlone = table.namings[row].origin.rawValue > RowOrigin.stub.rawValue
        objects.append(Object(fault: fault, absence: absence, isWantedAlone: isWantedAlone, keysBelow: keysBelow))
    }

    /// Adds the stored `modified` value of an object. Records that are not newer are skipped, but the object counts as
    /// named.
    ///
    /// - Parameter identity: a row's worth of cells.
    package func note(modified stored: Cell, entity: Int, identity: UnsafePointer<Cell>) {
        modified?.note(stored, entity, identity: identity)
    }

    /// Notes that the store was asked about the object with that identity.
    package func noteModifiedKnown(entity: Int, identity: UnsafePointer<Cell>) {
        modified?.know(entity, identity: identity)
    }

    /// Notes that the store was asked about all objects that the rows name.
    package func noteAllModified() { modified?.isComplete = true }

    /// Adds the stored `modified` value of the target that the operation names by its key.
    package func note(targetModified stored: Cell) { modified?.note(target: stored) }

    /// Adds the identity of the target that the operation names by the store's own key.
    ///
    /// - Parameter identity: a value for each attribute of the identity; copied.
    package func note(targetIdentity identity: [Cell], concreteEntity: Int) {
        let entity = plan.entities[concreteEntity]
        let cells = identity.map { arena.copy(of: $0) }
        targetIdentity = (Cell.row(cells, at: entity.identity, width: entity.columnCount), concreteEntity)
    }

    /// Adds the stored concrete entity of a row's object; nil when the object does not exist.
    package func note(concreteEntity: Int?, of row: Int, in table: FrozenTable) {
        let known = knownEntities ?? KnownEntities(plan)
        knownEntities = known
        known.note(
            stored: concreteEntity, table.entityIndex, identity: table.row(row),
            concreteEntity: table.concreteEntity(of: row))
    }

    /// Adds the entity of a row's object after all records, so that bare keys that ask for another are ignored. Its stored
    /// entity was added before.
    package func note(finalEntity: Int, of row: Int, in table: FrozenTable) {
        knownEntities?.note(final: finalEntity, plan.entities[table.concreteEntity(of: row)], table.row(row))
    }

    // MARK: - During staging

    /// Prepares for a new staging. It does not meet records nested in an excluded record.
    func begin() {
        for number in objects.indices { (objects[number].metAt, objects[number].metAs) = (nil, .ignored) }
        ignoredRecords?.begin()
        modified?.begin()
        knownEntities?.begin()
    }

    /// Whether the object of that identity, which a record or a bare key at `offset` names, is excluded.
    func excludes(_ entity: EntityPlan, identity: UnsafePointer<Cell>, at offset: Int, as origin: RowOrigin) -> Bool {
        guard tables.exists(entity.index),
            let row = tables[entity.index].pointee.find(identity: identity, concreteEntity: entity.ownIndex)
        else { return false }
        let number = numbers[entity.index][row]
        // The object was excluded only because keys require it, which does not concern a record.
        if origin == .record, objects[number].isWantedAlone { return false }
        if let concreteEntity = objects[number].keysBelow {
            guard origin != .record, let hierarchy = entity.hierarchy, hierarchy.inherits(from: concreteEntity) else {
                return false
            }
        }
        noteMet(number, at: offset, as: origin)
        return true
    }

    /// Whether the record without identity at that offset is excluded.
    func excludes(recordAt offset: Int) -> Bool {
        guard let number = records[offset] else { return false }
        noteMet(number, at: offset, as: .record)
        return true
    }

    private func noteMet(_ number: Int, at offset: Int, as origin: RowOrigin) {
        objects[number].metAt = min(offset, objects[number].metAt ?? offset)
        if origin.rawValue < objects[number].metAs.rawValue { objects[number].metAs = origin }
    }

    /// Returns the identities of a table's objects that the latest staging named and excluded without a fault: they do
    /// not exist, and need not exist. Valid as long as the staged rows.
    func namedWithoutRow(_ table: Int) -> [[Cell]] {
        let ignoredRecords = ignoredRecords?.namedWithoutRow(table) ?? []
        guard tables.exists(table) else { return ignoredRecords }
        let met = numbers[table].indices.filter { row in
            let object = objects[numbers[table][row]]
            return object.metAt != nil && object.faultToReport == nil
        }
        return ignoredRecords + met.map { tables[table].pointee.identity(ofRow: $0) }
    }

    /// The faults of the objects that the latest staging met, each at the offset that first names the object.
    var rejections: RejectionList {
        var list = RejectionList()
        for object in objects.sorted(by: { ($0.metAt ?? 0) < ($1.metAt ?? 0) }) {
            if let offset = object.metAt, let fault = object.faultToReport { list.add(fault, at: offset) }
        }
        return list
    }
}

/// Objects of one entity whose records a sync ignores, because it may not insert or not update them. Records nested in
/// an ignored record are staged.
package final class IgnoredRecords {
    enum Decision {
        /// The record is staged.
        case accepted
        /// The object exists, and does not change.
        case named
        /// The object does not exist, and is not inserted.
        case absent
    }

    /// The entity of the sync; its subentities belong to it.
    let entity: Int
    private let table: Int
    private let inserts: Bool
    private let updates: Bool
    private let existing: TableSet
    /// Objects that the latest staging named and did not insert; in the memory of its rows.
    private var absent: TableSet
    private let plan: StagingPlan
    private var arena = ByteArena()

    /// - Parameters:
    ///   - inserts: the sync may insert objects.
    ///   - updates: the sync may update objects.
    package init(of entity: Int, inserts: Bool, updates: Bool, _ plan: StagingPlan) {
        self.entity = entity
        table = plan.entities[entity].index
        self.inserts = inserts
        self.updates = updates
        existing = TableSet(plan)
        absent = TableSet(plan)
        self.plan = plan
    }

    /// Prepares for a new staging.
    func begin() { absent = TableSet(plan) }

    /// Returns the identities of the objects of that table that the latest staging named and did not insert.
    func namedWithoutRow(_ table: Int) -> [[Cell]] {
        guard absent.exists(table) else { return [] }
        return (0..<absent[table].pointee.rowCount).map { absent[table].pointee.identity(ofRow: $0) }
    }

    /// Notes that the object of a staged row is in the store.
    package func noteExisting(_ row: Int, of staged: FrozenTable) {
        // The rows own the memory of the cells and are freed before this object.
        _ = existing[table].pointee.findOrAdd(
            copying: staged.row(row), in: &arena, concreteEntity: staged.concreteEntity(of: row))
    }

    /// - Parameter identity: a row's worth of cells; nil for a record without an identity.
    func decision(_ identity: UnsafePointer<Cell>?, concreteEntity: Int) -> Decision {
        let exists =
            identity.map { existing[table].pointee.find(identity: $0, concreteEntity: concreteEntity) != nil } ?? false
        if exists { return updates ? .accepted : .named }
        if inserts { return .accepted }
        if let identity {
            _ = absent[table].pointee.findOrAdd(
                identity: identity, offset: 0, origin: .ignored, concreteEntity: concreteEntity)
        }
        return .absent
    }
}

/// The values of objects' `modified` attributes: in the store, and, while a job is staged again, after the records that
/// were accepted so far.
///
/// With it staging is exact: records are accepted or skipped as if they were applied to the store one by one.
final class ModifiedValues {
    private struct Value {
        let stored: Cell
        /// The value of a staged record; points into memory of that staging.
        var current: Cell
    }

    private let plan: StagingPlan
    private let tables: TableSet
    /// By entity index and row in `tables`.
    private var values: [[Value]]
    /// The stored value of the object that the operation names by its key.
    private(set) var target: Cell?
    private var arena = ByteArena()
    /// The stored values of all objects that the previous staging named were noted.
    var isComplete = false
    /// The latest staging met objects without a noted value, because it skipped other records.
    private(set) var hasUnknownObjects = false

    init(_ plan: StagingPlan) {
        self.plan = plan
        tables = TableSet(plan)
        values = Array(repeating: [], count: plan.entities.count)
    }

    /// - Parameter identity: a row's worth of cells; copied, like `stored`.
    func note(_ stored: Cell, _ entity: Int, identity: UnsafePointer<Cell>) {
        let value = arena.copy(of: stored)
        values[entity][row(entity, identity)] = Value(stored: value, current: value)
    }

    /// Notes that the store was asked about the object.
    func know(_ entity: Int, identity: UnsafePointer<Cell>) { _ = row(entity, identity) }

    func note(target stored: Cell) { target = arena.copy(of: stored) }

    /// Forgets the records of the last staging.
    func begin() {
        hasUnknownObjects = false
        for entity in plan.entitiesWithModified {
            for row in values[entity].indices { values[entity][row].current = values[entity][row].stored }
        }
    }

    /// Whether a record is newer than its object.
    func isNewer(_ cell: Cell, _ modified: ModifiedColumn, _ entity: Int, identity: UnsafePointer<Cell>) -> Bool {
        cell.kind == .absent || isNewer(tombstone: cell, modified, entity, identity: identity)
    }

    /// As ``isNewer(_:_:_:identity:)``, for a record that deletes the object.
    func isNewer(
        tombstone cell: Cell, _ modified: ModifiedColumn, _ entity: Int, identity: UnsafePointer<Cell>
    ) -> Bool {
        !modified.isStale(cell, against: values[entity][rowNotingUnknown(entity, identity)].current)
    }

    /// Notes an accepted record: the next one of that identity must be newer.
    func note(current cell: Cell, _ entity: Int, identity: UnsafePointer<Cell>) {
        if cell.kind != .absent { values[entity][rowNotingUnknown(entity, identity)].current = cell }
    }

    /// Notes an accepted record that deletes the object: the next record inserts a new object.
    func noteDeletion(_ entity: Int, identity: UnsafePointer<Cell>) {
        values[entity][rowNotingUnknown(entity, identity)].current = .absent
    }

    private func rowNotingUnknown(_ entity: Int, _ identity: UnsafePointer<Cell>) -> Int {
        if tables[entity].pointee.find(identity: identity, concreteEntity: entity) == nil { hasUnknownObjects = true }
        return row(entity, identity)
    }

    private func row(_ entity: Int, _ identity: UnsafePointer<Cell>) -> Int {
        let row = tables[entity].pointee.findOrAdd(copying: identity, in: &arena, concreteEntity: entity)
        if row == values[entity].count { values[entity].append(Value(stored: .absent, current: .absent)) }
        return row
    }
}

/// The concrete entities of objects in hierarchies: in the store, and, while a job is staged again, after the records
/// that were accepted so far.
///
/// With it staging is exact: records are accepted or rejected as if they were applied to the store one by one.
final class KnownEntities {
    private struct Fact {
        /// Nil if the object does not exist.
        let stored: Int?
        var current: Int?
        /// Entities of the object after all records of earlier stagings, in which bare keys asked for another entity.
        var final: [Int] = []
    }

    private let plan: StagingPlan
    private let tables: TableSet
    /// By entity index and row in `tables`.
    private var facts: [[Fact]]
    private var arena = ByteArena()

    init(_ plan: StagingPlan) {
        self.plan = plan
        tables = TableSet(plan)
        facts = Array(repeating: [], count: plan.entities.count)
    }

    /// - Parameters:
    ///   - entity: index of the table's entity.
    ///   - identity: a row's worth of cells, which are copied.
    ///   - concreteEntity: the entity whose identity that is.
    func note(stored: Int?, _ entity: Int, identity: UnsafePointer<Cell>, concreteEntity: Int) {
        let row = tables[entity].pointee.findOrAdd(copying: identity, in: &arena, concreteEntity: concreteEntity)
        if row == facts[entity].count { facts[entity].append(Fact(stored: stored, current: stored)) }
    }

    /// A stored or staged fact about an object.
    struct Known {
        /// Nil if the object does not exist.
        let concreteEntity: Int?
    }

    /// Forgets the records of the last staging.
    func begin() {
        for entity in facts.indices {
            for row in facts[entity].indices { facts[entity][row].current = facts[entity][row].stored }
        }
    }

    /// Returns the object's concrete entity at this point; nil if the store was not asked about the object.
    func find(_ entity: EntityPlan, _ identity: UnsafePointer<Cell>) -> Known? {
        row(entity, identity).map { Known(concreteEntity: facts[entity.index][$0].current) }
    }

    /// Whether the store was asked about the row's object.
    func knows(_ row: Int, of table: FrozenTable) -> Bool {
        find(plan.entities[table.concreteEntity(of: row)], table.row(row)) != nil
    }

    func note(current concreteEntity: Int, _ entity: EntityPlan, _ identity: UnsafePointer<Cell>) {
        if let row = row(entity, identity) { facts[entity.index][row].current = concreteEntity }
    }

    /// Notes an entity of the object after all records. From then on staging ignores bare keys that ask for another one.
    func note(final concreteEntity: Int, _ entity: EntityPlan, _ identity: UnsafePointer<Cell>) {
        if let row = row(entity, identity) { facts[entity.index][row].final.append(concreteEntity) }
    }

    /// Returns an entity of the object after all records that neither is `entity` nor inherits from it.
    func finalEntity(of identity: UnsafePointer<Cell>, unlike entity: EntityPlan) -> Int? {
        row(entity, identity).flatMap { row in
            facts[entity.index][row].final.first { !plan.model.isKind($0, of: entity.ownIndex) }
        }
    }

    /// Notes that a record deletes the object.
    func noteDeletion(_ entity: EntityPlan, _ identity: UnsafePointer<Cell>) {
        guard let row = row(entity, identity) else { return }
        facts[entity.index][row].current = nil
    }

    private func row(_ entity: EntityPlan, _ identity: UnsafePointer<Cell>) -> Int? {
        guard tables.exists(entity.index) else { return nil }
        return tables[entity.index].pointee.find(identity: identity, concreteEntity: entity.ownIndex)
    }
}
