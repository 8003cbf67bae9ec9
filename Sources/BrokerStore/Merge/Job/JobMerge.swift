internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// The merge of one job's staged rows, as sets.
///
/// It has the result of applying the records one after the other, or throws ``MergeFailure/surprise(_:)``. Nothing is repaired
/// here: the caller rolls back, and the interpreter applies the records.
struct JobMerge {
    let merger: Merger
    let rows: StagedRows
    var result: MergedRows
    var lookups = StagedLookups()
    /// An owned object that a record names is to be deleted.
    var endsStagedObject = false
    /// Indexed by entity: the rows that each statement merges.
    private var groups: [[PlannedGroup]] = []

    init(_ merger: Merger, _ rows: StagedRows) {
        self.merger = merger
        self.rows = rows
        let unchanged = rows.tables.map { Array(repeating: UInt8(0), count: $0?.rowCount ?? 0) }
        result = MergedRows(
            states: unchanged, linkStates: unchanged,
            changedOutside: Array(repeating: [], count: rows.tables.count),
            rowKeys: Array(repeating: [], count: rows.tables.count))
    }

    mutating func run() throws(MergeFailure) -> MergedRows {
        try planGroups()
        try storing { () throws(StoreError) in try resolveRowKeys() }
        try checkExistence()
        try checkKeys()
        try checkOwners()
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

    // MARK: - Before anything is written

    /// Divides the rows into groups, without those whose records are not newer than their objects.
    private mutating func planGroups() throws(MergeFailure) {
        var groups: [[PlannedGroup]] = []
        for table in rows.tables {
            guard let table else {
                groups.append([])
                continue
            }
            // A required link of a table that another program made may come with a later record of the object.
            let (required, layout) = (merger.entities[table.entityIndex].upserts.required, merger.plan.layout)
            if required.contains(where: { $0 >= layout.entities[table.entityIndex].attributeCount }),
                table.namings.contains(where: \.isRepeated)
            {
                throw .surprise(.required)
            }
            let stale = try staleRows(table)
            let judgesValues =
                rows.skipsRecords && table.rowCount > 1
                && table.groups.contains { merger.entities[$0.concreteEntity].hasUnique }
            groups.append(
                table.groups.flatMap { group -> [PlannedGroup] in
                    var group = stale.isEmpty ? group : group.without(stale)
                    if judgesValues { group = group.inTextOrder }
                    if group.range.isEmpty { return [] }
                    if merger.entities[group.concreteEntity].upserts.mergesAtOnce(group, of: table) {
                        return [PlannedGroup(rows: group, isAtOnce: true)]
                    }
                    return table.uniform(group).map { rows in
                        let upserts = merger.entities[rows.concreteEntity].upserts
                        return PlannedGroup(rows: rows, isAtOnce: upserts.mergesAtOnce(rows, of: table))
                    }
                })
            if judgesValues, groups[groups.count - 1].count > 1 { throw .surprise(.unique) }
        }
        self.groups = groups
    }

    /// The rows whose records are not newer than their objects.
    private func staleRows(_ table: FrozenTable) throws(MergeFailure) -> Set<Int> {
        let statements = merger.entities[table.entityIndex]
        guard let column = statements.entity.modified else { return [] }
        let stale = try storing { () throws(StoreError) -> Set<Int> in
            let find = try statements.modified(column)
            var stale: Set<Int> = []
            for position in 0..<table.rowCount {
                let row = table.order[position]
                guard table.isComparable(row), table.hasIdentity(row) else { continue }
                statements.bindIdentity(table.row(row), to: find, from: 1)
                defer { find.reset() }
                if try find.step(), table.isStale(row, against: find.cell(0)) { stale.insert(row) }
            }
            return stale
        }
        // Values of such records that are not stored as sent do not count, and it is not known whose they are.
        let isCounted = !stale.isEmpty && rows.warnings.contains { $0.code != .unknownKey }
        guard !isCounted, stale.allSatisfy({ !table.hasLinksElsewhere($0) && table.hasOwnLinksOnly($0) }) else {
            throw .surprise(.modified)
        }
        return stale
    }

    /// Assigns each row of the entities with row keys the key of its object, or a new one.
    private mutating func resolveRowKeys() throws(StoreError) {
        for (entity, table) in rows.tables.enumerated() {
            guard let table, merger.entities[entity].hasRowKey else { continue }
            let given = table.keysByRow
            var keys: [Int64] = []
            keys.reserveCapacity(table.rowCount)
            for row in 0..<table.rowCount {
                if let given = given[row] {
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

    /// Checks the rows that can only update, or whose objects must exist.
    private func checkExistence() throws(MergeFailure) {
        for (entity, table) in rows.tables.enumerated() {
            guard let table else { continue }
            for planned in groups[entity] {
                let group = planned.rows
                let upserts = merger.entities[group.concreteEntity].upserts
                for position in group.range {
                    let row = group.order[position]
                    // The insert of a group that one statement merges is checked after it.
                    let canInsert = planned.isAtOnce || upserts.canInsert(table.row(row))
                    if canInsert, !table.namings[row].origin.makesNothing { continue }
                    let concreteEntity = try storing { () throws(StoreError) in
                        try storedConcreteEntity(ofRow: row, table)
                    }
                    // An object of an ancestor may lack what it needs.
                    guard let concreteEntity,
                        canInsert || merger.plan.model.isKind(concreteEntity, of: group.concreteEntity)
                    else {
                        throw .surprise(.missing)
                    }
                }
            }
        }
    }

    /// The concrete entity of the row's object in the store; nil when there is no such object.
    private func storedConcreteEntity(ofRow row: Int, _ table: FrozenTable) throws(StoreError) -> Int? {
        try merger.entities[table.entityIndex].find { bindKey(ofRow: row, table.entityIndex, to: $0, from: 1) }?
            .concreteEntity
    }

    /// Checks that the objects of bare keys that make nothing are of the keys' entities.
    private func checkKeys() throws(MergeFailure) {
        let model = merger.plan.model
        for table in rows.tables.compactMap({ $0 }) {
            for (row, keyEntities) in table.keyEntities {
                let stored = try storing { () throws(StoreError) in try storedConcreteEntity(ofRow: row, table) }
                let entity = table.concreteEntity(of: row)
                let isOf = { (other: Int) in
                    model.isKind(stored ?? entity, of: other) || model.isKind(entity, of: other)
                }
                guard keyEntities.allSatisfy(isOf) else { throw .surprise(.entity) }
            }
        }
    }

    /// Checks that no owned object has another owner so far: that one's record would decide whether the object goes.
    private mutating func checkOwners() throws(MergeFailure) {
        let plan = merger.plan
        guard !plan.model.holders.owners.isEmpty else { return }
        for table in rows.tables.compactMap({ $0 }) {
            let entity = table.entityIndex
            guard let column = plan.ownerColumns[entity] else { continue }
            let owner = plan.layout.entities[entity].link(atColumn: column).destination
            let find = try storing { () throws(StoreError) in try merger.entities[entity].owner(column) }
            for row in 0..<table.rowCount {
                let cell = table.row(row)[column]
                if cell.kind == .null { throw .surprise(.owned) }
                guard cell.kind == .object, table.hasIdentity(row) else { continue }
                let isOther = try storing { () throws(StoreError) -> Bool in
                    bindKey(ofRow: row, entity, to: find, from: 1)
                    defer { find.reset() }
                    guard try find.step() else { return false }
                    return try stagedRow(owner, find, from: 0) != cell.row
                }
                if isOther { throw .surprise(.owned) }
            }
        }
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
