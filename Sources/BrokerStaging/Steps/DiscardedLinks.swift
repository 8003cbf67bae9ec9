internal import BrokerModel

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
