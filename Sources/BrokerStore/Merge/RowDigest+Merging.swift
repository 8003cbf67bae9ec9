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

/// The result of a merge, object by object.
struct MergedRows {
    /// By entity index and staged row: the ``MergeTally/RowState`` of the row itself.
    var states: [[UInt8]]
    /// By entity index and staged row: ``MergeTally/RowState/updated`` where a record of the object changed a link in a
    /// link table.
    var linkStates: [[UInt8]]
    /// Row numbers, by entity index, of changed rows that the job did not stage: a link to or from them ended.
    var changedOutside: [Set<Int64>]
    /// By entity index, row numbers of owned objects that no owner names any more, and that are to be deleted.
    var orphans: [Int: Set<Int64>] = [:]
    /// By entity index and staged row, for entities with row keys.
    var rowKeys: [[Int64]]
    /// The digest of the writes beside the staged rows: ended links, and positions in ordered relationships. It
    /// depends on the rows that were stored before.
    var beside = RowDigest()

    /// The state of each staged row, with changes of links in link tables included.
    func allStates(_ entity: Int) -> [UInt8] {
        let unchanged = MergeTally.RowState.unchanged.rawValue
        guard linkStates[entity].contains(where: { $0 != unchanged }) else { return states[entity] }
        return zip(states[entity], linkStates[entity]).map { $0 == unchanged ? $1 : $0 }
    }
}
