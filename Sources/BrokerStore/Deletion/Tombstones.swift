internal import BrokerStaging

/// Objects that records delete, as one deletion.
struct Tombstones {
    let tables: [FrozenTable]
    /// Rows that are merged after the deletion, though some of their records may come before a tombstone in the text:
    /// the deletion must not reach, by cascade, an object that they name, and no `deny` rule may prevent it. Nil where
    /// the order is settled.
    var records: StagedRows?
    /// The rows of other deletions of the same operation.
    var otherDeletions: [FrozenTable] = []
}
