internal import BrokerModel

/// The memory of the tables of a ``TableSet``: a pointer for each entity, then the space for two tables and for their first
/// rows. Most small jobs have no more than their own table and one to which they link, of one row each, and so make one
/// allocation for all of it.
// One thread at a time uses it; frozen tables never change.
final class TableStorage: ManagedBuffer<TableStorage.Header, UnsafeMutablePointer<StagedTable>?> {
    struct Header {
        let plan: StagingPlan
        let count: Int
        /// Tables in the object itself.
        var ownCount = 0
        /// Cells of the space that are in use.
        var cellCount = 0
    }

    private typealias Table = UnsafeMutablePointer<StagedTable>

    private static let spaceCount = 2
    /// The cells of most models' rows, with a key beside them.
    private static let cellSpace = 24

    static func create(_ plan: StagingPlan) -> TableStorage {
        let count = plan.entities.count
        let stride = MemoryLayout<UnsafeMutablePointer<StagedTable>?>.stride
        let bytes =
            spaceCount * MemoryLayout<StagedTable>.stride + cellSpace * MemoryLayout<Cell>.stride
        precondition(MemoryLayout<StagedTable>.alignment <= stride && MemoryLayout<Cell>.alignment <= stride)
        let made = create(minimumCapacity: count + (bytes + stride - 1) / stride) { _ in
            Header(plan: plan, count: count)
        }
        made.withUnsafeMutablePointerToElements { $0.initialize(repeating: nil, count: count) }
        return unsafeDowncast(made, to: TableStorage.self)
    }

    deinit {
        for entity in 0..<header.count {
            guard let table = tables[entity] else { continue }
            table.deinitialize(count: 1)
            if !isOwn(table) { table.deallocate() }
        }
    }

    /// Valid as long as this object.
    @inline(__always)
    var tables: UnsafeMutablePointer<UnsafeMutablePointer<StagedTable>?> { withUnsafeMutablePointerToElements { $0 } }

    private var space: Table {
        UnsafeMutableRawPointer(tables + header.count).assumingMemoryBound(to: StagedTable.self)
    }

    private var cells: UnsafeMutablePointer<Cell> {
        UnsafeMutableRawPointer(space + Self.spaceCount).assumingMemoryBound(to: Cell.self)
    }

    private func isOwn(_ table: Table) -> Bool { table >= space && table < space + Self.spaceCount }

    /// Creates the table of that entity, which must not exist.
    @inline(never)
    func make(_ entity: Int) -> UnsafeMutablePointer<StagedTable> {
        let plan = header.plan.entities[entity]
        let isOwn = header.ownCount < Self.spaceCount
        let table = isOwn ? space + header.ownCount : Table.allocate(capacity: 1)
        if isOwn { header.ownCount += 1 }
        let columnCount = plan.columnCount
        let hasRow = header.cellCount + columnCount <= Self.cellSpace
        table.initialize(to: StagedTable(plan, in: hasRow ? cells + header.cellCount : nil))
        if hasRow { header.cellCount += columnCount }
        tables[entity] = table
        return table
    }
}
