internal import BrokerStaging

/// Rows of a step that were merged together, and what became of them: all of the step's, unless its tombstones make its
/// records take effect one after the other.
struct MergedBatch {
    let rows: StagedRows
    let result: MergedRows
    /// The place of the first operation that has a record among them, among those of the step.
    var firstOperation = 0
}
