internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// Links that end because of this job: the link of the other partner of a one-to-one relationship, and links that a
/// replaced to-many relationship no longer has.
///
/// Few rows are concerned, so they are handled row by row: stored links that this job does not name are removed.
extension JobMerge {
    func endLinks() throws {
        try endOneToOneLinks()
        // Links are deleted after all that end have been found, because an object changes when a link leaves its set, even
        // if the object at the other end removed the link, too.
        var ended: [Set<Int64>] = Array(repeating: [], count: rows.links.count)
        for replacement in rows.replacements { try replace(replacement, &ended) }
        for (number, rowNumbers) in ended.enumerated() where !rowNumbers.isEmpty {
            let delete = try merger.links[number].delete()
            for rowNumber in rowNumbers { try delete.run(rowNumber) }
        }
        // What their deletion reaches may be an object that a record before or after it names.
        let reachesOthers = result.orphans.contains { merger.deletions.reachesOthers[$0.key] && !$0.value.isEmpty }
        if reachesOthers || endsStagedObject { throw MergeFailure.surprise(.owned) }
    }

    // MARK: - One to one

    private func endOneToOneLinks() throws(StoreError) {
        for (entity, table) in rows.tables.enumerated() {
            guard let table else { continue }
            let layout = merger.plan.layout.entities[entity]
            for column in layout.attributeCount..<layout.columnCount {
                let link = layout.link(atColumn: column)
                guard let back = link.oneToOneColumn else { continue }
                for row in 0..<table.rowCount {
                    let cell = table.row(row)[column]
                    if cell.kind == .absent { continue }
                    // Other objects that refer to this object.
                    try unlink(link.destination, column: back, linkedTo: row, of: entity) {
                        $0 != nil && cell.kind == .object && $0 == cell.row
                    }
                    // Other objects of this entity that refer to the object to which this one is now linked.
                    if cell.kind == .object {
                        try unlink(entity, column: column, linkedTo: cell.row, of: link.destination) { $0 == row }
                    }
                }
            }
        }
    }

    /// Ends the links in `column` of `entity` that refer to a staged row.
    ///
    /// - Parameter isRetained: called with the staged row, if this job staged it.
    private func unlink(
        _ entity: Int, column: Int, linkedTo row: Int, of destination: Int,
        isRetained: (Int?) -> Bool
    ) throws(StoreError) {
        let linked = try merger.entities[entity].linked(byColumn: column)
        bindKey(ofRow: row, destination, to: linked, from: 1)
        var ended: [(rowNumber: Int64, stagedRow: Int?)] = []
        while try linked.step() {
            let stagedRow = stagedRow(entity, linked, from: 1)
            if isRetained(stagedRow) { continue }
            ended.append((linked.integer(0), stagedRow))
            noteEnd(ofLinkAt: RowHash(UInt64(entity) << 32 | UInt64(column)), entity, linked)
        }
        guard merger.plan.ownerColumns[entity] != column else {
            // The link stays until the object is deleted: another program's table may require it.
            result.orphans[entity, default: []].formUnion(ended.map(\.rowNumber))
            endsStagedObject = endsStagedObject || ended.contains { $0.stagedRow != nil }
            return
        }
        let unlink = try merger.entities[entity].unlink(column: column)
        for (rowNumber, stagedRow) in ended {
            try unlink.run(rowNumber)
            noteUpdate(entity, stagedRow, rowNumber)
        }
    }

    // MARK: - Replaced to-many links

    /// - Parameter ended: by link table, the row numbers of links that end.
    private func replace(_ replacement: StagedReplacement, _ ended: inout [Set<Int64>]) throws(StoreError) {
        let plan = merger.plan
        let destination = plan.model.destinationTable(replacement.entity, replacement.relationship)
        switch plan.layout.entities[replacement.entity].forms[replacement.relationship] {
        case .column: return
        case .destinationColumn(let column):
            // All links to a new object are this job's.
            let state = result.states[replacement.entity][replacement.row]
            guard state != MergeTally.RowState.inserted.rawValue else { return }
            let table = rows.tables[destination]
            try unlink(
                destination, column: column, linkedTo: replacement.row, of: replacement.entity
            ) { stagedRow in
                guard let stagedRow, let cell = table?.row(stagedRow)[column] else { return false }
                return cell.kind == .object && cell.row == replacement.row
            }
        case .linkTable(let number, let isReversed):
            var isChanged = try end(replacement, number, isReversed: isReversed, destination, &ended)
            // A relationship that is its own inverse also loses the links in the other direction.
            if merger.links[number].link.isSymmetric {
                isChanged = try end(replacement, number, isReversed: true, destination, &ended) || isChanged
            }
            if isChanged { noteLinkUpdate(replacement.entity, replacement.row) }
        }
    }

    /// Finds the links of one side that this job does not name.
    ///
    /// - Returns: whether there are any.
    private func end(
        _ replacement: StagedReplacement, _ number: Int, isReversed: Bool, _ destination: Int,
        _ ended: inout [Set<Int64>]
    ) throws(StoreError) -> Bool {
        let named = namedLinks(of: LinkSide(linkTable: number, isReversed: isReversed))[replacement.row] ?? []
        let linked = try merger.links[number].linked(isReversed: isReversed)
        bindKey(ofRow: replacement.row, replacement.entity, to: linked, from: 1)
        var isChanged = false
        while try linked.step() {
            let other = stagedRow(destination, linked, from: 1)
            if let other, named.contains(other) { continue }
            ended[number].insert(linked.integer(0))
            if let other, merger.links[number].link.hasInverse, rows.tables[destination]!.namings[other].namesLinks {
                noteLinkUpdate(destination, other)
            }
            var hash = RowHash(UInt64(number) << 1 | (isReversed ? 1 : 0))
            hash.add(UInt64(replacement.row))
            noteEnd(ofLinkAt: hash, destination, linked)
            isChanged = true
        }
        return isChanged
    }

    /// Adds a link to the digest.
    ///
    /// - Parameter statement: has the key of the entity in the columns from 1 on.
    private func noteEnd(ofLinkAt place: RowHash, _ entity: Int, _ statement: Statement) {
        var hash = place
        for column in merger.entities[entity].keyNames.indices { hash.add(statement.cell(1 + column)) }
        result.beside.add(hash.value)
    }

    /// Records that a record of the object changed a link in a link table.
    func noteLinkUpdate(_ entity: Int, _ stagedRow: Int) {
        result.linkStates[entity][stagedRow] = MergeTally.RowState.updated.rawValue
    }

    func noteUpdate(_ entity: Int, _ stagedRow: Int?, _ rowNumber: Int64) {
        guard let stagedRow else {
            result.changedOutside[entity].insert(rowNumber)
            return
        }
        if result.states[entity][stagedRow] == MergeTally.RowState.unchanged.rawValue {
            result.states[entity][stagedRow] = MergeTally.RowState.updated.rawValue
        }
    }
}

/// The positions in ordered to-many relationships, assigned after all links are made.
///
/// A new link has no position yet and gets one after the existing links. In a set that was replaced or cleared, the
/// positions are those of the payload, from 0.
extension JobMerge {
    func mergeListPositions() throws(StoreError) {
        guard !rows.listPositions.isEmpty else { return }
        let replaced = Set(rows.replacements.map(\.set))
        var rest = rows.listPositions[...]
        while let set = rest.first?.set {
            let own = rest.prefix { $0.set == set }
            if !isNumbered(set) { try assign(set, own, isReplaced: replaced.contains(set)) }
            rest = rest.dropFirst(own.count)
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
    private func positions(of links: [StagedLink], _ link: LinkTable) -> [Int32] {
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
    private func assign(
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
    private func move(
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
    func bindScans(_ body: () throws -> Void) throws {
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
        try body()
    }

    func merge(_ planned: PlannedGroup, of table: FrozenTable) throws {
        let group = planned.rows
        do throws(StoreError) {
            let upserts = merger.entities[group.concreteEntity].upserts
            if planned.isAtOnce {
                try upsert(group, upserts, table)
            } else {
                try update(group, upserts, table)
            }
        } catch {
            guard error.code == .constraint else { throw error }
            throw MergeFailure.surprise(.constraint)
        }
        try checkInserted(group, table)
    }

    private func upsert(
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
    private func update(
        _ group: RowGroup, _ upserts: UpsertStatements, _ table: FrozenTable
    ) throws(StoreError) {
        let entity = table.entityIndex
        let model = merger.entities[group.concreteEntity].entity
        guard let statement = try upserts.update(group.columns!) else { return }
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

    func mergeLinks() throws {
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
            let tables = merger.scans.tables
            try sources.withUnsafeMutableBufferPointer { sources in
                try destinations.withUnsafeMutableBufferPointer { destinations in
                    tables[link.destination].states = destinations.baseAddress
                    tables[link.source].states = sources.baseAddress
                    try merger.merge(
                        links, of: number, reading: UnsafePointer(tables.baseAddress!), positions: positions)
                }
            }
        }
    }
}
