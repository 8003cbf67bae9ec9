internal import BrokerJSON
internal import BrokerModel

/// The objects of the records in each operation's `json`, in payload order. Recorded only for a job that asks for its
/// objects (`reply: objects`).
package struct StagedPayload: Sendable {
    /// One operation.
    package struct Operation: Sendable {
        /// The index of the entity whose table has all the objects; nil if their tables differ.
        fileprivate let table: Int?
        fileprivate var rows: [UInt32] = []
        /// The tables of the objects, if they differ.
        fileprivate var tables: [UInt32] = []

        fileprivate static let nothing = UInt32.max

        /// The table (by entity index) and the staged row of each record or bare key; nil for one without an object of
        /// its own.
        package var objects: some RandomAccessCollection<(table: Int, row: Int)?> {
            rows.indices.lazy.map { position in
                let row = rows[position]
                return row == Self.nothing ? nil : (table ?? Int(tables[position]), Int(row))
            }
        }

        package var count: Int { rows.count }

        fileprivate mutating func note(_ object: (table: Int, row: Int)?) {
            rows.append(object.map { UInt32($0.row) } ?? Self.nothing)
            if table == nil { tables.append(UInt32(object?.table ?? 0)) }
        }
    }

    /// In payload order.
    package private(set) var operations: [Operation] = []

    /// Memory in bytes of each record, with the growth of an array.
    static let bytesPerRecord = 4 * MemoryLayout<UInt32>.stride

    mutating func begin(_ table: Int?) { operations.append(Operation(table: table)) }

    mutating func note(_ object: (table: Int, row: Int)?) { operations[operations.count - 1].note(object) }

    /// Adds the operations of a later part.
    ///
    /// - Parameter rows: by entity index and the part's row, the row in the united tables.
    mutating func add(_ part: StagedPayload, translating rows: [[Int]]) {
        for operation in part.operations {
            begin(operation.table)
            for object in operation.objects { note(object.map { ($0.table, rows[$0.table][$0.row]) }) }
        }
    }
}
