internal import BrokerModel
internal import BrokerStaging

/// The keys by which staged rows were named.
struct NamedKeys {
    private let table: FrozenTable
    private let entity: Entity
    private let rowKeys: [Int: Int64]
    /// By entity index.
    private let statements: [EntityStatements]

    init(_ table: FrozenTable, _ statements: [EntityStatements]) {
        self.table = table
        self.statements = statements
        entity = statements[table.entityIndex].entity
        rowKeys = Dictionary(table.givenKeys.map { ($1, $0) }, uniquingKeysWith: { first, _ in first })
    }

    func bind(_ row: Int, to statement: Statement) throws(StoreError) {
        if entity.hasRowKey {
            // No row has the number 0.
            var key = rowKeys[row]
            if key == nil { key = try foundRowKey(row) }
            statement.bind(key ?? 0, at: 1)
        } else {
            for (position, column) in entity.identity.enumerated() {
                statement.bind(table.row(row)[column], at: position + 1)
            }
        }
    }

    /// The row key of an object that was named by its identity.
    private func foundRowKey(_ row: Int) throws(StoreError) -> Int64? {
        guard table.hasIdentity(row) else { return nil }
        let statements = statements[table.concreteEntity(of: row)]
        let find = try statements.findRowKey()
        statements.bindIdentity(table.row(row), to: find, from: 1)
        defer { find.reset() }
        return try find.step() ? find.integer(0) : nil
    }
}
