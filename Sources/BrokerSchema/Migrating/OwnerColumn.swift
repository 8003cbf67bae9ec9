/// A column of an owned entity's identity, which its stored rows take from their owner.
package struct OwnerColumn {
    let name: String
    let type: String
    /// The store's column with the owner's row key.
    let link: String
    /// From the link to the value of the owner's identity; nil for the position among the owner's objects.
    let identity: TableOrigin.Change?

    /// The statements that add it to a table.
    ///
    /// - Parameter current: the current name of a store's column.
    package func statements(_ table: String, current: (String) -> String) -> [String] {
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
