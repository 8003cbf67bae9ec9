internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging

extension Merger {
    /// Rejections listed in an outcome; the rest is counted in a warning, so that an answer stays of a size to send.
    static let listedRejections = 10_000

    /// What a merge did, in the contract's terms.
    func outcome(of merged: MergedRows, _ rows: StagedRows, wantsKeys: Bool) throws(MergeFailure) -> Outcome {
        var outcome = Outcome()
        var faults = rows.locatedRejections()
        outcome.warnings = rows.warnings
        if faults.count > Self.listedRejections {
            outcome.warnings.append(
                Warning(.rejectedNotListed, entity: "", count: faults.count - Self.listedRejections))
        }
        var rejected: [String: Int] = [:]
        for fault in faults { rejected[fault.entity ?? "", default: 0] += 1 }
        faults.removeLast(max(0, faults.count - Self.listedRejections))
        outcome.rejected = faults
        for (index, statements) in entities.enumerated() {
            let counts = counts(index, merged, rejected: rejected[statements.entity.name] ?? 0)
            guard rows.tables[index] != nil || counts != ChangeCounts() else { continue }
            outcome.changes.append((statements.entity.name, counts))
        }
        outcome.changes.sort { $0.entity < $1.entity }
        if wantsKeys { outcome.keys = try keys(of: merged, rows, outcome.changes.map(\.entity)) }
        return outcome
    }

    /// The rows without the rejected ones and the links to them.
    func without(_ rejected: [RejectedRow], _ rows: StagedRows) -> StagedRows {
        var left = rows.tables.map { table in Array(repeating: true, count: table?.rowCount ?? 0) }
        for rejection in rejected { left[rejection.entity][rejection.row] = false }
        let faults = rejected.compactMap { rejection in
            rejection.fault.map { Rejection($0, at: rows.offset(entity: rejection.entity, row: rejection.row)) }
        }
        return StagedJobRows.filter(rows, plan, rejections: faults) { left[$0][$1] }
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
        guard !merged.changedOutside[entity].isEmpty else { return }
        let statements = entities[entity]
        let find = try connection.prepare(
            "SELECT \(quotedList(statements.keyNames)) FROM \(quoted(statements.entity.table)) WHERE rowid = ?1")
        for rowNumber in merged.changedOutside[entity].sorted() {
            find.bind(rowNumber, at: 1)
            guard try find.step() else { continue }
            if statements.entity.hasRowKey {
                writer.integer(find.integer(0))
            } else {
                writeKey(statements.entity.identity.indices.map { find.cell($0) }, statements.entity, &writer)
            }
            find.reset()
        }
    }

    /// A key as the contract writes it: the identity's value, or an object of attribute names and values.
    private func writeKey(_ cells: [Cell], _ entity: Entity, _ writer: inout JSONWriter) {
        guard cells.count > 1 else { return writer.cell(cells[0]) }
        writer.object { writer in
            for (cell, attribute) in zip(cells, entity.identity) {
                writer.key(entity.attributes[attribute].name)
                writer.cell(cell)
            }
        }
    }
}

extension JSONWriter {
    /// A column's value; bytes as the store's hexadecimal, because no identity of the contract's is binary.
    fileprivate mutating func cell(_ cell: Cell) {
        switch cell.kind {
        case .integer: integer(cell.integer)
        case .real: double(cell.real)
        case .text: string(cell.bytes)
        case .blob: string(cell.bytes.map { String($0, radix: 16) }.joined())
        case .absent, .null, .object: null()
        }
    }
}
