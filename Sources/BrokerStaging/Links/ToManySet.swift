/// The to-many relationship of one object, by its staged row.
package struct ToManySet: Hashable {
    package let entity: Int
    package let row: Int
    package let relationship: Int
}

extension StagedReplacement {
    package var set: ToManySet { ToManySet(entity: entity, row: row, relationship: relationship) }
}

extension RetainedLink {
    package var set: ToManySet { ToManySet(entity: entity, row: row, relationship: relationship) }
}

extension StagedListPosition {
    /// Nil where the link has ended.
    package var set: ToManySet? { row.map { ToManySet(entity: entity, row: $0, relationship: relationship) } }
}
