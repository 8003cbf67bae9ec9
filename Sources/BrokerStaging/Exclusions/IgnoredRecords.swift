internal import BrokerModel

/// Objects of one entity whose records a sync ignores, because it may not insert or not update them. Records nested in
/// an ignored record are staged.
package final class IgnoredRecords {
    enum Decision {
        /// The record is staged.
        case accepted
        /// The object exists, and does not change.
        case named
        /// The object does not exist, and is not inserted.
        case absent
    }

    /// The entity of the sync; its subentities belong to it.
    let entity: Int
    private let table: Int
    private let inserts: Bool
    private let updates: Bool
    private let existing: TableSet
    /// Objects that the latest staging named and did not insert; in the memory of its rows.
    private var absent: TableSet
    private let plan: StagingPlan
    private var arena = ByteArena()

    /// - Parameters:
    ///   - inserts: the sync may insert objects.
    ///   - updates: the sync may update objects.
    package init(of entity: Int, inserts: Bool, updates: Bool, _ plan: StagingPlan) {
        self.entity = entity
        table = plan.entities[entity].index
        self.inserts = inserts
        self.updates = updates
        existing = TableSet(plan)
        absent = TableSet(plan)
        self.plan = plan
    }

    /// Prepares for a new staging.
    func begin() { absent = TableSet(plan) }

    /// Returns the identities of the objects of that table that the latest staging named and did not insert.
    func namedWithoutRow(_ table: Int) -> [[Cell]] {
        guard absent.exists(table) else { return [] }
        return (0..<absent[table].pointee.rowCount).map { absent[table].pointee.identity(ofRow: $0) }
    }

    /// Notes that the object of a staged row is in the store.
    package func noteExisting(_ row: Int, of staged: FrozenTable) {
        // The rows own the memory of the cells and are freed before this object.
        _ = existing[table].pointee.findOrAdd(
            copying: staged.row(row), in: &arena, concreteEntity: staged.concreteEntity(of: row))
    }

    /// - Parameter identity: a row's worth of cells; nil for a record without an identity.
    func decision(_ identity: UnsafePointer<Cell>?, concreteEntity: Int) -> Decision {
        let exists =
            identity.map { existing[table].pointee.find(identity: $0, concreteEntity: concreteEntity) != nil } ?? false
        if exists { return updates ? .accepted : .named }
        if inserts { return .accepted }
        if let identity {
            _ = absent[table].pointee.findOrAdd(
                identity: identity, offset: 0, origin: .ignored, concreteEntity: concreteEntity)
        }
        return .absent
    }
}
