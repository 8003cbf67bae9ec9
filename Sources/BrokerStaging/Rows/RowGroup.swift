/// Rows of one entity that one SQL statement can merge.
public struct RowGroup: Sendable {
    /// In a hierarchy, the index of the concrete entity of the rows' objects, as far as the job says.
    public let concreteEntity: Int
    /// The columns that every row of the group brings, with the identity's columns, ascending; nil when the rows bring
    /// different columns.
    public let columns: [Int]?
    public let order: RowOrder
    /// The group's part of ``order``.
    public let range: Range<Int>

    /// The same rows in the order in which they were staged: that of the text.
    public var inTextOrder: RowGroup {
        guard range.contains(where: { $0 > range.lowerBound && order[$0] < order[$0 - 1] }) else { return self }
        let rows = range.map { order.rows[$0] }.sorted()
        return RowGroup(concreteEntity: concreteEntity, columns: columns, order: RowOrder(rows), range: 0..<rows.count)
    }

    /// The same without some rows.
    public func without(_ rows: Set<Int>) -> RowGroup {
        let rest = range.compactMap { rows.contains(order[$0]) ? nil : UInt32(order[$0]) }
        return RowGroup(
            concreteEntity: concreteEntity, columns: columns, order: RowOrder(rest), range: 0..<rest.count)
    }
}

extension UnsafePointer<Cell> {
    /// Whether this row comes before another of its table, in SQLite's order of these columns.
    public func precedes(_ other: Self, by columns: [Int]) -> Bool {
        for column in columns {
            if self[column].precedes(other[column]) { return true }
            if other[column].precedes(self[column]) { return false }
        }
        return false
    }
}

/// Row numbers of one staged table in the order in which they are merged. Immutable.
public final class RowOrder: Sendable {
    public let count: Int
    // Immutable after init and freed only in deinit, so it may be read from any thread.
    nonisolated(unsafe) public let rows: UnsafePointer<UInt32>

    /// The order of a table with one row.
    static let single = RowOrder([0])

    init(_ order: [UInt32]) {
        count = order.count
        let rows = UnsafeMutablePointer<UInt32>.allocate(capacity: max(1, order.count))
        rows.initialize(from: order, count: order.count)
        self.rows = UnsafePointer(rows)
    }

    deinit { rows.deallocate() }

    @inlinable public subscript(position: Int) -> Int { Int(rows[position]) }
}

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
        guard rowCount > 1 else {
            guard rowCount == 1 else { return [] }
            let concreteEntity = concreteEntities.first.map(Int.init) ?? entity.ownIndex
            return [
                RowGroup(concreteEntity: concreteEntity, columns: columns(ofRow: 0), order: .single, range: 0..<1)
            ]
        }
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

    private struct Entry {
        /// Decides most comparisons by itself.
        let prefix: UInt64
        let row: UInt32
    }

    /// By identity; rows without one stay in the payload's order.
    private func sorted(_ rows: [UInt32], _ concreteEntity: Int) -> [UInt32] {
        let identity = entity.identityColumns(of: concreteEntity)
        guard let leading = identity.first else { return rows }
        var entries = rows.map { row in
            Entry(prefix: cells[Int(row) * columnCount + leading].orderPrefix, row: row)
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
}
