internal import BrokerModel
internal import BrokerStaging

/// The tables of entities and of links as SQLite's hook names them.
final class ChangedTables {
    /// An entity's, or a hierarchy's.
    struct Table {
        let entity: Int
        let keyColumns: [Int32]
        /// Columns that give back a whole number as the real number that it is, but not to the hook.
        let realColumns: Set<Int32>
        /// Where a hierarchy's table says what an object is.
        let kindColumn: Int32?
        /// By the name that stands there.
        let kinds: [String: Int]
        /// By the index of an entity below the topmost that has an identity, the columns of that.
        let identities: [Int: [Int32]]
    }

    struct LinkTable {
        /// An end of its rows: in the table of that entity, the object whose key these columns have.
        struct End {
            let entity: Int
            let columns: [Int32]
        }

        let number: Int
        /// Of the objects that have a relationship for these links: the first one, and the other if there is an inverse.
        let ends: [End]
        let realColumns: Set<Int32>
    }

    enum Heard {
        case entity(Table)
        case links(LinkTable)
    }

    private var tables: [String: Heard] = [:]
    private var ownIdentities: Set<Int> = []
    /// While one listening lasts, by the address of the name, which stays the same: nil for a table of no entity.
    private var known: [UnsafePointer<CChar>: Heard?] = [:]

    init(_ entities: [EntityStatements], _ plan: StagingPlan, on connection: Connection) throws(StoreError) {
        let model = plan.model
        let naming = ColumnNaming(model: model, layout: plan.layout)
        for index in model.tableEntities {
            let statements = entities[index]
            let (positions, realColumns) = try Self.columns(of: statements.entity.table, on: connection)
            let kinds = model.subentities(of: index).map { (model.entities[$0].name, $0) }
            let identities = model.subentities(of: index).reduce(into: [Int: [Int32]]()) { identities, kind in
                let entity = model.entities[kind]
                guard statements.entity.hasRowKey, !entity.isNamedByRowKey else { return }
                identities[kind] = entity.identity.compactMap { positions[entity.attributes[$0].column] }
            }
            tables[statements.entity.table] = .entity(
                Table(
                    entity: index, keyColumns: statements.keyNames.compactMap { positions[$0] },
                    realColumns: realColumns,
                    kindColumn: model.isInHierarchy(index) ? positions[entityColumnName] : nil,
                    kinds: Dictionary(uniqueKeysWithValues: kinds), identities: identities))
            if !identities.isEmpty { ownIdentities.insert(index) }
        }
        for (number, link) in plan.layout.linkTables.enumerated() {
            let name = naming.linkTable(link)
            let (positions, realColumns) = try Self.columns(of: name, on: connection)
            let sides = naming.linkSides(link).map { $0.compactMap { positions[$0] } }
            var ends = [LinkTable.End(entity: link.source, columns: sides[0])]
            let relationship = model.entities[link.source].relationships[link.relationship]
            if relationship.inverse != nil { ends.append(LinkTable.End(entity: link.destination, columns: sides[1])) }
            tables[name] = .links(LinkTable(number: number, ends: ends, realColumns: realColumns))
        }
    }

    private static func columns(
        of table: String, on connection: Connection
    ) throws(StoreError) -> (positions: [String: Int32], realColumns: Set<Int32>) {
        let columns = try connection.prepare("SELECT name, cid, type FROM pragma_table_xinfo(?1)")
        columns.bind(table, at: 1)
        var positions: [String: Int32] = [:]
        var realColumns: Set<Int32> = []
        while try columns.step() {
            let position = Int32(columns.integer(1))
            positions[columns.text(0)] = position
            if Affinity(declaredType: columns.text(2)) == .real { realColumns.insert(position) }
        }
        return (positions, realColumns)
    }

    func hasOwnIdentities(_ entity: Int) -> Bool { ownIdentities.contains(entity) }

    func beginListening() { known = [:] }

    func table(_ name: UnsafePointer<CChar>) -> Heard? {
        if let heard = known[name] { return heard }
        let heard = tables[String(cString: name)]
        known[name] = .some(heard)
        return heard
    }
}
