internal import BrokerModel
internal import BrokerStaging

/// Owned objects that no owner names any more.
///
/// ```
/// a stored object that a value of its owner does not name          found where other links end
/// an object of this job whose owner's later record does not name it, or null   its row has no link
/// ```
extension JobMerge {
    /// Notes the staged rows of owned objects whose links have ended inside the job.
    mutating func noteUnlinkedOwnedRows() throws(StoreError) {
        guard !merger.plan.model.holders.owners.isEmpty else { return }
        for table in rows.tables.compactMap(\.self) {
            let entity = table.entityIndex
            guard let column = merger.plan.ownerColumns[entity] else { continue }
            for row in 0..<table.rowCount where table.row(row)[column].kind == .null {
                let object = try merger.entities[entity].find { bindKey(ofRow: row, entity, to: $0, from: 1) }
                if let object { result.orphans[entity, default: []].insert(object.number) }
            }
        }
    }
}
