internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// Links that end because of this job: the link of the other partner of a one-to-one relationship, and links that a
/// replaced to-many relationship no longer has.
///
/// Few rows are concerned, so they are handled row by row: stored links that this job does not name are removed.
extension JobMerge {
    mutating func endLinks() throws(MergeFailure) {
        try storing { () throws(StoreError) in
            try endOneToOneLinks()
            guard !rows.replacements.isEmpty else { return }
            var ended = EndedLinks(linkTableCount: rows.links.count)
            for replacement in rows.replacements { try replace(replacement, &ended) }
            for (number, rowNumbers) in ended.rowNumbers.enumerated() { try delete(rowNumbers, from: number) }
        }
        // What their deletion reaches may be an object that a record before or after it names.
        let reachesOthers = result.orphans.contains { merger.deletions.reachesOthers[$0.key] && !$0.value.isEmpty }
        if reachesOthers || endsStagedObject { throw .surprise(.owned) }
    }

    // MARK: - One to one

    private mutating func endOneToOneLinks() throws(StoreError) {
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
                    try unlink(
                        link.destination, column: back, linkedTo: row, of: entity,
                        but: cell.kind == .object ? cell.row : nil)
                    // Other objects of this entity that refer to the object to which this one is now linked.
                    if cell.kind == .object {
                        try unlink(entity, column: column, linkedTo: cell.row, of: link.destination, but: row)
                    }
                }
            }
        }
    }

    /// Ends the links in `column` of `entity` that refer to the staged row, except the one of the staged row
    /// `retained`.
    private mutating func unlink(
        _ entity: Int, column: Int, linkedTo row: Int, of destination: Int, but retained: Int?
    ) throws(StoreError) {
        try unlink(entity, column: column, linkedTo: row, of: destination) { $0 != nil && $0 == retained }
    }

    /// - Parameter isRetained: called with the staged row, if this job staged it.
    private mutating func unlink(
        _ entity: Int, column: Int, linkedTo row: Int, of destination: Int,
        isRetained: (Int?) -> Bool
    ) throws(StoreError) {
        let linked = try merger.entities[entity].linked(byColumn: column)
        bindKey(ofRow: row, destination, to: linked, from: 1)
        var ended: [(rowNumber: Int64, stagedRow: Int?)] = []
        while try linked.step() {
            let stagedRow = try stagedRow(entity, linked, from: 1)
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
            unlink.bind(rowNumber, at: 1)
            try unlink.run()
            noteUpdate(entity, stagedRow, rowNumber)
        }
    }

    // MARK: - Replaced to-many links

    /// Row numbers of the links that end, by link table. They are deleted after all have been found, because an object
    /// changes when a link leaves its set, even if the object at the other end removed the link, too.
    struct EndedLinks {
        var rowNumbers: [Set<Int64>]

        init(linkTableCount: Int) { rowNumbers = Array(repeating: [], count: linkTableCount) }
    }

    private mutating func replace(_ replacement: StagedReplacement, _ ended: inout EndedLinks) throws(StoreError) {
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
    private mutating func end(
        _ replacement: StagedReplacement, _ number: Int, isReversed: Bool, _ destination: Int,
        _ ended: inout EndedLinks
    ) throws(StoreError) -> Bool {
        let named = lookups.namedLinks(rows, number, isReversed: isReversed)[replacement.row] ?? []
        let linked = try merger.links[number].linked(isReversed: isReversed)
        bindKey(ofRow: replacement.row, replacement.entity, to: linked, from: 1)
        var isChanged = false
        while try linked.step() {
            let other = try stagedRow(destination, linked, from: 1)
            if let other, named.contains(other) { continue }
            ended.rowNumbers[number].insert(linked.integer(0))
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
    private mutating func noteEnd(ofLinkAt place: RowHash, _ entity: Int, _ statement: Statement) {
        var hash = place
        for column in merger.entities[entity].keyNames.indices { hash.add(statement.cell(1 + column)) }
        result.beside.add(hash.value)
    }

    private func delete(_ rowNumbers: Set<Int64>, from number: Int) throws(StoreError) {
        guard !rowNumbers.isEmpty else { return }
        let delete = try merger.links[number].delete()
        for rowNumber in rowNumbers {
            delete.bind(rowNumber, at: 1)
            try delete.run()
        }
    }

    // MARK: - Identification

    /// The staged row whose key is in the statement's columns from `first` on; nil when this job did not stage it.
    mutating func stagedRow(_ entity: Int, _ statement: Statement, from first: Int) throws(StoreError) -> Int? {
        guard let table = rows.tables[entity] else { return nil }
        let model = merger.entities[entity].entity
        if model.hasRowKey { return lookups.row(ofKey: statement.integer(first), entity, result.rowKeys) }
        if merger.forms.changesKey(of: entity) {
            let key = try merger.forms.key(model.identity.indices.map { statement.cell(first + $0) }, of: entity)
            return try lookups.row(of: key, table, merger.forms)
        }
        return table.find(
            identity: model.identity.indices.map { statement.cell(first + $0) }, concreteEntity: entity)
    }

    /// Records that a record of the object changed a link in a link table.
    mutating func noteLinkUpdate(_ entity: Int, _ stagedRow: Int) {
        result.linkStates[entity][stagedRow] = MergeTally.RowState.updated.rawValue
    }

    /// Records that the row changed.
    mutating func noteUpdate(_ entity: Int, _ stagedRow: Int?, _ rowNumber: Int64) {
        guard let stagedRow else {
            result.changedOutside[entity].insert(rowNumber)
            return
        }
        if result.states[entity][stagedRow] == MergeTally.RowState.unchanged.rawValue {
            result.states[entity][stagedRow] = MergeTally.RowState.updated.rawValue
        }
    }
}

/// Lookups in a job's rows for replaced relationships, built on first use.
struct StagedLookups {
    private struct Side: Hashable {
        let linkTable: Int
        let isReversed: Bool
    }

    private var links: [Side: [Int: Set<Int>]] = [:]
    private var rows: [Int: [Int64: Int]] = [:]
    /// Indexed by entity, for entities whose columns convert staged values.
    private var stored: [Int: [StoredKey: Int]] = [:]

    /// The rows to which this job links each row of one side.
    mutating func namedLinks(_ staged: StagedRows, _ linkTable: Int, isReversed: Bool) -> [Int: Set<Int>] {
        let side = Side(linkTable: linkTable, isReversed: isReversed)
        if let known = links[side] { return known }
        var named: [Int: Set<Int>] = [:]
        for link in staged.links[linkTable] {
            let (own, other) = isReversed ? (link.destination, link.source) : (link.source, link.destination)
            named[Int(own), default: []].insert(Int(other))
        }
        links[side] = named
        return named
    }

    /// The staged row with this key, of an entity whose columns convert staged values.
    mutating func row(of key: StoredKey, _ table: FrozenTable, _ forms: ColumnAffinities) throws(StoreError) -> Int? {
        if stored[table.entityIndex] == nil { stored[table.entityIndex] = try forms.rows(of: table) }
        return stored[table.entityIndex]?[key]
    }

    /// The staged row with this row key; nil when this job did not stage it.
    mutating func row(ofKey key: Int64, _ entity: Int, _ keys: [[Int64]]) -> Int? {
        if rows[entity] == nil {
            rows[entity] = Dictionary(
                keys[entity].enumerated().map { ($1, $0) }, uniquingKeysWith: { first, _ in first })
        }
        return rows[entity]?[key]
    }
}
