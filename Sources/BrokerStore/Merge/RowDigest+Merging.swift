internal import BrokerStaging

extension RowDigest {
    /// Adds the rows of a staged table that was merged.
    ///
    /// - Parameters:
    ///   - states: by row, a ``MergeTally/RowState``.
    ///   - keys: by row, for a table with row keys.
    mutating func add(_ table: FrozenTable, states: UnsafePointer<UInt8>?, keys: UnsafePointer<Int64>?) {
        for row in 0..<table.rowCount {
            var hash = RowHash(UInt64(table.entityIndex) << 8 | UInt64(states?[row] ?? 0))
            let cells = table.row(row)
            for column in 0..<table.columnCount { hash.add(cells[column]) }
            if let keys { hash.add(UInt64(bitPattern: keys[row])) }
            add(hash.value)
        }
    }

    /// Adds the rows of a job, or of a step of one.
    mutating func add(_ rows: StagedRows, _ merged: MergedRows) {
        add(merged.beside)
        for case let table? in rows.tables {
            let keys = merged.rowKeys[table.entityIndex]
            merged.allStates(table.entityIndex).withUnsafeBufferPointer { states in
                keys.withUnsafeBufferPointer {
                    add(table, states: states.baseAddress, keys: keys.isEmpty ? nil : $0.baseAddress)
                }
            }
        }
    }
}
