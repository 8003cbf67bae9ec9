/// Rows of one entity that one SQL statement can merge.
public struct RowGroup: Sendable {
    /// In a hierarchy, the index of the concrete entity of the rows' objects, as far as the job says.
    public let concreteEntity: Int
    /// The columns that every row of the group brings, with the identity's columns, ascending; nil when the rows bring
    /// different columns.
    public let columns: [Int]?
    public let order: RowOrder
    /// The group's part of ``order``.
    public let range: Range<Int>

    /// The group of a table with one row.
    static func single(_ columns: [Int], concreteEntity: Int) -> RowGroup {
        RowGroup(concreteEntity: concreteEntity, columns: columns, order: .single, range: 0..<1)
    }
}

extension UnsafePointer<Cell> {
    /// Whether this row comes before another of its table, in SQLite's order of these columns.
    public func precedes(_ other: Self, by columns: [Int]) -> Bool {
        for column in columns {
            if self[column].precedes(other[column]) { return true }
            if other[column].precedes(self[column]) { return false }
        }
        return false
    }
}
