internal import BrokerSchema
internal import BrokerModel
internal import BrokerStaging

/// The tables of entities and of links, by the names that SQLite's hook reports.
final class ChangedTables {
    /// The table of an entity or of a hierarchy.
    struct Table {
        let entity: Int
        let keyColumns: [Int32]
        /// Columns of real numbers: SQL returns a whole number in them as a real number, the hook as an integer.
        let realColumns: Set<Int32>
        /// The column of a hierarchy's table with the name of the concrete entity.
        let entityColumn: Int32?
        /// By the name in that column.
        let concreteEntities: [String: Int]
        /// By the index of an entity below the topmost that has an identity, the columns of that identity.
        let identities: [Int: [Int32]]
    }

    struct LinkTable {
        /// One end of the table's rows: the object of the table of that entity whose key is in these columns.
        struct End {
            let entity: Int
            let columns: [Int32]
        }

        let number: Int
        /// The ends at objects that have a relationship for these links: the first end, and the second if there is an
        /// inverse.
        let ends: [End]
        let realColumns: Set<Int32>
    }

    enum RecordedTable {
        case entity(Table)
        case links(LinkTable)
        /// The deletion set of the connection (``DeletionStatements``).
        case deletionSet
    }

    private var tables: [String: RecordedTable] = [:]
    private var ownIdentities: Set<Int> = []
    /// By entity index.
    private(set) var longColumns: [LongColumns]
    /// During one recording, by the address of the name, which does not change meanwhile. Nil for a table without
    /// entity.
    private var known: [UnsafePointer<CChar>: RecordedTable?] = [:]

    init(_ entities: [EntityStatements], _ plan: StagingPlan, on connection: Connection) throws(StoreError) {
        let model = plan.model
        let naming = ColumnNaming(model: model, layout: plan.layout)
        longColumns = Array(repeating: LongColumns(), count: model.entities.count)
        for index in model.tableEntities {
            let statements = entities[index]
            let columns = try TableColumns(of: statements.entity.table, on: connection)
            for member in model.subentities(of: index) { longColumns[member] = columns.long }
            let concreteEntities = model.subentities(of: index).map { (model.entities[$0].name, $0) }
            let identities = model.subentities(of: index).reduce(into: [Int: [Int32]]()) { identities, member in
                let entity = model.entities[member]
                guard statements.hasRowKey, !entity.isNamedByRowKey else { return }
                identities[member] = entity.identity.compactMap { columns.positions[entity.attributes[$0].column] }
            }
            tables[statements.entity.table] = .entity(
                Table(
                    entity: index, keyColumns: statements.keyNames.compactMap { columns.positions[$0] },
                    realColumns: columns.realColumns,
                    entityColumn: model.isInHierarchy(index) ? columns.positions[entityColumnName] : nil,
                    concreteEntities: Dictionary(uniqueKeysWithValues: concreteEntities), identities: identities))
            if !identities.isEmpty { ownIdentities.insert(index) }
        }
        tables[DeletionStatements.deletionSetName] = .deletionSet
        for (number, link) in plan.layout.linkTables.enumerated() {
            let name = naming.linkTable(link)
            let columns = try TableColumns(of: name, on: connection)
            let sides = naming.linkSides(link).map { $0.compactMap { columns.positions[$0] } }
            var ends = [LinkTable.End(entity: link.source, columns: sides[0])]
            let relationship = model.entities[link.source].relationships[link.relationship]
            if relationship.inverse != nil { ends.append(LinkTable.End(entity: link.destination, columns: sides[1])) }
            tables[name] = .links(LinkTable(number: number, ends: ends, realColumns: columns.realColumns))
        }
    }

    func hasOwnIdentities(_ entity: Int) -> Bool { ownIdentities.contains(entity) }

    func beginListening() { known = [:] }

    func table(_ name: UnsafePointer<CChar>) -> RecordedTable? {
        if let found = known[name] { return found }
        let found = tables[String(cString: name)]
        known[name] = .some(found)
        return found
    }
}
