internal import BrokerModel
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
