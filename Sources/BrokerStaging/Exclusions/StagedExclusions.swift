public import BrokerModel

/// Objects that the merge found to be left out, and what is to be told of them. Their records and bare keys are staged
/// no more, so that nothing that these say has an effect.
// Changed by the one thread that merges the job, and stages it again.
public final class StagedExclusions: @unchecked Sendable {
    public let policy: InvalidRecordPolicy
    private struct Object {
        /// Nil leaves it out without a word.
        let fault: Fault?
        /// Of an object that is not there and cannot be made: told if nothing is left that would make it.
        let absence: Fault?
        /// Nothing would have made it: keys wanted it to be there.
        let isWantedAlone: Bool
        /// Only bare keys of entities below this one are left out: they would make of the object what it cannot be.
        let keysBelow: Int?
        /// Where the newest staging met it first, and the strongest reason that it met for it to be there.
        var metAt: Int?
        var metAs = RowOrigin.passedOver

        /// What is to be told of it after the newest staging.
        var told: Fault? {
            guard let absence else { return fault }
            return metAs.rawValue <= RowOrigin.stub.rawValue ? fault : metAs == .mustExist ? absence : nil
        }
    }

    private var objects: [Object] = []
    private let tables: TableSet
    /// By entity index and row in `tables`, which object that is.
    private var numbers: [[Int]]
    /// By where it begins, which object a record without identity is.
    private var records: [Int: Int] = [:]
    private var arena = ByteArena()
    /// Of a sync that may not do everything.
    public var passedOver: IgnoredRecords?
    /// Nil when no entity has such an attribute.
    let modified: ModifiedValues?
    /// Nil as long as nobody asked what the store has.
    private(set) var kinds: KnownEntities?
    /// What the operation's object, which is named by a key of the store's own, has as its identity: a row's worth of cells,
    /// and the entity whose identity it is. Nil as long as the rows do not name it by that, too.
    private(set) var identityOfSubject: (cells: [Cell], kind: Int)?
    private let plan: StagingPlan

    public init(_ plan: StagingPlan, _ policy: InvalidRecordPolicy) {
        self.policy = policy
        self.plan = plan
        tables = TableSet(plan)
        numbers = Array(repeating: [], count: plan.entities.count)
        modified = plan.entitiesWithModified.isEmpty ? nil : ModifiedValues(plan)
    }

    /// Leaves an object out.
    ///
    /// - Parameters:
    ///   - fault: told at the place that first names the object; nil leaves it out without a word.
    ///   - absence: of an object that is not there and cannot be made: told in its place if only bare keys are left that
    ///     want it to be there. If only those are left that do not mind, nothing is told.
    ///   - keysBelow: leaves out only bare keys of entities below that one, and not the object.
    public func add(
        entity: Int, row: Int, of rows: StagedRows, _ fault: Fault?, absence: Fault? = nil, keysBelow: Int? = nil
    ) {
        let table = rows.tables[entity]!
        let offset = Int(table.offsets[row])
        if table.hasIdentity(row) {
            var cells = Array(UnsafeBufferPointer(start: table.row(row), count: table.columnCount))
            // The rows that the cells point into go before this object does.
            for column in table.identityColumns(ofRow: row) { cells[column] = arena.copy(of: cells[column]) }
            let known = cells.withUnsafeBufferPointer {
                tables[entity].pointee.findOrAdd(
                    identity: $0.baseAddress!, offset: offset, origin: .record, kind: table.kind(of: row))
            }
            if known < numbers[entity].count {
                numbers[entity][known] = objects.count
            } else {
                numbers[entity].append(objects.count)
            }
        } else {
            records[offset] = objects.count
        }
        let isWantedAlone = table.origins[row].rawValue > RowOrigin.stub.rawValue
        objects.append(Object(fault: fault, absence: absence, isWantedAlone: isWantedAlone, keysBelow: keysBelow))
    }

    /// Tells what an object has of `modified` in the store: its records that are not newer are passed over, though not
    /// left out, since the object stays named.
    ///
    /// - Parameter identity: a row's worth of cells.
    public func note(modified stored: Cell, entity: Int, identity: UnsafePointer<Cell>) {
        modified?.note(stored, entity, identity: identity)
    }

    /// Whatever the store has was told of the object with that identity.
    public func noteModifiedKnown(entity: Int, identity: UnsafePointer<Cell>) {
        modified?.know(entity, identity: identity)
    }

    /// What the store has was told of all objects that the rows name.
    public func noteAllModified() { modified?.isComplete = true }

    /// Tells the same of the object that the operation names by its key.
    public func note(modifiedOfSubject stored: Cell) { modified?.note(subject: stored) }

    /// Tells the identity of the object that the operation names by a key of the store's own.
    ///
    /// - Parameter identity: a value for each attribute of the identity; copied.
    public func note(identityOfSubject identity: [Cell], kind: Int) {
        var cells = Array(repeating: Cell.absent, count: plan.entities[kind].layout.columnCount)
        for (column, cell) in zip(plan.entities[kind].identity, identity) { cells[column] = arena.copy(of: cell) }
        identityOfSubject = (cells, kind)
    }

    /// Tells what the object of a row is in the store: the index of its entity, or nil when it is not there.
    public func note(kind: Int?, of row: Int, in table: FrozenTable) {
        let known = kinds ?? KnownEntities(plan)
        kinds = known
        known.note(stored: kind, table.entityIndex, identity: table.row(row), kind: table.kind(of: row))
    }

    // MARK: - While staging

    /// A new staging meets what is left out anew. What is nested in something left out it does not meet.
    func begin() {
        for number in objects.indices { (objects[number].metAt, objects[number].metAs) = (nil, .passedOver) }
        passedOver?.begin()
        modified?.begin()
        kinds?.begin()
    }

    /// Whether the object of that identity is left out, which a record or a bare key at `offset` names.
    func meet(_ entity: EntityPlan, identity: UnsafePointer<Cell>, at offset: Int, as origin: RowOrigin) -> Bool {
        guard tables.exists(entity.index),
            let row = tables[entity.index].pointee.find(identity: identity, kind: entity.kind)
        else { return false }
        let number = numbers[entity.index][row]
        // What only keys wanted to be there is not, which says nothing of a record.
        if origin == .record, objects[number].isWantedAlone { return false }
        if let kind = objects[number].keysBelow {
            guard origin != .record, let family = entity.family, family.inherits(from: kind) else { return false }
        }
        meet(number, at: offset, as: origin)
        return true
    }

    /// Whether the record without identity that begins there is left out.
    func meet(recordAt offset: Int) -> Bool {
        guard let number = records[offset] else { return false }
        meet(number, at: offset, as: .record)
        return true
    }

    private func meet(_ number: Int, at offset: Int, as origin: RowOrigin) {
        objects[number].metAt = min(offset, objects[number].metAt ?? offset)
        if origin.rawValue < objects[number].metAs.rawValue { objects[number].metAs = origin }
    }

    /// A table's objects that the newest staging named without a word and without a row: they are not there, and need not
    /// be.
    ///
    /// - Returns: their identities; good as long as what was staged.
    func namedAlone(_ table: Int) -> [[Cell]] {
        let passedOver = passedOver?.namedAlone(table) ?? []
        guard tables.exists(table) else { return passedOver }
        let met = numbers[table].indices.filter { row in
            let object = objects[numbers[table][row]]
            return object.metAt != nil && object.told == nil
        }
        return passedOver + met.map { tables[table].pointee.identity(ofRow: $0) }
    }

    /// What is to be told of the objects that the newest staging met, each at the place that first names it.
    var rejections: RejectionList {
        var list = RejectionList()
        for object in objects.sorted(by: { ($0.metAt ?? 0) < ($1.metAt ?? 0) }) {
            if let offset = object.metAt, let fault = object.told { list.add(fault, at: offset) }
        }
        return list
    }
}
