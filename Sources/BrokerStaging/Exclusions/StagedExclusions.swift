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
