internal import BrokerStaging

/// Reads the rows of one entity with all columns of their shape. Belongs to the connection's thread.
///
/// ```
/// statement: row number, keys, columns 2 to 1,998 ─┐
/// more[0]:   columns 1,999 to 3,997, by the number ├─▶ FetchedRow
/// more[1]:   …                                    ─┘
/// ```
///
/// An entity with fewer columns, as nearly all have, is read by the one statement.
struct ObjectReader {
    let shape: ObjectShape
    /// One for each of the shape's `moreColumns`. Parameter: the row's number.
    private let more: [Statement]

    init(_ shape: ObjectShape, of entity: Int, _ sql: FetchSQL, on connection: Connection) throws(StoreError) {
        self.shape = shape
        var more: [Statement] = []
        for columns in shape.moreColumns { more.append(try connection.prepare(sql.columns(columns, of: entity))) }
        self.more = more
    }

    /// Calls `body` with the current row of a statement, whose first columns are those of the shape.
    func withRow<Result>(of statement: Statement, _ body: (FetchedRow) -> Result) throws(StoreError) -> Result {
        guard !more.isEmpty else { return body(FetchedRow(first: statement, more: more)) }
        defer { for statement in more { statement.reset() } }
        for other in more {
            other.bind(statement.integer(0), at: 1)
            guard try other.step() else { preconditionFailure("a row of the same transaction is there") }
        }
        return body(FetchedRow(first: statement, more: more))
    }
}

/// A row with all columns of a shape, by their numbers there. Valid until one of its statements is stepped or reset.
struct FetchedRow {
    fileprivate let first: Statement
    fileprivate let more: [Statement]

    @inline(__always)
    private func place(of column: Int) -> (statement: Statement, column: Int) {
        guard column >= ObjectShape.mostColumns else { return (first, column) }
        return (more[column / ObjectShape.mostColumns - 1], column % ObjectShape.mostColumns)
    }

    func isNull(_ column: Int) -> Bool {
        let (statement, column) = place(of: column)
        return statement.isNull(column)
    }

    func integer(_ column: Int) -> Int64 {
        let (statement, column) = place(of: column)
        return statement.integer(column)
    }

    func bytes(_ column: Int) -> UnsafeBufferPointer<UInt8> {
        let (statement, column) = place(of: column)
        return statement.bytes(column)
    }

    func cell(_ column: Int) -> Cell {
        let (statement, column) = place(of: column)
        return statement.cell(column)
    }
}
