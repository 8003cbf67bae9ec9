internal import BrokerModel

/// The readable view of one entity.
struct ReadableView {
    private var columns: [String] = []
    private let source: String
    private let condition: String?
    /// The alias of the entity's table.
    private static let row = "r"
    /// SQLite's limit on the columns of a view.
    private static let mostColumns = 2_000

    init(of index: Int, _ naming: ColumnNaming) {
        let model = naming.model
        let entity = model.entities[index]
        source = "\(quoted(model.table(of: index))) AS \(Self.row)"
        condition = naming.entityCondition(index, alias: Self.row)
        let isTopmost = entity.parent == nil
        // The topmost entity's table has the columns of all its subentities, with the names that the table gives them.
        var names: Set<Name> = []
        func add(_ expression: String, as name: String) {
            names.insert(Name(name))
            columns.append("\(expression) AS \(quoted(name))")
        }
        if entity.hasRowKey { add("\(Self.row).\(quoted(rowKeyName))", as: rowKeyName) }
        for position in isTopmost ? Array(entity.attributes.indices) : entity.attributeIndices {
            let attribute = entity.attributes[position]
            add(
                attribute.readable("\(Self.row).\(quoted(attribute.column))"),
                as: isTopmost ? attribute.column : attribute.name)
        }
        let links = (isTopmost ? Array(entity.relationships.indices) : entity.relationshipIndices)
            .map { entity.relationships[$0] }.filter { !$0.isToMany }
        for relationship in links {
            var own = relationship
            if !isTopmost { own.column = relationship.name }
            let pairs = zip(naming.linkColumns(relationship), naming.linkColumns(own))
            for (column, name) in pairs { add("\(Self.row).\(quoted(column))", as: name) }
            let places = [relationship, own].compactMap(model.positionColumn)
            if places.count == 2 { add("\(Self.row).\(quoted(places[0]))", as: places[1]) }
        }
        if model.isInHierarchy(index) { add("\(Self.row).\(quoted(entityColumnName))", as: entityColumnName) }
        for relationship in links where columns.count < Self.mostColumns {
            guard let title = model.entities[relationship.destination].title else { continue }
            let name = "\(isTopmost ? relationship.column : relationship.name)_\(title.name)"
            // A column of the table comes first.
            guard !names.contains(Name(name)) else { continue }
            add(Self.title(title, of: relationship, naming), as: name)
        }
    }

    /// The SQL of the name of the object to which a relationship leads. A subquery, because a join of more than 64 tables
    /// is none for SQLite.
    private static func title(_ title: Attribute, of relationship: Relationship, _ naming: ColumnNaming) -> String {
        let keys = naming.keyColumns(relationship.destination).map { "d.\(quoted($0.name))" }
        let links = naming.linkColumns(relationship).map { "\(row).\(quoted($0))" }
        let conditions = zip(keys, links).map { "\($0) = \($1)" }.joined(separator: " AND ")
        let table = quoted(naming.model.table(of: relationship.destination))
        return "(SELECT d.\(quoted(title.column)) FROM \(table) AS d WHERE \(conditions))"
    }

    func sql(named name: String) -> String {
        "\(ReadableViews.beginning(name))\n    SELECT \(columns.joined(separator: ",\n        "))\n    FROM \(source)"
            + (condition.map { "\n    WHERE \($0)" } ?? "")
    }
}

extension Attribute {
    /// The SQL of its value for readers.
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
    private static let titles = ["name", "title", "label", "displayName", "fullName"].map(Name.init)

    /// The attribute that names its objects for people.
    fileprivate var title: Attribute? {
        let found = Self.titles.lazy.compactMap { title in
            attributeIndices.first { attributes[$0].type == .string && Name(attributes[$0].name) == title }
        }.first
        // Such an identity is in the link itself.
        guard let found, hasRowKey || identity != [found] else { return nil }
        return attributes[found]
    }
}
