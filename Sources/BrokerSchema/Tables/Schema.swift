package import BrokerModel

/// The tables that a model requires, as data and as SQL.
package struct Schema: Sendable {
    package struct Column: Sendable, Equatable {
        package let name: String
        let type: ColumnType
        let isRequired: Bool
    }

    package struct ForeignKey: Sendable, Equatable {
        package let columns: [String]
        package let table: String
        package let keys: [String]
        package let onDelete: String
    }

    package struct Table: Sendable, Equatable {
        let name: String
        let columns: [Column]
        let primaryKey: [String]
        let unique: [[String]]
        let foreignKeys: [ForeignKey]
        let indexes: [Index]
        /// Columns that rows of some entities of a hierarchy require.
        let checks: [Check]
    }

    /// One that is not the beginning of the primary key.
    package struct Index: Sendable, Equatable {
        let columns: [String]
        /// The entity of a hierarchy among whose objects the columns are unique, and the condition for these.
        var unique: Unique?

        struct Unique: Equatable {
            let entity: String
            let condition: String
        }
    }

    /// A column that rows of some entities of a hierarchy must have.
    package struct Check: Sendable, Hashable {
        let column: String
        /// The names of these entities, sorted by bytes, so that the order in the model does not change the table.
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

    package struct View: Sendable, Equatable {
        let name: String
        let sql: String
    }

    /// Entities in the model's order, then link tables.
    package let tables: [Table]
    package let views: [View]

    package init(_ model: Model) {
        let naming = ColumnNaming(model)
        tables =
            model.tableEntities.map { Self.entityTable($0, naming) }
            + naming.layout.linkTables.map { Self.linkTable($0, naming) }
        views = model.entities.indices.filter { model.entities[$0].parent != nil }.map { Self.view(of: $0, naming) }
    }

    private static func entityTable(_ index: Int, _ naming: ColumnNaming) -> Table {
        let model = naming.model
        let entity = model.entities[index]
        var columns = entity.hasRowKey ? [Column(name: rowKeyName, type: .integer, isRequired: false)] : []
        columns += entity.attributes.enumerated().map { position, attribute in
            Column(
                name: attribute.column, type: attribute.columnType,
                isRequired: entity.identity.contains(position)
                    ? !entity.isIdentityOptional
                    : !attribute.isOptional && entity.attributeIndices.contains(position))
        }
        var foreignKeys: [ForeignKey] = []
        var indexes: [[String]] = []
        for link in naming.layout.entities[index].links {
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
            foreignKeys: foreignKeys,
            indexes: ownIdentities(index, naming) + (indexes + entity.indexes.map(names)).map { Index(columns: $0) },
            checks: isHierarchy ? checks(index, naming) : [])
    }

    private static func linkTable(_ link: LinkTable, _ naming: ColumnNaming) -> Table {
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
                    columns: names, table: naming.model.table(of: entity), keys: naming.keyColumns(entity).map(\.name),
                    onDelete: "CASCADE")
            },
            indexes: ([ends[1] + reversed] + positions.filter { $0 == .position }.map { ends[0] + [$0.rawValue] })
                .map { Index(columns: $0) },
            checks: [])
    }

    private static func view(of index: Int, _ naming: ColumnNaming) -> View {
        let name = naming.model.entities[index].table
        let list = naming.viewColumns(of: index).map {
            $0.column == $0.name ? quoted($0.name) : "\(quoted($0.column)) AS \(quoted($0.name))"
        }
        return View(
            name: name,
            sql: "CREATE VIEW \(quoted(name)) AS\n    SELECT \(list.joined(separator: ", "))\n"
                + "    FROM \(quoted(naming.model.table(of: index))) WHERE \(naming.entityCondition(index)!)")
    }

    /// The columns that entities below the topmost one require.
    private static func checks(_ topmost: Int, _ naming: ColumnNaming) -> [Check] {
        let model = naming.model
        let top = model.entities[topmost]
        var requiring: [Int: [Int]] = [:]
        for member in model.subentities(of: topmost) {
            let entity = model.entities[member]
            for position in entity.attributeIndices where !top.attributeIndices.contains(position) {
                let isRequired =
                    entity.identity.contains(position)
                    ? !entity.isIdentityOptional : !entity.attributes[position].isOptional
                if isRequired { requiring[position, default: []].append(member) }
            }
        }
        return requiring.sorted { $0.key < $1.key }.map { position, members in
            Check(column: top.attributes[position].column, entities: members.map { model.entities[$0].name })
        }
    }

    /// Identities that entities below the topmost one declare themselves.
    private static func ownIdentities(_ topmost: Int, _ naming: ColumnNaming) -> [Index] {
        let model = naming.model
        return model.subentities(of: topmost).compactMap { member in
            let entity = model.entities[member]
            let isHead = entity.parent.map { model.entities[$0].identity.isEmpty } ?? false
            guard isHead, !entity.identity.isEmpty, let condition = naming.entityCondition(member) else { return nil }
            return Index(
                columns: entity.identity.map { entity.attributes[$0].column },
                unique: Index.Unique(entity: entity.name, condition: condition))
        }
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

    init(_ model: Model) { self.init(model: model, layout: RowLayout(model)) }

    /// The columns to which links to that entity refer: its identity's, or the row key.
    package func keyColumns(_ entity: Int) -> [Schema.Column] {
        let entity = model.entities[entity]
        if entity.hasRowKey { return [Schema.Column(name: rowKeyName, type: .integer, isRequired: true)] }
        return entity.identity.map {
            let attribute = entity.attributes[$0]
            return Schema.Column(name: attribute.column, type: attribute.columnType, isRequired: true)
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

extension ColumnNaming {
    /// The condition that a row of the entity's table is an object of the entity or of a subentity; nil when all are.
    package func entityCondition(_ entity: Int, alias: String? = nil) -> String? {
        guard model.entities[entity].parent != nil else { return nil }
        let column = (alias.map { "\($0)." } ?? "") + quoted(entityColumnName)
        return "\(column) IN (\(names(model.subentities(of: entity))))"
    }

    package func names(_ entities: [Int]) -> String {
        entities.map { textLiteral(model.entities[$0].name) }.joined(separator: ", ")
    }

    /// The columns of an entity's rows, with their names in its views: for the topmost entity all those of the table, for
    /// a subentity its own and inherited ones, under the names of its attributes and relationships.
    func viewColumns(of index: Int) -> [(column: String, name: String, attribute: Attribute?)] {
        let entity = model.entities[index]
        let isTopmost = entity.parent == nil
        var columns: [(column: String, name: String, attribute: Attribute?)] = []
        if entity.hasRowKey { columns.append((rowKeyName, rowKeyName, nil)) }
        for position in isTopmost ? Array(entity.attributes.indices) : entity.attributeIndices {
            let attribute = entity.attributes[position]
            columns.append((attribute.column, isTopmost ? attribute.column : attribute.name, attribute))
        }
        for relationship in viewLinks(of: index) {
            var own = relationship
            if !isTopmost { own.column = relationship.name }
            columns += zip(linkColumns(relationship), linkColumns(own)).map { ($0, $1, nil) }
            if let place = model.positionColumn(of: relationship), let name = model.positionColumn(of: own) {
                columns.append((place, name, nil))
            }
        }
        if model.isInHierarchy(index) { columns.append((entityColumnName, entityColumnName, nil)) }
        return columns
    }

    func viewLinks(of index: Int) -> [Relationship] {
        let entity = model.entities[index]
        let places = entity.parent == nil ? Array(entity.relationships.indices) : entity.relationshipIndices
        return places.map { entity.relationships[$0] }.filter { !$0.isToMany }
    }
}

/// The SQL that joins the rows at the two ends of a relationship.
extension ColumnNaming {
    /// The join of a relationship's link table as `links`; empty where the row of one of the objects has the link.
    package func linkJoin(_ entity: Int, _ relationship: Int, as links: String) -> String {
        guard case .linkTable(let number, _) = layout.entities[entity].forms[relationship] else { return "" }
        return "CROSS JOIN \(quoted(linkTable(layout.linkTables[number]))) AS \(links) "
    }

    /// The condition that the relationship leads from the row `near` of an entity to the row `far` of its destination.
    package func isLinked(
        _ entity: Int, _ relationship: Int, from near: String, to far: String, over links: String
    ) -> String {
        let own = model.entities[entity].relationships[relationship]
        let (nearKey, farKey) = (keyColumns(entity).map(\.name), keyColumns(own.destination).map(\.name))
        func equal(_ left: String, _ leftNames: [String], _ right: String, _ rightNames: [String]) -> String {
            zip(leftNames, rightNames).map { "\(left).\(quoted($0)) = \(right).\(quoted($1))" }
                .joined(separator: " AND ")
        }
        switch layout.entities[entity].forms[relationship] {
        case .column: return equal(far, farKey, near, linkColumns(own))
        case .destinationColumn(let column):
            let link = layout.entities[own.destination].link(atColumn: column)
            let inverse = model.entities[own.destination].relationships[link.relationship]
            return equal(far, linkColumns(inverse), near, nearKey)
        case .linkTable(let number, let isReversed):
            let sides = linkSides(layout.linkTables[number])
            return equal(links, sides[isReversed ? 1 : 0], near, nearKey) + " AND "
                + equal(far, farKey, links, sides[isReversed ? 0 : 1])
        }
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
