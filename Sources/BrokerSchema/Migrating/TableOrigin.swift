internal import BrokerModel

/// The origins of the columns of a changed model's table.
package struct TableOrigin {
    /// The values of one concrete entity's rows in a column of the changed table.
    package struct EntityValue: Equatable {
        /// Their entity, by its name in the store.
        let entity: String
        /// The store's column; nil when they had no such value.
        let column: String?
        /// The SQL of the value that replaces NULL.
        let fill: String?
    }

    /// The name of the table in the store.
    package let table: String
    /// Its rows have the name of their concrete entity.
    package let hasConcreteEntities: Bool
    /// The names of the concrete entities of stored rows, before and now.
    package let concreteEntities: [(old: String, new: String)]
    /// By column of the changed table: the store's column, for columns that stay. Other columns are new.
    package private(set) var columns: [[UInt8]: String] = [:]
    /// By column of the changed table, where some rows need another value than that of the column that stays.
    package private(set) var values: [[UInt8]: [EntityValue]] = [:]

    package init(table: String, hasConcreteEntities: Bool = false, concreteEntities: [(old: String, new: String)] = [])
    {
        self.table = table
        self.hasConcreteEntities = hasConcreteEntities
        self.concreteEntities = concreteEntities
    }

    package func old(_ column: String) -> String? { columns[Array(column.utf8)] }

    package mutating func add(_ pairs: some Sequence<(String, String)>) {
        for (new, old) in pairs { columns[Array(new.utf8)] = old }
    }

    package mutating func add(_ column: String, _ values: [EntityValue]) { self.values[Array(column.utf8)] = values }

    /// Every column of the store from which values are taken.
    package var sources: Set<[UInt8]> {
        Set(columns.values.map { Array($0.utf8) })
            .union(values.values.joined().compactMap { $0.column.map { Array($0.utf8) } })
    }

    /// A column takes values of several that do not stay, or one is divided.
    package var mixesColumns: Bool {
        values.contains { column, values in columns[column] == nil && values.contains { $0.column != nil } }
    }

    /// The SQL of a column's value, over rows with the store's names of concrete entities.
    ///
    /// - Parameter current: the current name of a store's column.
    package func expression(for column: String, isConcreteEntity: Bool, current: (String) -> String) -> String {
        if isConcreteEntity { return concreteEntityExpression }
        guard let values = values[Array(column.utf8)] else { return old(column).map { quoted(current($0)) } ?? "NULL" }
        let branches = values.map { value in
            let found = value.column.map { quoted(current($0)) }
            let expression =
                switch (found, value.fill) {
                case (let found?, let fill?): "coalesce(\(found), \(fill))"
                case (let found?, nil): found
                case (nil, let fill): fill ?? "NULL"
                }
            return (value.entity, expression)
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
