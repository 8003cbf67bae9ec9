internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// Links of the staged rows, and stored links that end because of them: that of the other partner of a one-to-one
/// relationship, and those that a replaced to-many relationship no longer has.
///
/// Few links end, so these are handled row by row: stored links that the step does not name are removed.
extension SetMerge {
    // MARK: - Before anything is written

    /// Checks that each row has the links without which its table takes none, and that no owned object has another owner
    /// so far: that one's record would decide whether the object goes.
    func checkLinks(_ table: FrozenTable) throws {
        let (entity, plan) = (table.entityIndex, merger.plan)
        let layout = plan.layout.entities[entity]
        // Another program's table: the link may come with a later record of the object.
        let requiresLinks = merger.entities[entity].upserts.required.contains { $0 >= layout.attributeCount }
        if requiresLinks, table.namings.contains(where: \.isRepeated) { throw MergeFailure.surprise(.required) }
        guard let column = plan.ownerColumns[entity] else { return }
        let owner = layout.link(atColumn: column).destination
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

    // MARK: - New links

    /// Merges the links of a member into the link tables. The objects at both ends have been merged.
    func mergeLinks(_ member: Int) throws(StoreError) {
        for (number, links) in members[member].links.enumerated() where !links.isEmpty {
            let (statements, tally, scan) = (merger.links[number], merger.tally, merger.scans.scan(linkTable: number))
            let insert = try statements.insert()
            let positions = isBatch ? [] : positions(of: links, statements.link)
            try links.withUnsafeBufferPointer { links throws(StoreError) in
                try positions.withUnsafeBufferPointer { positions throws(StoreError) in
                    scan.pointee.tables = scannedTables(member)
                    scan.pointee.links = links.baseAddress
                    scan.pointee.linkPositions = positions.isEmpty ? nil : positions.baseAddress
                    scan.pointee.read(0..<links.count)
                    defer { scan.pointee.clear() }
                    let ends = MergeTally.Counting.linkRows(statements.link.source, statements.link.destination)
                    try MergeTally.counting(tally, to: scan, of: ends) { () throws(StoreError) in try insert.run() }
                }
            }
        }
    }

    /// The positions of the links of new objects in a table of ordered links, in the order in which records name them: two
    /// for each link, negative for those of other objects.
    private func positions(of links: [StagedLink], _ link: LinkTable) -> [Int32] {
        guard !link.orderedSides.isEmpty else { return [] }
        var positions = Array(repeating: Int32(-1), count: 2 * links.count)
        for side in link.orderedSides {
            var (next, named): ([UInt32: Int32], Set<UInt64>) = ([:], [])
            for (index, one) in links.enumerated() {
                let (row, element) = side == 0 ? (one.source, one.destination) : (one.destination, one.source)
                guard isNew(Int(row), side == 0 ? link.source : link.destination),
                    named.insert(UInt64(row) << 32 | UInt64(element)).inserted
                else { continue }
                positions[2 * index + side] = next[row, default: 0]
                next[row, default: 0] += 1
            }
        }
        return positions
    }

    private func isNew(_ row: Int, _ entity: Int) -> Bool {
        self[entity].states![row] == MergeTally.RowState.inserted.rawValue
    }

    // MARK: - Links that end

    func endLinks() throws {
        try endOneToOneLinks()
        // Links are deleted after all that end have been found, because an object changes when a link leaves its set, even
        // if the object at the other end removed the link, too.
        var ended: [Int: Set<Int64>] = [:]
        for replacement in rows.replacements { try replace(replacement, &ended) }
        for (number, rowNumbers) in ended.sorted(by: { $0.key < $1.key }) {
            let delete = try merger.objects.deleteLink(number)
            for rowNumber in rowNumbers { try delete.run(rowNumber) }
        }
        // What their deletion reaches may be an object that a record before or after it names.
        if orphans.contains(where: { merger.deletions.reachesOthers[$0.key] && !$0.value.isEmpty }) {
            throw MergeFailure.surprise(.owned)
        }
    }

    private func endOneToOneLinks() throws {
        for case let table? in rows.tables {
            let (entity, layout) = (table.entityIndex, merger.plan.layout.entities[table.entityIndex])
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

    /// Ends the links in `column` of `entity` that refer to a staged row. Those of a staged row may be retained.
    private func unlink(
        _ entity: Int, column: Int, linkedTo row: Int, of destination: Int, isRetained: (Int?) -> Bool
    ) throws {
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
            // An owned object that a record names would go.
            if ended.contains(where: { $0.stagedRow != nil }) { throw MergeFailure.surprise(.owned) }
            // The link stays until the object is deleted: another program's table may require it.
            return orphans[entity, default: []].formUnion(ended.map(\.rowNumber))
        }
        let unlink = try merger.objects.clearLink(entity, column)
        for (rowNumber, stagedRow) in ended {
            try unlink.run(rowNumber)
            noteUpdate(entity, stagedRow, rowNumber)
        }
    }

    private func replace(_ replacement: StagedReplacement, _ ended: inout [Int: Set<Int64>]) throws {
        let destination = merger.plan.model.destinationTable(replacement.entity, replacement.relationship)
        switch merger.plan.layout.entities[replacement.entity].forms[replacement.relationship] {
        case .column: return
        case .destinationColumn(let column):
            // All links to a new object are this job's.
            guard !isNew(replacement.row, replacement.entity) else { return }
            let table = rows.tables[destination]
            try unlink(destination, column: column, linkedTo: replacement.row, of: replacement.entity) { stagedRow in
                guard let stagedRow, let cell = table?.row(stagedRow)[column] else { return false }
                return cell.kind == .object && cell.row == replacement.row
            }
        case .linkTable(let number, let isReversed):
            // A relationship that is its own inverse also loses the links in the other direction.
            let sides = merger.links[number].link.isSymmetric ? [isReversed, true] : [isReversed]
            for isReversed in sides where try end(replacement, number, isReversed: isReversed, destination, &ended) {
                noteLinkUpdate(replacement.entity, replacement.row)
            }
        }
    }

    /// Finds the links of one side that the step does not name. Returns whether there are any.
    private func end(
        _ replacement: StagedReplacement, _ number: Int, isReversed: Bool, _ destination: Int,
        _ ended: inout [Int: Set<Int64>]
    ) throws(StoreError) -> Bool {
        let named = namedLinks(of: number, isReversed: isReversed)[replacement.row] ?? []
        let linked = try merger.links[number].linked(isReversed: isReversed)
        bindKey(ofRow: replacement.row, replacement.entity, to: linked, from: 1)
        var isChanged = false
        while try linked.step() {
            let other = stagedRow(destination, linked, from: 1)
            if let other, named.contains(other) { continue }
            ended[number, default: []].insert(linked.integer(0))
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

    /// The rows to which the step links each row of one side.
    private func namedLinks(of number: Int, isReversed: Bool) -> [Int: Set<Int>] {
        let side = 2 * number + (isReversed ? 1 : 0)
        if let known = namedLinks[side] { return known }
        var named: [Int: Set<Int>] = [:]
        for link in rows.links[number] {
            let (own, other) = isReversed ? (link.destination, link.source) : (link.source, link.destination)
            named[Int(own), default: []].insert(Int(other))
        }
        namedLinks[side] = named
        return named
    }

    /// Adds a link to the digest, with the key of the entity in the columns from 1 on.
    private func noteEnd(ofLinkAt place: RowHash, _ entity: Int, _ statement: Statement) {
        var hash = place
        for column in merger.entities[entity].keyNames.indices { hash.add(statement.cell(1 + column)) }
        beside.add(hash.value)
    }

    // MARK: - Positions in ordered relationships

    /// Assigns positions after all links are made: to all elements of a set that was replaced, from 0, and otherwise, after the
    /// last one, to those that have none. The links of a new object in a link table were inserted with theirs.
    func mergeListPositions() throws(StoreError) {
        guard !rows.listPositions.isEmpty else { return }
        let replaced = Set(rows.replacements.map(\.set))
        var (set, next): (ToManySet?, Int64?) = (nil, nil)
        for entry in rows.listPositions {
            if entry.set != set { (set, next) = (entry.set, replaced.contains(entry.set) ? 0 : nil) }
            if isInLinkTable(entry), isNew(entry.row, entry.entity) { continue }
            let statements = positions(of: entry)
            let find = try statements.find()
            bindElement(entry, to: find)
            guard let old = try find.first(read: { $0.cell(0) }) else { continue }
            guard old.kind == .null || replaced.contains(entry.set) else { continue }
            if next == nil {
                let last = try statements.last()
                bindKey(ofRow: entry.row, entry.entity, to: last, from: 1)
                next = try last.first { $0.isNull(0) ? 0 : $0.integer(0) + 1 } ?? 0
            }
            if old.kind != .integer || old.integer != next {
                try write(next!, entry, statements, isNew: old.kind == .null)
            }
            next! += 1
        }
    }

    /// For a link in a column, the change belongs to the row that has it: the element's. Of a new link in a link table, the merge
    /// has recorded the row whose record named it.
    private func write(
        _ position: Int64, _ entry: StagedListPosition, _ statements: ListPositionStatements, isNew: Bool
    ) throws(StoreError) {
        let write = try statements.set()
        write.bind(position, at: bindElement(entry, to: write))
        try write.run()
        var hash = RowHash(UInt64(entry.entity) << 32 | UInt64(entry.relationship))
        for number in [entry.row, entry.element, Int(position)] { hash.add(UInt64(number)) }
        beside.add(hash.value)
        if !isInLinkTable(entry) {
            noteUpdate(destination(of: entry), entry.element, 0)
        } else if !isNew {
            noteLinkUpdate(entry.entity, entry.row)
        }
    }

    /// Binds the keys of the object with the list and of the element. Returns the next parameter's index.
    @discardableResult
    private func bindElement(_ entry: StagedListPosition, to statement: Statement) -> Int {
        let next = bindKey(ofRow: entry.row, entry.entity, to: statement, from: 1)
        return bindKey(ofRow: entry.element, destination(of: entry), to: statement, from: next)
    }

    private func isInLinkTable(_ entry: StagedListPosition) -> Bool {
        if case .linkTable = merger.plan.layout.entities[entry.entity].forms[entry.relationship] { true } else { false }
    }

    private func destination(of entry: StagedListPosition) -> Int {
        merger.plan.model.destinationTable(entry.entity, entry.relationship)
    }

    private func positions(of entry: StagedListPosition) -> ListPositionStatements {
        switch merger.plan.layout.entities[entry.entity].forms[entry.relationship] {
        case .column: preconditionFailure("a to-one relationship has no order")
        case .destinationColumn(let column): merger.entities[destination(of: entry)].positions(byColumn: column)
        case .linkTable(let number, let isReversed): merger.links[number].positions[isReversed ? 1 : 0]
        }
    }
}
