internal import BrokerModel
internal import BrokerStaging

/// The positions in ordered to-many relationships, assigned after all links are made.
///
/// A new link has no position yet and gets one after the existing links. In a set that was replaced or cleared, the
/// positions are those of the payload, from 0.
extension JobMerge {
    mutating func mergeListPositions() throws(MergeFailure) {
        guard !rows.listPositions.isEmpty else { return }
        try storing { () throws(StoreError) in
            let replaced = Set(rows.replacements.map(\.set))
            var rest = rows.listPositions[...]
            while let set = rest.first?.set {
                let own = rest.prefix { $0.set == set }
                if !isNumbered(set) { try assign(set, own, isReplaced: replaced.contains(set)) }
                rest = rest.dropFirst(own.count)
            }
        }
    }

    /// The links of a new object in a link table are inserted with their positions.
    private func isNumbered(_ set: ToManySet) -> Bool {
        isInJoinTable(set) && isNew(set.row, set.entity)
    }

    private func isNew(_ row: Int, _ entity: Int) -> Bool {
        result.states[entity][row] == MergeTally.RowState.inserted.rawValue
    }

    /// The positions of the links of new objects, in the order in which records name them; negative for other links.
    private mutating func positions(of links: [StagedLink], _ link: LinkTable) -> [Int32] {
        var positions = Array(repeating: Int32(-1), count: 2 * links.count)
        for side in link.orderedSides {
            var next: [UInt32: Int32] = [:]
            var named: Set<UInt64> = []
            for (index, one) in links.enumerated() {
                let (row, element) = side == 0 ? (one.source, one.destination) : (one.destination, one.source)
                guard isNew(Int(row), side == 0 ? link.source : link.destination),
                    named.insert(UInt64(row) << 32 | UInt64(element)).inserted
                else { continue }
                let position = next[row, default: 0]
                next[row] = position + 1
                positions[2 * index + side] = position
            }
        }
        return positions
    }

    /// Assigns positions: to all elements of a set that was replaced, and otherwise, after the last one, to those that have
    /// none.
    private mutating func assign(
        _ set: ToManySet, _ entries: ArraySlice<StagedListPosition>, isReplaced: Bool
    ) throws(StoreError) {
        let statements = statements(of: set)
        var linked: [(entry: StagedListPosition, position: Cell)] = []
        for entry in entries {
            guard let position = try position(entry, set, statements) else { continue }
            if isReplaced || position.kind == .null { linked.append((entry, position)) }
        }
        guard !linked.isEmpty else { return }
        var next = isReplaced ? 0 : try end(of: set, statements)
        for (entry, position) in linked {
            // For a new link, the merge has recorded the row whose record named it.
            if try move(entry, from: position, to: next, set, statements), position.kind != .null, isInJoinTable(set) {
                noteLinkUpdate(set.entity, set.row)
            }
            next += 1
        }
    }

    private func isInJoinTable(_ set: ToManySet) -> Bool {
        if case .linkTable = merger.plan.layout.entities[set.entity].forms[set.relationship] { true } else { false }
    }

    /// For a to-one link, the change belongs to the row that has it: the element's.
    ///
    /// - Returns: whether the position changed.
    private mutating func move(
        _ entry: StagedListPosition, from old: Cell, to new: Int64, _ set: ToManySet,
        _ statements: ListPositionStatements
    ) throws(StoreError) -> Bool {
        if old.kind == .integer, old.integer == new { return false }
        try write(new, entry, set, statements)
        var hash = RowHash(UInt64(set.entity) << 32 | UInt64(set.relationship))
        for number in [set.row, entry.element, Int(new)] { hash.add(UInt64(number)) }
        result.beside.add(hash.value)
        if !isInJoinTable(set) { noteUpdate(destination(of: set), entry.element, 0) }
        return true
    }

    // MARK: - Statements

    private func destination(of set: ToManySet) -> Int {
        merger.plan.model.destinationTable(set.entity, set.relationship)
    }

    private func statements(of set: ToManySet) -> ListPositionStatements {
        switch merger.plan.layout.entities[set.entity].forms[set.relationship] {
        case .column: preconditionFailure("a to-one relationship has no order")
        case .destinationColumn(let column): merger.entities[destination(of: set)].positions(byColumn: column)
        case .linkTable(let number, let isReversed): merger.links[number].positions[isReversed ? 1 : 0]
        }
    }

    /// The element's position, NULL when it has none yet; nil when it is not linked.
    private func position(
        _ entry: StagedListPosition, _ set: ToManySet, _ statements: ListPositionStatements
    ) throws(StoreError) -> Cell? {
        let find = try statements.find()
        let next = bindKey(ofRow: set.row, set.entity, to: find, from: 1)
        bindKey(ofRow: entry.element, destination(of: set), to: find, from: next)
        defer { find.reset() }
        return try find.step() ? find.cell(0) : nil
    }

    private func end(of set: ToManySet, _ statements: ListPositionStatements) throws(StoreError) -> Int64 {
        let last = try statements.last()
        bindKey(ofRow: set.row, set.entity, to: last, from: 1)
        defer { last.reset() }
        guard try last.step(), last.cell(0).kind == .integer else { return 0 }
        return last.integer(0) + 1
    }

    private func write(
        _ position: Int64, _ entry: StagedListPosition, _ set: ToManySet, _ statements: ListPositionStatements
    ) throws(StoreError) {
        let write = try statements.set()
        let next = bindKey(ofRow: set.row, set.entity, to: write, from: 1)
        write.bind(position, at: bindKey(ofRow: entry.element, destination(of: set), to: write, from: next))
        try write.run()
    }
}

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
        do throws(StoreError) {
            let upserts = merger.entities[group.concreteEntity].upserts
            if planned.isAtOnce {
                try upsert(group, upserts, table)
            } else {
                try update(group, upserts, table)
            }
        } catch {
            guard error.code == .constraint else { throw .store(error) }
            throw .surprise(.constraint)
        }
        try checkInserted(group, table)
    }

    private mutating func upsert(
        _ group: RowGroup, _ upserts: UpsertStatements, _ table: FrozenTable
    ) throws(StoreError) {
        let entity = table.entityIndex
        let scan = merger.scans.scan(entity: entity)
        scan.pointee.tables = UnsafePointer(merger.scans.tables.baseAddress!)
        scan.pointee.order = group.order.rows
        scan.pointee.jobs = nil
        defer { scan.pointee.clear() }
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
        throw .surprise(.missing)
    }

    /// Merges row by row. The rows have values for the same columns, and can be inserted or exist.
    private mutating func update(
        _ group: RowGroup, _ upserts: UpsertStatements, _ table: FrozenTable
    ) throws(StoreError) {
        let entity = table.entityIndex
        let model = merger.entities[group.concreteEntity].entity
        guard case .rows(let statement) = try upserts.update(group.columns!) else { return }
        for position in group.range {
            let row = group.order[position]
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
            let positions = link.orderedSides.isEmpty ? [] : positions(of: links, link)
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
                        try merger.merge(
                            links, of: number, reading: UnsafePointer(tables.baseAddress!), positions: positions)
                    }
                }
            }
        }
    }
}
