internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging
internal import Foundation

extension Merger {
    /// What a merge did, in the contract's terms.
    func outcome(of merged: MergedRows, _ rows: StagedRows, wantsKeys: Bool) throws(MergeFailure) -> Outcome {
        var outcome = Outcome()
        outcome.rejected = rows.rejected
        outcome.warnings = rows.warnings
        let unlisted = rows.unlistedRejections.values.reduce(0, +)
        if unlisted > 0 { outcome.warnings.append(Warning(.rejectedNotListed, entity: "", count: unlisted)) }
        var rejected = rows.unlistedRejections
        for fault in outcome.rejected { rejected[fault.entity ?? "", default: 0] += 1 }
        for (index, statements) in entities.enumerated() {
            let counts = counts(index, merged, rejected: rejected[statements.entity.name] ?? 0)
            guard rows.tables[index] != nil || counts != ChangeCounts() else { continue }
            outcome.changes.append((statements.entity.name, counts))
        }
        outcome.changes.sort { $0.entity < $1.entity }
        if wantsKeys { outcome.keys = try keys(of: merged, rows, outcome.changes.map(\.entity)) }
        return outcome
    }

    private func counts(_ entity: Int, _ merged: MergedRows, rejected: Int) -> ChangeCounts {
        var counts = ChangeCounts(rejected: rejected)
        for state in merged.states[entity] {
            switch state {
            case MergeTally.RowState.inserted.rawValue: counts.inserted += 1
            case MergeTally.RowState.updated.rawValue: counts.updated += 1
            default: counts.unchanged += 1
            }
        }
        counts.updated += merged.changedOutside[entity].count
        return counts
    }

    // MARK: - Keys

    /// The contract's `keys`: by entity what was inserted, updated and deleted, in the order of the rows.
    private func keys(
        of merged: MergedRows, _ rows: StagedRows, _ names: [String]
    ) throws(MergeFailure) -> [UInt8] {
        var writer = JSONWriter()
        do throws(StoreError) {
            try writer.object { writer throws(StoreError) in
                for name in names {
                    let entity = plan.model.index(ofEntity: name)!
                    writer.key(name)
                    try writer.object { writer throws(StoreError) in
                        for (word, state) in [("inserted", MergeTally.RowState.inserted), ("updated", .updated)] {
                            writer.key(word)
                            try writer.array { writer throws(StoreError) in
                                writeKeys(entity, state, merged, rows, &writer)
                                if state == .updated { try writeKeysOutside(entity, merged, &writer) }
                            }
                        }
                        writer.key("deleted")
                        writer.array { _ in }
                    }
                }
            }
        } catch {
            throw .store(error)
        }
        return writer.bytes
    }

    private func writeKeys(
        _ entity: Int, _ state: MergeTally.RowState, _ merged: MergedRows, _ rows: StagedRows,
        _ writer: inout JSONWriter
    ) {
        guard let table = rows.tables[entity] else { return }
        let model = entities[entity].entity
        for position in 0..<table.rowCount {
            let row = Int(table.order[position])
            guard merged.states[entity][row] == state.rawValue else { continue }
            if model.hasRowKey {
                writer.integer(merged.rowKeys[entity][row])
            } else {
                let cells = model.identity.map { table.row(row)[$0] }
                writeKey(cells, model, &writer)
            }
        }
    }

    private func writeKeysOutside(
        _ entity: Int, _ merged: MergedRows, _ writer: inout JSONWriter
    ) throws(StoreError) {
        let outside = merged.changedOutside[entity]
        let entity = entities[entity]
        for rowNumber in outside.sorted() {
            let find = try entity.key()
            find.bind(rowNumber, at: 1)
            defer { find.reset() }
            guard try find.step() else { continue }
            if entity.entity.hasRowKey {
                writer.integer(find.integer(0))
            } else {
                writeKey(entity.entity.identity.indices.map { find.cell($0) }, entity.entity, &writer)
            }
        }
    }

    /// A key as the contract writes it: the identity's value, or an object of attribute names and values.
    private func writeKey(_ cells: [Cell], _ entity: Entity, _ writer: inout JSONWriter) {
        let attributes = entity.identity.map { entity.attributes[$0] }
        guard cells.count > 1 else { return writer.cell(cells[0], of: attributes[0]) }
        writer.object { writer in
            for (cell, attribute) in zip(cells, attributes) {
                writer.key(attribute.name)
                writer.cell(cell, of: attribute)
            }
        }
    }
}

extension JSONWriter {
    /// A column's value as JSON has it: booleans by their words, bytes in base64.
    fileprivate mutating func cell(_ cell: Cell, of attribute: Attribute) {
        switch cell.kind {
        case .integer where attribute.type == .boolean: bool(cell.integer != 0)
        case .integer: integer(cell.integer)
        case .real: double(cell.real)
        case .text: string(cell.bytes)
        case .blob: string(Data(cell.bytes).base64EncodedString())
        case .absent, .null, .object: null()
        }
    }
}
