internal import BrokerJSON
internal import BrokerModel

/// Objects that a sync's `json` names inside records whose contents do not count. The sync does not delete them, and
/// does not change them.
struct InnerNames {
    let table: Int
    private let plan: StagingPlan
    private let names: TableSet

    init(_ table: Int, _ plan: StagingPlan) {
        self.table = table
        self.plan = plan
        names = TableSet(plan)
    }

    /// - Parameter identity: its cells are valid as long as the staged rows.
    func add(_ identity: [Cell], of entity: EntityPlan, at offset: Int) {
        Cell.row(identity, at: entity.identity, width: entity.columnCount).withUnsafeBufferPointer {
            _ = names[table].pointee.findOrAdd(
                identity: $0.baseAddress!, offset: offset, origin: .ignored, concreteEntity: entity.ownIndex)
        }
    }

    var isEmpty: Bool { !names.exists(table) }

    /// Returns nil when there are none. Consumes this list.
    func freeze() -> FrozenTable? { names.freeze()[table] }
}
