internal import BrokerModel
internal import BrokerStaging

/// The statements that write: the rows of each entity, then the links of link tables.
extension JobMerge {
    /// Binds the scans to this job's rows while `body` runs.
    mutating func bindScans(_ body: (inout JobMerge) throws(MergeFailure) -> Void) throws(MergeFailure) {
        var rowKeys: [UnsafeMutablePointer<Int64>] = []
        for (entity, table) in rows.tables.enumerated() {
            var scanned = ScannedTable(cells: table?.cells, columnCount: table?.columnCount ?? 0)
            if !result.rowKeys[entity].isEmpty {
                let keys = UnsafeMutablePointer<Int64>.allocate(capacity: result.rowKeys[entity].count)
                keys.initialize(from: result.rowKeys[entity], count: result.rowKeys[entity].count)
                rowKeys.append(keys)
                scanned.rowKeys = UnsafePointer(keys)
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

    mutating func merge(_ planned: PlannedGroup, of table: FrozenTable) throws(MergeFailure) {
        let group = planned.rows
        var row = 0
        do throws(StoreError) {
            let upserts = merger.entities[group.concreteEntity].upserts
            if planned.isAtOnce {
                try upsert(group, upserts, table, &row)
            } else {
                try update(group, upserts, table, &row)
            }
        } catch {
            guard error.code == .constraint else { throw .store(error) }
            // The second attempt finds the conflicting rows before anything is written.
            guard isCareful else { throw .contended }
            try refuse(row, of: table, error)
        }
        try checkInserted(group, table)
    }

    /// - Parameter row: after an error, the row that caused it.
    private mutating func upsert(
        _ group: RowGroup, _ upserts: UpsertStatements, _ table: FrozenTable, _ row: inout Int
    ) throws(StoreError) {
        let entity = table.entityIndex
        let scan = merger.scans.scan(entity: entity)
        scan.pointee.tables = UnsafePointer(merger.scans.tables.baseAddress!)
        scan.pointee.order = group.order.rows
        scan.pointee.jobs = nil
        defer {
            row = scan.pointee.row
            scan.pointee.clear()
        }
        let upsert = try upserts.upsert(group.columns)
        let (tables, tally) = (merger.scans.tables, merger.tally)
        try result.states[entity].withUnsafeMutableBufferPointer { states throws(StoreError) in
            tables[entity].states = states.baseAddress
            defer { tables[entity].states = nil }
            // The instructions count as the job's work (``JobWork``).
            try upsert.run(group.range, scan, tally, comparedRows: nil)
        }
    }

    /// Checks that a row that lacks a required column updated an existing object and did not insert one.
    private func checkInserted(_ group: RowGroup, _ table: FrozenTable) throws(MergeFailure) {
        let upserts = merger.entities[group.concreteEntity].upserts
        let states = result.states[table.entityIndex]
        if let columns = group.columns, upserts.canInsert(columns) { return }
        let isMade = group.range.contains { position in
            let row = group.order[position]
            return states[row] == MergeTally.RowState.inserted.rawValue && !upserts.canInsert(table.row(row))
        }
        guard isMade else { return }
        precondition(!isCareful, "a row that lacks something was made, though it was looked for")
        throw .contended
    }

    /// Handles a constraint error that the model does not explain: another program made or changed the table. The
    /// record is rejected, or the job fails.
    private mutating func refuse(_ row: Int, of table: FrozenTable, _ error: StoreError) throws(MergeFailure) {
        let entity = merger.entities[table.concreteEntity(of: row)]
        let name = merger.entities[table.entityIndex].name
        let cells = table.row(row)
        let null = error.isOfNull ? entity.upserts.required.first { cells[$0].kind == .null } : nil
        reject(table.entityIndex, row) { isListed in
            guard isListed else { return Fault(.constraintViolation, "", entity: name) }
            let remedy =
                error.isTooLarge
                ? "Send shorter values of this \(name)."
                : "A table requires of this \(name) what the model does not know. Send a record that meets it, or look at the "
                    + "table's constraints."
            var fault = Fault(
                .constraintViolation, "\(error.message) \(remedy)", entity: name,
                attribute: null.map(entity.name(ofColumn:)))
            fault.cause = error.sqliteMessage
            return fault
        }
        try stopIfRejected()
    }

    /// Merges row by row. The rows have values for the same columns, and can be inserted or exist.
    private mutating func update(
        _ group: RowGroup, _ upserts: UpsertStatements, _ table: FrozenTable, _ row: inout Int
    ) throws(StoreError) {
        let entity = table.entityIndex
        let model = merger.entities[group.concreteEntity].entity
        guard case .rows(let statement) = try upserts.update(group.columns!) else { return }
        for position in group.range {
            row = group.order[position]
            var index = 1
            for column in group.columns! where model.hasRowKey || !model.identity.contains(column) {
                index = bind(table.row(row)[column], column, of: entity, to: statement, at: index)
            }
            bindKey(ofRow: row, entity, to: statement, from: index)
            try statement.run()
            if merger.connection.changes > 0 { result.states[entity][row] = MergeTally.RowState.updated.rawValue }
        }
    }

    // MARK: - Links

    mutating func mergeLinks() throws(MergeFailure) {
        for (number, links) in rows.links.enumerated() where !links.isEmpty {
            let link = merger.links[number].link
            // Both ends may be the same entity, whose states must not be borrowed twice: a copy of the outer array's
            // storage.
            var sources = result.linkStates[link.source]
            var destinations = link.destination == link.source ? [] : result.linkStates[link.destination]
            defer {
                result.linkStates[link.source] = sources
                if link.destination != link.source { result.linkStates[link.destination] = destinations }
            }
            let merger = merger
            let tables = merger.scans.tables
            try storing { () throws(StoreError) in
                try sources.withUnsafeMutableBufferPointer { sources throws(StoreError) in
                    try destinations.withUnsafeMutableBufferPointer { destinations throws(StoreError) in
                        tables[link.destination].states = destinations.baseAddress
                        tables[link.source].states = sources.baseAddress
                        try merger.merge(links, of: number, reading: UnsafePointer(tables.baseAddress!))
                    }
                }
            }
        }
    }
}
