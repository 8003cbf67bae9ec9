internal import CSQLite

/// Counts what the statements of a merge do to rows, by listening to SQLite's update hook.
///
/// Exact, and free of extra statements: the hook tells inserts from updates, the scan tells which staged row it was.
struct MergeTally {
    enum RowState: UInt8 {
        case unchanged = 0
        case inserted = 1
        case updated = 2
    }

    /// What the hook does with a changed row.
    enum Listening {
        case off
        /// Rows of an entity's table are merged from its scan.
        case entityRows
        /// Links are merged from a link table's scan.
        case linkRows
    }

    var listening = Listening.off
    var scan: UnsafeMutablePointer<StagedScan>?
    /// By staged row, of the entity whose rows are merged.
    var states: UnsafeMutablePointer<UInt8>?
    /// Of the entities at a link table's two ends.
    var sourceStates: UnsafeMutablePointer<UInt8>?
    var destinationStates: UnsafeMutablePointer<UInt8>?

    @inline(__always)
    static func mark(_ state: RowState, _ row: Int, _ states: UnsafeMutablePointer<UInt8>) {
        // An inserted object stays inserted, whatever else happens to it in its job.
        if states[row] == RowState.unchanged.rawValue { states[row] = state.rawValue }
    }

    /// - Parameter tally: at a place that outlives the connection.
    static func listen(on connection: Connection, _ tally: UnsafeMutablePointer<MergeTally>) {
        sqlite3_update_hook(
            connection.handle,
            { context, operation, _, _, _ in
                let tally = context!.assumingMemoryBound(to: MergeTally.self)
                switch tally.pointee.listening {
                case .off: return
                case .entityRows:
                    let state = operation == SQLITE_INSERT ? RowState.inserted : .updated
                    MergeTally.mark(state, tally.pointee.scan!.pointee.row, tally.pointee.states!)
                case .linkRows:
                    let scan = tally.pointee.scan!
                    let link = scan.pointee.links![scan.pointee.position]
                    if link.isNamedByDestination {
                        MergeTally.mark(.updated, Int(link.destination), tally.pointee.destinationStates!)
                    }
                    if link.isNamedBySource {
                        MergeTally.mark(.updated, Int(link.source), tally.pointee.sourceStates!)
                    }
                }
            }, tally)
    }
}
