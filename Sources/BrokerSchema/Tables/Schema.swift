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

/// A name as a quoted SQL identifier.
package func quoted(_ name: String) -> String {
    "\"\(name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\""))\""
}

package func quotedList(_ names: [String]) -> String { names.map(quoted).joined(separator: ", ") }

/// Columns, each equal to a parameter of its own: `"a" = ?1 AND "b" = ?2`.
package func equations(_ names: [String], from first: Int = 1, by separator: String = " AND ") -> String {
    names.enumerated().map { "\(quoted($1)) = ?\(first + $0)" }.joined(separator: separator)
}

extension Schema.Table {
    /// - Parameters:
    ///   - other: a name that the table has instead of its own.
    ///   - comments: of the table and of its columns.
    package func sql(named other: String? = nil, _ comments: TableComments) -> String {
        // Only a column's own PRIMARY KEY becomes SQLite's row number, the fastest key there is.
        let isRowNumber = primaryKey.count == 1 && columns.contains { $0.name == primaryKey[0] && $0.type == .integer }
        var lines = columns.map { column in
            // Only the exact type INTEGER makes one (sqlite.org/lang_createtable.html#rowid).
            let definition =
                isRowNumber && column.name == primaryKey[0]
                ? "\(quoted(column.name)) INTEGER PRIMARY KEY" : definition(of: column)
            return definition + comments.suffix(of: column)
        }
        if !isRowNumber { lines.append("PRIMARY KEY (\(quotedList(primaryKey)))") }
        lines += checks.map { "CHECK (\($0.condition))" }
        lines += unique.map { "UNIQUE (\(quotedList($0)))" }
        lines += foreignKeys.filter { $0.columns.count > 1 }.map {
            "FOREIGN KEY (\(quotedList($0.columns))) \($0.reference)"
        }
        return
            "CREATE TABLE \(quoted(other ?? name)) (\n    \(comments.heading)\(lines.joined(separator: ",\n    "))\n)"
    }

    /// One index for every list of columns that is unique among some rows, then one for every list that is not the
    /// beginning of the primary key.
    package var indexDefinitions: [(name: String, sql: String)] {
        partialUnique.map { list in
            let index = partialIndexName(list)
            let columns = "\(quoted(name)) (\(quotedList(list.columns)))"
            return (index, "CREATE UNIQUE INDEX \(quoted(index)) ON \(columns) WHERE \(list.condition)")
        }
            + indexes.map { columns in
                let index = indexName(columns)
                return (index, "CREATE INDEX \(quoted(index)) ON \(quoted(name)) (\(quotedList(columns)))")
            }
    }

    /// A dot distinguishes index names from table names, which share one namespace.
    package func indexName(_ columns: [String]) -> String { "\(name).\(columns.joined(separator: "."))" }

    package func partialIndexName(_ list: Schema.PartialList) -> String {
        "\(name).\(list.entity).\(list.columns.joined(separator: "."))"
    }

    /// A column as in CREATE TABLE and ALTER TABLE ADD COLUMN.
    package func definition(of column: Schema.Column) -> String {
        var definition = "\(quoted(column.name)) \(column.type.declared)"
        if column.isRequired { definition += " NOT NULL" }
        if let key = foreignKeys.first(where: { $0.columns == [column.name] }) { definition += " \(key.reference)" }
        return definition
    }
}

extension Schema.ForeignKey {
    /// Deferred to the end of the job's transaction, so that rows may arrive in any order. Changes of the key cascade.
    package var reference: String {
        "REFERENCES \(quoted(table)) (\(quotedList(keys))) "
            + "ON UPDATE CASCADE ON DELETE \(onDelete) DEFERRABLE INITIALLY DEFERRED"
    }
}

/// The checks and views of a hierarchy's table: checks for columns that only some of its entities require, and a view
/// for each entity but the topmost.
extension Schema {
    package struct View: Sendable, Equatable {
        let name: String
        let table: String
        /// A column of the table, with its name in the view.
        let columns: [Renamed]
        let condition: String

        struct Renamed: Sendable, Equatable {
            let column: String
            let name: String
        }

        /// The view has the entity's own and inherited columns, over its objects and those of its subentities.
        init(of index: Int, _ naming: ColumnNaming) {
            let model = naming.model
            let entity = model.entities[index]
            var columns = entity.hasRowKey ? [Renamed(column: rowKeyName, name: rowKeyName)] : []
            columns += entity.attributeIndices.map {
                Renamed(column: entity.attributes[$0].column, name: entity.attributes[$0].name)
            }
            for position in entity.relationshipIndices {
                let relationship = entity.relationships[position]
                guard !relationship.isToMany else { continue }
                var own = relationship
                own.column = relationship.name
                columns += zip(naming.linkColumns(relationship), naming.linkColumns(own)).map {
                    Renamed(column: $0, name: $1)
                }
                let places = [relationship, own].compactMap(model.positionColumn)
                if places.count == 2 { columns.append(Renamed(column: places[0], name: places[1])) }
            }
            columns.append(Renamed(column: entityColumnName, name: entityColumnName))
            name = entity.table
            table = model.table(of: index)
            self.columns = columns
            condition = naming.entityCondition(index)!
        }

        var sql: String {
            let list = columns.map {
                $0.column == $0.name ? quoted($0.name) : "\(quoted($0.column)) AS \(quoted($0.name))"
            }
            return "CREATE VIEW \(quoted(name)) AS\n    SELECT \(list.joined(separator: ", "))\n"
                + "    FROM \(quoted(table)) WHERE \(condition)"
        }
    }

    /// The columns that entities below the topmost one require.
    package static func checks(_ topmost: Int, _ naming: ColumnNaming) -> [Check] {
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
    package static func ownIdentities(_ topmost: Int, _ naming: ColumnNaming) -> [PartialList] {
        let model = naming.model
        return model.subentities(of: topmost).compactMap { member in
            let entity = model.entities[member]
            let isHead = entity.parent.map { model.entities[$0].identity.isEmpty } ?? false
            guard isHead, !entity.identity.isEmpty, let condition = naming.entityCondition(member) else { return nil }
            return PartialList(
                entity: entity.name, columns: entity.identity.map { entity.attributes[$0].column }, condition: condition
            )
        }
    }
}

extension ColumnNaming {
    /// The condition that a row of the entity's table is an object of the entity or of a subentity; nil when all are.
    ///
    /// - Parameter alias: of the table in the statement.
    package func entityCondition(_ entity: Int, alias: String? = nil) -> String? {
        guard model.entities[entity].parent != nil else { return nil }
        let column = (alias.map { "\($0)." } ?? "") + quoted(entityColumnName)
        return "\(column) IN (\(names(model.subentities(of: entity))))"
    }

    /// The names of entities as SQL literals.
    package func names(_ entities: [Int]) -> String {
        entities.map { textLiteral(model.entities[$0].name) }.joined(separator: ", ")
    }
}

/// A text as an SQL literal. It has no control characters, because it is a name of the model.
package func textLiteral(_ text: String) -> String {
    "'\(text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''"))'"
}

/// The comments of one table and of its columns.
package struct TableComments {
    package var table: String?
    /// By the bytes of the column's name.
    private var columns: [[UInt8]: String] = [:]

    package init() {}

    package mutating func add(_ column: String, _ parts: String?...) {
        columns[Array(column.utf8)] = parts.compactMap { $0 }.joined(separator: "; ")
    }

    /// The comment that begins the list of columns.
    package var heading: String { table.map { "\(SQLComment($0).text)\n    " } ?? "" }

    /// The comment after a column's definition.
    package func suffix(of column: Schema.Column) -> String {
        columns[Array(column.name.utf8)].map { " \(SQLComment($0).text)" } ?? ""
    }
}

/// A comment in SQL. No text can end it, break its line, or make a statement long.
struct SQLComment {
    /// Unicode scalars of a comment. A table of 2,000 columns stays a statement of few megabytes.
    static let longest = 300

    let text: String

    init(_ content: String) {
        var scalars = String.UnicodeScalarView()
        var count = 0
        var isAfterSpace = true
        for scalar in content.unicodeScalars {
            let isSpace = scalar.properties.isWhitespace || Self.isUnprintable(scalar)
            if isSpace, isAfterSpace { continue }
            guard count < Self.longest else {
                scalars.append("…")
                break
            }
            // Neither the end of a comment nor the beginning of another one, which some tools nest.
            let isEnd = scalars.last == "*" && scalar == "/" || scalars.last == "/" && scalar == "*"
            if isEnd { scalars.append(" ") }
            scalars.append(isSpace ? " " : scalar)
            count += 1
            isAfterSpace = isSpace
        }
        text = "/* \(String(scalars)) */"
    }

    /// Characters that end a line, end the text for SQLite, or change the order of what follows on a screen.
    private static func isUnprintable(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.generalCategory == .control || scalar.properties.isBidiControl
    }
}
