internal import BrokerJSON
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// Merges the rows of several jobs at once, with the same result as if the jobs were merged one after the other. For
/// each entity, one statement merges the rows of all jobs, in the order of their identities; rows of one object are in
/// the order of the jobs. Entities with unique values besides the identity are merged job by job.
///
/// The number of its job is known for each row, so each job has its own counts. A batch that cannot be merged like
/// this, or that has a fault, is not repaired: the caller rolls all of it back and applies the jobs one by one
/// (``JobRun``).
struct BatchMerge {
    struct Member {
        let job: StoreJob
        let rows: StagedRows
    }

    private let merger: Merger
    private let members: [Member]
    /// Indexed by member, then by entity.
    private let tables: UnsafeMutableBufferPointer<ScannedTable>
    /// The row states of all tables, one table after the other.
    private let states: UnsafeMutableBufferPointer<UInt8>
    private let rowKeys: UnsafeMutableBufferPointer<Int64>
    private let entityCount: Int

    /// The number of members is limited, because the merge iterates over the entities of each member.
    static func maximumMembers(_ merger: Merger) -> Int { max(1, (64 << 10) / max(1, merger.entities.count)) }

    /// - Parameter body: called when the jobs are merged.
    /// - Returns: the result of `body`; nil when the jobs cannot be merged together, and the caller must roll back.
    static func run<Result>(
        _ members: [Member], _ merger: Merger, _ body: (BatchMerge) throws(StoreError) -> Result
    ) throws(StoreError) -> Result? {
        let merge = BatchMerge(members, merger)
        defer { merge.deallocate() }
        do throws(StoreError) {
            guard try merge.run() else { return nil }
        } catch {
            // The jobs are then applied one by one, which finds the job at fault.
            guard error.code == .constraint else { throw error }
            return nil
        }
        return try body(merge)
    }

    private init(_ members: [Member], _ merger: Merger) {
        self.members = members
        self.merger = merger
        entityCount = merger.entities.count
        tables = .allocate(capacity: members.count * entityCount)
        tables.initialize(repeating: ScannedTable())
        var (rowCount, keyCount) = (0, 0)
        for member in members {
            for case let table? in member.rows.tables {
                rowCount += table.rowCount
                if merger.entities[table.entityIndex].hasRowKey { keyCount += table.rowCount }
            }
        }
        states = .allocate(capacity: rowCount)
        states.initialize(repeating: MergeTally.RowState.unchanged.rawValue)
        rowKeys = .allocate(capacity: keyCount)
    }

    private func deallocate() {
        tables.deallocate()
        states.deallocate()
        rowKeys.deallocate()
    }

    /// - Returns: whether all jobs are merged.
    private func run() throws(StoreError) -> Bool {
        guard !members.isEmpty else { return true }
        try bind()
        // Each link leads to a row of its own job, which is merged here, too; no object is deleted, and no key changes.
        if states.count >= merger.rowsWithoutChecks { try merger.connection.checkForeignKeys(false) }
        for entity in merger.order {
            var concerned: [(member: Int, table: FrozenTable)] = []
            concerned.reserveCapacity(members.count)
            for number in members.indices {
                if let table = members[number].rows.tables[entity] { concerned.append((number, table)) }
            }
            // Whether a unique value is free depends on all rows of the earlier jobs.
            let isOneByOne = merger.entities[entity].hasUnique
            for tables in isOneByOne ? concerned.map({ [$0] }) : [concerned] where !tables.isEmpty {
                guard try merge(entity, tables) else { return false }
            }
        }
        for member in members.indices { try mergeLinks(member) }
        return !merger.connection.hasDanglingReferences
    }

    private func bind() throws(StoreError) {
        var (state, key) = (states.baseAddress, rowKeys.baseAddress)
        for (number, member) in members.enumerated() {
            for case let table? in member.rows.tables {
                var scanned = ScannedTable(cells: table.cells, columnCount: table.columnCount)
                scanned.states = state
                state = state.map { $0 + table.rowCount }
                if merger.entities[table.entityIndex].hasRowKey, let keys = key {
                    // A row without an identity is a new object.
                    for row in 0..<table.rowCount {
                        (keys + row).initialize(to: try merger.takeRowKey(table.entityIndex))
                    }
                    scanned.rowKeys = UnsafePointer(keys)
                    key = keys + table.rowCount
                }
                tables[number * entityCount + table.entityIndex] = scanned
            }
        }
    }

    // MARK: - Rows

    private func merge(_ entity: Int, _ staged: [(member: Int, table: FrozenTable)]) throws(StoreError) -> Bool {
        let upserts = merger.entities[entity].upserts
        var joined = BatchOrder(merger.entities[entity].identity, staged.reduce(0) { $0 + $1.table.rowCount })
        for (member, table) in staged {
            for group in table.groups {
                guard upserts.mergesAtOnce(group, of: table) else { return false }
                joined.add(group, of: table, member: member)
            }
        }
        let scan = merger.scans.scan(entity: entity)
        scan.pointee.tables = UnsafePointer(tables.baseAddress!)
        defer { scan.pointee.clear() }
        let upsert = try upserts.upsert(joined.columns)
        try joined.withOrder { rows, jobs throws(StoreError) in
            scan.pointee.order = rows.baseAddress
            scan.pointee.jobs = jobs.baseAddress
            try joined.identity.withUnsafeBufferPointer { identity throws(StoreError) in
                scan.pointee.identity = identity
                defer { scan.pointee.identity = nil }
                try upsert.run(0..<rows.count, scan, merger.tally, comparedRows: merger.comparedRows)
            }
        }
        return !upsert.isRagged || !hasMadeLacking(entity, upserts)
    }

    /// Whether the merge inserted a row that lacks a required column.
    private func hasMadeLacking(_ entity: Int, _ upserts: UpsertStatements) -> Bool {
        members.indices.contains { number in
            guard let table = members[number].rows.tables[entity],
                let states = tables[number * entityCount + entity].states
            else { return false }
            return (0..<table.rowCount).contains { row in
                states[row] == MergeTally.RowState.inserted.rawValue && !upserts.canInsert(table.row(row))
            }
        }
    }

    // MARK: - Links

    private func mergeLinks(_ member: Int) throws(StoreError) {
        for (number, links) in members[member].rows.links.enumerated() where !links.isEmpty {
            try merger.merge(links, of: number, reading: tables.baseAddress! + member * entityCount)
        }
    }

    // MARK: - Outcomes

    /// The digest of the rows that the member's job wrote; nil when no caller asked for it.
    func digest(_ member: Int) -> RowDigest? {
        guard var digest = merger.digest else { return nil }
        for case let table? in members[member].rows.tables {
            let scanned = tables[member * entityCount + table.entityIndex]
            digest.add(table, states: scanned.states, keys: scanned.rowKeys)
        }
        return digest
    }

    /// Whether ``outcome(_:)`` consists of these changes, and of nothing else.
    func isOnly(_ changes: [(entity: String, counts: ChangeCounts)], _ member: Int) -> Bool {
        let rows = members[member].rows
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
        guard let table = members[member].rows.tables[entity],
            let states = tables[member * entityCount + entity].states
        else { return nil }
        var counts = ChangeCounts()
        for row in 0..<table.rowCount {
            switch states[row] {
            case MergeTally.RowState.inserted.rawValue: counts.inserted += 1
            case MergeTally.RowState.updated.rawValue: counts.updated += 1
            default: counts.unchanged += 1
            }
        }
        return counts
    }

    /// The outcome of the member's job, without ``Outcome/feedKeys``.
    func outcome(_ member: Int) -> Outcome {
        let rows = members[member].rows
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

    /// The keys of the member's changed objects for the feed: ``Outcome/feedKeys``.
    func feedKeys(_ member: Int, _ changes: [(entity: String, counts: ChangeCounts)]) -> [UInt8]? {
        guard merger.keepsFeedKeys else { return nil }
        let count = changes.reduce(0) { $0 + $1.counts.inserted + $1.counts.updated }
        guard count > 0 else { return nil }
        // The memory of the last keys, if they were few: theirs are written already.
        var writer = JSONWriter(capacity: 0)
        if count <= Self.fewKeys { swap(&writer, &merger.feedWriter) }
        writer.removeAll()
        writer.reserve(64 + min(count, 10_000) * 12)
        defer { if count <= Self.fewKeys { merger.feedWriter = writer } }
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
                        json.array { writeKeys(member, entity, state, &$0) }
                    }
                }
            }
        }
        return writer.count <= FeedKeys.maximumBytesOfJob ? writer.bytes : nil
    }

    private static let fewKeys = 100

    private func writeKeys(_ member: Int, _ entity: Int, _ state: MergeTally.RowState, _ json: inout JSONWriter) {
        let (scanned, statements) = (tables[member * entityCount + entity], merger.entities[entity])
        guard let count = members[member].rows.tables[entity]?.rowCount, let states = scanned.states,
            let cells = scanned.cells
        else { return }
        let (state, width) = (state.rawValue, scanned.columnCount)
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

/// The rows of one entity, of several jobs, in the order in which one statement merges them.
struct BatchOrder {
    private struct Entry {
        /// Decides most comparisons by itself.
        let prefix: UInt64
        let member: UInt32
        let row: UInt32
    }

    /// Columns that identify an object; empty when all rows are new objects.
    let identity: [Int]
    /// The columns that every row has values for; nil when the rows differ in that.
    private(set) var columns: [Int]?
    private var rows: [UInt32] = []
    private var members: [UInt32] = []
    private var tables: [FrozenTable?] = []
    private var isInOrder = true
    private var last: UnsafePointer<Cell>?

    /// - Parameter rowCount: of all tables.
    init(_ identity: [Int], _ rowCount: Int) {
        self.identity = identity
        rows.reserveCapacity(rowCount)
        members.reserveCapacity(rowCount)
    }

    /// Members must be added in their order.
    mutating func add(_ group: RowGroup, of table: FrozenTable, member: Int) {
        if rows.isEmpty { columns = group.columns } else if columns != group.columns { columns = nil }
        while tables.count < member { tables.append(nil) }
        tables.append(table)
        let first = table.row(group.order[group.range.lowerBound])
        if let last, !identity.isEmpty { isInOrder = isInOrder && !first.precedes(last, by: identity) }
        last = table.row(group.order[group.range.upperBound - 1])
        rows.append(contentsOf: UnsafeBufferPointer(start: group.order.rows, count: group.order.count)[group.range])
        members.append(contentsOf: repeatElement(UInt32(member), count: group.range.count))
    }

    func withOrder(
        _ body: (UnsafeBufferPointer<UInt32>, UnsafeBufferPointer<UInt32>) throws(StoreError) -> Void
    ) throws(StoreError) {
        guard isInOrder else { return try sorted().withOrder(body) }
        try rows.withUnsafeBufferPointer { rows throws(StoreError) in
            try members.withUnsafeBufferPointer { members throws(StoreError) in try body(rows, members) }
        }
    }

    /// Sorts by identity; rows of one object stay in the order of their members.
    private func sorted() -> BatchOrder {
        let cells = tables.map(\.?.cells)
        let width = tables.last!!.columnCount
        func identified(_ member: UInt32, _ row: UInt32) -> UnsafePointer<Cell> {
            cells[Int(member)]! + Int(row) * width
        }
        var entries = zip(rows, members).map { row, member in
            Entry(prefix: identified(member, row)[identity[0]].orderPrefix, member: member, row: row)
        }
        entries.sort { left, right in
            if left.prefix != right.prefix { return left.prefix < right.prefix }
            let (first, second) = (identified(left.member, left.row), identified(right.member, right.row))
            if first.precedes(second, by: identity) { return true }
            return left.member < right.member && !second.precedes(first, by: identity)
        }
        var sorted = self
        sorted.rows = entries.map(\.row)
        sorted.members = entries.map(\.member)
        sorted.isInOrder = true
        return sorted
    }
}
