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
