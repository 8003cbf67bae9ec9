internal import BrokerStaging

/// The staged rows of one entity in one job, as scans read them.
struct ScannedTable {
    var cells: UnsafePointer<Cell>?
    var columnCount = 0
    /// By row, for entities with row keys.
    var rowKeys: UnsafePointer<Int64>?
    /// By row, a ``MergeTally/RowState``.
    var states: UnsafeMutablePointer<UInt8>?
}
