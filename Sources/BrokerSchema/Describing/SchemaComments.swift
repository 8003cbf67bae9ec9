package import BrokerModel

/// The SQL comments in CREATE TABLE, for readers who have the file alone: SQLite stores the text of the statement.
///
/// They are no part of the comparison with a store: a table gets its comments when it is made, and keeps them when only
/// a description changes.
package struct SchemaComments: Sendable {
    private let model: Model
    private let naming: ColumnNaming
    private let readable: ReadableViews.Names
    /// By the bytes of the table's name: the topmost entity.
    private let entities: [[UInt8]: Int]
    /// By the bytes of the table's name: the index of the table of links.
    private let linkTables: [[UInt8]: Int]

    package init(_ model: Model) {
        self.model = model
        let naming = ColumnNaming(model: model, layout: RowLayout(model))
        self.naming = naming
        readable = ReadableViews.Names(naming)
        entities = Dictionary(
            model.tableEntities.map { (Array(model.entities[$0].table.utf8), $0) },
            uniquingKeysWith: { first, _ in first })
        linkTables = Dictionary(
            naming.layout.linkTables.enumerated().map { (Array(naming.linkTable($1).utf8), $0) },
            uniquingKeysWith: { first, _ in first })
    }

    package func comments(on table: Schema.Table) -> TableComments {
        if let entity = entities[Array(table.name.utf8)] { return comments(onTableOf: entity) }
        return linkTables[Array(table.name.utf8)].map { comments(on: naming.layout.linkTables[$0]) } ?? TableComments()
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
                attribute.column, form(of: own, readable[index]), role(of: position, in: entity),
                owners.count == members.count
                    ? nil : "only of \(owners.map { model.entities[$0].name }.joined(separator: ", "))",
                own.description)
        }
        for link in naming.layout.entities[index].links {
            add(entity.relationships[link.relationship], to: &comments)
        }
        return comments
    }

    private func role(of position: Int, in entity: Entity) -> String? {
        entity.identity.contains(position) ? "identity" : nil
    }

    /// The form of the stored values, and how SQL treats them right.
    private func form(of attribute: Attribute, _ view: String?) -> String {
        switch attribute.type {
        case .decimal: return Self.decimal(attribute, view)
        case .boolean: return "boolean: 0 or 1"
        case .calendarDate: return "day like 2011-12-22"
        case .transformable: return "JSON"
        case .uuid: return "UUID in upper case"
        case .date:
            switch attribute.dateStorage {
            case .iso8601:
                let fraction = attribute.precision == 0 ? "" : "." + String(repeating: "0", count: attribute.precision)
                return "time in UTC like 2011-12-22T02:24:51\(fraction)Z"
            case .unix: return "time in seconds since 1970-01-01 UTC"
            case .coreData: return "time in seconds since 2001-01-01 UTC"
            }
        case .integer16, .integer32, .integer64, .double, .float, .string, .binary, .uri:
            return attribute.type.rawValue
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
            comments.add(column, "\(key.name) of \(table(of: relationship.destination))", relationship.description)
        }
        guard let position = model.positionColumn(of: relationship), let inverse = model.inverse(of: relationship)
        else { return }
        comments.add(
            position, "position in \(model.entities[relationship.destination].name).\(inverse.name), with gaps")
    }

    private func table(of entity: Int) -> String { model.table(of: entity) }

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
                comments.add(column, "\(key.name) of \(table(of: entity))")
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
