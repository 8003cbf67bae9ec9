package import BrokerModel
internal import BrokerSQLite

package func quoted(_ name: String) -> String {
    "\"\(name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\""))\""
}

package func quotedList(_ names: [String]) -> String { names.map(quoted).joined(separator: ", ") }

/// Columns, each equal to a parameter of its own: `"a" = ?1 AND "b" = ?2`.
package func equations(_ names: [String], from first: Int = 1, by separator: String = " AND ") -> String {
    names.enumerated().map { "\(quoted($1)) = ?\(first + $0)" }.joined(separator: separator)
}

extension Schema.Table {
    func sql(named other: String? = nil, _ comments: TableComments) -> String {
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

    var indexDefinitions: [(name: String, sql: String)] {
        indexes.map { index in
            let name = indexName(index)
            let sql = "INDEX \(quoted(name)) ON \(quoted(self.name)) (\(quotedList(index.columns)))"
            return (name, index.unique.map { "CREATE UNIQUE \(sql) WHERE \($0.condition)" } ?? "CREATE \(sql)")
        }
    }

    /// A dot distinguishes index names from table names, which share one namespace.
    func indexName(_ index: Schema.Index) -> String {
        ([name] + [index.unique?.entity].compactMap { $0 } + index.columns).joined(separator: ".")
    }

    /// A column as in CREATE TABLE and ALTER TABLE ADD COLUMN.
    func definition(of column: Schema.Column) -> String {
        var definition = "\(quoted(column.name)) \(column.type.declared)"
        if column.isRequired { definition += " NOT NULL" }
        if let key = foreignKeys.first(where: { $0.columns == [column.name] }) { definition += " \(key.reference)" }
        return definition
    }
}

extension Schema.ForeignKey {
    /// Deferred to the end of the job's transaction, so that rows may arrive in any order. Changes of the key cascade.
    var reference: String {
        "REFERENCES \(quoted(table)) (\(quotedList(keys))) "
            + "ON UPDATE CASCADE ON DELETE \(onDelete) DEFERRABLE INITIALLY DEFERRED"
    }
}

/// A text as an SQL literal. It has no control characters, because it is a name of the model.
package func textLiteral(_ text: String) -> String {
    "'\(text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''"))'"
}

struct TableComments {
    var table: String?
    private var columns: [ExactText: String] = [:]

    init() {}

    mutating func add(_ column: String, _ parts: String?...) {
        columns[column] = parts.compactMap { $0 }.joined(separator: "; ")
    }

    var heading: String { table.map { "\(sqlComment($0))\n    " } ?? "" }

    func suffix(of column: Schema.Column) -> String {
        columns[column.name].map { " \(sqlComment($0))" } ?? ""
    }
}

/// A comment in SQL. No text can end it, break its line, or make a statement long.
func sqlComment(_ content: String) -> String {
    // Unicode scalars. A table of 2,000 columns stays a statement of few megabytes.
    let longest = 300
    var scalars = String.UnicodeScalarView()
    var count = 0
    var isAfterSpace = true
    for scalar in content.unicodeScalars {
        // Characters that end a line, end the text for SQLite, or change the order of what follows on a screen.
        let isUnprintable = scalar.properties.generalCategory == .control || scalar.properties.isBidiControl
        let isSpace = scalar.properties.isWhitespace || isUnprintable
        if isSpace, isAfterSpace { continue }
        guard count < longest else {
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
    return "/* \(String(scalars)) */"
}

/// The SQL comments in CREATE TABLE, for readers who have the file alone: SQLite stores the text of the statement.
///
/// They are no part of the comparison with a store: a table gets its comments when it is made, and keeps them when only
/// a description changes.
struct SchemaComments {
    private let model: Model
    private let naming: ColumnNaming
    private let readable: ReadableViews.Names
    /// By the name of the table, the topmost entity.
    private let entities: [ExactText: Int]
    private let linkTables: [ExactText: LinkTable]

    init(_ model: Model) {
        self.model = model
        let naming = ColumnNaming(model)
        self.naming = naming
        readable = ReadableViews.Names(naming)
        entities = Dictionary(firstOf: model.tableEntities.map { (model.entities[$0].table, $0) })
        linkTables = Dictionary(firstOf: naming.layout.linkTables.map { (naming.linkTable($0), $0) })
    }

    func comments(on table: Schema.Table) -> TableComments {
        if let entity = entities[table.name] { return comments(onTableOf: entity) }
        return linkTables[table.name].map { comments(on: $0) } ?? TableComments()
    }

    // MARK: - Entities

    private func comments(onTableOf index: Int) -> TableComments {
        let entity = model.entities[index]
        let members = model.subentities(of: index)
        var comments = TableComments()
        let names = members.map { model.entities[$0].name }.joined(separator: ", ")
        comments.table = described(
            members.count == 1 ? "objects of the entity \(names)" : "objects of the entities \(names)",
            entity.description)
        comments.add(rowKeyName, "row number of the server's")
        comments.add(entityColumnName, "entity of the object")
        for (position, attribute) in entity.attributes.enumerated() {
            let owners = members.filter { model.entities[$0].attributeIndices.contains(position) }
            let own = owners.first.map { model.entities[$0].attributes[position] } ?? attribute
            comments.add(
                attribute.column, form(of: own, readable[index]),
                entity.identity.contains(position) ? "identity" : nil,
                owners.count == members.count
                    ? nil : "only of \(owners.map { model.entities[$0].name }.joined(separator: ", "))",
                own.description)
        }
        for link in naming.layout.entities[index].links {
            add(entity.relationships[link.relationship], to: &comments)
        }
        return comments
    }

    /// The form of the stored values, and how SQL treats them right.
    private func form(of attribute: Attribute, _ view: String?) -> String {
        switch (attribute.type, attribute.dateStorage) {
        case (.decimal, _): return Self.decimal(attribute, view)
        case (.date, .iso8601):
            let fraction = attribute.precision == 0 ? "" : "." + String(repeating: "0", count: attribute.precision)
            return "time in UTC like 2011-12-22T02:24:51\(fraction)Z"
        case (.date, .unix): return "time in seconds since 1970-01-01 UTC"
        case (.date, .coreData): return "time in seconds since 2001-01-01 UTC"
        default: return attribute.type.traits.form ?? attribute.type.rawValue
        }
    }

    private static func decimal(_ attribute: Attribute, _ view: String?) -> String {
        let (column, orView) = (quoted(attribute.column), view.map { ", or use \($0)" } ?? "")
        guard let scale = attribute.decimalScale else {
            return "decimal as text: compare with CAST(\(column) AS REAL)\(orView)"
        }
        return "decimal with \(scale) digits after the point, as a whole number: the value is "
            + "\(column) / \(powerOfTen(scale))\(orView)"
    }

    private func add(_ relationship: Relationship, to comments: inout TableComments) {
        let columns = naming.linkColumns(relationship)
        for (column, key) in zip(columns, naming.keyColumns(relationship.destination)) {
            comments.add(
                column, "\(key.name) of \(model.table(of: relationship.destination))", relationship.description)
        }
        guard let position = model.positionColumn(of: relationship), let inverse = model.inverse(of: relationship)
        else { return }
        comments.add(
            position, "position in \(model.entities[relationship.destination].name).\(inverse.name), with gaps")
    }

    // MARK: - Links

    private func comments(on link: LinkTable) -> TableComments {
        let relationship = model.entities[link.source].relationships[link.relationship]
        let owner = model.entities[relationship.owner ?? link.source].name
        let destination = model.entities[relationship.destination].name
        let inverse = link.isSymmetric ? nil : model.inverse(of: relationship)
        let name = "\(owner).\(relationship.name)"
        let inverseName = inverse.map { "\(destination).\($0.name)" }
        var comments = TableComments()
        comments.table = described(
            "join table of \(name)" + (inverseName.map { " and \($0)" } ?? ", which leads to \(destination)"),
            relationship.description)
        for (columns, entity) in zip(naming.linkSides(link), [link.source, link.destination]) {
            for (column, key) in zip(columns, naming.keyColumns(entity)) {
                comments.add(column, "\(key.name) of \(model.table(of: entity))")
            }
        }
        comments.add(LinkPosition.position.rawValue, "position in \(name), with gaps")
        if let inverseName {
            comments.add(LinkPosition.inversePosition.rawValue, "position in \(inverseName), with gaps")
        }
        return comments
    }

    private func described(_ text: String, _ description: String?) -> String {
        description.map { "\(text): \($0)" } ?? text
    }
}

/// The views `<table>_readable`, one for each entity, for people and tools that read the file with SQL: decimals are
/// numbers, dates are texts, and beside the key of a linked object is its name.
///
/// A view of such a name belongs to Broker only if its text begins as Broker's do. Other tables and views of these names
/// stay as they are, and the entity has no readable view.
struct ReadableViews {
    /// The names, by entity; nil for an entity without such a view, because the model has a table or view of the name.
    struct Names {
        private let names: [String?]
        /// The columns of the views, if they are too many; then there is none.
        let excess: Int?

        init(_ naming: ColumnNaming) {
            let model = naming.model
            let taken = Set(
                (model.entities.map(\.table) + naming.layout.linkTables.map(naming.linkTable)).map(FoldedName.init))
            // The columns of all views; those of a large hierarchy have most of its columns each.
            let columns = model.entities.reduce(0) { $0 + $1.attributeIndices.count + $1.relationshipIndices.count }
            excess = model.hasReadableViews && columns > ReadableViews.mostColumns ? columns : nil
            let hasViews = model.hasReadableViews && excess == nil
            names = model.entities.map { entity in
                let name = entity.table + ReadableViews.suffix
                return !hasViews || taken.contains(FoldedName(name)) ? nil : name
            }
        }

        subscript(_ entity: Int) -> String? { names[entity] }
    }

    static let suffix = "_readable"
    /// SQLite parses all views whenever a connection opens, some 7 µs a column.
    private static let mostColumns = 5_000

    let views: [Schema.View]
    private let isWanted: Bool
    /// Why there are no views, for the operator; nil when there are.
    let note: String?

    init(_ model: Model) {
        let naming = ColumnNaming(model)
        let names = Names(naming)
        note = names.excess.map {
            "The model has \($0) attributes and relationships. There are readable views up to \(Self.mostColumns), because "
                + "each connection reads all views, so there is none for an entity."
        }
        isWanted = model.hasReadableViews
        views = model.entities.indices.compactMap { index in
            names[index].map { Schema.View(name: $0, sql: Self.sql(named: $0, of: index, naming)) }
        }
    }

    // MARK: - In a store

    private static let jobs = Schema.View(
        name: "_broker_jobs_readable",
        sql: """
            \(beginning("_broker_jobs_readable"))
                SELECT "sequence", "id", iif("failed", 'failed', 'completed') AS "state",
                    strftime('%Y-%m-%dT%H:%M:%fZ', "ended" / 1000.0, 'unixepoch') AS "ended", "outcome", "owner"
                FROM "_broker_jobs"
            """)

    /// The beginning of the text of each of these views.
    static func beginning(_ name: String) -> String { "CREATE VIEW \(quoted(name)) AS /* made by Broker */" }

    private struct Present {
        let name: String
        let sql: String
        var isOurs: Bool { sql.utf8.starts(with: ReadableViews.beginning(name).utf8) }
    }

    /// The tables and views of a database whose names end like those of these views.
    private static func present(on connection: Connection) throws(StoreError) -> [Present] {
        try connection.texts(
            "SELECT name, sql FROM sqlite_schema "
                + "WHERE type IN ('table', 'view') AND name LIKE '%\\_readable' ESCAPE '\\'"
        ).map { Present(name: $0[0], sql: $0[1]) }
    }

    /// The names of Broker's views of this kind in a store.
    static func names(on connection: Connection) throws(StoreError) -> [String] {
        try present(on: connection).filter(\.isOurs).map(\.name)
    }

    /// Removes Broker's views of this kind. Runs inside the caller's transaction.
    static func drop(on connection: Connection) throws(StoreError) {
        for name in try names(on: connection) { try connection.execute("DROP VIEW \(quoted(name))") }
    }

    /// Makes the store's views those of the model, in the caller's transaction. Returns the names that other programs' have.
    func update(on connection: Connection) throws(StoreError) -> [String] {
        let present = try Self.present(on: connection)
        let names = present.filter { !$0.isOurs }.map { (FoldedName($0.name), $0.name) }
        let others = Dictionary(names, uniquingKeysWith: { first, _ in first })
        let wanted = views + (isWanted ? [Self.jobs] : [])
        let taken = wanted.compactMap { others[FoldedName($0.name)] }
        // The text of a view has its name.
        let sql = wanted.filter { others[FoldedName($0.name)] == nil }.map { ExactText($0.sql) }
        let (needed, there) = (Set(sql), Set(present.map { ExactText($0.sql) }))
        for found in present where found.isOurs && !needed.contains(ExactText(found.sql)) {
            try connection.execute("DROP VIEW \(quoted(found.name))")
        }
        for view in sql where !there.contains(view) { try connection.execute(view.text) }
        return taken
    }
}

extension Schema {
    /// The statements that create the whole schema of a model, as `broker model schema` prints them.
    package static func sql(of model: Model) -> String {
        let (schema, comments) = (Schema(model), SchemaComments(model))
        let tables = schema.tables.flatMap { [$0.sql(comments.comments(on: $0))] + $0.indexDefinitions.map(\.sql) }
        let views = schema.views.map(\.sql) + ReadableViews(model).views.map(\.sql)
        return (tables + views).map { $0 + ";\n" }.joined()
    }
}

// MARK: - The SQL of a view

extension ReadableViews {
    private static let row = "r"
    private static let mostColumnsOfAView = 2_000

    private static func sql(named view: String, of index: Int, _ naming: ColumnNaming) -> String {
        let model = naming.model
        // The topmost entity's view has the columns of all its subentities, with the names that the table gives them.
        var columns = naming.viewColumns(of: index).map { column, name, attribute in
            let value = "\(row).\(quoted(column))"
            return (value: attribute?.readable(value) ?? value, name: name)
        }
        var names = Set(columns.map { FoldedName($0.name) })
        let isTopmost = model.entities[index].parent == nil
        for relationship in naming.viewLinks(of: index) where columns.count < mostColumnsOfAView {
            guard let title = model.entities[relationship.destination].title else { continue }
            let name = "\(isTopmost ? relationship.column : relationship.name)_\(title.name)"
            // A column of the table comes first.
            guard names.insert(FoldedName(name)).inserted else { continue }
            columns.append((Self.title(title, of: relationship, naming), name))
        }
        let list = columns.map { "\($0.value) AS \(quoted($0.name))" }.joined(separator: ",\n        ")
        return "\(beginning(view))\n    SELECT \(list)\n    FROM \(quoted(model.table(of: index))) AS \(row)"
            + (naming.entityCondition(index, alias: row).map { "\n    WHERE \($0)" } ?? "")
    }

    /// The SQL of the name of a linked object: a subquery, because SQLite joins at most 64 tables.
    private static func title(_ title: Attribute, of relationship: Relationship, _ naming: ColumnNaming) -> String {
        let keys = naming.keyColumns(relationship.destination).map { "d.\(quoted($0.name))" }
        let links = naming.linkColumns(relationship).map { "\(row).\(quoted($0))" }
        let conditions = zip(keys, links).map { "\($0) = \($1)" }.joined(separator: " AND ")
        let table = quoted(naming.model.table(of: relationship.destination))
        return "(SELECT d.\(quoted(title.column)) FROM \(table) AS d WHERE \(conditions))"
    }
}

extension Attribute {
    fileprivate func readable(_ column: String) -> String {
        switch (type, dateStorage) {
        case (.decimal, _): decimalScale.map { "\(column) / \(powerOfTen($0))" } ?? "CAST(\(column) AS REAL)"
        case (.date, .unix): "strftime('%Y-%m-%dT%H:%M:%SZ', \(column), 'unixepoch')"
        case (.date, .coreData): "strftime('%Y-%m-%dT%H:%M:%fZ', \(column) + 978307200.0, 'unixepoch')"
        default: column
        }
    }
}

/// Ten to the power of a scale, as a literal of SQL that makes a division one of doubles.
func powerOfTen(_ scale: Int) -> String { "1\(String(repeating: "0", count: scale)).0" }

extension Entity {
    private static let titles = ["name", "title", "label", "displayName", "fullName"].map(FoldedName.init)

    /// The attribute that names its objects for people.
    fileprivate var title: Attribute? {
        let found = Self.titles.lazy.compactMap { title in
            attributeIndices.first { attributes[$0].type == .string && FoldedName(attributes[$0].name) == title }
        }.first
        // Such an identity is in the link itself.
        guard let found, hasRowKey || identity != [found] else { return nil }
        return attributes[found]
    }
}
