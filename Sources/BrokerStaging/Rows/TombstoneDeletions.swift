/// The objects that a step's records delete, by entity index.
package struct TombstoneDeletions: Sendable {
    /// Records after the tombstone name them again: deleted before the step's rows are merged.
    package let reinserted: [FrozenTable?]
    /// Only tombstones name them.
    package let alone: [FrozenTable?]
    /// Records before the tombstone name them, and none after it: deleted after the step's rows are merged.
    package let afterMerge: [FrozenTable?]
    /// The entities whose tables have objects that records name before their tombstones.
    package let namedBefore: Set<Int>

    package var all: [FrozenTable] { (reinserted + alone + afterMerge).compactMap { $0 } }
}
