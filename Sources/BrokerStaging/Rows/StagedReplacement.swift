/// A to-many relationship of one object whose links end, but for those that the same value names.
package struct StagedReplacement: Sendable {
    package let entity: Int
    package internal(set) var row: Int
    package let relationship: Int
    /// Offset of its record.
    let sourceOffset: UInt32

    package var set: ToManySet { ToManySet(entity: entity, row: row, relationship: relationship) }
}

/// The to-many relationship of one object, by its staged row.
package struct ToManySet: Hashable, Sendable {
    package let entity: Int
    package let row: Int
    package let relationship: Int
}
