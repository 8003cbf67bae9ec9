internal import BrokerModel

/// The tables of a context, by entity index; a hierarchy's table has the index of its topmost entity. Tables are
/// created on first use. One thread at a time uses it. Copies are the same set.
struct TableSet {
    private let storage: TableStorage

    init(_ plan: StagingPlan) { storage = TableStorage.create(plan) }

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

    /// Freezes the tables, which are not changed any more.
    func freeze() -> FrozenTables {
        for entity in 0..<count { storage.tables[entity]?.pointee.freeze() }
        return FrozenTables(storage)
    }
}
