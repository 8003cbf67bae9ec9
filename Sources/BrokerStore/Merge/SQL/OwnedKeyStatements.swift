internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// The SQL by which owned objects follow the new identity of their owner, which begins their own.
///
/// The foreign keys follow by themselves (`ON UPDATE CASCADE`), from the owner to its objects and from these to theirs.
final class OwnedKeyStatements {
    private let plan: StagingPlan
    private let naming: ColumnNaming
    private let connection: Connection
    /// By the entity of the owner's table.
    private var statements: [Int: [Statement]] = [:]

    init(_ plan: StagingPlan, on connection: Connection) {
        self.plan = plan
        self.connection = connection
        naming = ColumnNaming(model: plan.model, layout: plan.layout)
    }

    /// Parameters: the owner's new key. To be run in their order.
    func updates(_ owner: Int) throws(StoreError) -> [Statement] {
        if let known = statements[owner] { return known }
        var updates: [Statement] = []
        for sql in sql(owner, plan.model.entities[owner].identity.count) { updates.append(try connection.prepare(sql)) }
        statements[owner] = updates
        return updates
    }

    /// - Parameter count: the number of values of the new key.
    private func sql(_ owner: Int, _ count: Int) -> [String] {
        let model = plan.model
        var updates: [String] = []
        for (entity, holder) in model.holders.owners.sorted(by: { $0.key < $1.key })
        where model.topmost(of: holder.entity) == owner {
            let inverse = model.inverse(of: model.entities[holder.entity].relationships[holder.relationship])!
            let links = naming.linkColumns(inverse)
            let own = model.entities[entity].identity.prefix(links.count).map {
                model.entities[entity].attributes[$0].column
            }
            let assignments = zip(own, links).map { "\(quoted($0)) = \(quoted($1))" }.joined(separator: ", ")
            updates.append(
                "UPDATE \(quoted(model.table(of: entity))) SET \(assignments) "
                    + "WHERE \(equations(Array(links.prefix(count))))")
            updates += sql(entity, count)
        }
        return updates
    }
}
