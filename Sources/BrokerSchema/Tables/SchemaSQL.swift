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

/// The comments of one table and of its columns.
struct TableComments {
    var table: String?
    private var columns: [ExactText: String] = [:]

    init() {}

    mutating func add(_ column: String, _ parts: String?...) {
        columns[column] = parts.compactMap { $0 }.joined(separator: "; ")
    }

    /// The comment that begins the list of columns.
    var heading: String { table.map { "\(sqlComment($0))\n    " } ?? "" }

    /// The comment after a column's definition.
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
