internal import BrokerModel

/// The collections of one job, staged apart, become the rows of one job: one object per identity, later values win.
public enum StagedJobRows {
    /// - Parameter parts: what the job's collections became, in payload order; not empty.
    public static func unite(_ parts: [StagedRows], _ plan: StagingPlan) -> StagedRows {
        precondition(!parts.isEmpty, "a job has at least one collection")
        return parts.count == 1 ? parts[0] : RowCopy(plan, parts[0]).copy(parts) { _, _ in true }
    }

    /// The rows without those that `isKept` refuses, and without the links to them.
    ///
    /// - Parameter isKept: asked once for each entity index and row.
    public static func filter(
        _ rows: StagedRows, _ plan: StagingPlan, rejections: [Rejection], isKept: (Int, Int) -> Bool
    ) -> StagedRows {
        RowCopy(plan, rows).copy([rows], adding: rejections, isKept: isKept)
    }
}

/// Copies staged rows into a fresh context, translating the row numbers that links are made of.
private struct RowCopy: ~Copyable {
    private let plan: StagingPlan
    private var tables: TableSet
    private var links: [[StagedLink]]
    private var replacements: [StagedReplacement] = []
    /// By entity index and old row; nil where the row is left out.
    private var translation: [[Int?]] = []
    private let first: StagedRows

    init(_ plan: StagingPlan, _ first: StagedRows) {
        self.plan = plan
        self.first = first
        tables = TableSet(plan)
        links = Array(repeating: [], count: plan.layout.linkTables.count)
    }

    consuming func copy(
        _ parts: [StagedRows], adding rejections: [Rejection] = [], isKept: (Int, Int) -> Bool
    ) -> StagedRows {
        for part in parts {
            addRows(of: part, isKept)
            addCells(of: part)
            addLinks(of: part)
        }
        return StagedRows(
            tables: tables.freeze(), links: links, replacements: replacements,
            rejections: parts.flatMap(\.rejections) + rejections, warnings: Self.warnings(of: parts),
            document: first.document, memory: ByteArena().release(), parts: parts)
    }

    /// Each unknown key once, in the order of meeting, with what all parts counted.
    private static func warnings(of parts: [StagedRows]) -> [Warning] {
        struct UnknownKey: Hashable {
            let entity: String
            let key: String?
        }
        var warnings: [Warning] = []
        var positions: [UnknownKey: Int] = [:]
        for warning in parts.flatMap(\.warnings) {
            let key = UnknownKey(entity: warning.entity, key: warning.key)
            if let known = positions[key] {
                warnings[known].count += warning.count
            } else {
                positions[key] = warnings.count
                warnings.append(warning)
            }
        }
        return warnings
    }

    private mutating func addRows(of part: StagedRows, _ isKept: (Int, Int) -> Bool) {
        translation = part.tables.enumerated().map { entity, table in
            guard let table else { return [] }
            return (0..<table.rowCount).map { row in
                guard isKept(entity, row) else { return nil }
                let place = tables[entity]
                return place.pointee!.findOrAdd(
                    identity: table.hasIdentity(row) ? table.row(row) : nil, offset: Int(table.offsets[row]),
                    origin: table.origins[row])
            }
        }
    }

    private mutating func addCells(of part: StagedRows) {
        for (entity, table) in part.tables.enumerated() {
            guard let table else { continue }
            for row in 0..<table.rowCount {
                guard let target = translation[entity][row] else { continue }
                let own = tables[entity].pointee!.row(target)
                for column in 0..<table.columnCount {
                    let cell = table.row(row)[column]
                    if cell.kind == .object {
                        link(entity, target, column, to: cell.row)
                    } else if cell.kind != .absent {
                        if own[column].kind == .object { freePartner(entity, target, column) }
                        own[column] = cell
                    }
                }
            }
        }
    }

    private mutating func link(_ entity: Int, _ row: Int, _ column: Int, to oldDestination: Int) {
        let destination = translation[plan.layout.entities[entity].link(atColumn: column).destination][oldDestination]
        guard let destination else { return }
        let cell = tables[entity].pointee!.row(row) + column
        if cell.pointee.kind == .object, cell.pointee.row != destination { freePartner(entity, row, column) }
        cell.pointee = .object(row: destination)
    }

    /// What an earlier part linked to the row, one to one, is linked to it no more.
    private mutating func freePartner(_ entity: Int, _ row: Int, _ column: Int) {
        let link = plan.layout.entities[entity].link(atColumn: column)
        guard let back = link.oneToOneColumn else { return }
        let partner = tables[entity].pointee!.row(row)[column].row
        tables[link.destination].pointee!.row(partner)[back] = .null
    }

    private mutating func addLinks(of part: StagedRows) {
        for (index, table) in plan.layout.linkTables.enumerated() {
            for link in part.links[index] {
                guard let source = translation[table.source][Int(link.source)],
                    let destination = translation[table.destination][Int(link.destination)]
                else { continue }
                links[index].append(
                    StagedLink(
                        source: UInt32(source), destination: UInt32(destination),
                        isNamedByDestination: link.isNamedByDestination))
            }
        }
        for replacement in part.replacements {
            guard let row = translation[replacement.entity][replacement.row] else { continue }
            replacements.append(
                StagedReplacement(entity: replacement.entity, row: row, relationship: replacement.relationship))
        }
    }
}
