internal import BrokerModel

/// The tables of a context, by entity index; a hierarchy's table has the index of its topmost entity. Tables are
/// created on first use. One thread at a time uses it.
final class TableSet {
    private let tables: UnsafeMutableBufferPointer<UnsafeMutablePointer<StagedTable>?>
    private let plan: StagingPlan

    init(_ plan: StagingPlan) {
        self.plan = plan
        tables = .allocate(capacity: plan.entities.count)
        tables.initialize(repeating: nil)
    }

    deinit {
        for case let table? in tables {
            table.deinitialize(count: 1)
            table.deallocate()
        }
        tables.deallocate()
    }

    /// The table of that entity, created on first use.
    subscript(entity: Int) -> UnsafeMutablePointer<StagedTable> { tables[entity] ?? make(entity) }

    private func make(_ entity: Int) -> UnsafeMutablePointer<StagedTable> {
        let table = UnsafeMutablePointer<StagedTable>.allocate(capacity: 1)
        table.initialize(to: StagedTable(plan.entities[entity]))
        tables[entity] = table
        return table
    }

    func exists(_ entity: Int) -> Bool { tables[entity] != nil }

    /// Returns the hierarchy of an entity; nil for an entity outside of a hierarchy.
    func hierarchy(of concreteEntity: Int) -> HierarchyPlan? { plan.entities[concreteEntity].hierarchy }

    var count: Int { tables.count }

    /// Returns a cell of an existing row. Valid until the table's next row is added.
    func cell(_ entity: Int, _ row: Int, _ column: Int) -> UnsafeMutablePointer<Cell> {
        tables[entity]!.pointee.row(row) + column
    }

    /// Hands over the rows and leaves the set empty.
    func freeze() -> [FrozenTable?] {
        (0..<tables.count).map { entity in
            guard let table = tables[entity] else { return nil }
            tables[entity] = nil
            defer { table.deallocate() }
            return table.move().freeze()
        }
    }
}
