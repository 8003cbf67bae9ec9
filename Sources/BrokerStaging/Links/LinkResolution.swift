internal import BrokerModel

/// Resolves the assertions of a job's records about links, as if the records were applied one by one, in the order in
/// which they begin in the text.
///
/// To-one columns need no resolution: a later assertion overwrites an earlier one during staging (``assertLink(_:in:)``).
/// ```
/// one-to-one   from the last assertion to the first: a row paired by a later record keeps that pairing
/// to-many      assertions that precede a clearing of the set go; the rest is united
/// ```
struct LinkResolution {
    let plan: StagingPlan
    private let tables: TableSet

    init(_ plan: StagingPlan, _ tables: TableSet) {
        self.plan = plan
        self.tables = tables
    }

    /// Writes an assertion into a to-one column, unless the column has a later one.
    @inline(__always)
    static func assertLink(_ link: Cell, in cell: UnsafeMutablePointer<Cell>) {
        if cell.pointee.kind == .absent || cell.pointee.sourceOffset <= link.sourceOffset { cell.pointee = link }
    }

    // MARK: - One to one

    /// Pairs two rows that no later assertion concerns. If one of them is paired by a later record, the other has no
    /// partner.
    func resolve(_ pairs: [StagedPair]) {
        let order = pairs.indices.sorted { (pairs[$0].sourceOffset, $0) > (pairs[$1].sourceOffset, $1) }
        for pair in order.lazy.map({ pairs[$0] }) {
            let link = plan.layout.entities[pair.entity].link(atColumn: pair.column)
            let own = tables.cell(pair.entity, pair.row, pair.column)
            let unlinked = Cell.unlinked(sourceOffset: pair.sourceOffset)
            guard let partner = pair.partner, let back = link.oneToOneColumn else {
                if own.pointee.kind == .absent { own.pointee = unlinked }
                continue
            }
            let other = tables.cell(link.destination, partner, back)
            switch (own.pointee.kind == .absent, other.pointee.kind == .absent) {
            case (true, true):
                own.pointee = .object(row: partner, sourceOffset: pair.sourceOffset)
                other.pointee = .object(row: pair.row, sourceOffset: pair.sourceOffset)
            case (true, false): own.pointee = unlinked
            case (false, true): other.pointee = unlinked
            case (false, false): break
            }
        }
    }

    // MARK: - To many

    /// The links of one object's set that a clearing ends: those asserted before it, except links to rejected elements
    /// that were asserted since the previous clearing.
    struct Clearing {
        var before: UInt32
        /// Offset of the previous clearing; 0 when there is none, and the store's links count as asserted.
        var since: UInt32 = 0
        /// Rows of the other entity.
        var retainedRows = Set<Int>()

        func takes(_ other: Int, sourceOffset: UInt32) -> Bool {
            sourceOffset < before && !(sourceOffset >= since && retainedRows.contains(other))
        }
    }

    /// Removes links that were cleared after they were asserted.
    ///
    /// - Returns: one replacement for each cleared relationship; the rejected elements whose stored links remain.
    func resolve(
        _ replacements: [StagedReplacement], _ retainedLinks: [RetainedLink], _ links: inout [[StagedLink]],
        _ listPositions: inout [StagedListPosition]
    ) -> ([StagedReplacement], [RetainedLink]) {
        var cleared: [ToManySet: Clearing] = [:]
        var remaining: [StagedReplacement] = []
        for replacement in replacements {
            let clearing = Clearing(before: max(cleared[replacement.set]?.before ?? 0, replacement.clearsBefore))
            if cleared.updateValue(clearing, forKey: replacement.set) == nil { remaining.append(replacement) }
        }
        let remainingLinks = retainedLinks.isEmpty ? [] : retain(retainedLinks, replacements, &cleared)
        // A link that was cleared and then asserted again counts as named by both records.
        for table in links.indices { unite(&links[table]) }
        if !cleared.isEmpty { clear(cleared, &links) }
        if !listPositions.isEmpty { listPositions = order(listPositions, cleared, replacements) }
        return (remaining, remainingLinks)
    }

    /// If the last clearing is a set that replaces, it retains the links to elements that it rejected.
    private func retain(
        _ retainedLinks: [RetainedLink], _ replacements: [StagedReplacement], _ cleared: inout [ToManySet: Clearing]
    ) -> [RetainedLink] {
        for replacement in replacements {
            guard let last = cleared[replacement.set], replacement.clearsBefore < last.before else { continue }
            cleared[replacement.set]!.since = max(last.since, replacement.clearsBefore)
        }
        var remainingLinks: [RetainedLink] = []
        for link in retainedLinks {
            guard let last = cleared[link.set], last.before == link.operation else { continue }
            if last.since == 0 { remainingLinks.append(link) }
            if let row = row(of: link) { cleared[link.set]!.retainedRows.insert(row) }
        }
        return remainingLinks
    }

    /// Returns the row of the rejected element, if another record or key named it.
    private func row(of link: RetainedLink) -> Int? {
        let entity = plan.entities[link.entity].relationships[link.relationship].destinationTable
        guard tables.exists(entity) else { return nil }
        let plan = plan.entities[entity]
        let columns = plan.identityColumns(of: link.concreteEntity)
        return Cell.row(link.identity, at: columns, width: plan.columnCount).withUnsafeBufferPointer {
            tables[entity].pointee.find(identity: $0.baseAddress!, concreteEntity: link.concreteEntity)
        }
    }

    private func clear(_ cleared: [ToManySet: Clearing], _ links: inout [[StagedLink]]) {
        /// By destination entity and column, the clearing of each row's set.
        var columns: [[Int]: [Int: Clearing]] = [:]
        /// By link table and side (1 for the destination).
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
        for (column, rows) in columns { clearColumn(column[0], column[1], rows) }
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

    /// Unites equal links and their flags. A link can occur twice with different flags only if both sides assert links.
    private func unite(_ links: inout [StagedLink]) {
        guard links.contains(where: \.isNamedByDestination), links.contains(where: \.isNamedBySource) else { return }
        var indices: [UInt64: Int] = [:]
        var united: [StagedLink] = []
        for link in links {
            let ends = UInt64(link.source) << 32 | UInt64(link.destination)
            if let index = indices[ends] {
                united[index].sourceOffset = max(united[index].sourceOffset, link.sourceOffset)
                united[index].isNamedBySource = united[index].isNamedBySource || link.isNamedBySource
                united[index].isNamedByDestination = united[index].isNamedByDestination || link.isNamedByDestination
            } else {
                indices[ends] = united.count
                united.append(link)
            }
        }
        links = united
    }
}

/// Resolves the assertions about the order of links.
extension LinkResolution {
    /// The key of an element's position. An element of a set of to-one links belongs to one object, so the key has no
    /// row.
    private struct ElementKey: Hashable {
        let entity: Int
        let relationship: Int
        let row: Int?
        let element: Int
    }

    private struct ElementState {
        /// Index of the assertion that decides the position.
        let index: Int
        /// Nil when the link has ended.
        let row: Int?
        let isRelinked: Bool
        /// Index of the latest assertion.
        var last: Int
    }

    /// The offsets at which an element's own to-many set was cleared, in the order of the text.
    ///
    /// 1. A null ends the links that were asserted before its record.
    /// 2. A set that replaces ends the links that its operation does not name. A link that the operation names existed
    ///    throughout, and its element retains its position.
    struct ElementClearings {
        private var sets: [ToManySet: [(at: UInt32, isNull: Bool)]] = [:]

        init(_ replacements: [StagedReplacement]) {
            for replacement in replacements {
                sets[replacement.set, default: []].append((replacement.clearsBefore, replacement.isNull))
            }
            for (set, clearings) in sets {
                let sorted = clearings.sorted { ($0.at, $0.isNull ? 1 : 0) < ($1.at, $1.isNull ? 1 : 0) }
                // All records of one operation replace together, so one entry is enough; otherwise each assertion would
                // scan all of them.
                sets[set] = sorted.indices.filter { $0 == 0 || sorted[$0] != sorted[$0 - 1] }.map { sorted[$0] }
            }
        }

        /// Whether the link ended between two assertions of it.
        ///
        /// - Parameters:
        ///   - earlier: source offset of the earlier assertion; 0 when there is none.
        ///   - position: the later assertion.
        func haveEnded(_ set: ToManySet, since earlier: UInt32, before position: StagedListPosition) -> Bool {
            guard let clearings = sets[set] else { return false }
            var (low, high) = (0, clearings.count)
            while low < high {
                let middle = (low + high) / 2
                if clearings[middle].at > earlier { high = middle } else { low = middle + 1 }
            }
            for clearing in clearings[low...] {
                if clearing.at > position.sourceOffset { return false }
                if clearing.isNull || clearing.at != position.operation { return true }
            }
            return false
        }
    }

    /// Removes assertions that were cleared later, that another assertion overrides, and that repeat an earlier one.
    ///
    /// - Returns: by object and relationship, each element once, in list order.
    func order(
        _ listPositions: [StagedListPosition], _ cleared: [ToManySet: Clearing], _ replacements: [StagedReplacement]
    ) -> [StagedListPosition] {
        let assertions = listPositions.sorted(by: StagedListPosition.precedes)
        let clearings = ElementClearings(replacements)
        var states: [ElementKey: ElementState] = [:]
        for (index, position) in assertions.enumerated() {
            let relationship = plan.model.entities[position.entity].relationships[position.relationship]
            let isToOne = plan.model.inverse(of: relationship).map { !$0.isToMany } ?? false
            let key = ElementKey(
                entity: position.entity, relationship: position.relationship, row: isToOne ? nil : position.row,
                element: position.element)
            let row = isClearedByObject(position, cleared) ? nil : position.row
            let known = states[key]
            let earlier = known.map { assertions[$0.last].sourceOffset } ?? 0
            let hasEnded =
                elementSet(of: position).map { clearings.haveEnded($0, since: earlier, before: position) } ?? false
            // An element that is named again retains its position.
            if let known, known.row == row, !hasEnded {
                states[key]!.last = index
                continue
            }
            states[key] = ElementState(
                index: index, row: row, isRelinked: isToOne ? known != nil : hasEnded || known?.isRelinked ?? false,
                last: index)
        }
        return states.values.filter { $0.row != nil && !isClearedByElement(assertions[$0.last], cleared) }
            .sorted { Self.sortKey(assertions[$0.index], $0.index) < Self.sortKey(assertions[$1.index], $1.index) }
            .map { state in
                var position = assertions[state.index]
                position.isRelinked = state.isRelinked
                return position
            }
    }

    private static func sortKey(_ position: StagedListPosition, _ index: Int) -> (Int, Int, Int, Int) {
        (position.entity, position.relationship, position.row!, index)
    }

    /// Whether the ordered set itself was cleared later. Such a set gets new positions.
    private func isClearedByObject(_ position: StagedListPosition, _ cleared: [ToManySet: Clearing]) -> Bool {
        guard let own = position.set, !cleared.isEmpty else { return false }
        return cleared[own]?.takes(position.element, sourceOffset: position.linkOffset) ?? false
    }

    /// Whether the set of the inverse was cleared after the last assertion of a link.
    private func isClearedByElement(_ position: StagedListPosition, _ cleared: [ToManySet: Clearing]) -> Bool {
        guard let row = position.row, !cleared.isEmpty, let set = elementSet(of: position) else { return false }
        return cleared[set]?.takes(row, sourceOffset: position.linkOffset) ?? false
    }

    /// Returns the set of the inverse, which the element's own records name.
    private func elementSet(of position: StagedListPosition) -> ToManySet? {
        let relationship = plan.model.entities[position.entity].relationships[position.relationship]
        guard let inverse = relationship.inverse else { return nil }
        return ToManySet(entity: plan.destinationTable(of: position), row: position.element, relationship: inverse)
    }
}

/// The to-many relationship of one object, by its staged row.
package struct ToManySet: Hashable {
    package let entity: Int
    package let row: Int
    package let relationship: Int
}

extension StagedReplacement {
    package var set: ToManySet { ToManySet(entity: entity, row: row, relationship: relationship) }
}

extension RetainedLink {
    package var set: ToManySet { ToManySet(entity: entity, row: row, relationship: relationship) }
}

extension StagedListPosition {
    /// Nil where the link has ended.
    package var set: ToManySet? { row.map { ToManySet(entity: entity, row: $0, relationship: relationship) } }
}
