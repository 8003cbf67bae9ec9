import BrokerModel

/// The origins of the columns of a changed model's table.
struct TableOrigin {
    /// A change of the values of a store's column.
    enum Change: Equatable {
        /// They become values of another type, by the conversion of that number.
        case converted(Int)
        /// They are row keys of another table, and become the values of an identity that it has from now on.
        case identity(table: String, column: String, conversion: Int?)

        /// The SQL of the changed value.
        ///
        /// - Parameter column: a column of the table that has ``rowAlias``.
        fileprivate func sql(of column: String) -> String {
            switch self {
            case .converted(let number): Self.converted(quoted(column), number)
            case .identity(let table, let key, let number):
                "(SELECT \(number.map { Self.converted(quoted(key), $0) } ?? quoted(key)) FROM \(quoted(table)) "
                    + "WHERE \(quoted(rowKeyName)) = \(TableOrigin.rowAlias).\(quoted(column)))"
            }
        }

        private static func converted(_ value: String, _ number: Int) -> String {
            "\(conversionFunction)(\(number), \(value))"
        }
    }

    /// A column of the store, and what becomes of its values.
    struct Source: Equatable {
        let column: String
        var change: Change?

        /// The column itself does not stay: values of another table replace its own.
        var isReplaced: Bool {
            if case .identity = change { true } else { false }
        }

        /// - Parameter current: the current name of a store's column.
        func expression(current: (String) -> String) -> String {
            change?.sql(of: current(column)) ?? quoted(current(column))
        }
    }

    /// The name of the table in statements that read its rows.
    static let rowAlias = "_broker_row"

    /// The values of one concrete entity's rows in a column of the changed table.
    struct EntityValue: Equatable {
        /// Their entity, by its name in the store.
        let entity: String
        /// Nil when they had no such value.
        let source: Source?
        /// The SQL of the value that replaces NULL.
        let fill: String?
    }

    /// The name of the table in the store.
    let table: String
    /// Its rows have the name of their concrete entity.
    let hasConcreteEntities: Bool
    /// The names of the concrete entities of stored rows, before and now.
    let concreteEntities: [(old: String, new: String)]
    /// By column of the changed table: the store's column, for columns that stay. Other columns are new.
    private(set) var staying: [ExactText: Source] = [:]
    /// By column of the changed table, where some rows need another value than that of the column that stays.
    private(set) var values: [ExactText: [EntityValue]] = [:]
    /// Columns that stored rows take from their owner: they are added before anything else changes.
    private(set) var ownerColumns: [OwnerColumn] = []

    init(table: String, hasConcreteEntities: Bool = false, concreteEntities: [(old: String, new: String)] = []) {
        self.table = table
        self.hasConcreteEntities = hasConcreteEntities
        self.concreteEntities = concreteEntities
    }

    func old(_ column: String) -> String? { staying[column]?.column }

    /// Adds a column that stays.
    mutating func add(_ column: String, from source: Source) { staying[column] = source }

    mutating func add(_ column: String, from old: String) { staying[column] = Source(column: old) }

    mutating func add(_ column: OwnerColumn) {
        ownerColumns.append(column)
        add(column.name, from: column.name)
    }

    mutating func add(_ column: String, _ values: [EntityValue]) { self.values[column] = values }

    /// Every column of the store whose values are taken; not those that values of another table replace.
    var sources: Set<ExactText> {
        let others = values.values.joined().compactMap(\.source).filter { !$0.isReplaced }
        return Set((Array(staying.values) + others).map { ExactText($0.column) })
    }

    /// A column takes values of several that do not stay, or one is divided.
    var mixesColumns: Bool {
        values.contains { column, values in staying[column] == nil && values.contains { $0.source != nil } }
    }

    /// The SQL of a column's value, over rows with the store's names of concrete entities.
    ///
    /// - Parameter current: the current name of a store's column.
    func expression(for column: String, isConcreteEntity: Bool, current: (String) -> String) -> String {
        if isConcreteEntity { return concreteEntityExpression }
        guard let values = values[column] else {
            return staying[column]?.expression(current: current) ?? "NULL"
        }
        let branches = values.map { value in
            let found = value.source?.expression(current: current)
            let filled = found.flatMap { found in value.fill.map { "coalesce(\(found), \($0))" } }
            return (value.entity, filled ?? found ?? value.fill ?? "NULL")
        }
        return choice(branches)
    }

    private var concreteEntityExpression: String {
        guard hasConcreteEntities else { return concreteEntities.first.map { textLiteral($0.new) } ?? "NULL" }
        let renamed = concreteEntities.filter { !$0.old.hasSameBytes(as: $0.new) }
        guard !renamed.isEmpty else { return quoted(entityColumnName) }
        let branches = renamed.map { "WHEN \(textLiteral($0.old)) THEN \(textLiteral($0.new))" }
        return "CASE \(quoted(entityColumnName)) \(branches.joined(separator: " ")) "
            + "ELSE \(quoted(entityColumnName)) END"
    }

    private func choice(_ branches: [(entity: String, expression: String)]) -> String {
        guard let first = branches.first else { return "NULL" }
        if !hasConcreteEntities || branches.allSatisfy({ $0.expression.hasSameBytes(as: first.expression) }) {
            return first.expression
        }
        let list = branches.filter { $0.expression != "NULL" }.map {
            "WHEN \(textLiteral($0.entity)) THEN \($0.expression)"
        }
        return "CASE \(quoted(entityColumnName)) \(list.joined(separator: " ")) END"
    }
}

/// A column of an owned entity's identity, which its stored rows take from their owner.
struct OwnerColumn {
    let name: String
    let type: String
    /// The store's column with the owner's row key.
    let link: String
    /// From the link to the value of the owner's identity; nil for the position among the owner's objects.
    let identity: TableOrigin.Change?

    /// The statements that add it to a table.
    ///
    /// - Parameter current: the current name of a store's column.
    func statements(_ table: String, current: (String) -> String) -> [String] {
        let link = TableOrigin.Source(column: link, change: identity)
        let (rows, key) = (TableOrigin.rowAlias, quoted(rowKeyName))
        let update =
            identity == nil
            ? "UPDATE \(quoted(table)) AS \(rows) SET \(quoted(name)) = p.n FROM (SELECT \(key) AS k, row_number() OVER "
                + "(PARTITION BY \(link.expression(current: current)) ORDER BY \(key)) - 1 AS n FROM \(quoted(table))) "
                + "AS p WHERE p.k = \(rows).\(key)"
            : "UPDATE \(quoted(table)) AS \(rows) SET \(quoted(name)) = \(link.expression(current: current))"
        return ["ALTER TABLE \(quoted(table)) ADD COLUMN \(quoted(name)) \(type)", update]
    }
}
