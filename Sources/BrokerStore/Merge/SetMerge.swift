internal import BrokerJSON
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// Merges staged rows as sets: those of one step, or those of several small jobs at once. Then it has what became of
/// each row.
///
/// ```
/// row keys ─▶ each entity, parents first: checks ─▶ upserts ─▶ links ─▶ links that end ─▶ positions in lists
/// ```
///
/// The result is that of applying the records one after the other. Where it may be another, it throws
/// ``MergeFailure/surprise(_:)``: nothing is repaired, the caller rolls back, and the interpreter applies the records. Several
/// jobs are then applied one by one.
///
/// One statement merges an entity's rows of all jobs in the order of their identities; rows of one object are in the order
/// of the jobs. Entities with unique values besides the identity are merged job by job.
final class SetMerge {
    let merger: Merger
    let members: [StagedRows]
    /// Several jobs, or one that is merged like them. They bring nothing that ends a link, and their work is not counted.
    let isBatch: Bool
    private let tables: UnsafeMutableBufferPointer<ScannedTable>
    /// The row states of all tables, one table after the other; of a step, those of links follow.
    private let states: UnsafeMutableBufferPointer<UInt8>
    private let rowKeys: UnsafeMutableBufferPointer<Int64>
    private let rowCount: Int
    /// By entity index, the numbers of changed rows that were not staged: a link to or from them ended.
    var changedOutside: [Int: Set<Int64>] = [:]
    /// By entity index, the row numbers of owned objects that no owner names any more, and that are to be deleted.
    var orphans: [Int: Set<Int64>] = [:]
    /// The digest of the writes beside the staged rows: ended links, and positions in ordered relationships.
    var beside = RowDigest()
    /// By entity index, the rows by their row keys; built on first use.
    private var rowsByRowKey: [Int: [Int64: Int]] = [:]
    /// By entity index, the rows by their converted keys, for entities whose columns convert staged values.
    private var rowsByConvertedKey: [Int: [StoredKey: Int]] = [:]
    /// By link table and side, the rows to which the step links each row.
    var namedLinks: [Int: [Int: Set<Int>]] = [:]

    /// The number of members is limited, because the merge iterates over the entities of each member.
    static func maximumMembers(_ merger: Merger) -> Int { max(1, (64 << 10) / max(1, merger.entities.count)) }

    init(_ members: [StagedRows], _ merger: Merger, isBatch: Bool) {
        self.members = members
        self.merger = merger
        self.isBatch = isBatch
        tables = .allocate(capacity: members.count * merger.entities.count)
        tables.initialize(repeating: ScannedTable())
        var (rowCount, keyCount) = (0, 0)
        for rows in members {
            for case let table? in rows.tables {
                rowCount += table.rowCount
                if merger.entities[table.entityIndex].hasRowKey { keyCount += table.rowCount }
            }
        }
        self.rowCount = rowCount
        states = .allocate(capacity: isBatch ? rowCount : 2 * rowCount)
        states.initialize(repeating: MergeTally.RowState.unchanged.rawValue)
        rowKeys = .allocate(capacity: keyCount)
    }

    deinit {
        tables.deallocate()
        states.deallocate()
        rowKeys.deallocate()
    }

    var rows: StagedRows { members[0] }

    /// The scanned rows of an entity, and what became of them.
    subscript(entity: Int, member: Int = 0) -> ScannedTable { tables[member * merger.entities.count + entity] }

    func scannedTables(_ member: Int) -> UnsafePointer<ScannedTable> {
        UnsafePointer(tables.baseAddress! + member * merger.entities.count)
    }

    func run() throws {
        do {
            try bind()
            // Each link leads to a row of its own job, which is merged here, too; no object is deleted, and no key changes.
            if isBatch, rowCount >= merger.rowsWithoutChecks { try merger.connection.checkForeignKeys(false) }
            for entity in merger.order { try mergeRows(entity) }
            for member in members.indices { try mergeLinks(member) }
            if !isBatch {
                try endLinks()
                try mergeListPositions()
            } else if merger.connection.hasDanglingReferences {
                throw MergeFailure.surprise(.constraint)
            }
        } catch let error as StoreError where error.code == .constraint {
            throw MergeFailure.surprise(.constraint)
        }
    }

    private func bind() throws(StoreError) {
        var (state, key) = (states.baseAddress!, rowKeys.baseAddress!)
        for (number, rows) in members.enumerated() {
            for case let table? in rows.tables {
                var scanned = ScannedTable(cells: table.cells, columnCount: table.columnCount)
                (scanned.states, scanned.linkStates) = (state, isBatch ? state : state + rowCount)
                state += table.rowCount
                if merger.entities[table.entityIndex].hasRowKey {
                    try takeKeys(of: table, key)
                    scanned.rowKeys = UnsafePointer(key)
                    key += table.rowCount
                }
                tables[number * merger.entities.count + table.entityIndex] = scanned
                if !isBatch, merger.forms.changesKey(of: table.entityIndex) {
                    rowsByConvertedKey[table.entityIndex] = try merger.forms.rows(of: table)
                }
            }
        }
    }

    /// Gives each row the key of its object, or a new one.
    private func takeKeys(of table: FrozenTable, _ keys: UnsafeMutablePointer<Int64>) throws(StoreError) {
        let given = isBatch ? [:] : table.keysByRow
        for row in 0..<table.rowCount {
            var key = given[row]
            if key == nil, table.hasIdentity(row) {
                key = try merger.rowKey(of: table.row(row), table.concreteEntity(of: row))
            }
            if key == nil { key = try merger.takeRowKey(table.entityIndex) }
            (keys + row).initialize(to: key!)
        }
    }

    // MARK: - Rows

    private func mergeRows(_ entity: Int) throws {
        let statements = merger.entities[entity]
        var order = MergeOrder(isBatch ? statements.identity : [])
        // Whether a unique value is free depends on all rows of the earlier jobs.
        let isOneByOne = !isBatch || statements.hasUnique
        for (number, rows) in members.enumerated() {
            guard let table = rows.tables[entity] else { continue }
            for (group, isAtOnce) in try groups(of: table, rows) {
                let upserts = merger.entities[group.concreteEntity].upserts
                guard isAtOnce else {
                    try update(group, upserts, table)
                    continue
                }
                order.add(group, of: table, member: number)
                if isOneByOne { try write(&order, entity, upserts) }
            }
        }
        if !order.rows.isEmpty { try write(&order, entity, statements.upserts) }
    }

    /// Merges the rows with one statement, and empties the order.
    private func write(_ order: inout MergeOrder, _ entity: Int, _ upserts: UpsertStatements) throws {
        order.sort { member, row in
            let table = self[entity, Int(member)]
            return table.cells! + Int(row) * table.columnCount
        }
        let scan = merger.scans.scan(entity: entity)
        scan.pointee.tables = scannedTables(0)
        defer { scan.pointee.clear() }
        let upsert = try upserts.upsert(order.columns)
        try order.withBuffers { rows, members, identity throws(StoreError) in
            (scan.pointee.order, scan.pointee.jobs, scan.pointee.identity) = (
                rows.baseAddress, members.baseAddress, identity
            )
            // The instructions of a step count as the job's work (``JobWork``).
            try upsert.run(
                0..<rows.count, scan, merger.tally, comparedRows: isBatch ? merger.comparedRows : nil)
        }
        if upsert.isRagged { try checkInserted(order, entity, upserts) }
        order = MergeOrder(order.identity)
    }

    /// Checks that each row that lacks a required column updated an existing object and did not insert one.
    private func checkInserted(_ order: MergeOrder, _ entity: Int, _ upserts: UpsertStatements) throws {
        for (row, member) in zip(order.rows, order.members) {
            let table = self[entity, Int(member)]
            guard table.states![Int(row)] == MergeTally.RowState.inserted.rawValue else { continue }
            guard upserts.canInsert(table.cells! + Int(row) * table.columnCount) else {
                throw MergeFailure.surprise(.missing)
            }
        }
    }

    /// Merges row by row objects that exist. The rows have values for the same columns.
    private func update(_ group: RowGroup, _ upserts: UpsertStatements, _ table: FrozenTable) throws(StoreError) {
        let entity = table.entityIndex
        guard let statement = try upserts.update(group.columns!) else { return }
        for position in group.range {
            let row = group.order[position]
            var index = 1
            for column in upserts.others(group.columns!) {
                if let extra = merger.plan.extraColumns[entity], extra.column == column {
                    statement.bind(text: extra.entries(of: table.row(row)), at: index)
                    index += 1
                    continue
                }
                index = bind(table.row(row)[column], column, of: entity, to: statement, at: index)
            }
            bindKey(ofRow: row, entity, to: statement, from: index)
            try statement.run()
            if merger.connection.changes > 0 { noteUpdate(entity, row, 0) }
        }
    }

    // MARK: - Before anything is written

    /// The rows that one statement merges, and those of objects that exist, which are merged one by one. Rows whose records
    /// are not newer than their objects are left out.
    private func groups(of table: FrozenTable, _ rows: StagedRows) throws -> [(rows: RowGroup, isAtOnce: Bool)] {
        if !isBatch { try checkLinks(table) }
        let stale = isBatch ? [] : try staleRows(table)
        // Such values are judged at the turn of their record, which is that of the text.
        let judgesValues =
            table.rowCount > 1
            && table.groups.contains { group in
                let statements = merger.entities[group.concreteEntity]
                return rows.skipsRecords ? statements.hasUnique : statements.judgesUnique
            }
        var groups: [(rows: RowGroup, isAtOnce: Bool)] = []
        for group in table.groups {
            var group = stale.isEmpty ? group : group.without(stale)
            if judgesValues { group = group.inTextOrder }
            if group.range.isEmpty { continue }
            let upserts = merger.entities[group.concreteEntity].upserts
            if upserts.mergesAtOnce(group, of: table) {
                groups.append((group, true))
            } else if isBatch {
                throw MergeFailure.surprise(.missing)
            } else {
                groups += table.uniform(group).map { ($0, upserts.mergesAtOnce($0, of: table)) }
            }
        }
        if judgesValues, groups.count > 1 { throw MergeFailure.surprise(.unique) }
        if !isBatch { try checkExistence(groups, table) }
        return groups
    }

    /// The rows whose records are not newer than their objects.
    private func staleRows(_ table: FrozenTable) throws -> Set<Int> {
        let (statements, model) = (merger.entities[table.entityIndex], merger.plan.model)
        guard let column = statements.entity.modified else { return [] }
        let find = try statements.modified(column)
        var stale: Set<Int> = []
        for position in 0..<table.rowCount {
            let row = table.order[position]
            guard table.isComparable(row), table.hasIdentity(row) else { continue }
            statements.bindIdentity(table.row(row), to: find, from: 1)
            defer { find.reset() }
            guard try find.step(), table.isStale(row, against: find.cell(0)) else { continue }
            stale.insert(row)
            // An object that stays one of an entity above is not linked as one of the record's.
            guard model.isInHierarchy(table.entityIndex), let entity = model.index(ofEntity: find.text(1)) else {
                continue
            }
            if !model.isKind(entity, of: table.concreteEntity(of: row)) { throw MergeFailure.surprise(.modified) }
        }
        // Values of such records that are not stored as sent do not count, and it is not known whose they are.
        let isCounted = !stale.isEmpty && rows.warnings.contains { $0.code != .unknownKey && $0.code != .extraKey }
        guard !isCounted, stale.allSatisfy({ !table.hasLinksElsewhere($0) && table.hasOwnLinksOnly($0) }) else {
            throw MergeFailure.surprise(.modified)
        }
        return stale
    }

    /// Checks that the objects exist that must, and are of the entities that the records and keys name.
    private func checkExistence(_ groups: [(rows: RowGroup, isAtOnce: Bool)], _ table: FrozenTable) throws {
        let model = merger.plan.model
        for (group, isAtOnce) in groups {
            for position in group.range {
                let row = group.order[position]
                // The insert of a group that one statement merges is checked after it.
                if isAtOnce, !table.namings[row].origin.makesNothing { continue }
                // An object of an ancestor may lack what it needs.
                guard let entity = try storedEntity(ofRow: row, table),
                    isAtOnce || model.isKind(entity, of: group.concreteEntity)
                else { throw MergeFailure.surprise(.missing) }
            }
        }
        for (row, keyEntities) in table.keyEntities {
            let (stored, entity) = (try storedEntity(ofRow: row, table), table.concreteEntity(of: row))
            let isFitting = keyEntities.allSatisfy {
                model.isKind(stored ?? entity, of: $0) || model.isKind(entity, of: $0)
            }
            guard isFitting else { throw MergeFailure.surprise(.entity) }
        }
    }

    private func storedEntity(ofRow row: Int, _ table: FrozenTable) throws(StoreError) -> Int? {
        try merger.entities[table.entityIndex].find { bindKey(ofRow: row, table.entityIndex, to: $0, from: 1) }?
            .concreteEntity
    }

    // MARK: - Rows and keys

    /// The staged row whose key is in the statement's columns from `first` on; nil when the step did not stage it.
    func stagedRow(_ entity: Int, _ statement: Statement, from first: Int) -> Int? {
        guard rows.tables[entity] != nil else { return nil }
        return row(of: merger.entities[entity].keyNames.indices.map { statement.cell(first + $0) }, entity)
    }

    /// The staged row of the object with that stored key; nil when the step did not name it.
    func row(of key: [Cell], _ entity: Int) -> Int? {
        guard let table = rows.tables[entity] else { return nil }
        if let keys = self[entity].rowKeys {
            if rowsByRowKey[entity] == nil {
                rowsByRowKey[entity] = Dictionary(
                    (0..<table.rowCount).map { (keys[$0], $0) }, uniquingKeysWith: { first, _ in first })
            }
            return rowsByRowKey[entity]?[key[0].integer]
        }
        if let converted = rowsByConvertedKey[entity] { return converted[StoredKey(key)] }
        return table.find(identity: key, concreteEntity: entity)
    }

    func row(of key: StoredKey, _ entity: Int) -> Int? { key.withCells { row(of: $0, entity) } }

    /// The key in the store of a staged row's object.
    func key(of row: Int, _ table: FrozenTable) throws(StoreError) -> StoredKey {
        if let keys = self[table.entityIndex].rowKeys { return StoredKey([.integer(keys[row])]) }
        let identity = merger.entities[table.entityIndex].identity
        return try merger.forms.key(identity.map { table.row(row)[$0] }, of: table.entityIndex)
    }

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

    /// Runs `body`, a statement over the scan of the rows that the step has for the entity's table, in their order.
    func scan(_ entity: Int, _ body: () throws(StoreError) -> Void) throws(StoreError) {
        guard let table = rows.tables[entity] else { return }
        var order = MergeOrder([])
        for group in table.groups { order.add(group, of: table, member: 0) }
        let scan = merger.scans.scan(entity: entity)
        scan.pointee.tables = scannedTables(0)
        defer { scan.pointee.clear() }
        try order.withBuffers { rows, members, _ throws(StoreError) in
            (scan.pointee.order, scan.pointee.jobs) = (rows.baseAddress, members.baseAddress)
            scan.pointee.read(0..<rows.count)
            try body()
        }
    }

    /// Binds the identity or the row key of the staged row. Returns the next parameter's index.
    @discardableResult
    func bindKey(ofRow row: Int, _ entity: Int, to statement: Statement, from index: Int) -> Int {
        if let keys = self[entity].rowKeys {
            statement.bind(keys[row], at: index)
            return index + 1
        }
        return merger.entities[entity].bindIdentity(rows.tables[entity]!.row(row), to: statement, from: index)
    }

    /// Binds a cell's columns; a link is bound as the key of its object. Returns the next parameter's index.
    private func bind(_ cell: Cell, _ column: Int, of entity: Int, to statement: Statement, at index: Int) -> Int {
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

    func noteUpdate(_ entity: Int, _ stagedRow: Int?, _ rowNumber: Int64) {
        if let stagedRow {
            MergeTally.mark(.updated, stagedRow, self[entity].states)
        } else {
            changedOutside[entity, default: []].insert(rowNumber)
        }
    }

    /// Records that a record of the object changed a link in a link table.
    func noteLinkUpdate(_ entity: Int, _ stagedRow: Int) {
        self[entity].linkStates![stagedRow] = MergeTally.RowState.updated.rawValue
    }
}

/// The rows of one entity, of several jobs, in the order in which one statement merges them.
private struct MergeOrder {
    /// Columns that identify an object among several jobs; empty when the rows stay as they were added.
    let identity: [Int]
    /// The columns that every row has values for; nil when the rows differ in that.
    private(set) var columns: [Int]?
    private(set) var rows: [UInt32] = []
    private(set) var members: [UInt32] = []
    private var isInOrder = true
    private var last: UnsafePointer<Cell>?

    init(_ identity: [Int]) { self.identity = identity }

    /// Members must be added in their order.
    mutating func add(_ group: RowGroup, of table: FrozenTable, member: Int) {
        if rows.isEmpty { columns = group.columns } else if columns != group.columns { columns = nil }
        let first = table.row(group.order[group.range.lowerBound])
        if let last, !identity.isEmpty { isInOrder = isInOrder && !first.precedes(last, by: identity) }
        last = table.row(group.order[group.range.upperBound - 1])
        rows.append(contentsOf: UnsafeBufferPointer(start: group.order.rows, count: group.order.count)[group.range])
        members.append(contentsOf: repeatElement(UInt32(member), count: group.range.count))
    }

    /// Sorts by identity; rows of one object stay in the order of their members.
    mutating func sort(_ cells: (_ member: UInt32, _ row: UInt32) -> UnsafePointer<Cell>) {
        struct Entry {
            /// Decides most comparisons by itself.
            let prefix: UInt64
            let member: UInt32
            let row: UInt32
        }
        guard !isInOrder else { return }
        var entries = zip(rows, members).map { row, member in
            Entry(prefix: cells(member, row)[identity[0]].orderPrefix, member: member, row: row)
        }
        entries.sort { left, right in
            if left.prefix != right.prefix { return left.prefix < right.prefix }
            let (first, second) = (cells(left.member, left.row), cells(right.member, right.row))
            if first.precedes(second, by: identity) { return true }
            return left.member < right.member && !second.precedes(first, by: identity)
        }
        rows = entries.map(\.row)
        members = entries.map(\.member)
    }

    func withBuffers(
        _ body: (UnsafeBufferPointer<UInt32>, UnsafeBufferPointer<UInt32>, UnsafeBufferPointer<Int>) throws(StoreError)
            -> Void
    ) throws(StoreError) {
        try rows.withUnsafeBufferPointer { rows throws(StoreError) in
            try members.withUnsafeBufferPointer { members throws(StoreError) in
                try identity.withUnsafeBufferPointer { identity throws(StoreError) in
                    try body(rows, members, identity)
                }
            }
        }
    }
}

// MARK: - Outcomes

extension SetMerge {
    /// The digest of the rows that the member's job wrote; nil when no caller asked for it.
    func digest(_ member: Int = 0) -> RowDigest? {
        guard var digest = merger.digest else { return nil }
        digest.add(beside)
        for case let table? in members[member].tables {
            let scanned = self[table.entityIndex, member]
            for row in 0..<table.rowCount {
                var hash = RowHash(UInt64(table.entityIndex) << 8 | UInt64(scanned.state(of: row)))
                let cells = table.row(row)
                for column in 0..<table.columnCount { hash.add(cells[column]) }
                if let keys = scanned.rowKeys { hash.add(UInt64(bitPattern: keys[row])) }
                digest.add(hash.value)
            }
        }
        return digest
    }

    /// Whether ``outcome(_:)`` consists of these changes, and of nothing else.
    func isOnly(_ changes: [(entity: String, counts: ChangeCounts)], _ member: Int) -> Bool {
        let rows = members[member]
        guard rows.rejected.isEmpty, rows.unlistedRejections.isEmpty, rows.warnings.isEmpty else { return false }
        var compared = 0
        for entity in merger.entitiesByName {
            guard let counts = counts(member, entity) else { continue }
            guard compared < changes.count, changes[compared].counts == counts,
                changes[compared].entity.hasSameBytes(as: merger.entities[entity].name)
            else { return false }
            compared += 1
        }
        return compared == changes.count
    }

    /// The counts of the member's rows of an entity, without rejected ones; nil when it has none.
    private func counts(_ member: Int, _ entity: Int) -> ChangeCounts? {
        guard let table = members[member].tables[entity], let states = self[entity, member].states else { return nil }
        var counts = ChangeCounts()
        for row in 0..<table.rowCount { counts.add(states[row]) }
        return counts
    }

    /// The outcome of a batch's job, without ``Outcome/feedKeys``.
    func outcome(_ member: Int) -> Outcome {
        let rows = members[member]
        var reported = ReportedFaults()
        reported.add(rows)
        var outcome = Outcome(reported)
        let rejected = reported.rejectedCounts
        outcome.changes.reserveCapacity(rows.tables.count { $0 != nil } + rejected.count)
        for entity in merger.entitiesByName {
            let name = merger.entities[entity].name
            let rejectedCount = rejected.isEmpty ? 0 : rejected[name] ?? 0
            guard var counts = counts(member, entity) ?? (rejectedCount > 0 ? ChangeCounts() : nil) else { continue }
            counts.rejected = rejectedCount
            outcome.changes.append((name, counts))
        }
        return outcome
    }

    /// The keys of a batch's job for the feed: ``Outcome/feedKeys``.
    func feedKeys(_ member: Int, _ changes: [(entity: String, counts: ChangeCounts)]) -> [UInt8]? {
        guard merger.keepsFeedKeys else { return nil }
        let count = changes.reduce(0) { $0 + $1.counts.inserted + $1.counts.updated }
        guard count > 0 else { return nil }
        var writer = JSONWriter(capacity: 64 + min(count, 10_000) * 12)
        writer.object { json in
            for (name, counts) in changes where counts.hasChanges {
                json.key(name)
                json.object { json in
                    let entity = merger.plan.model.index(ofEntity: name)!
                    for (word, state, count) in [
                        ("inserted", MergeTally.RowState.inserted, counts.inserted),
                        ("updated", .updated, counts.updated),
                    ] where count > 0 {
                        json.key(word)
                        json.array { writeKeys(member, entity, state.rawValue, &$0) }
                    }
                }
            }
        }
        return writer.count <= FeedKeys.maximumBytesOfJob ? writer.bytes : nil
    }

    private func writeKeys(_ member: Int, _ entity: Int, _ state: UInt8, _ json: inout JSONWriter) {
        let (scanned, statements) = (self[entity, member], merger.entities[entity])
        guard let count = members[member].tables[entity]?.rowCount, let states = scanned.states,
            let cells = scanned.cells
        else { return }
        let width = scanned.columnCount
        if let keys = scanned.rowKeys {
            for row in 0..<count where states[row] == state { json.integer(keys[row]) }
        } else if statements.hasPlainKey {
            // On the writer's thread, for all objects of a first load: with no more calls than needed.
            let column = cells + statements.identity[0]
            for row in 0..<count where states[row] == state && json.count <= FeedKeys.maximumBytesOfJob {
                let cell = column[row * width]
                if cell.kind == .integer {
                    json.integer(cell.integer)
                } else if let attribute = statements.singleIdentity {
                    json.cell(cell, of: attribute)
                }
            }
        } else {
            for row in 0..<count where states[row] == state && json.count <= FeedKeys.maximumBytesOfJob {
                json.key(statements.identity.map { cells[row * width + $0] }, of: statements.entity)
            }
        }
    }
}
