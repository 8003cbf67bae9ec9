internal import BrokerModel

/// Unites the separately staged parts of one job into the rows of one job: one object per identity, later values win.
package enum StagedJobRows {
    /// - Parameters:
    ///   - parts: the staged collections of the job, in payload order; not empty. This call consumes them.
    ///   - rejections: added to those of the parts.
    ///   - exclusions: the exclusions with which the parts were staged.
    package static func unite(
        _ parts: [StagedPart], _ plan: StagingPlan, adding rejections: RejectionList? = nil,
        without exclusions: StagedExclusions? = nil
    ) -> StagedRows {
        precondition(!parts.isEmpty, "a job has at least one collection")
        let whole = parts[0]
        for part in parts.dropFirst() {
            PartTranslation(of: part, into: whole, plan, exclusions?.knownEntities).add()
        }
        if let rejections { whole.staged.rejections.add(rejections) }
        return rows(&whole.staged, whole.facts, plan, without: exclusions)
    }

    /// The rows of a job of one part, of which the context has been ended. This call consumes its contents.
    static func rows(
        _ staged: inout StagingContext, _ facts: PartFacts, _ plan: StagingPlan, without exclusions: StagedExclusions?
    ) -> StagedRows {
        if let tombstones = staged.tombstones { DiscardedLinks(tombstones, in: staged.tables, plan).discard(&staged) }
        return StagedRows(&staged, facts, LinkResolution(plan, staged.tables), exclusions)
    }
}

/// Adds a later part to the first one and translates its row numbers.
private struct PartTranslation {
    private let plan: StagingPlan
    private let part: StagedPart
    private let whole: StagedPart
    /// By entity index and the part's row, the row of the first part.
    private let rows: [[Int]]

    /// - Parameter knownEntities: the stored facts with which the parts were staged.
    init(of part: StagedPart, into whole: StagedPart, _ plan: StagingPlan, _ knownEntities: KnownEntities?) {
        self.plan = plan
        self.part = part
        self.whole = whole
        let rowCounts = (0..<part.tables.count).map { whole.tables.exists($0) ? whole.tables[$0].pointee.rowCount : 0 }
        rows = (0..<part.tables.count).map { entity in
            guard part.tables.exists(entity) else { return [] }
            return (0..<part.tables[entity].pointee.rowCount).map { Self.add($0, of: part, to: whole, entity) }
        }
        if let tombstones = part.staged.tombstones { add(tombstones, rowCounts, knownEntities) }
    }

    /// Adds the row without its cells, and returns its number in the first part.
    private static func add(_ row: Int, of part: StagedPart, to whole: StagedPart, _ entity: Int) -> Int {
        let table = part.tables[entity], target = whole.tables[entity]
        let identity = table.pointee.hasIdentity(row) ? UnsafePointer(table.pointee.row(row)) : nil
        let concreteEntity = table.pointee.concreteEntity(of: row)
        let naming = table.pointee.namings[row]
        let (offset, origin) = (Int(naming.offset), naming.origin)
        // The part's row has only what follows a tombstone of the part, if a record follows it.
        var isNew = false
        if let identity {
            let isRevived = whole.staged.tombstones?.revive(entity, identity, concreteEntity: concreteEntity) ?? false
            isNew =
                isRevived
                || part.staged.tombstones?.isNamedAfter(entity, identity, concreteEntity: concreteEntity) ?? false
        }
        let merged = target.pointee.findOrAdd(
            identity: identity, offset: offset, origin: origin,
            concreteEntity: isNew ? concreteEntity : whole.unitedEntity(of: row, in: table, target))
        addModified(row, of: table, to: merged, of: target, whole)
        if isNew { target.pointee.renew(merged, offset: offset, origin: origin, concreteEntity: concreteEntity) }
        if table.pointee.entity.modified != nil {
            target.pointee.bring(modified: table.pointee.lastModified[row], merged)
        }
        if let recordEntity = table.pointee.recordEntities.isEmpty ? nil : Int(table.pointee.recordEntities[row]),
            recordEntity >= 0, let hierarchy = whole.tables.hierarchy(of: recordEntity)
        {
            target.pointee.noteRecord(merged, of: recordEntity, hierarchy)
        }
        for keyEntity in table.pointee.keyEntities[row] ?? [] { target.pointee.noteKey(merged, of: keyEntity) }
        let uniqueCount = table.pointee.entity.uniqueColumns.count
        for position in 0..<uniqueCount {
            target.pointee.claim(merged, position, at: table.pointee.claims[row * uniqueCount + position])
        }
        return merged
    }

    /// Compares the object's first record in this part with its last record before this part.
    private static func addModified(
        _ row: Int, of table: UnsafeMutablePointer<StagedTable>, to merged: Int,
        of target: UnsafeMutablePointer<StagedTable>, _ whole: StagedPart
    ) {
        guard let modified = table.pointee.entity.modified else { return }
        let first = table.pointee.firstModified[row]
        if modified.isStale(first, against: target.pointee.lastModified[merged]) { whole.staged.needsComparison = true }
        target.pointee.bring(modified: first, merged)
    }

    /// Adds the part's tombstones after its rows.
    ///
    /// - Parameter rowCounts: by entity index, the number of rows of earlier parts.
    private func add(_ tombstones: StagedTombstones, _ rowCounts: [Int], _ knownEntities: KnownEntities?) {
        let united = whole.staged.tombstones ?? StagedTombstones(plan)
        whole.staged.tombstones = united
        for entity in tombstones.objects.indices where tombstones.tables.exists(entity) {
            let table = tombstones.tables[entity]
            for row in tombstones.objects[entity].indices {
                let identity = UnsafePointer(table.pointee.row(row))
                let concreteEntity = table.pointee.concreteEntity(of: row)
                let known =
                    whole.tables.exists(entity)
                    ? whole.tables[entity].pointee.find(identity: identity, concreteEntity: concreteEntity) : nil
                let isNamedBefore = known.map { $0 < rowCounts[entity] } ?? false
                united.add(tombstones, entity, row: row, isNamedBefore: isNamedBefore)
                // The part did not know of which entity the object was before its tombstone.
                if isNamedBefore, plan.entities[concreteEntity].hierarchy != nil,
                    knownEntities?.find(plan.entities[concreteEntity], identity) == nil
                {
                    whole.staged.hasUncertainEntities = true
                }
            }
        }
    }

    func add() {
        for entity in rows.indices where !rows[entity].isEmpty { addCells(entity) }
        for (index, table) in plan.layout.linkTables.enumerated() {
            whole.staged.links[index] += part.staged.links[index].map { link in
                var link = link
                link.source = UInt32(rows[table.source][Int(link.source)])
                link.destination = UInt32(rows[table.destination][Int(link.destination)])
                return link
            }
        }
        for var pair in part.staged.pairs {
            let destination = plan.layout.entities[pair.entity].link(atColumn: pair.column).destination
            pair.row = rows[pair.entity][pair.row]
            pair.partner = pair.partner.map { rows[destination][$0] }
            whole.staged.pairs.append(pair)
        }
        for var replacement in part.staged.replacements {
            replacement.row = rows[replacement.entity][replacement.row]
            whole.staged.replacements.append(replacement)
        }
        for var link in part.staged.retainedLinks {
            link.row = rows[link.entity][link.row]
            whole.staged.retainedLinks.append(link)
        }
        for var position in part.staged.listPositions {
            position.row = position.row.map { rows[position.entity][$0] }
            position.element = rows[plan.destinationTable(of: position)][position.element]
            whole.staged.listPositions.append(position)
        }
        for var nesting in part.staged.nestings {
            nesting.row = rows[nesting.entity][nesting.row]
            whole.staged.nestings.append(nesting)
        }
        whole.staged.rejections.add(part.staged.rejections)
        whole.staged.conditionalFault = .first(whole.staged.conditionalFault, part.staged.conditionalFault)
        if let payload = part.staged.payload { whole.staged.payload?.add(payload, translating: rows) }
        whole.staged.needsComparison = whole.staged.needsComparison || part.staged.needsComparison
        whole.staged.hasUncertainEntities = whole.staged.hasUncertainEntities || part.staged.hasUncertainEntities
        addWarnings()
        whole.facts.memory.append(contentsOf: part.facts.memory)
        whole.facts.collections.append(contentsOf: part.facts.collections)
        whole.facts.patternWork += part.facts.patternWork
        whole.staged.innerNames = whole.staged.innerNames ?? part.staged.innerNames
    }

    /// Adds the cells. For attributes the later part wins; for links the later source offset wins.
    private func addCells(_ entity: Int) {
        let layout = plan.layout.entities[entity]
        for (row, target) in rows[entity].enumerated() {
            let cells = part.tables.cell(entity, row, 0)
            let own = whole.tables.cell(entity, target, 0)
            for column in 0..<layout.attributeCount where cells[column].kind != .absent { own[column] = cells[column] }
            for column in layout.attributeCount..<layout.columnCount where cells[column].kind != .absent {
                var link = cells[column]
                if link.kind == .object {
                    let destination = layout.link(atColumn: column).destination
                    link = .object(row: rows[destination][link.row], sourceOffset: link.sourceOffset)
                }
                LinkResolution.assertLink(link, in: own + column)
            }
        }
    }

    /// Adds the counts of unknown keys; each key has one warning, in the order of first occurrence.
    private func addWarnings() {
        struct WarningKey: Hashable {
            let code: Warning.Code
            let entity: String
            let key: [UInt8]?
        }
        func key(of warning: Warning) -> WarningKey {
            WarningKey(code: warning.code, entity: warning.entity, key: warning.key.map { Array($0.utf8) })
        }
        guard !part.facts.warnings.isEmpty else { return }
        var indices = Dictionary(
            whole.facts.warnings.enumerated().map { (key(of: $1), $0) }, uniquingKeysWith: { first, _ in first })
        for warning in part.facts.warnings {
            if let index = indices[key(of: warning)] {
                whole.facts.warnings[index].count += warning.count
            } else {
                indices[key(of: warning)] = whole.facts.warnings.count
                whole.facts.warnings.append(warning)
            }
        }
    }
}

extension StagedPart {
    /// Returns the concrete entity of an object that several parts name: the one furthest down in the hierarchy. If the
    /// entities are not on one path, or the result may depend on their order, the job is staged again with the store's
    /// facts.
    fileprivate func unitedEntity(
        of row: Int, in table: UnsafeMutablePointer<StagedTable>, _ target: UnsafeMutablePointer<StagedTable>
    ) -> Int {
        let concreteEntity = table.pointee.concreteEntity(of: row)
        guard let hierarchy = tables.hierarchy(of: concreteEntity), table.pointee.hasIdentity(row),
            let row = target.pointee.find(identity: table.pointee.row(row), concreteEntity: concreteEntity)
        else { return concreteEntity }
        let known = target.pointee.concreteEntity(of: row)
        if known == concreteEntity || hierarchy.inherits(from: known) { return concreteEntity }
        if !hierarchy.isInherited(by: known) { staged.hasUncertainEntities = true }
        return known
    }
}

extension JobCollection {
    /// Stages the collection as the only one of its job, as ``stage(_:_:_:without:)`` and ``StagedJobRows`` do.
    package func rows(
        _ plan: StagingPlan, _ policy: InvalidRecordPolicy, _ allowance: (any StagingAllowance)? = nil
    ) throws(StagingRefusal) -> StagedRows {
        try StagingSpace.with { space in
            Result { () throws(StagingRefusal) in
                var context = try context(plan, policy, allowance, nil, space)
                let facts = PartFacts(&context)
                return StagedJobRows.rows(&context, facts, plan, without: nil)
            }
        }.get()
    }
}

/// Discards assertions about links with objects that a tombstone then deleted. An object that a later record inserts
/// again has none of the old links, and links to the old object end.
struct DiscardedLinks {
    private let plan: StagingPlan
    private let tables: TableSet
    /// By entity index and row, the offset of the last record that deletes the object.
    private let deletedAt: [[Int: UInt32]]

    init(_ tombstones: StagedTombstones, in tables: TableSet, _ plan: StagingPlan) {
        self.plan = plan
        self.tables = tables
        var deletedAt: [[Int: UInt32]] = Array(repeating: [:], count: plan.entities.count)
        tombstones.forEach { entity, identity, concreteEntity, object in
            guard tables.exists(entity),
                let row = tables[entity].pointee.find(identity: identity, concreteEntity: concreteEntity)
            else { return }
            deletedAt[entity][row] = object.offset
        }
        self.deletedAt = deletedAt
    }

    /// Discards the assertions of the tables' context that precede the deletions.
    func discard(_ staged: inout StagingContext) {
        for (index, table) in plan.layout.linkTables.enumerated() {
            staged.links[index].removeAll {
                ending(table.source, Int($0.source), $0.sourceOffset) != nil
                    || ending(table.destination, Int($0.destination), $0.sourceOffset) != nil
            }
        }
        staged.pairs = staged.pairs.compactMap(remaining)
        staged.listPositions = staged.listPositions.compactMap(remaining)
        for entity in plan.layout.entities.indices where tables.exists(entity) { discardCells(of: entity) }
    }

    /// Returns the offset of a deletion of the object that follows the assertion.
    private func ending(_ entity: Int, _ row: Int, _ sourceOffset: UInt32) -> UInt32? {
        deletedAt[entity][row].flatMap { sourceOffset < $0 ? $0 : nil }
    }

    /// Returns the part of the pair that the deletions leave: the object of the two that remains has lost its earlier
    /// partner by the assertion, and this one by the deletion, unless a later assertion gives it another.
    private func remaining(_ pair: StagedPair) -> StagedPair? {
        let link = plan.layout.entities[pair.entity].link(atColumn: pair.column)
        let isOwnDeleted = ending(pair.entity, pair.row, pair.sourceOffset) != nil
        let isPartnerDeleted = pair.partner.map { ending(link.destination, $0, pair.sourceOffset) != nil } ?? false
        switch (isOwnDeleted, isPartnerDeleted) {
        case (false, false): return pair
        case (false, true):
            var pair = pair
            pair.partner = nil
            return pair
        case (true, false):
            guard let partner = pair.partner, let back = link.oneToOneColumn else { return nil }
            return StagedPair(
                entity: link.destination, row: partner, column: back, partner: nil, sourceOffset: pair.sourceOffset)
        case (true, true): return nil
        }
    }

    /// Returns what the deletions leave of the assertion: an element has left its earlier list by it, also when the object
    /// whose list it joined is then deleted.
    ///
    /// A record may name an object before and after a tombstone inside the record, so the offset of its value counts, not
    /// that of the record.
    private func remaining(_ position: StagedListPosition) -> StagedListPosition? {
        let destination = plan.destinationTable(of: position)
        guard ending(destination, position.element, position.offset) == nil else { return nil }
        var position = position
        if let row = position.row, ending(position.entity, row, position.offset) != nil { position.row = nil }
        return position
    }

    private func discardCells(of entity: Int) {
        let layout = plan.layout.entities[entity]
        for column in layout.attributeCount..<layout.columnCount {
            let destination = layout.link(atColumn: column).destination
            guard !deletedAt[destination].isEmpty else { continue }
            for row in 0..<tables[entity].pointee.rowCount {
                let cell = tables.cell(entity, row, column)
                guard cell.pointee.kind == .object,
                    let offset = ending(destination, cell.pointee.row, cell.pointee.sourceOffset)
                else { continue }
                cell.pointee = .unlinked(sourceOffset: offset)
            }
        }
    }
}
