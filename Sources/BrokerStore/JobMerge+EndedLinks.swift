internal import BrokerModel
internal import BrokerStaging

/// Links that end because of this job: the other partner of a one-to-one, and what a to-many replaced.
///
/// Few rows are concerned, so these go row by row: what is linked is read, what this job does not name is unlinked.
extension JobMerge {
    mutating func endLinks() throws(MergeFailure) {
        do throws(StoreError) {
            try endOneToOneLinks()
            for replacement in rows.replacements { try replace(replacement) }
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
        try unlink(entity, column: column, linkedTo: row, of: destination) { stagedRow in
            stagedRow != nil && stagedRow == kept
        }
    }

    private mutating func unlink(
        _ entity: Int, column: Int, linkedTo row: Int, of destination: Int, isKept: (Int?) -> Bool
    ) throws(StoreError) {
        let linked = try merger.entities[entity].linked(byColumn: column)
        bindKey(ofRow: row, destination, to: linked, from: 1)
        var ended: [(rowNumber: Int64, stagedRow: Int?)] = []
        while try linked.step() {
            let stagedRow = stagedRow(entity, linked, from: 1)
            if !isKept(stagedRow) { ended.append((linked.integer(0), stagedRow)) }
        }
        let unlink = try merger.entities[entity].unlink(column: column)
        for (rowNumber, stagedRow) in ended {
            unlink.bind(rowNumber, at: 1)
            try unlink.run()
            noteUpdate(entity, stagedRow, rowNumber)
        }
    }

    // MARK: - Replaced to-many links

    private mutating func replace(_ replacement: StagedReplacement) throws(StoreError) {
        let plan = merger.plan
        let relationship = plan.model.entities[replacement.entity].relationships[replacement.relationship]
        switch plan.layout.entities[replacement.entity].forms[replacement.relationship] {
        case .column: return
        case .destinationColumn(let column):
            let table = rows.tables[relationship.destination]
            try unlink(
                relationship.destination, column: column, linkedTo: replacement.row, of: replacement.entity
            ) { stagedRow in
                guard let stagedRow, let cell = table?.row(stagedRow)[column] else { return false }
                return cell.kind == .object && cell.row == replacement.row
            }
        case .linkTable(let number, let isReversed):
            try replaceLinks(replacement, number, isReversed, relationship.destination)
        }
    }

    private mutating func replaceLinks(
        _ replacement: StagedReplacement, _ number: Int, _ isReversed: Bool, _ destination: Int
    ) throws(StoreError) {
        let named = lookups.namedLinks(rows, number, isReversed)[replacement.row] ?? []
        let statements = merger.links[number]
        let linked = try statements.linked(isReversed: isReversed)
        bindKey(ofRow: replacement.row, replacement.entity, to: linked, from: 1)
        var ended: [(rowNumber: Int64, other: Int?)] = []
        while try linked.step() {
            let other = stagedRow(destination, linked, from: 1)
            if other.map({ !named.contains($0) }) ?? true { ended.append((linked.integer(0), other)) }
        }
        let delete = try statements.delete()
        for (rowNumber, _) in ended {
            delete.bind(rowNumber, at: 1)
            try delete.run()
        }
        if !ended.isEmpty { noteUpdate(replacement.entity, replacement.row, 0) }
        if statements.link.isSymmetric { try endMirrors(of: replacement, ended.map(\.other), named, statements) }
    }

    /// Of a relationship that is its own inverse, the links in the other direction end, too.
    private mutating func endMirrors(
        of replacement: StagedReplacement, _ ended: [Int?], _ named: Set<Int>, _ statements: LinkStatements
    ) throws(StoreError) {
        guard !ended.isEmpty else { return }
        let linked = try statements.linked(isReversed: true)
        bindKey(ofRow: replacement.row, replacement.entity, to: linked, from: 1)
        var mirrors: [Int64] = []
        while try linked.step() {
            let other = stagedRow(replacement.entity, linked, from: 1)
            if other.map({ !named.contains($0) }) ?? true { mirrors.append(linked.integer(0)) }
        }
        let delete = try statements.delete()
        for rowNumber in mirrors {
            delete.bind(rowNumber, at: 1)
            try delete.run()
        }
    }

    // MARK: - Who is who

    /// The staged row whose key is in the statement's columns from `first` on; nil when this job did not stage it.
    private mutating func stagedRow(_ entity: Int, _ statement: Statement, from first: Int) -> Int? {
        guard let table = rows.tables[entity] else { return nil }
        let model = merger.entities[entity].entity
        if model.hasRowKey { return lookups.row(ofKey: statement.integer(first), entity, result.rowKeys) }
        var cells = Array(repeating: Cell.absent, count: table.columnCount)
        for (position, column) in model.identity.enumerated() { cells[column] = statement.cell(first + position) }
        return cells.withUnsafeBufferPointer { table.find(identity: $0.baseAddress!) }
    }

    private mutating func noteUpdate(_ entity: Int, _ stagedRow: Int?, _ rowNumber: Int64) {
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

    private var links: [Side: [Int: Set<Int>]] = [:]
    private var rows: [Int: [Int64: Int]] = [:]

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

    /// The staged row that has this key of the store's own; nil when this job did not stage it.
    mutating func row(ofKey key: Int64, _ entity: Int, _ keys: [[Int64]]) -> Int? {
        if rows[entity] == nil {
            rows[entity] = Dictionary(
                keys[entity].enumerated().map { ($1, $0) }, uniquingKeysWith: { first, _ in first })
        }
        return rows[entity]?[key]
    }
}
