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
    struct ClearedSet: Hashable {
        let entity: Int
        let row: Int
        let relationship: Int
    }

    let plan: StagingPlan
    private let tables: TableSet

    init(_ plan: StagingPlan, _ tables: TableSet) {
        self.plan = plan
        self.tables = tables
    }

    /// Writes a word into a to-one column, unless a later one stands there.
    @inline(__always)
    static func say(_ link: Cell, in cell: UnsafeMutablePointer<Cell>) {
        if cell.pointee.kind == .absent || cell.pointee.sourceOffset <= link.sourceOffset { cell.pointee = link }
    }

    // MARK: - One to one

    /// A row that no later word concerns takes the partner; one whose partner found another since has nobody.
    func resolve(_ pairs: [StagedPair]) {
        let order = pairs.indices.sorted { (pairs[$0].sourceOffset, $0) > (pairs[$1].sourceOffset, $1) }
        for pair in order.lazy.map({ pairs[$0] }) {
            let link = plan.layout.entities[pair.entity].link(atColumn: pair.column)
            let own = tables.cell(pair.entity, pair.row, pair.column)
            let nobody = Cell.unlinked(sourceOffset: pair.sourceOffset)
            guard let partner = pair.partner, let back = link.oneToOneColumn else {
                if own.pointee.kind == .absent { own.pointee = nobody }
                continue
            }
            let other = tables.cell(link.destination, partner, back)
            switch (own.pointee.kind == .absent, other.pointee.kind == .absent) {
            case (true, true):
                own.pointee = .object(row: partner, sourceOffset: pair.sourceOffset)
                other.pointee = .object(row: pair.row, sourceOffset: pair.sourceOffset)
            case (true, false): own.pointee = nobody
            case (false, true): other.pointee = nobody
            case (false, false): break
            }
        }
    }

    // MARK: - To many

    /// What ends of one object's set: what was said before, and not the links that have been there since the clearing
    /// before this one and whose elements were left out.
    struct Clearing {
        var before: UInt32
        /// Where the clearing before it stood; 0 when there is none, and what the store holds was there.
        var since: UInt32 = 0
        /// Rows of the other entity.
        var spared = Set<Int>()

        func takes(_ other: Int, sourceOffset: UInt32) -> Bool {
            sourceOffset < before && !(sourceOffset >= since && spared.contains(other))
        }
    }

    /// Takes out what was cleared later than it was said.
    ///
    /// - Returns: of each cleared relationship one replacement; the elements left out whose links in the store stay.
    func resolve(
        _ replacements: [StagedReplacement], _ spared: [RetainedLink], _ links: inout [[StagedLink]],
        _ places: inout [StagedListPosition]
    ) -> ([StagedReplacement], [RetainedLink]) {
        var cleared: [ClearedSet: Clearing] = [:]
        var remaining: [StagedReplacement] = []
        for replacement in replacements {
            let set = ClearedSet(
                entity: replacement.entity, row: replacement.row, relationship: replacement.relationship)
            let before = max(cleared[set]?.before ?? 0, replacement.clearsBefore)
            let clearing = Clearing(before: before)
            if cleared.updateValue(clearing, forKey: set) == nil { remaining.append(replacement) }
        }
        let staying = spared.isEmpty ? [] : spare(spared, replacements, &cleared)
        // Who named a link that was cleared and then said again has named it.
        for table in links.indices { unite(&links[table]) }
        if !cleared.isEmpty { clear(cleared, &links) }
        if !places.isEmpty { places = order(places, cleared, replacements) }
        return (remaining, staying)
    }

    /// Elements that the last clearing left out are spared by it, if it is a set that replaces.
    private func spare(
        _ spared: [RetainedLink], _ replacements: [StagedReplacement], _ cleared: inout [ClearedSet: Clearing]
    ) -> [RetainedLink] {
        for replacement in replacements {
            let set = ClearedSet(
                entity: replacement.entity, row: replacement.row, relationship: replacement.relationship)
            guard let last = cleared[set], replacement.clearsBefore < last.before else { continue }
            cleared[set]!.since = max(last.since, replacement.clearsBefore)
        }
        var staying: [RetainedLink] = []
        for link in spared {
            let set = ClearedSet(entity: link.entity, row: link.row, relationship: link.relationship)
            guard let last = cleared[set], last.before == link.operation else { continue }
            if last.since == 0 { staying.append(link) }
            if let row = row(of: link) { cleared[set]!.spared.insert(row) }
        }
        return staying
    }

    /// The row of the element that was left out, if something else named it.
    private func row(of link: RetainedLink) -> Int? {
        let entity = plan.entities[link.entity].relationships[link.relationship].destinationTable
        guard tables.exists(entity) else { return nil }
        let plan = plan.entities[entity]
        var cells = [Cell](repeating: .absent, count: plan.layout.columnCount)
        for (column, cell) in zip(plan.identityColumns(of: link.kind), link.identity) { cells[column] = cell }
        return cells.withUnsafeBufferPointer {
            tables[entity].pointee.find(identity: $0.baseAddress!, kind: link.kind)
        }
    }

    private func clear(_ cleared: [ClearedSet: Clearing], _ links: inout [[StagedLink]]) {
        /// By destination entity and column, how each row's set was cleared.
        var columns: [[Int]: [Int: Clearing]] = [:]
        /// By link table and side (1 for its destination).
        var sides: [[Int]: [Int: Clearing]] = [:]
        for (set, clearing) in cleared {
            let destination = plan.entities[set.entity].relationships[set.relationship].destinationTable
            switch plan.layout.entities[set.entity].forms[set.relationship] {
            case .column: continue
            case .destinationColumn(let column):
                columns[[destination, column], default: [:]][set.row] = clearing
            case .linkTable(let table, let isReversed):
                sides[[table, isReversed ? 1 : 0], default: [:]][set.row] = clearing
                if plan.layout.linkTables[table].isSymmetric { sides[[table, 1], default: [:]][set.row] = clearing }
            }
        }
        for (place, rows) in columns { clearColumn(place[0], place[1], rows) }
        for table in links.indices {
            guard let sources = sides[[table, 0]] ?? (sides[[table, 1]] == nil ? nil : [:]) else { continue }
            let destinations = sides[[table, 1]] ?? [:]
            links[table].removeAll { link in
                let (source, destination) = (Int(link.source), Int(link.destination))
                return sources[source]?.takes(destination, sourceOffset: link.sourceOffset) ?? false
                    || destinations[destination]?.takes(source, sourceOffset: link.sourceOffset) ?? false
            }
        }
    }

    private func clearColumn(_ entity: Int, _ column: Int, _ rows: [Int: Clearing]) {
        guard tables.exists(entity) else { return }
        for row in 0..<tables[entity].pointee.rowCount {
            let cell = tables.cell(entity, row, column)
            guard cell.pointee.kind == .object, let clearing = rows[cell.pointee.row],
                clearing.takes(row, sourceOffset: cell.pointee.sourceOffset)
            else { continue }
            cell.pointee = .unlinked(sourceOffset: clearing.before)
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
                united[place].sourceOffset = max(united[place].sourceOffset, link.sourceOffset)
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
