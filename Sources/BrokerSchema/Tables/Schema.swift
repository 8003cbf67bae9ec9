package import BrokerModel

/// The tables that a model requires, as data and as SQL.
package struct Schema: Sendable {
    package struct Column: Sendable, Equatable {
        package let name: String
        let type: ColumnType
        let isRequired: Bool
    }

    package struct ForeignKey: Sendable, Equatable {
        let columns: [String]
        let table: String
        let keys: [String]
        let onDelete: String
    }

    package struct Table: Sendable, Equatable {
        let name: String
        let columns: [Column]
        let primaryKey: [String]
        let unique: [[String]]
        let foreignKeys: [ForeignKey]
        let indexes: [[String]]
        /// Columns that rows of some entities of a hierarchy require.
        var checks: [Check] = []
        /// Columns that are unique among the rows of some entities of a hierarchy.
        var partialUnique: [PartialList] = []
    }

    /// A column that rows of some entities of a hierarchy must have.
    package struct Check: Sendable, Hashable {
        let column: String
        /// The names of these entities, in the order of their bytes, so that the order in the model does not change the
        /// table.
        let entities: [String]

        init(column: String, entities: [String]) {
            self.column = column
            self.entities = entities.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        }

        var condition: String {
            "\(quoted(column)) IS NOT NULL OR \(quoted(entityColumnName)) NOT IN "
                + "(\(entities.map(textLiteral).joined(separator: ", ")))"
        }
    }

    /// Columns that are unique among the rows for which a condition holds.
    package struct PartialList: Sendable, Equatable {
        let entity: String
        let columns: [String]
        let condition: String
    }

    /// Entities in the model's order, then link tables.
    package let tables: [Table]
    /// The views of subentities, in the model's order.
    package let views: [View]

    package init(_ model: Model) {
        let layout = RowLayout(model)
        let naming = ColumnNaming(model: model, layout: layout)
        tables =
            model.tableEntities.map { Self.entityTable($0, model, layout, naming) }
            + layout.linkTables.map { Self.linkTable($0, model, naming) }
        views = model.entities.indices.filter { model.entities[$0].parent != nil }.map { View(of: $0, naming) }
    }

    private static func entityTable(
        _ index: Int, _ model: Model, _ layout: RowLayout, _ naming: ColumnNaming
    ) -> Table {
        let entity = model.entities[index]
        var columns = entity.hasRowKey ? [Column(name: rowKeyName, type: .integer, isRequired: false)] : []
        columns += entity.attributes.enumerated().map { position, attribute in
            Column(
                name: attribute.column, type: ColumnType(attribute),
                isRequired: entity.identity.contains(position)
                    ? !entity.isIdentityOptional
                    : !attribute.isOptional && entity.attributeIndices.contains(position))
        }
        var foreignKeys: [ForeignKey] = []
        var indexes: [[String]] = []
        for link in layout.entities[index].links {
            let relationship = entity.relationships[link.relationship]
            let names = naming.linkColumns(relationship)
            let keys = naming.keyColumns(link.destination)
            columns += zip(names, keys).map { Column(name: $0, type: $1.type, isRequired: false) }
            foreignKeys.append(
                ForeignKey(
                    columns: names, table: model.table(of: link.destination), keys: keys.map(\.name),
                    onDelete: model.inverse(of: relationship)?.deleteRule.foreignKeyAction ?? "SET NULL"))
            let position = model.positionColumn(of: relationship)
            if let position { columns.append(Column(name: position, type: .integer, isRequired: false)) }
            indexes.append(names + [position].compactMap { $0 })
        }
        let isHierarchy = model.isInHierarchy(index)
        if isHierarchy { columns.append(Column(name: entityColumnName, type: .text, isRequired: true)) }
        let names = { (positions: [Int]) in positions.map { entity.attributes[$0].column } }
        return Table(
            name: entity.table, columns: columns,
            primaryKey: entity.hasRowKey ? [rowKeyName] : names(entity.identity),
            unique: (entity.hasRowKey && !entity.identity.isEmpty ? [names(entity.identity)] : [])
                + entity.unique.map(names),
            foreignKeys: foreignKeys, indexes: indexes + entity.indexes.map(names),
            checks: isHierarchy ? checks(index, naming) : [],
            partialUnique: isHierarchy ? ownIdentities(index, naming) : [])
    }

    private static func linkTable(_ link: LinkTable, _ model: Model, _ naming: ColumnNaming) -> Table {
        let ends = naming.linkSides(link)
        let sides = zip(ends, [link.source, link.destination])
        let positions = LinkPosition.allCases.filter { $0.isUsed(by: link) }
        let reversed = positions.filter { $0 == .inversePosition }.map(\.rawValue)
        return Table(
            name: naming.linkTable(link),
            columns: sides.flatMap { names, entity in
                zip(names, naming.keyColumns(entity)).map { Column(name: $0, type: $1.type, isRequired: true) }
            }
                + positions.map { Column(name: $0.rawValue, type: .integer, isRequired: false) },
            primaryKey: ends.flatMap { $0 }, unique: [],
            foreignKeys: sides.map { names, entity in
                ForeignKey(
                    columns: names, table: model.table(of: entity), keys: naming.keyColumns(entity).map(\.name),
                    onDelete: "CASCADE")
            },
            indexes: [ends[1] + reversed]
                + positions.filter { $0 == .position }.map { ends[0] + [$0.rawValue] })
    }
}

/// The columns of a link table with positions.
package enum LinkPosition: String, CaseIterable {
    /// The position of a destination among those of its source.
    case position
    /// The position of a source among those of its destination.
    case inversePosition = "inverse_position"

    package func isUsed(by link: LinkTable) -> Bool {
        switch self {
        case .position: link.isOrdered
        case .inversePosition: link.isInverseOrdered
        }
    }
}

/// The row key, which the store assigns to objects without an identity of their own in every case.
package let rowKeyName = "_pk"

/// The names of columns for keys and links.
package struct ColumnNaming {
    package let model: Model
    package let layout: RowLayout

    package init(model: Model, layout: RowLayout) {
        self.model = model
        self.layout = layout
    }

    /// The columns to which links to that entity refer: its identity's, or the row key.
    package func keyColumns(_ entity: Int) -> [Schema.Column] {
        let entity = model.entities[entity]
        if entity.hasRowKey { return [Schema.Column(name: rowKeyName, type: .integer, isRequired: true)] }
        return entity.identity.map {
            let attribute = entity.attributes[$0]
            return Schema.Column(name: attribute.column, type: ColumnType(attribute), isRequired: true)
        }
    }

    /// The columns by which clients name objects of that entity: its identity's, or the row key.
    package func nameColumns(_ entity: Int) -> [String] {
        let model = model.entities[entity]
        return model.isNamedByRowKey ? [rowKeyName] : model.identity.map { model.attributes[$0].column }
    }

    /// The SQL name of the row number of that entity's table: the row key, or one of SQLite's own names that no column
    /// has (https://sqlite.org/lang_createtable.html#rowid). The model leaves one free.
    package func rowNumber(_ entity: Int) -> String {
        if model.entities[entity].hasRowKey { return rowKeyName }
        let links = layout.entities[entity].links.map { model.entities[entity].relationships[$0.relationship] }
        let taken = model.entities[entity].attributes.map(\.column) + links.flatMap(linkColumns)
        return rowNumberNames.first { name in !taken.contains { $0.lowercased() == name } } ?? rowNumberNames[0]
    }

    package func linkColumns(_ relationship: Relationship) -> [String] {
        let keys = keyColumns(relationship.destination)
        return keys.count == 1 ? [relationship.column] : keys.map { "\(relationship.column)_\($0.name)" }
    }

    /// The columns of a link table's two sides, its source first.
    package func linkSides(_ link: LinkTable) -> [[String]] {
        [("source", link.source), ("destination", link.destination)].map { side, entity in
            let keys = keyColumns(entity)
            return keys.count == 1 ? [side] : keys.map { "\(side)_\($0.name)" }
        }
    }

    package func linkTable(_ link: LinkTable) -> String {
        let relationship = model.entities[link.source].relationships[link.relationship]
        return "\(model.entities[relationship.owner ?? link.source].name)_\(relationship.name)"
    }
}

extension DeleteRule {
    /// The action on rows that refer to the deleted one. Both refusing actions wait for the end of the job.
    fileprivate var foreignKeyAction: String {
        switch self {
        case .nullify: "SET NULL"
        case .cascade: "CASCADE"
        case .deny, .noAction: "NO ACTION"
        }
    }
}
