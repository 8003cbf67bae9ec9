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

    func isLinkChanged(_ entity: Int, _ row: Int) -> Bool {
        linkStates[entity][row] != MergeTally.RowState.unchanged.rawValue
    }

    /// The state of each staged row, with changes of links in link tables included.
    func allStates(_ entity: Int) -> [UInt8] {
        let unchanged = MergeTally.RowState.unchanged.rawValue
        guard linkStates[entity].contains(where: { $0 != unchanged }) else { return states[entity] }
        return zip(states[entity], linkStates[entity]).map { $0 == unchanged ? $1 : $0 }
    }
}
