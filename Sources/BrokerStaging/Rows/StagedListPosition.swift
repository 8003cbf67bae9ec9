/// An assertion that an object has a place in an ordered to-many relationship of another: after those named earlier.
package struct StagedListPosition: Sendable {
    /// The entity whose relationship it is.
    package let entity: Int
    package let relationship: Int
    /// The row of the object with the list.
    package internal(set) var row: Int
    /// A row of the destination.
    package internal(set) var element: Int
    /// A record of the object with the list asserts it, and not one of the element.
    let isNamedByList: Bool
    /// Offset of the asserting record.
    let sourceOffset: UInt32

    package var set: ToManySet { ToManySet(entity: entity, row: row, relationship: relationship) }
}

extension StagingPlan {
    /// Returns the entity whose table has the element.
    func destinationTable(of position: StagedListPosition) -> Int {
        entities[position.entity].relationships[position.relationship].destinationTable
    }
}
