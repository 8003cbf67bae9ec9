internal import BrokerStaging

/// Rows of a step that were merged together, and their states: all rows of the step, unless its tombstones require that
/// its records take effect one after the other.
struct MergedBatch {
    let rows: StagedRows
    let result: MergedRows
    /// The index, among the step's operations, of the first operation with a record in the batch.
    var firstOperation = 0
}
