package import BrokerSQLite
package import BrokerModel

/// Finds rows of entities that cannot have rows in a changed model.
package struct ConcreteEntityRows {
    private let connection: Connection

    package init(of connection: Connection) { self.connection = connection }

    /// Entities of the stored model with rows in a table that stays, which are missing or abstract in the wanted model.
    package func populated(_ stored: Model, _ wanted: Model, _ match: ModelMatch) throws(StoreError) -> Set<Int> {
        var populated: Set<Int> = []
        let staying = Set(match.tables.compactMap { $0 })
        for (index, entity) in stored.entities.enumerated()
        where !entity.isAbstract && staying.contains(stored.topmost(of: index)) {
            let mayHaveRows = match.entity(for: index).map { !wanted.entities[$0].isAbstract } ?? false
            guard !mayHaveRows else { continue }
            let concreteEntity = stored.isInHierarchy(index) ? entity.name : nil
            if try hasRows(stored.table(of: index), concreteEntity) { populated.insert(index) }
        }
        return populated
    }

    private func hasRows(_ table: String, _ concreteEntity: String?) throws(StoreError) -> Bool {
        let columns = try connection.prepare("SELECT name FROM pragma_table_info(?1)", table)
        var names: [String] = []
        while try columns.step() { names.append(columns.text(0)) }
        guard !names.isEmpty, concreteEntity == nil || names.contains(entityColumnName) else { return false }
        let condition = concreteEntity.map { " WHERE \(quoted(entityColumnName)) = \(textLiteral($0))" } ?? ""
        let statement = try connection.prepare("SELECT 1 FROM \(quoted(table))\(condition) LIMIT 1")
        defer { statement.reset() }
        return try statement.step()
    }
}
