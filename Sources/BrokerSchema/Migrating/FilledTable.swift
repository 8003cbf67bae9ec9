/// A new table of links, which takes those that were in a column of an entity's table.
package struct FilledTable {
    let table: String
    /// The table of the entity, by its new name.
    let entityTable: String
    /// The columns of the link table for the entity, and the entity's key.
    let source: [String]
    let keys: [String]
    /// The columns of the link table for the destination, and where they come from.
    let destination: [String]
    let links: [TableOrigin.Source]
    /// The column of positions of an ordered relationship.
    let position: String?

    /// The statement that fills it, while the entity's table has its earlier columns under their new names.
    ///
    /// - Parameter migration: of the entity's table.
    package func sql(_ migration: TableMigration) -> String {
        let current = { (column: String) in migration.renamings.current(column) }
        let columns = source + destination + [position].compactMap { $0 }
        let values =
            keys.map { migration.expression(for: $0, isRenamed: true) }
            + links.map { $0.expression(current: current) } + (position == nil ? [] : ["0"])
        return "INSERT INTO \(quoted(table)) (\(quotedList(columns))) SELECT \(values.joined(separator: ", ")) "
            + "FROM \(quoted(entityTable)) AS \(TableOrigin.rowAlias) "
            + "WHERE \(quoted(current(links[0].column))) IS NOT NULL"
    }
}
