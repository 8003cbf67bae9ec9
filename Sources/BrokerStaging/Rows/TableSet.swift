internal import BrokerModel

/// The tables of a context, by entity index; a hierarchy's table has the index of its topmost entity. Tables are
/// created on first use. One thread at a time uses it. Copies are the same set.
struct TableSet {
    private typealias Table = UnsafeMutablePointer<StagedTable>

    private struct Header {
        let plan: StagingPlan
        let count: Int
        /// Tables in the object itself.
        var ownCount = 0
    }

    /// A pointer for each entity, then the space for two tables: most small jobs have no more than their own and one to
    /// which they link, and so make one allocation for all of it.
    private final class Storage: ManagedBuffer<Header, Table?> {
        deinit { for entity in 0..<header.count { end(entity) { _ = $0.deinitialize(count: 1) } } }

        /// Valid as long as this object.
        @inline(__always)
        var tables: UnsafeMutablePointer<Table?> { withUnsafeMutablePointerToElements { $0 } }

        private var space: Table {
            UnsafeMutableRawPointer(tables + header.count).assumingMemoryBound(to: StagedTable.self)
        }

        private func isOwn(_ table: Table) -> Bool { table >= space && table < space + TableSet.spaceCount }

        @inline(never)
        func make(_ entity: Int) -> Table {
            let isOwn = header.ownCount < TableSet.spaceCount
            let table = isOwn ? space + header.ownCount : Table.allocate(capacity: 1)
            if isOwn { header.ownCount += 1 }
            table.initialize(to: StagedTable(header.plan.entities[entity]))
            tables[entity] = table
            return table
        }

        /// Ends the table of that entity, if it exists.
        ///
        /// - Parameter body: leaves its memory without a value.
        @discardableResult
        func end<Result>(_ entity: Int, _ body: (UnsafeMutablePointer<StagedTable>) -> Result) -> Result? {
            guard let table = tables[entity] else { return nil }
            tables[entity] = nil
            defer { if !isOwn(table) { table.deallocate() } }
            return body(table)
        }
    }

    private static let spaceCount = 2

    private let storage: Storage

    init(_ plan: StagingPlan) {
        let count = plan.entities.count
        let stride = MemoryLayout<Table?>.stride
        let words = (Self.spaceCount * MemoryLayout<StagedTable>.stride + stride - 1) / stride
        precondition(MemoryLayout<StagedTable>.alignment <= stride)
        let made = Storage.create(minimumCapacity: count + words) { _ in Header(plan: plan, count: count) }
        made.withUnsafeMutablePointerToElements { $0.initialize(repeating: nil, count: count) }
        storage = unsafeDowncast(made, to: Storage.self)
    }

    /// The table of that entity, created on first use.
    @inline(__always)
    subscript(entity: Int) -> UnsafeMutablePointer<StagedTable> {
        storage.tables[entity] ?? storage.make(entity)
    }

    @inline(__always)
    func exists(_ entity: Int) -> Bool { storage.tables[entity] != nil }

    /// Returns the hierarchy of an entity; nil for an entity outside of a hierarchy.
    func hierarchy(of concreteEntity: Int) -> HierarchyPlan? { storage.header.plan.entities[concreteEntity].hierarchy }

    var count: Int { storage.header.count }

    /// Returns a cell of an existing row. Valid until the table's next row is added.
    func cell(_ entity: Int, _ row: Int, _ column: Int) -> UnsafeMutablePointer<Cell> {
        storage.tables[entity]!.pointee.row(row) + column
    }

    /// Hands over the rows and leaves the set empty.
    func freeze() -> [FrozenTable?] { (0..<count).map { entity in storage.end(entity) { $0.move().freeze() } } }
}
