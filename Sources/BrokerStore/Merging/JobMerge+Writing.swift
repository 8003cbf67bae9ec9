internal import BrokerModel
internal import BrokerStaging

/// The statements that write: rows entity by entity, then the links of link tables.
extension JobMerge {
    /// Lets the scans read this job's rows while `body` runs.
    mutating func bindScans(_ body: (inout JobMerge) throws(MergeFailure) -> Void) throws(MergeFailure) {
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

    mutating func merge(_ group: RowGroup, of table: FrozenTable) throws(MergeFailure) {
        var position = group.range.lowerBound
        do throws(StoreError) {
            try merge(group.range, of: group, table, position: &position)
        } catch {
            guard error.code == .constraint else { throw .store(error) }
            // Which of the job's rows must go is found out before anything is written, the next time.
            guard isCareful else { throw .contended }
            try refuse(Int(table.order[position]), of: table, error)
        }
    }

    /// Merges a part of the group. After an error `position` tells which row it was, by its place in the table's order.
    private mutating func merge(
        _ range: Range<Int>, of group: RowGroup, _ table: FrozenTable, position: inout Int
    ) throws(StoreError) {
        let entity = table.entityIndex
        switch try merger.entities[group.kind].merge(group.columns) {
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

    /// A constraint that is not of the model said no: another program made the table, or somebody changed it. The record is
    /// left out, or the job fails.
    private mutating func refuse(_ row: Int, of table: FrozenTable, _ error: StoreError) throws(MergeFailure) {
        let name = merger.entities[table.entityIndex].entity.name
        reject(table.entityIndex, row) { isTold in
            Fault(
                .constraintViolation,
                isTold
                    ? "\(error.message) A table requires of this \(name) what the model does not know. Send a record that "
                        + "meets it, or look at the table's constraints." : "", entity: name)
        }
        try stopIfRejected()
    }

    private mutating func update(
        _ row: Int, _ group: RowGroup, _ table: FrozenTable, _ statement: Statement
    ) throws(StoreError) {
        let entity = table.entityIndex
        let model = merger.entities[group.kind].entity
        var index = 1
        for column in group.columns where model.hasRowKey || !model.identity.contains(column) {
            index = bind(table.row(row)[column], column, of: entity, to: statement, at: index)
        }
        bindKey(ofRow: row, entity, to: statement, from: index)
        try statement.run()
        if merger.connection.changes > 0 { result.states[entity][row] = MergeTally.RowState.updated.rawValue }
    }

    // MARK: - Links

    mutating func mergeLinks() throws(MergeFailure) {
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
}
