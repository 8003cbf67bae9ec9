/// The objects that a step's records delete, by entity index.
package struct TombstoneDeletions: Sendable {
    /// Records after a tombstone name them again: deleted before the step's rows are merged.
    package let reinserted: FrozenTables
    /// Only tombstones name them.
    package let alone: FrozenTables
    /// Records before the last tombstone name them, and none after it: deleted after the step's rows are merged. Those
    /// that a record named after an earlier tombstone are also deleted before the rows are merged.
    package let afterMerge: FrozenTables
    /// The entities whose tables have objects that records name before their tombstones.
    package let namedBefore: Set<Int>

    package var all: [FrozenTable] { [reinserted, alone, afterMerge].flatMap { $0.compactMap(\.self) } }
}
