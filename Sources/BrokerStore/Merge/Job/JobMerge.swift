internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// The merge of one job's staged rows.
///
/// Objects that must be rejected are thrown as ``MergeFailure/rejected(_:)``, and nothing is repaired here: the caller
/// stages the rows again without them, so that a rejected record has no effect at all.
struct JobMerge {
    let merger: Merger
    let rows: StagedRows
    let policy: InvalidRecordPolicy
    /// Unique values are checked before anything is written, because a first attempt met a conflict.
    let isCareful: Bool
    let memory: MergeMemory
    /// Nil where unique values are checked at once, because nothing follows this merge in the job.
    let parked: ParkedValues?
    var result: MergedRows
    var lookups = StagedLookups()
    /// The row key of the object that the operation names, if it has one.
    var targetRowKey: Int64?
    /// Indexed by entity: the rows that each statement merges.
    let groups: [[PlannedGroup]]
    private var rejected: [RejectedRow] = []
    /// Rows that lack required columns are inserted without a check whether their objects exist.
    private var insertsUnchecked = false

    init(
        _ merger: Merger, _ rows: StagedRows, _ policy: InvalidRecordPolicy, isCareful: Bool, _ memory: MergeMemory,
        _ parked: ParkedValues?
    ) {
        self.merger = merger
        self.rows = rows
        self.policy = policy
        self.isCareful = isCareful
        self.memory = memory
        self.parked = parked
        groups = rows.tables.map { table in
            guard let table else { return [] }
            return table.groups.flatMap { group in
                if merger.entities[group.concreteEntity].upserts.mergesAtOnce(group, of: table) {
                    return [PlannedGroup(rows: group, isAtOnce: true)]
                }
                return table.uniform(group).map { rows in
                    PlannedGroup(
                        rows: rows, isAtOnce: merger.entities[rows.concreteEntity].upserts.mergesAtOnce(rows, of: table)
                    )
                }
            }
        }
        let unchanged = rows.tables.map { Array(repeating: UInt8(0), count: $0?.rowCount ?? 0) }
        result = MergedRows(
            states: unchanged, linkStates: unchanged,
            changedOutside: Array(repeating: [], count: rows.tables.count),
            rowKeys: Array(repeating: [], count: rows.tables.count))
    }

    mutating func run() throws(MergeFailure) -> MergedRows {
        try settleTarget()
        try storing { () throws(StoreError) in
            try resolveRowKeys()
            try checkExistence()
        }
        // Rows that were not checked yet may be at fault, too, and all faults must be weighed together.
        if insertsUnchecked, !rejected.isEmpty { throw .contended }
        try stopIfRejected()
        try checkKeys()
        if isCareful {
            try checkConcreteEntities()
            let occupied = try settleUniqueValues()
            try stopIfRejected()
            if !occupied.isEmpty { throw .occupied(occupied) }
        }
        try bindScans { merge throws(MergeFailure) in
            for entity in merge.merger.order {
                guard let table = merge.rows.tables[entity] else { continue }
                for group in merge.groups[entity] { try merge.merge(group, of: table) }
            }
            try merge.mergeLinks()
        }
        try endLinks()
        try mergeListPositions()
        return result
    }

    // MARK: - Rejections

    /// Records an object that cannot be merged. If the job is to fail, the fault that comes first in the text counts.
    ///
    /// - Parameters:
    ///   - absence: the fault that is reported instead if no remaining record would insert the object, though it must
    ///     exist.
    ///   - keysBelow: rejects only bare keys of entities below that one.
    ///   - fault: nil rejects the object without a report, whatever policy the job has.
    mutating func reject(
        _ entity: Int, _ row: Int, absence: (_ isListed: Bool) -> Fault? = { _ in nil }, keysBelow: Int? = nil,
        _ fault: (_ isListed: Bool) -> Fault?
    ) {
        // Bare keys may be at fault alone, and those that may name nothing are not: the next staging finds them.
        guard policy == .fail, keysBelow == nil else {
            let isListed = rejected.count < RejectionList.maximumListed
            rejected.append(
                RejectedRow(
                    entity: entity, row: row, fault: fault(isListed), absence: absence(isListed), keysBelow: keysBelow))
            return
        }
        let offset = rows.offset(entity: entity, row: row)
        let first = rejected.firstIndex { $0.fault != nil && $0.keysBelow == nil }
        if let first, rows.offset(entity: rejected[first].entity, row: rejected[first].row) <= offset { return }
        let row = RejectedRow(entity: entity, row: row, fault: fault(true))
        if let first, row.fault != nil { rejected[first] = row } else { rejected.append(row) }
    }

    func stopIfRejected() throws(MergeFailure) {
        guard !rejected.isEmpty else { return }
        if policy == .fail, let first = rejected.first(where: { $0.fault != nil && $0.keysBelow == nil }),
            let fault = first.fault
        {
            throw .fault(rows.located(fault, at: rows.offset(entity: first.entity, row: first.row)))
        }
        // A rejected record may be the one that made an object an instance of a subentity, for which it lacks values:
        // such objects are checked again.
        let certain = rejected.filter { rows.tables[$0.entity]!.concreteEntity(of: $0.row) == $0.entity }
        throw .rejected(certain.isEmpty ? rejected : certain)
    }

    // MARK: - Before anything is written

    /// Assigns each row of the entities with row keys the key of its object, or a new one.
    private mutating func resolveRowKeys() throws(StoreError) {
        for (entity, table) in rows.tables.enumerated() {
            guard let table, merger.entities[entity].hasRowKey else { continue }
            let given = table.keysByRow
            var keys: [Int64] = []
            keys.reserveCapacity(table.rowCount)
            for row in 0..<table.rowCount {
                if let target = rows.target, target.entity == entity, target.row == row, let targetRowKey {
                    keys.append(targetRowKey)
                } else if let given = given[row] {
                    keys.append(given)
                } else if table.hasIdentity(row),
                    let known = try merger.rowKey(of: table.row(row), table.concreteEntity(of: row))
                {
                    keys.append(known)
                } else {
                    keys.append(try merger.takeRowKey(entity))
                }
            }
            result.rowKeys[entity] = keys
        }
    }

    /// Finds the rows that can only update, or whose objects must exist, and that have no stored object.
    private mutating func checkExistence() throws(StoreError) {
        for (entity, table) in rows.tables.enumerated() {
            guard let table else { continue }
            for planned in groups[entity] {
                let group = planned.rows
                let statements = merger.entities[group.concreteEntity]
                // A group that one statement merges is checked by the insert itself; if an object does not exist, the
                // rows are merged carefully.
                let isTried = !isCareful && planned.isAtOnce
                if isTried {
                    insertsUnchecked = insertsUnchecked || !(group.columns.map(statements.upserts.canInsert) ?? false)
                }
                for position in group.range {
                    let row = group.order[position]
                    let origin = table.namings[row].origin
                    let canInsert = isTried || statements.upserts.canInsert(table.row(row))
                    if canInsert, origin.rawValue <= RowOrigin.stub.rawValue { continue }
                    if try exists(row, table, statements) {
                        if !canInsert { try checkBecoming(row, group, table, statements) }
                        continue
                    }
                    let lacking = statements.upserts.lacking(table.row(row))
                    let statements = merger.entities[wantedEntity(ofRow: row, table)]
                    // The object may be valid without the bare keys that make it an instance of a subentity.
                    let keysBelow = table.entityWithoutKeys(of: row)
                    reject(
                        entity, row, absence: { Self.missing(statements, .mustExist, lacking, isListed: $0) },
                        keysBelow: keysBelow
                    ) {
                        Self.missing(statements, keysBelow == nil ? origin : .stub, lacking, isListed: $0)
                    }
                }
            }
        }
    }

    /// The entity of the row's object, or the lowest that bare keys ask for if nothing makes the object.
    private func wantedEntity(ofRow row: Int, _ table: FrozenTable) -> Int {
        let concreteEntity = table.concreteEntity(of: row)
        guard table.namings[row].origin.rawValue > RowOrigin.stub.rawValue else { return concreteEntity }
        return (table.keyEntities[row] ?? []).sorted().reduce(concreteEntity) {
            merger.plan.model.isKind($1, of: $0) ? $1 : $0
        }
    }

    private func exists(_ row: Int, _ table: FrozenTable, _ statements: EntityStatements) throws(StoreError) -> Bool {
        try statements.find { bindKey(ofRow: row, table.entityIndex, to: $0, from: 1) } != nil
    }

    /// Why an object that does not exist cannot be inserted; nil when that is no fault.
    ///
    /// - Parameter lacking: a required column for which the row has no value.
    private static func missing(
        _ statements: EntityStatements, _ origin: RowOrigin, _ lacking: Int?, isListed: Bool
    ) -> Fault? {
        let model = statements.entity
        switch origin {
        case .mayBeMissing, .ignored: return nil
        case .mustExist:
            return Fault(
                .objectNotFound,
                isListed
                    ? "There is no \(model.name) with the key given here. Send it first, or set the relationship's "
                        + "\"missing\" to \"stub\" or \"ignore\" in the model." : "", entity: model.name)
        case .record, .stub:
            guard let lacking else {
                return Fault(
                    .unmappable,
                    isListed
                        ? "\(model.name) is abstract, so a record of it can make no object, and there is none." : "",
                    entity: model.name)
            }
            let name = statements.name(ofColumn: lacking)
            let what =
                origin == .stub
                ? "A bare key names a \(model.name) that does not exist yet, and a stub cannot be made of it, because "
                    + "\(name) is required."
                : "A new \(model.name) has no value for \(name), which is required."
            return lacks(name, model, isListed ? what : nil)
        }
    }

    private static func lacks(_ name: String, _ model: Entity, _ what: String?) -> Fault {
        Fault(
            .missingValue,
            what.map { $0 + " Send the value, or give the attribute a default or make it optional." } ?? "",
            entity: model.name, attribute: name)
    }

    /// Checks that an object of an ancestor that becomes one of the row's entity has what that requires.
    private mutating func checkBecoming(
        _ row: Int, _ group: RowGroup, _ table: FrozenTable, _ statements: EntityStatements
    ) throws(StoreError) {
        guard statements.entity.parent != nil, let stored = try storedConcreteEntity(ofRow: row, table) else { return }
        let before = merger.plan.model.entities[stored]
        guard merger.plan.model.ancestors(of: group.concreteEntity).contains(stored) else { return }
        let cells = table.row(row)
        let lacking = statements.upserts.required.first {
            cells[$0].kind == .absent && !before.attributeIndices.contains($0)
        }
        guard let lacking else { return }
        let (name, model) = (statements.name(ofColumn: lacking), statements.entity)
        let what =
            "An object of \(before.name) becomes one of \(model.name), and has no value for \(name), which is required."
        reject(table.entityIndex, row, keysBelow: table.entityWithoutKeys(of: row)) {
            Self.lacks(name, model, $0 ? what : nil)
        }
    }

    // MARK: - Concrete entities

    /// The concrete entity of the row's object in the store; nil when there is no such object.
    private func storedConcreteEntity(ofRow row: Int, _ table: FrozenTable) throws(StoreError) -> Int? {
        try merger.entities[table.entityIndex].find { bindKey(ofRow: row, table.entityIndex, to: $0, from: 1) }?
            .concreteEntity
    }

    /// Attributes that are new to the row's object, which becomes an instance of a subentity of its stored entity.
    func newAttributes(ofRow row: Int, _ table: FrozenTable) throws(StoreError) -> Set<Int> {
        let (model, kind) = (merger.plan.model, table.concreteEntity(of: row))
        guard model.entities[kind].parent != nil, let stored = try storedConcreteEntity(ofRow: row, table),
            stored != kind, model.isKind(kind, of: stored)
        else { return [] }
        return Set(model.entities[kind].attributeIndices).subtracting(model.entities[stored].attributeIndices)
    }

    /// The entity of the row's object, as far as the job and the store determine it.
    func model(ofRow row: Int, _ table: FrozenTable) throws(StoreError) -> Entity {
        let (model, kind) = (merger.plan.model, table.concreteEntity(of: row))
        guard model.isInHierarchy(table.entityIndex), table.hasIdentity(row),
            let stored = try storedConcreteEntity(ofRow: row, table), model.isKind(stored, of: kind)
        else { return model.entities[kind] }
        return model.entities[stored]
    }

    /// Checks that the objects of bare keys that make nothing are of the keys' entities. It is known by now which records
    /// count. If an object is of another entity, the job is staged again without these keys.
    private func checkKeys() throws(MergeFailure) {
        let mismatched = try storing { () throws(StoreError) in try mismatchedKeys() }
        if mismatched.isEmpty { return }
        // Rows that were not checked yet may be at fault, and rejected first.
        throw insertsUnchecked ? .contended : .mismatchedKeys(mismatched)
    }

    private func mismatchedKeys() throws(StoreError) -> [MismatchedKeys] {
        let model = merger.plan.model
        var mismatched: [MismatchedKeys] = []
        for table in rows.tables.compactMap({ $0 }) {
            for (row, keyEntities) in table.keyEntities {
                var entity = table.concreteEntity(of: row)
                if let stored = try storedConcreteEntity(ofRow: row, table), !model.isKind(entity, of: stored) {
                    // The merge finds an object of another branch.
                    guard model.isKind(stored, of: entity) else { continue }
                    entity = stored
                }
                if keyEntities.contains(where: { !model.isKind(entity, of: $0) }) {
                    mismatched.append(MismatchedKeys(entity: table.entityIndex, row: row, concreteEntity: entity))
                }
            }
        }
        return mismatched
    }

    /// Checks that all objects can be of their records' entities. If not, the job is staged again with the entities of
    /// the stored objects.
    private func checkConcreteEntities() throws(MergeFailure) {
        let isCompatible = try storing { () throws(StoreError) in try areEntitiesCompatible() }
        if !isCompatible { throw .misjudged }
    }

    private func areEntitiesCompatible() throws(StoreError) -> Bool {
        let model = merger.plan.model
        for (entity, table) in rows.tables.enumerated() {
            guard let table, model.isInHierarchy(entity) else { continue }
            for row in 0..<table.rowCount where table.hasIdentity(row) {
                guard let stored = try storedConcreteEntity(ofRow: row, table) else { continue }
                let kind = table.concreteEntity(of: row)
                guard model.isKind(stored, of: kind) || model.isKind(kind, of: stored) else { return false }
            }
        }
        return true
    }

    // MARK: - Binding keys

    /// Binds the identity or the row key of the staged row.
    ///
    /// - Returns: the next parameter's index.
    @discardableResult
    func bindKey(ofRow row: Int, _ entity: Int, to statement: Statement, from index: Int) -> Int {
        let statements = merger.entities[entity]
        if statements.hasRowKey {
            statement.bind(result.rowKeys[entity][row], at: index)
            return index + 1
        }
        return statements.bindIdentity(rows.tables[entity]!.row(row), to: statement, from: index)
    }

    /// Binds a cell's columns; a link is bound as the key of its object.
    ///
    /// - Returns: the next parameter's index.
    func bind(_ cell: Cell, _ column: Int, of entity: Int, to statement: Statement, at index: Int) -> Int {
        let layout = merger.plan.layout.entities[entity]
        guard column >= layout.attributeCount else {
            statement.bind(cell, at: index)
            return index + 1
        }
        let destination = layout.link(atColumn: column).destination
        if cell.kind == .object { return bindKey(ofRow: cell.row, destination, to: statement, from: index) }
        let width = merger.entities[destination].keyNames.count
        for offset in 0..<width { statement.bind(.null, at: index + offset) }
        return index + width
    }
}

/// Rows of a job that one statement merges, or that are merged one by one.
struct PlannedGroup {
    let rows: RowGroup
    let isAtOnce: Bool
}

/// Owned objects that no owner names any more.
///
/// ```
/// a stored object that a value of its owner does not name          found where other links end
/// an object of this job whose owner's later record does not name it, or null   its row has no link
/// ```
extension JobMerge {
    /// Notes the staged rows of owned objects whose links have ended inside the job.
    mutating func noteUnlinkedOwnedRows() throws(StoreError) {
        guard !merger.plan.model.holders.owners.isEmpty else { return }
        for table in rows.tables.compactMap(\.self) {
            let entity = table.entityIndex
            guard let column = merger.plan.ownerColumns[entity] else { continue }
            for row in 0..<table.rowCount where table.row(row)[column].kind == .null {
                let object = try merger.entities[entity].find { bindKey(ofRow: row, entity, to: $0, from: 1) }
                if let object { result.orphans[entity, default: []].insert(object.number) }
            }
        }
    }
}
