internal import BrokerModel

/// Unites the separately staged parts of one job into the rows of one job: one object per identity, later values win.
package enum StagedJobRows {
    /// - Parameter parts: the staged collections of the job, in payload order; not empty. This call consumes them.
    package static func unite(_ parts: [StagedPart], _ plan: StagingPlan) -> StagedRows {
        precondition(!parts.isEmpty, "a job has at least one collection")
        let whole = parts[0]
        for part in parts.dropFirst() { PartTranslation(of: part, into: whole, plan).add() }
        return StagedRows(&whole.staged, whole.facts, plan)
    }
}

/// Adds a later part to the first one and translates its row numbers.
private struct PartTranslation {
    private let plan: StagingPlan
    private let part: StagedPart
    private let whole: StagedPart
    /// By entity index and the part's row, the row of the first part.
    private let rows: [[Int]]

    init(of part: StagedPart, into whole: StagedPart, _ plan: StagingPlan) {
        self.plan = plan
        self.part = part
        self.whole = whole
        rows = (0..<part.tables.count).map { entity in
            guard part.tables.exists(entity) else { return [] }
            return (0..<part.tables[entity].pointee.rowCount).map { Self.add($0, of: part, to: whole, entity) }
        }
    }

    /// Adds the row without its cells, and returns its number in the first part.
    private static func add(_ row: Int, of part: StagedPart, to whole: StagedPart, _ entity: Int) -> Int {
        let table = part.tables[entity], target = whole.tables[entity]
        let identity = table.pointee.hasIdentity(row) ? UnsafePointer(table.pointee.row(row)) : nil
        let naming = table.pointee.namings[row]
        let merged = target.pointee.findOrAdd(
            identity: identity, offset: Int(naming.offset), origin: naming.origin,
            concreteEntity: whole.unitedEntity(of: row, in: table, target))
        let isKeyFirst =
            whole.staged.policy == .skip && naming.origin == .record
            && target.pointee.namings[merged].offset != naming.offset
        if isKeyFirst, table.pointee.entity.hasUniqueLists { whole.staged.note(.unique) }
        if target.pointee.namings[merged].isRepeated {
            if table.pointee.entity.modified != nil { whole.staged.note(.modified) }
            if table.pointee.entity.hasUniqueLists { whole.staged.note(.unique) }
        }
        if table.pointee.entity.modified != nil {
            let modified = table.pointee.modified[row]
            // A bare key of the part is no record of the object.
            if modified.kind != .absent { target.pointee.noteRecord(merged, modified: modified) }
            if table.pointee.linksElsewhere[row] { target.pointee.noteLinksElsewhere(merged) }
        }
        if naming.namesLinks { target.pointee.noteLinks(merged) }
        for keyEntity in table.pointee.keyEntities[row] ?? [] { target.pointee.noteKey(merged, of: keyEntity) }
        return merged
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
        for var position in part.staged.listPositions {
            position.row = rows[position.entity][position.row]
            position.element = rows[plan.destinationTable(of: position)][position.element]
            whole.staged.listPositions.append(position)
        }
        whole.staged.rejections.add(part.staged.rejections)
        if let payload = part.staged.payload { whole.staged.payload?.add(payload, translating: rows) }
        whole.staged.note(part.staged.reason)
        addWarnings()
        whole.facts.memory.append(contentsOf: part.facts.memory)
        whole.facts.collections.append(contentsOf: part.facts.collections)
        whole.facts.patternWork += part.facts.patternWork
    }

    /// Adds the cells. For attributes the later part wins.
    private func addCells(_ entity: Int) {
        let layout = plan.layout.entities[entity]
        let (table, requiredColumns) = (whole.tables[entity], whole.tables[entity].pointee.entity.requiredColumns)
        for (row, target) in rows[entity].enumerated() {
            let cells = part.tables.cell(entity, row, 0)
            let own = whole.tables.cell(entity, target, 0)
            if table.pointee.namings[target].isRepeated,
                requiredColumns.contains(where: { own[$0].kind == .absent && cells[$0].kind != .absent })
            {
                whole.staged.note(.required)
            }
            for column in 0..<layout.attributeCount where cells[column].kind != .absent { own[column] = cells[column] }
            for column in layout.attributeCount..<layout.columnCount where cells[column].kind != .absent {
                var link = cells[column]
                if link.kind == .object {
                    let destination = layout.link(atColumn: column).destination
                    link = .object(row: rows[destination][link.row], sourceOffset: link.sourceOffset)
                }
                if LinkResolution.isContested(link, in: own + column) { whole.staged.note(.links) }
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
    /// Returns the concrete entity of an object that several parts name.
    fileprivate func unitedEntity(
        of row: Int, in table: UnsafeMutablePointer<StagedTable>, _ target: UnsafeMutablePointer<StagedTable>
    ) -> Int {
        let concreteEntity = table.pointee.concreteEntity(of: row)
        guard tables.hierarchy(of: concreteEntity) != nil, table.pointee.hasIdentity(row),
            let known = target.pointee.find(identity: table.pointee.row(row), concreteEntity: concreteEntity)
        else { return concreteEntity }
        if table.pointee.namings[row].origin.makesNothing { return target.pointee.concreteEntity(of: known) }
        let isMade = !target.pointee.namings[known].origin.makesNothing
        if isMade, target.pointee.concreteEntity(of: known) != concreteEntity { staged.note(.entity) }
        return concreteEntity
    }
}

extension JobCollection {
    /// Stages the collection as the only one of its job, as ``stage(_:_:_:)`` and ``StagedJobRows`` do.
    package func rows(
        _ plan: StagingPlan, _ policy: InvalidRecordPolicy, _ allowance: (any StagingAllowance)? = nil
    ) throws(StagingRefusal) -> StagedRows {
        try StagingSpace.with { space in
            Result { () throws(StagingRefusal) in
                var context = try context(plan, policy, allowance, space)
                let facts = PartFacts(&context)
                return StagedRows(&context, facts, plan)
            }
        }.get()
    }
}
