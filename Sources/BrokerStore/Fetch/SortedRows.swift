/// The objects of a sorted fetch, in its order.
///
/// SQLite sorts the row numbers alone, and has given its temporary storage back before the first object is read. So an open
/// stream holds eight bytes for each of its objects, however large they are.
struct SortedRows {
    private let numbers: [Int64]
    private var position = 0
    private let row: Statement

    /// - Parameters:
    ///   - order: finds the row numbers; its parameters are bound.
    ///   - sql: reads the row of a number.
    init(_ order: Statement, reading sql: String, on connection: Connection) throws(StoreError) {
        var numbers: [Int64] = []
        while try order.step() { numbers.append(order.integer(0)) }
        self.numbers = numbers
        row = try connection.prepare(sql)
    }

    /// The statement that has the next row, which is valid until the next call; nil after the last one.
    mutating func next() throws(StoreError) -> Statement? {
        row.reset()
        guard position < numbers.count else { return nil }
        row.bind(numbers[position], at: 1)
        position += 1
        guard try row.step() else { preconditionFailure("a row of the same transaction is there") }
        return row
    }
}
