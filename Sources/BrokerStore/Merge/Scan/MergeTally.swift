internal import CSQLite

/// Counts what the statements of a merge do to rows, with SQLite's update hook.
///
/// The counts are exact and need no extra statements: the hook distinguishes inserts from updates, and the scan knows
/// the staged row and its job.
struct MergeTally {
    enum RowState: UInt8 {
        case unchanged = 0
        case inserted = 1
        case updated = 2
    }

    /// How the hook counts a changed row.
    enum Counting {
        case off
        /// Rows of an entity's table are merged from its scan.
        case entityRows
        /// Links are merged from a link table's scan. The values are the entities at its two ends.
        case linkRows(Int, Int)
    }

    private var counting = Counting.off
    /// The scan that the running statement reads.
    private(set) var scan: UnsafeMutablePointer<StagedScan>?

    /// Counts while `body` runs a statement over the scan. SQLite's callbacks reach the tally through the same pointer.
    static func counting(
        _ tally: UnsafeMutablePointer<MergeTally>, to scan: UnsafeMutablePointer<StagedScan>, of what: Counting,
        _ body: () throws(StoreError) -> Void
    ) throws(StoreError) {
        tally.pointee.scan = scan
        tally.pointee.counting = what
        defer { tally.pointee = MergeTally() }
        try body()
    }

    @inline(__always)
    static func mark(_ state: RowState, _ row: Int, _ states: UnsafeMutablePointer<UInt8>?) {
        // An inserted object stays inserted, even if the same job changes it again.
        if let states, states[row] == RowState.unchanged.rawValue { states[row] = state.rawValue }
    }

    /// - Parameter tally: at an address that outlives the connection.
    static func install(on connection: Connection, _ tally: UnsafeMutablePointer<MergeTally>) {
        sqlite3_update_hook(
            connection.handle,
            { context, operation, _, _, _ in
                let tally = context!.assumingMemoryBound(to: MergeTally.self)
                guard let scan = tally.pointee.scan else { return }
                switch tally.pointee.counting {
                case .off: return
                case .entityRows:
                    let state = operation == SQLITE_INSERT ? RowState.inserted : .updated
                    MergeTally.mark(
                        state, scan.pointee.row, scan.pointee.jobTables[scan.pointee.entity!].states)
                case .linkRows(let source, let destination):
                    let link = scan.pointee.links![scan.pointee.position]
                    let tables = scan.pointee.jobTables
                    if link.isNamedByDestination {
                        MergeTally.mark(.updated, Int(link.destination), tables[destination].states)
                    }
                    if link.isNamedBySource {
                        MergeTally.mark(.updated, Int(link.source), tables[source].states)
                    }
                }
            }, tally)
    }
}
