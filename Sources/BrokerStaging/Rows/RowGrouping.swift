/// Sorts row numbers by concrete entity, then by identity.
struct RowGrouping {
    private let entity: EntityPlan
    private let cells: UnsafePointer<Cell>
    private let concreteEntities: [Int32]
    private let rowCount: Int
    private let columnCount: Int

    init(_ entity: EntityPlan, _ cells: UnsafePointer<Cell>, _ concreteEntities: [Int32], _ rowCount: Int) {
        self.entity = entity
        self.cells = cells
        self.concreteEntities = concreteEntities
        self.rowCount = rowCount
        columnCount = entity.columnCount
    }

    /// All rows, one group per concrete entity.
    func groups() -> [RowGroup] {
        guard rowCount > 1 else { return rowCount == 0 ? [] : single }
        var rowsByEntity: [(concreteEntity: Int, rows: [UInt32])] = []
        if concreteEntities.isEmpty {
            rowsByEntity = [(entity.ownIndex, Array(0..<UInt32(rowCount)))]
        } else {
            var positions: [Int32: Int] = [:]
            for (row, concreteEntity) in concreteEntities.enumerated() {
                let position = positions[concreteEntity] ?? rowsByEntity.count
                if position == rowsByEntity.count {
                    rowsByEntity.append((Int(concreteEntity), []))
                    positions[concreteEntity] = position
                }
                rowsByEntity[position].rows.append(UInt32(row))
            }
        }
        return united(
            rowsByEntity.map { concreteEntity, rows in
                let columns = columns(ofRow: rows[0])
                let isUniform = rows.allSatisfy { brings($0, exactly: columns) }
                return (concreteEntity, isUniform ? columns : nil, sorted(rows, concreteEntity))
            })
    }

    /// The group of a table with one row, as most small jobs have: a whole record, or a bare key, has the plan's own.
    private var single: [RowGroup] {
        if concreteEntities.isEmpty {
            if brings(0, exactly: entity.allColumns) { return entity.wholeRecord }
            if brings(0, exactly: entity.keyColumns) { return entity.bareKey }
        }
        let concreteEntity = concreteEntities.first.map(Int.init) ?? entity.ownIndex
        return [.single(columns(ofRow: 0), concreteEntity: concreteEntity)]
    }

    /// Splits a group by the columns that its rows bring; each part has the group's order.
    func uniform(_ group: RowGroup) -> [RowGroup] {
        var parts: [(concreteEntity: Int, columns: [Int]?, rows: [UInt32])] = []
        var positions: [[Int]: Int] = [:]
        var last = 0
        for position in group.range {
            let row = group.order.rows[position]
            if let known = parts.last.flatMap({ _ in parts[last].columns }), brings(row, exactly: known) {
                parts[last].rows.append(row)
                continue
            }
            let columns = columns(ofRow: row)
            last = positions[columns] ?? parts.count
            if last == parts.count {
                parts.append((group.concreteEntity, columns, []))
                positions[columns] = last
            }
            parts[last].rows.append(row)
        }
        return united(parts)
    }

    private func united(_ parts: [(concreteEntity: Int, columns: [Int]?, rows: [UInt32])]) -> [RowGroup] {
        let order = RowOrder(parts.count == 1 ? parts[0].rows : parts.flatMap(\.rows))
        var start = 0
        return parts.map { part in
            defer { start += part.rows.count }
            return RowGroup(
                concreteEntity: part.concreteEntity, columns: part.columns, order: order,
                range: start..<start + part.rows.count)
        }
    }

    private func columns(ofRow row: UInt32) -> [Int] {
        let own = cells + Int(row) * columnCount
        let bringsAll = (0..<columnCount).allSatisfy { own[$0].kind != .absent }
        return bringsAll ? entity.allColumns : entity.allColumns.filter { own[$0].kind != .absent }
    }

    private func brings(_ row: UInt32, exactly columns: [Int]) -> Bool {
        let own = cells + Int(row) * columnCount
        var position = 0
        for column in 0..<columnCount where own[column].kind != .absent {
            guard position < columns.count, columns[position] == column else { return false }
            position += 1
        }
        return position == columns.count
    }

    private func sorted(_ rows: [UInt32], _ concreteEntity: Int) -> [UInt32] {
        let identity = entity.identityColumns(of: concreteEntity)
        guard let first = identity.first else { return rows }
        if entity.hasIntegerIdentity {
            return sorted(rows) {
                cells[Int($0) * columnCount + first].integer < cells[Int($1) * columnCount + first].integer
            }
        }
        return sorted(rows, by: identity)
    }

    private struct Entry {
        /// Decides most comparisons by itself.
        let prefix: UInt64
        let row: UInt32
    }

    /// Rows without identity stay in the payload's order.
    private func sorted(_ rows: [UInt32], by identity: [Int]) -> [UInt32] {
        var entries = rows.map { row in
            Entry(prefix: cells[Int(row) * columnCount + identity[0]].orderPrefix, row: row)
        }
        func isBefore(_ left: Entry, _ right: Entry) -> Bool {
            guard left.prefix == right.prefix else { return left.prefix < right.prefix }
            let (first, second) = (cells + Int(left.row) * columnCount, cells + Int(right.row) * columnCount)
            if first.precedes(second, by: identity) { return true }
            return left.row < right.row && !second.precedes(first, by: identity)
        }
        let isSorted = entries.indices.dropFirst().allSatisfy { isBefore(entries[$0 - 1], entries[$0]) }
        guard !isSorted else { return rows }
        entries.sort(by: isBefore)
        return entries.map(\.row)
    }

    private func sorted(_ rows: [UInt32], by areInOrder: (UInt32, UInt32) -> Bool) -> [UInt32] {
        let isSorted = rows.indices.dropFirst().allSatisfy { !areInOrder(rows[$0], rows[$0 - 1]) }
        return isSorted ? rows : rows.sorted(by: areInOrder)
    }
}
