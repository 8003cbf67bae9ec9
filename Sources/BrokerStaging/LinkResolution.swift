internal import BrokerModel

/// Weighs what a job's records said of links: as if they had been applied one after the other, in the order in which
/// they begin in the text.
///
/// To-one columns need nothing here: a later word overwrites an earlier one as it is heard (``say(_:in:)``).
/// ```
/// one-to-one   from the last word to the first: who has been spoken for since, keeps that
/// to-many      what was said before the set was cleared goes; the rest unites
/// ```
struct LinkResolution {
    private struct ClearedSet: Hashable {
        let entity: Int
        let row: Int
        let relationship: Int
    }

    private let plan: StagingPlan
    private let tables: TableSet

    init(_ plan: StagingPlan, _ tables: TableSet) {
        self.plan = plan
        self.tables = tables
    }

    /// Writes a word into a to-one column, unless a later one stands there.
    @inline(__always)
    static func say(_ link: Cell, in cell: UnsafeMutablePointer<Cell>) {
        if cell.pointee.kind == .absent || cell.pointee.saidAt <= link.saidAt { cell.pointee = link }
    }

    // MARK: - One to one

    /// A row that no later word concerns takes the partner; one whose partner found another since has nobody.
    func resolve(_ pairs: [StagedPair]) {
        let order = pairs.indices.sorted { (pairs[$0].saidAt, $0) > (pairs[$1].saidAt, $1) }
        for pair in order.lazy.map({ pairs[$0] }) {
            let link = plan.layout.entities[pair.entity].link(atColumn: pair.column)
            let own = tables.cell(pair.entity, pair.row, pair.column)
            let nobody = Cell.unlinked(saidAt: pair.saidAt)
            guard let partner = pair.partner, let back = link.oneToOneColumn else {
                if own.pointee.kind == .absent { own.pointee = nobody }
                continue
            }
            let other = tables.cell(link.destination, partner, back)
            switch (own.pointee.kind == .absent, other.pointee.kind == .absent) {
            case (true, true):
                own.pointee = .object(row: partner, saidAt: pair.saidAt)
                other.pointee = .object(row: pair.row, saidAt: pair.saidAt)
            case (true, false): own.pointee = nobody
            case (false, true): other.pointee = nobody
            case (false, false): break
            }
        }
    }

    // MARK: - To many

    /// Takes out what was cleared later than it was said; of each cleared relationship one replacement remains.
    func resolve(_ replacements: [StagedReplacement], _ links: inout [[StagedLink]]) -> [StagedReplacement] {
        var cleared: [ClearedSet: UInt32] = [:]
        var remaining: [StagedReplacement] = []
        for replacement in replacements {
            let set = ClearedSet(
                entity: replacement.entity, row: replacement.row, relationship: replacement.relationship)
            if cleared.updateValue(max(cleared[set] ?? 0, replacement.clearsBefore), forKey: set) == nil {
                remaining.append(replacement)
            }
        }
        // Who named a link that was cleared and then said again has named it.
        for table in links.indices { unite(&links[table]) }
        if !cleared.isEmpty { clear(cleared, &links) }
        return remaining
    }

    private func clear(_ cleared: [ClearedSet: UInt32], _ links: inout [[StagedLink]]) {
        /// By destination entity and column, when each row's set was cleared.
        var columns: [[Int]: [Int: UInt32]] = [:]
        /// By link table and side (1 for its destination).
        var sides: [[Int]: [Int: UInt32]] = [:]
        for (set, before) in cleared {
            let relationship = plan.model.entities[set.entity].relationships[set.relationship]
            switch plan.layout.entities[set.entity].forms[set.relationship] {
            case .column: continue
            case .destinationColumn(let column):
                columns[[relationship.destination, column], default: [:]][set.row] = before
            case .linkTable(let table, let isReversed):
                sides[[table, isReversed ? 1 : 0], default: [:]][set.row] = before
                if plan.layout.linkTables[table].isSymmetric { sides[[table, 1], default: [:]][set.row] = before }
            }
        }
        for (place, rows) in columns { clearColumn(place[0], place[1], rows) }
        for table in links.indices {
            guard let sources = sides[[table, 0]] ?? (sides[[table, 1]] == nil ? nil : [:]) else { continue }
            let destinations = sides[[table, 1]] ?? [:]
            links[table].removeAll {
                $0.saidAt < max(sources[Int($0.source)] ?? 0, destinations[Int($0.destination)] ?? 0)
            }
        }
    }

    private func clearColumn(_ entity: Int, _ column: Int, _ rows: [Int: UInt32]) {
        guard tables.exists(entity) else { return }
        for row in 0..<tables[entity].pointee.rowCount {
            let cell = tables.cell(entity, row, column)
            guard cell.pointee.kind == .object, let before = rows[cell.pointee.row], cell.pointee.saidAt < before
            else { continue }
            cell.pointee = .unlinked(saidAt: before)
        }
    }

    /// Each link once, named by all who named it. Only where both sides did can it be there twice with a difference.
    private func unite(_ links: inout [StagedLink]) {
        guard links.contains(where: \.isNamedByDestination), links.contains(where: \.isNamedBySource) else { return }
        var places: [UInt64: Int] = [:]
        var united: [StagedLink] = []
        for link in links {
            let ends = UInt64(link.source) << 32 | UInt64(link.destination)
            if let place = places[ends] {
                united[place].saidAt = max(united[place].saidAt, link.saidAt)
                united[place].isNamedBySource = united[place].isNamedBySource || link.isNamedBySource
                united[place].isNamedByDestination = united[place].isNamedByDestination || link.isNamedByDestination
            } else {
                places[ends] = united.count
                united.append(link)
            }
        }
        links = united
    }
}
