internal import BrokerModel
internal import BrokerStaging

/// Links that end because of this job: the other partner of a one-to-one, and what a to-many replaced.
///
/// Few rows are concerned, so these go row by row: what is linked is read, what this job does not name is unlinked.
extension JobMerge {
    mutating func endLinks() throws(MergeFailure) {
        do throws(StoreError) {
            try endOneToOneLinks()
            guard !rows.replacements.isEmpty else { return }
            try gatherSpared()
            var ended = EndedLinks(linkTableCount: rows.links.count)
            for replacement in rows.replacements { try replace(replacement, &ended) }
            for (number, rowNumbers) in ended.rowNumbers.enumerated() { try delete(rowNumbers, from: number) }
        } catch {
            throw .store(error)
        }
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
                    // Others that point at this object.
                    try unlink(
                        link.destination, column: back, linkedTo: row, of: entity,
                        but: cell.kind == .object ? cell.row : nil)
                    // Others of this object's kind that point at what it is now linked to.
                    if cell.kind == .object {
                        try unlink(entity, column: column, linkedTo: cell.row, of: link.destination, but: row)
                    }
                }
            }
        }
    }

    /// Ends the links in `column` of `entity` that point at the staged row, all but the one of the staged row `kept`.
    private mutating func unlink(
        _ entity: Int, column: Int, linkedTo row: Int, of destination: Int, but kept: Int?
    ) throws(StoreError) {
        try unlink(entity, column: column, linkedTo: row, of: destination) { _, stagedRow, _ in
            stagedRow != nil && stagedRow == kept
        }
    }

    /// - Parameter isKept: asked with the staged row, if this job staged it, and the statement that stands at its key.
    private mutating func unlink(
        _ entity: Int, column: Int, linkedTo row: Int, of destination: Int,
        isKept: (borrowing JobMerge, Int?, Statement) throws(StoreError) -> Bool
    ) throws(StoreError) {
        let linked = try merger.entities[entity].linked(byColumn: column)
        bindKey(ofRow: row, destination, to: linked, from: 1)
        var ended: [(rowNumber: Int64, stagedRow: Int?)] = []
        while try linked.step() {
            let stagedRow = try stagedRow(entity, linked, from: 1)
            if try !isKept(self, stagedRow, linked) { ended.append((linked.integer(0), stagedRow)) }
        }
        let unlink = try merger.entities[entity].unlink(column: column)
        for (rowNumber, stagedRow) in ended {
            unlink.bind(rowNumber, at: 1)
            try unlink.run()
            noteUpdate(entity, stagedRow, rowNumber)
        }
    }

    // MARK: - Replaced to-many links

    /// Row numbers of links that end, by link table. They go after all have been found, because an object whose set a
    /// link leaves is changed by that, also when the object at the other end gave the link up as well.
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
            let table = rows.tables[destination]
            try unlink(
                destination, column: column, linkedTo: replacement.row, of: replacement.entity
            ) { merge, stagedRow, key throws(StoreError) in
                if merge.lookups.isSpared(replacement, try merge.key(of: destination, key)) { return true }
                guard let stagedRow, let cell = table?.row(stagedRow)[column] else { return false }
                return cell.kind == .object && cell.row == replacement.row
            }
        case .linkTable(let number, let isReversed):
            var isChanged = try end(replacement, number, isReversed, destination, &ended)
            // Of a relationship that is its own inverse, the links in the other direction end, too.
            if merger.links[number].link.isSymmetric {
                isChanged = try end(replacement, number, true, destination, &ended) || isChanged
            }
            if isChanged { noteLinkUpdate(replacement.entity, replacement.row) }
        }
    }

    /// Finds the links of one side that this job does not name; whether there are any.
    private mutating func end(
        _ replacement: StagedReplacement, _ number: Int, _ isReversed: Bool, _ destination: Int,
        _ ended: inout EndedLinks
    ) throws(StoreError) -> Bool {
        let named = lookups.namedLinks(rows, number, isReversed)[replacement.row] ?? []
        let linked = try merger.links[number].linked(isReversed: isReversed)
        bindKey(ofRow: replacement.row, replacement.entity, to: linked, from: 1)
        var isChanged = false
        while try linked.step() {
            let other = try stagedRow(destination, linked, from: 1)
            if let other, named.contains(other) { continue }
            if lookups.isSpared(replacement, try key(of: destination, linked)) { continue }
            ended.rowNumbers[number].insert(linked.integer(0))
            isChanged = true
        }
        return isChanged
    }

    private func delete(_ rowNumbers: Set<Int64>, from number: Int) throws(StoreError) {
        guard !rowNumbers.isEmpty else { return }
        let delete = try merger.links[number].delete()
        for rowNumber in rowNumbers {
            delete.bind(rowNumber, at: 1)
            try delete.run()
        }
    }

    /// Looks up the elements that were left out, whose links stay.
    private mutating func gatherSpared() throws(StoreError) {
        for spared in rows.spared {
            let destination = merger.entities[spared.kind].entity
            var key = try merger.forms.key(spared.identity, of: spared.kind)
            if destination.hasRowKey {
                var cells = Array(repeating: Cell.absent, count: destination.attributes.count)
                for (cell, column) in zip(spared.identity, destination.identity) { cells[column] = cell }
                let rowKey = try cells.withUnsafeBufferPointer { cells throws(StoreError) in
                    try merger.rowKey(of: cells.baseAddress!, spared.kind)
                }
                guard let rowKey else { continue }
                key = StoredKey([.integer(rowKey)])
            }
            lookups.spare(spared, key)
        }
    }

    // MARK: - Who is who

    /// The staged row whose key is in the statement's columns from `first` on; nil when this job did not stage it.
    mutating func stagedRow(_ entity: Int, _ statement: Statement, from first: Int) throws(StoreError) -> Int? {
        guard let table = rows.tables[entity] else { return nil }
        let model = merger.entities[entity].entity
        if model.hasRowKey { return lookups.row(ofKey: statement.integer(first), entity, result.rowKeys) }
        if merger.forms.changesKey(of: entity) {
            let key = try merger.forms.key(model.identity.indices.map { statement.cell(first + $0) }, of: entity)
            return try lookups.row(of: key, table, merger.forms)
        }
        var cells = Array(repeating: Cell.absent, count: table.columnCount)
        for (position, column) in model.identity.enumerated() { cells[column] = statement.cell(first + position) }
        return cells.withUnsafeBufferPointer { table.find(identity: $0.baseAddress!, kind: entity) }
    }

    /// The key of that entity in the statement's columns from 1 on.
    private func key(of entity: Int, _ statement: Statement) throws(StoreError) -> StoredKey {
        guard !rows.spared.isEmpty else { return StoredKey([]) }
        let cells = merger.entities[entity].keyNames.indices.map { statement.cell(1 + $0) }
        return try merger.entities[entity].entity.hasRowKey ? StoredKey(cells) : merger.forms.key(cells, of: entity)
    }

    /// A record of the object changed a link in a link table.
    mutating func noteLinkUpdate(_ entity: Int, _ stagedRow: Int) {
        result.linkStates[entity][stagedRow] = MergeTally.RowState.updated.rawValue
    }

    /// The row changed.
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

/// Searches through a job's rows that a replaced relationship needs, made when they are first wanted.
struct StagedLookups {
    private struct Side: Hashable {
        let linkTable: Int
        let isReversed: Bool
    }

    private struct ToMany: Hashable {
        let entity: Int
        let row: Int
        let relationship: Int
    }

    private var links: [Side: [Int: Set<Int>]] = [:]
    private var rows: [Int: [Int64: Int]] = [:]
    private var spared: [ToMany: Set<StoredKey>] = [:]
    /// By entity index, where columns change what was staged.
    private var stored: [Int: [StoredKey: Int]] = [:]

    mutating func spare(_ link: RetainedLink, _ key: StoredKey) {
        spared[ToMany(entity: link.entity, row: link.row, relationship: link.relationship), default: []].insert(key)
    }

    /// Whether the object of that key was left out as an element of the relationship.
    func isSpared(_ replacement: StagedReplacement, _ key: StoredKey) -> Bool {
        guard !spared.isEmpty else { return false }
        let set = ToMany(
            entity: replacement.entity, row: replacement.row, relationship: replacement.relationship)
        return spared[set]?.contains(key) ?? false
    }

    /// The rows that each row of one side is linked to by this job.
    mutating func namedLinks(_ staged: StagedRows, _ linkTable: Int, _ isReversed: Bool) -> [Int: Set<Int>] {
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

    /// The staged row that has this key, of an entity whose columns change what was staged.
    mutating func row(of key: StoredKey, _ table: FrozenTable, _ forms: ColumnAffinities) throws(StoreError) -> Int? {
        if stored[table.entityIndex] == nil { stored[table.entityIndex] = try forms.rows(of: table) }
        return stored[table.entityIndex]?[key]
    }

    /// The staged row that has this key of the store's own; nil when this job did not stage it.
    mutating func row(ofKey key: Int64, _ entity: Int, _ keys: [[Int64]]) -> Int? {
        if rows[entity] == nil {
            rows[entity] = Dictionary(
                keys[entity].enumerated().map { ($1, $0) }, uniquingKeysWith: { first, _ in first })
        }
        return rows[entity]?[key]
    }
}
