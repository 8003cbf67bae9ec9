internal import BrokerSchema
internal import BrokerStaging

/// The rows of one entity, of several jobs, in the order in which one statement merges them.
struct BatchOrder {
    private struct Entry {
        /// Decides most comparisons by itself.
        let prefix: UInt64
        let member: UInt32
        let row: UInt32
    }

    /// Columns that identify an object; empty when all rows are new objects.
    let identity: [Int]
    /// The columns that every row has values for; nil when the rows differ in that.
    private(set) var columns: [Int]?
    private var rows: [UInt32] = []
    private var members: [UInt32] = []
    /// Indexed by member.
    private var tables: [FrozenTable?] = []
    private var isInOrder = true
    /// The row that was added last.
    private var last: UnsafePointer<Cell>?

    /// - Parameter rowCount: of all tables.
    init(_ identity: [Int], _ rowCount: Int) {
        self.identity = identity
        rows.reserveCapacity(rowCount)
        members.reserveCapacity(rowCount)
    }

    /// Members must be added in their order.
    mutating func add(_ group: RowGroup, of table: FrozenTable, member: Int) {
        if rows.isEmpty { columns = group.columns } else if columns != group.columns { columns = nil }
        while tables.count < member { tables.append(nil) }
        tables.append(table)
        let first = table.row(group.order[group.range.lowerBound])
        if let last, !identity.isEmpty { isInOrder = isInOrder && !first.precedes(last, by: identity) }
        last = table.row(group.order[group.range.upperBound - 1])
        rows.append(contentsOf: UnsafeBufferPointer(start: group.order.rows, count: group.order.count)[group.range])
        members.append(contentsOf: repeatElement(UInt32(member), count: group.range.count))
    }

    /// Calls `body` with the rows and their members, in the same order.
    func withOrder(
        _ body: (UnsafeBufferPointer<UInt32>, UnsafeBufferPointer<UInt32>) throws(StoreError) -> Void
    ) throws(StoreError) {
        guard isInOrder else { return try sorted().withOrder(body) }
        try rows.withUnsafeBufferPointer { rows throws(StoreError) in
            try members.withUnsafeBufferPointer { members throws(StoreError) in try body(rows, members) }
        }
    }

    /// Sorts by identity; rows of one object stay in the order of their members.
    private func sorted() -> BatchOrder {
        let cells = tables.map(\.?.cells)
        let width = tables.last!!.columnCount
        func identified(_ member: UInt32, _ row: UInt32) -> UnsafePointer<Cell> {
            cells[Int(member)]! + Int(row) * width
        }
        var entries = zip(rows, members).map { row, member in
            Entry(prefix: identified(member, row)[identity[0]].orderPrefix, member: member, row: row)
        }
        entries.sort { left, right in
            if left.prefix != right.prefix { return left.prefix < right.prefix }
            let (first, second) = (identified(left.member, left.row), identified(right.member, right.row))
            if first.precedes(second, by: identity) { return true }
            return left.member < right.member && !second.precedes(first, by: identity)
        }
        var sorted = self
        sorted.rows = entries.map(\.row)
        sorted.members = entries.map(\.member)
        sorted.isInOrder = true
        return sorted
    }
}
