internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// The merge of one job's staged rows, as sets.
///
/// It has the result of applying the records one after the other, or throws ``MergeFailure/surprise(_:)``. Nothing is repaired
/// here: the caller rolls back, and the interpreter applies the records.
final class JobMerge {
    let merger: Merger
    let rows: StagedRows
    let result: MergedRows
    /// By link table and side, the rows to which the job links each row.
    private var namedLinks: [LinkSide: [Int: Set<Int>]] = [:]
    /// An owned object that a record names is to be deleted.
    var endsStagedObject = false
    /// Indexed by entity: the rows that each statement merges.
    private var groups: [[PlannedGroup]] = []

    init(_ merger: Merger, _ rows: StagedRows) {
        self.merger = merger
        self.rows = rows
        result = MergedRows(rows, merger)
    }

    /// - Throws: ``MergeFailure/surprise(_:)``, or a ``StoreError``.
    func run() throws -> MergedRows {
        try planGroups()
        try resolveRowKeys()
        try result.convertKeys()
        try checkExistence()
        try checkKeys()
        try checkOwners()
        try bindScans {
            for entity in merger.order {
                guard let table = rows.tables[entity] else { continue }
                for group in groups[entity] { try merge(group, of: table) }
            }
            try mergeLinks()
        }
        try endLinks()
        try mergeListPositions()
        return result
    }

    // MARK: - Before anything is written

    /// Divides the rows into groups, without those whose records are not newer than their objects.
    private func planGroups() throws {
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
                throw MergeFailure.surprise(.required)
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
            if judgesValues, groups[groups.count - 1].count > 1 { throw MergeFailure.surprise(.unique) }
        }
        self.groups = groups
    }

    /// The rows whose records are not newer than their objects.
    private func staleRows(_ table: FrozenTable) throws -> Set<Int> {
        let statements = merger.entities[table.entityIndex]
        guard let column = statements.entity.modified else { return [] }
        let find = try statements.modified(column)
        var stale: Set<Int> = []
        for position in 0..<table.rowCount {
            let row = table.order[position]
            guard table.isComparable(row), table.hasIdentity(row) else { continue }
            statements.bindIdentity(table.row(row), to: find, from: 1)
            defer { find.reset() }
            if try find.step(), table.isStale(row, against: find.cell(0)) { stale.insert(row) }
        }
        // Values of such records that are not stored as sent do not count, and it is not known whose they are.
        let isCounted = !stale.isEmpty && rows.warnings.contains { $0.code != .unknownKey }
        guard !isCounted, stale.allSatisfy({ !table.hasLinksElsewhere($0) && table.hasOwnLinksOnly($0) }) else {
            throw MergeFailure.surprise(.modified)
        }
        return stale
    }

    /// Assigns each row of the entities with row keys the key of its object, or a new one.
    private func resolveRowKeys() throws(StoreError) {
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
    private func checkExistence() throws {
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
                    // An object of an ancestor may lack what it needs.
                    guard let concreteEntity = try storedConcreteEntity(ofRow: row, table),
                        canInsert || merger.plan.model.isKind(concreteEntity, of: group.concreteEntity)
                    else {
                        throw MergeFailure.surprise(.missing)
                    }
                }
            }
        }
    }

    private func storedConcreteEntity(ofRow row: Int, _ table: FrozenTable) throws(StoreError) -> Int? {
        try merger.entities[table.entityIndex].find { bindKey(ofRow: row, table.entityIndex, to: $0, from: 1) }?
            .concreteEntity
    }

    /// Checks that the objects of bare keys that make nothing are of the keys' entities.
    private func checkKeys() throws {
        let model = merger.plan.model
        for table in rows.tables.compactMap({ $0 }) {
            for (row, keyEntities) in table.keyEntities {
                let stored = try storedConcreteEntity(ofRow: row, table)
                let entity = table.concreteEntity(of: row)
                let isOf = { (other: Int) in
                    model.isKind(stored ?? entity, of: other) || model.isKind(entity, of: other)
                }
                guard keyEntities.allSatisfy(isOf) else { throw MergeFailure.surprise(.entity) }
            }
        }
    }

    /// Checks that no owned object has another owner so far: that one's record would decide whether the object goes.
    private func checkOwners() throws {
        let plan = merger.plan
        guard !plan.model.holders.owners.isEmpty else { return }
        for table in rows.tables.compactMap({ $0 }) {
            let entity = table.entityIndex
            guard let column = plan.ownerColumns[entity] else { continue }
            let owner = plan.layout.entities[entity].link(atColumn: column).destination
            let find = try merger.entities[entity].owner(column)
            for row in 0..<table.rowCount {
                let cell = table.row(row)[column]
                if cell.kind == .null { throw MergeFailure.surprise(.owned) }
                guard cell.kind == .object, table.hasIdentity(row) else { continue }
                bindKey(ofRow: row, entity, to: find, from: 1)
                defer { find.reset() }
                if try find.step(), stagedRow(owner, find, from: 0) != cell.row { throw MergeFailure.surprise(.owned) }
            }
        }
    }

    // MARK: - Rows and keys

    /// The staged row whose key is in the statement's columns from `first` on; nil when this job did not stage it.
    func stagedRow(_ entity: Int, _ statement: Statement, from first: Int) -> Int? {
        guard rows.tables[entity] != nil else { return nil }
        return result.row(of: merger.entities[entity].keyNames.indices.map { statement.cell(first + $0) }, entity)
    }

    /// The rows to which this job links each row of one side.
    func namedLinks(of side: LinkSide) -> [Int: Set<Int>] {
        if let known = namedLinks[side] { return known }
        var named: [Int: Set<Int>] = [:]
        for link in rows.links[side.linkTable] {
            let (own, other) = side.isReversed ? (link.destination, link.source) : (link.source, link.destination)
            named[Int(own), default: []].insert(Int(other))
        }
        namedLinks[side] = named
        return named
    }

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

struct LinkSide: Hashable {
    let linkTable: Int
    let isReversed: Bool
}

/// The staged rows of a step, and what merging them did, object by object.
final class MergedRows {
    let rows: StagedRows
    /// By entity index and staged row: the ``MergeTally/RowState`` of the row itself.
    var states: [[UInt8]]
    /// By entity index and staged row: ``MergeTally/RowState/updated`` where a record of the object changed a link in a
    /// link table.
    var linkStates: [[UInt8]]
    /// Row numbers, by entity index, of changed rows that the job did not stage: a link to or from them ended.
    var changedOutside: [Set<Int64>]
    /// By entity index, row numbers of owned objects that no owner names any more, and that are to be deleted.
    var orphans: [Int: Set<Int64>] = [:]
    /// By entity index and staged row, for entities with row keys.
    var rowKeys: [[Int64]]
    /// The digest of the writes beside the staged rows: ended links, and positions in ordered relationships. It
    /// depends on the rows that were stored before.
    var beside = RowDigest()

    private let merger: Merger
    /// By entity index, the rows by their row keys; built on first use.
    private var rowsByRowKey: [Int: [Int64: Int]] = [:]
    /// By entity index, the rows by their converted keys, for entities whose columns convert staged values.
    private var rowsByConvertedKey: [Int: [StoredKey: Int]] = [:]

    init(_ rows: StagedRows, _ merger: Merger) {
        self.rows = rows
        self.merger = merger
        states = rows.tables.map { Array(repeating: 0, count: $0?.rowCount ?? 0) }
        linkStates = states
        changedOutside = Array(repeating: [], count: rows.tables.count)
        rowKeys = Array(repeating: [], count: rows.tables.count)
    }

    /// Converts the keys of rows whose columns convert values, so that they are found by stored keys.
    func convertKeys() throws(StoreError) {
        for case let table? in rows.tables where merger.forms.changesKey(of: table.entityIndex) {
            rowsByConvertedKey[table.entityIndex] = try merger.forms.rows(of: table)
        }
    }

    /// The state of each staged row, with changes of links in link tables included.
    func allStates(_ entity: Int) -> [UInt8] {
        let unchanged = MergeTally.RowState.unchanged.rawValue
        guard linkStates[entity].contains(where: { $0 != unchanged }) else { return states[entity] }
        return zip(states[entity], linkStates[entity]).map { $0 == unchanged ? $1 : $0 }
    }

    // MARK: - Keys

    /// The key in the store of a staged row's object.
    func key(of row: Int, _ table: FrozenTable) throws(StoreError) -> StoredKey {
        let statements = merger.entities[table.entityIndex]
        if statements.hasRowKey { return StoredKey([.integer(rowKeys[table.entityIndex][row])]) }
        return try merger.forms.key(statements.identity.map { table.row(row)[$0] }, of: table.entityIndex)
    }

    /// The staged row of the object with that stored key; nil when the step did not name it.
    func row(of key: [Cell], _ entity: Int) -> Int? {
        guard let table = rows.tables[entity] else { return nil }
        if merger.entities[entity].hasRowKey {
            if rowsByRowKey[entity] == nil {
                rowsByRowKey[entity] = Dictionary(
                    rowKeys[entity].enumerated().map { ($1, $0) }, uniquingKeysWith: { first, _ in first })
            }
            return rowsByRowKey[entity]?[key[0].integer]
        }
        if let converted = rowsByConvertedKey[entity] { return converted[StoredKey(key)] }
        return table.find(identity: key, concreteEntity: entity)
    }

    func row(of key: StoredKey, _ entity: Int) -> Int? { key.withCells { row(of: $0, entity) } }

    /// Calls `body` with each key by which a later job may name an object of the entity's table that the step named.
    func forEachName(of entity: Int, _ body: (StoredKey) throws -> Void) throws {
        guard let table = rows.tables[entity] else { return }
        for position in 0..<table.rowCount {
            let row = table.order[position]
            try body(key(of: row, table))
            guard merger.entities[entity].hasRowKey, table.hasIdentity(row) else { continue }
            try body(.naming(merger.forms.stored(table.identity(ofRow: row), of: entity)))
        }
    }
}

extension RowDigest {
    /// Adds the rows of a staged table that was merged.
    ///
    /// - Parameters:
    ///   - states: by row, a ``MergeTally/RowState``.
    ///   - keys: by row, for a table with row keys.
    mutating func add(_ table: FrozenTable, states: UnsafePointer<UInt8>?, keys: UnsafePointer<Int64>?) {
        for row in 0..<table.rowCount {
            var hash = RowHash(UInt64(table.entityIndex) << 8 | UInt64(states?[row] ?? 0))
            let cells = table.row(row)
            for column in 0..<table.columnCount { hash.add(cells[column]) }
            if let keys { hash.add(UInt64(bitPattern: keys[row])) }
            add(hash.value)
        }
    }

    /// Adds the rows of a job, or of a step of one.
    mutating func add(_ merged: MergedRows) {
        add(merged.beside)
        for case let table? in merged.rows.tables {
            let keys = merged.rowKeys[table.entityIndex]
            merged.allStates(table.entityIndex).withUnsafeBufferPointer { states in
                keys.withUnsafeBufferPointer {
                    add(table, states: states.baseAddress, keys: keys.isEmpty ? nil : $0.baseAddress)
                }
            }
        }
    }
}
