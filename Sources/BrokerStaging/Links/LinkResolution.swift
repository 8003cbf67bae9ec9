internal import BrokerModel

/// What the records of a job assert about links, when each assertion stands alone: it is not repeated, and no other one
/// contradicts it. Such assertions have the same result in any order.
struct LinkResolution {
    let plan: StagingPlan
    private let tables: TableSet

    init(_ plan: StagingPlan, _ tables: TableSet) {
        self.plan = plan
        self.tables = tables
    }

    /// Writes an assertion into a to-one column.
    ///
    /// - Returns: whether the column has another one.
    @inline(__always)
    static func isContested(_ link: Cell, in cell: UnsafeMutablePointer<Cell>) -> Bool {
        let known = cell.pointee
        cell.pointee = link
        return known.kind != .absent && (known.kind != link.kind || known.kind == .object && known.row != link.row)
    }

    // MARK: - One to one

    /// Pairs the rows.
    ///
    /// - Returns: false when a row has several partners.
    func resolve(_ pairs: [StagedPair]) -> Bool {
        var isCertain = true
        for pair in pairs {
            let link = plan.layout.entities[pair.entity].link(atColumn: pair.column)
            let asserted =
                pair.partner.map { Cell.object(row: $0, sourceOffset: pair.sourceOffset) }
                ?? .unlinked(sourceOffset: pair.sourceOffset)
            if Self.isContested(asserted, in: tables.cell(pair.entity, pair.row, pair.column)) { isCertain = false }
            guard let partner = pair.partner, let back = link.oneToOneColumn else { continue }
            let other = Cell.object(row: pair.row, sourceOffset: pair.sourceOffset)
            if Self.isContested(other, in: tables.cell(link.destination, partner, back)) { isCertain = false }
        }
        return isCertain
    }

    // MARK: - To many

    /// Notes of each link between objects that both have a relationship for it that all of them name it whose records name
    /// links, whichever record asserted it.
    func name(_ links: inout [[StagedLink]]) {
        for (number, link) in plan.layout.linkTables.enumerated() where link.hasInverse && !links[number].isEmpty {
            let (sources, destinations) = (tables[link.source], tables[link.destination])
            for index in links[number].indices {
                let one = links[number][index]
                links[number][index].isNamedBySource = sources.pointee.namings[Int(one.source)].namesLinks
                links[number][index].isNamedByDestination =
                    destinations.pointee.namings[Int(one.destination)].namesLinks
            }
        }
    }

    /// Whether the sets that are replaced, and the lists, are each asserted by one record.
    func areCertain(
        _ replacements: [StagedReplacement], _ links: [[StagedLink]], _ listPositions: [StagedListPosition]
    ) -> Bool {
        var replaced: [ToManySet: UInt32] = [:]
        for replacement in replacements {
            guard replaced.updateValue(replacement.sourceOffset, forKey: replacement.set) == nil else { return false }
        }
        return areNamedByOwner(replaced, links) && areNamedByOneSide(listPositions)
    }

    /// Whether all links of the replaced sets are asserted by the records that replace them.
    private func areNamedByOwner(_ replaced: [ToManySet: UInt32], _ links: [[StagedLink]]) -> Bool {
        struct Relationship: Hashable {
            let entity: Int
            let relationship: Int
        }
        let relationships = Set(replaced.keys.map { Relationship(entity: $0.entity, relationship: $0.relationship) })
        for one in relationships {
            func isNamedByOwner(_ row: Int, at offset: UInt32) -> Bool {
                let set = ToManySet(entity: one.entity, row: row, relationship: one.relationship)
                return replaced[set].map { $0 == offset } ?? true
            }
            switch plan.layout.entities[one.entity].forms[one.relationship] {
            case .column: continue
            case .destinationColumn(let column):
                let destination = plan.entities[one.entity].relationships[one.relationship].destinationTable
                guard tables.exists(destination) else { continue }
                for row in 0..<tables[destination].pointee.rowCount {
                    let cell = tables.cell(destination, row, column).pointee
                    if cell.kind == .object, !isNamedByOwner(cell.row, at: cell.sourceOffset) { return false }
                }
            case .linkTable(let table, let isReversed):
                if plan.layout.linkTables[table].isSymmetric { return false }
                let isCertain = links[table].allSatisfy { link in
                    isNamedByOwner(Int(isReversed ? link.destination : link.source), at: link.sourceOffset)
                }
                if !isCertain { return false }
            }
        }
        return true
    }

    /// Whether each list is asserted by one record of its object, or by records of its elements.
    private func areNamedByOneSide(_ positions: [StagedListPosition]) -> Bool {
        var known: [ToManySet: (isNamedByList: Bool, sourceOffset: UInt32)] = [:]
        for position in positions {
            let naming = (position.isNamedByList, position.sourceOffset)
            guard let first = known.updateValue(naming, forKey: position.set) else { continue }
            guard first.isNamedByList == naming.0, !naming.0 || first.sourceOffset == naming.1 else { return false }
        }
        return true
    }

    /// Each element once in each list, by list and in list order.
    func ordered(_ positions: [StagedListPosition]) -> [StagedListPosition] {
        struct Element: Hashable {
            let set: ToManySet
            let element: Int
        }
        var named: Set<Element> = []
        let first = positions.filter { named.insert(Element(set: $0.set, element: $0.element)).inserted }
        func key(_ index: Int) -> (Int, Int, Int, Int) {
            (first[index].entity, first[index].relationship, first[index].row, index)
        }
        return first.indices.sorted { key($0) < key($1) }.map { first[$0] }
    }
}
