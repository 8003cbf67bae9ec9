internal import BrokerModel
internal import BrokerStaging

/// The merge of one job's staged rows.
struct JobMerge {
    let merger: Merger
    let rows: StagedRows
    let policy: InvalidRecordPolicy
    var result: MergedRows
    var lookups = StagedLookups()
    private var rejected: [RejectedRow] = []

    init(_ merger: Merger, _ rows: StagedRows, _ policy: InvalidRecordPolicy) {
        self.merger = merger
        self.rows = rows
        self.policy = policy
        result = MergedRows(
            states: rows.tables.map { Array(repeating: 0, count: $0?.rowCount ?? 0) },
            changedOutside: Array(repeating: [], count: rows.tables.count),
            rowKeys: Array(repeating: [], count: rows.tables.count))
    }

    mutating func run() throws(MergeFailure) -> MergedRows {
        try resolveRowKeys()
        try checkExistence()
        try stopIfRejected()
        try bindScans { merge throws(MergeFailure) in
            for entity in merge.merger.order {
                guard let table = merge.rows.tables[entity] else { continue }
                for group in table.groups { try merge.merge(group, of: table) }
            }
            try merge.stopIfRejected()
            try merge.mergeLinks()
        }
        try endLinks()
        guard !merger.connection.hasDanglingReferences else {
            throw .fault(
                Fault(.constraintViolation, "The job would leave a link to an object that does not exist in the store.")
            )
        }
        return result
    }

    private func stopIfRejected() throws(MergeFailure) {
        guard rejected.isEmpty else { throw .rejected(rejected) }
    }

    /// Lists the row as left out, or fails the job, as the job asked.
    private mutating func reject(_ entity: Int, _ row: Int, _ fault: Fault) throws(MergeFailure) {
        guard policy == .skip else { throw .fault(rows.located(fault, at: rows.offset(entity: entity, row: row))) }
        rejected.append(RejectedRow(entity: entity, row: row, fault: fault))
    }

    // MARK: - Before anything is written

    /// Gives each row of the entities that have the store's own key the key that it has, or a new one.
    private mutating func resolveRowKeys() throws(MergeFailure) {
        for (entity, table) in rows.tables.enumerated() {
            guard let table, merger.entities[entity].entity.hasRowKey else { continue }
            let statements = merger.entities[entity]
            do throws(StoreError) {
                var keys: [Int64] = []
                keys.reserveCapacity(table.rowCount)
                for row in 0..<table.rowCount {
                    if statements.hasIdentity, table.hasIdentity(row) {
                        let find = try statements.findRowKey()
                        bindIdentity(table.row(row), statements, find, from: 1)
                        defer { find.reset() }
                        if try find.step() {
                            keys.append(find.integer(0))
                            continue
                        }
                    }
                    keys.append(try merger.takeRowKey(entity))
                }
                result.rowKeys[entity] = keys
            } catch {
                throw .store(error)
            }
        }
    }

    /// Finds the rows that can only update, or must exist, and do not.
    private mutating func checkExistence() throws(MergeFailure) {
        for (entity, table) in rows.tables.enumerated() {
            guard let table else { continue }
            let statements = merger.entities[entity]
            for group in table.groups {
                let canInsert = statements.canInsert(group.columns)
                for position in group.range {
                    let row = Int(table.order[position])
                    let origin = table.origins[row]
                    if canInsert, origin.rawValue <= RowOrigin.stub.rawValue { continue }
                    if try exists(row, table, statements) { continue }
                    try rejectMissing(row, entity, origin, group)
                }
            }
        }
    }

    private func exists(
        _ row: Int, _ table: FrozenTable, _ statements: EntityStatements
    ) throws(MergeFailure) -> Bool {
        do throws(StoreError) {
            let exists = try statements.exists()
            bindKey(ofRow: row, table.entityIndex, to: exists, from: 1)
            defer { exists.reset() }
            return try exists.step()
        } catch {
            throw .store(error)
        }
    }

    private mutating func rejectMissing(
        _ row: Int, _ entity: Int, _ origin: RowOrigin, _ group: RowGroup
    ) throws(MergeFailure) {
        let model = merger.entities[entity].entity
        switch origin {
        case .mayBeMissing: rejected.append(RejectedRow(entity: entity, row: row, fault: nil))
        case .mustExist:
            try reject(
                entity, row,
                Fault(
                    .objectNotFound,
                    "There is no \(model.name) with the key given here. Send it first, or set the relationship's "
                        + "\"missing\" to \"stub\" or \"ignore\" in the model.", entity: model.name))
        case .record, .stub:
            let missing = merger.entities[entity].required.first { !group.columns.contains($0) }!
            let name = model.attributes[missing].name
            let what =
                origin == .stub
                ? "A bare key names a \(model.name) that does not exist yet, and a stub cannot be made of it, because "
                    + "\(name) is required."
                : "A new \(model.name) has no value for \(name), which is required."
            try reject(
                entity, row,
                Fault(
                    .missingValue, what + " Send the value, or give the attribute a default or make it optional.",
                    entity: model.name, attribute: name))
        }
    }

    // MARK: - Rows

    /// Lets the scans read this job's rows while `body` runs.
    private mutating func bindScans(_ body: (inout JobMerge) throws(MergeFailure) -> Void) throws(MergeFailure) {
        var rowKeys: [UnsafeMutablePointer<Int64>] = []
        for (entity, table) in rows.tables.enumerated() {
            var scanned = ScannedTable(cells: table?.cells, columnCount: table?.columnCount ?? 0)
            if !result.rowKeys[entity].isEmpty {
                let keys = UnsafeMutablePointer<Int64>.allocate(capacity: result.rowKeys[entity].count)
                keys.initialize(from: result.rowKeys[entity], count: result.rowKeys[entity].count)
                rowKeys.append(keys)
                scanned.rowKeys = keys
            }
            merger.scans.tables[entity] = scanned
        }
        defer {
            merger.tally.pointee = MergeTally()
            for entity in rows.tables.indices { merger.scans.tables[entity] = ScannedTable() }
            for keys in rowKeys { keys.deallocate() }
        }
        try body(&self)
    }

    private mutating func merge(_ group: RowGroup, of table: FrozenTable) throws(MergeFailure) {
        var position = group.range.lowerBound
        do throws(StoreError) {
            try merge(group.range, of: group, table, position: &position)
        } catch {
            guard error.code == .constraint else { throw .store(error) }
            try rejectViolation(error, at: position, of: group, table)
        }
    }

    /// Merges a part of the group. After an error `position` tells which row it was, by its place in the table's order.
    private mutating func merge(
        _ range: Range<Int>, of group: RowGroup, _ table: FrozenTable, position: inout Int
    ) throws(StoreError) {
        let entity = table.entityIndex
        switch try merger.entities[entity].merge(group.columns) {
        case .nothing: return
        case .update(let statement):
            for place in range {
                position = place
                try update(Int(table.order[place]), group, table, statement)
            }
        case .set(let statement):
            let scan = merger.scans.scan(entity: entity)
            scan.pointee.cells = table.cells
            scan.pointee.columnCount = table.columnCount
            scan.pointee.order = table.order
            scan.pointee.rowKeys = merger.scans.tables[entity].rowKeys
            scan.pointee.position = range.lowerBound
            scan.pointee.end = range.upperBound
            defer { position = scan.pointee.position }
            try listening(.entityRows, scan, states: entity) { () throws(StoreError) in try statement.run() }
        }
    }

    /// SQLite refused a row for a constraint: the job fails, or each such row of the group is found and left out.
    private mutating func rejectViolation(
        _ error: StoreError, at position: Int, of group: RowGroup, _ table: FrozenTable
    ) throws(MergeFailure) {
        let entity = table.entityIndex
        let statements = merger.entities[entity]
        guard policy == .skip else {
            return try reject(entity, Int(table.order[position]), fault(error, statements))
        }
        for place in group.range {
            var position = place
            do throws(StoreError) {
                try merge(place..<place + 1, of: group, table, position: &position)
            } catch {
                guard error.code == .constraint else { throw .store(error) }
                try reject(entity, Int(table.order[place]), fault(error, statements))
            }
        }
    }

    private func fault(_ error: StoreError, _ statements: EntityStatements) -> Fault {
        Fault(
            .constraintViolation,
            "\(error.message) Another object of \(statements.entity.name) has that value already. "
                + "Change one of them, or take the unique constraint out of the model.", entity: statements.entity.name)
    }

    private mutating func update(
        _ row: Int, _ group: RowGroup, _ table: FrozenTable, _ statement: Statement
    ) throws(StoreError) {
        let entity = table.entityIndex
        let model = merger.entities[entity].entity
        var index = 1
        for column in group.columns where model.hasRowKey || !model.identity.contains(column) {
            index = bind(table.row(row)[column], column, of: entity, to: statement, at: index)
        }
        bindKey(ofRow: row, entity, to: statement, from: index)
        try statement.run()
        if merger.connection.changes > 0 { result.states[entity][row] = MergeTally.RowState.updated.rawValue }
    }

    // MARK: - Links

    private mutating func mergeLinks() throws(MergeFailure) {
        for (number, links) in rows.links.enumerated() where !links.isEmpty {
            let statements = merger.links[number]
            let scan = merger.scans.scan(linkTable: number)
            do throws(StoreError) {
                let insert = try statements.insert()
                try links.withUnsafeBufferPointer { links throws(StoreError) in
                    scan.pointee.links = links.baseAddress
                    scan.pointee.position = 0
                    scan.pointee.end = links.count
                    defer { scan.pointee.links = nil }
                    try listening(.linkRows, scan, statements.link, insert)
                }
            } catch {
                throw .store(error)
            }
        }
    }

    private mutating func listening(
        _ listening: MergeTally.Listening, _ scan: UnsafeMutablePointer<StagedScan>, states entity: Int,
        _ body: () throws(StoreError) -> Void
    ) throws(StoreError) {
        let tally = merger.tally
        try result.states[entity].withUnsafeMutableBufferPointer { states throws(StoreError) in
            tally.pointee.scan = scan
            tally.pointee.states = states.baseAddress
            tally.pointee.listening = listening
            defer { tally.pointee.listening = .off }
            try body()
        }
    }

    private mutating func listening(
        _ listening: MergeTally.Listening, _ scan: UnsafeMutablePointer<StagedScan>, _ link: LinkTable,
        _ insert: Statement
    ) throws(StoreError) {
        // Both ends may be the same entity, whose states must not be lent twice: a copy of the outer array's storage.
        let tally = merger.tally
        var sources = result.states[link.source]
        var destinations = link.destination == link.source ? [] : result.states[link.destination]
        defer {
            result.states[link.source] = sources
            if link.destination != link.source { result.states[link.destination] = destinations }
        }
        try sources.withUnsafeMutableBufferPointer { sources throws(StoreError) in
            try destinations.withUnsafeMutableBufferPointer { destinations throws(StoreError) in
                tally.pointee.scan = scan
                tally.pointee.sourceStates = sources.baseAddress
                tally.pointee.destinationStates =
                    link.destination == link.source ? sources.baseAddress : destinations.baseAddress
                tally.pointee.listening = listening
                defer { tally.pointee.listening = .off }
                try insert.run()
            }
        }
    }

    // MARK: - Binding keys

    /// Binds what identifies the staged row, and returns the next parameter's index.
    @discardableResult
    func bindKey(ofRow row: Int, _ entity: Int, to statement: Statement, from index: Int) -> Int {
        let statements = merger.entities[entity]
        if statements.entity.hasRowKey {
            statement.bind(result.rowKeys[entity][row], at: index)
            return index + 1
        }
        return bindIdentity(rows.tables[entity]!.row(row), statements, statement, from: index)
    }

    @discardableResult
    private func bindIdentity(
        _ cells: UnsafePointer<Cell>, _ statements: EntityStatements, _ statement: Statement, from index: Int
    ) -> Int {
        for (position, column) in statements.entity.identity.enumerated() {
            statement.bind(cells[column], at: index + position)
        }
        return index + statements.entity.identity.count
    }

    /// Binds a cell's columns, a link's as the key of what it means, and returns the next parameter's index.
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
}
