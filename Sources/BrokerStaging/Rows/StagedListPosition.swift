/// One word on where an object stands in an ordered to-many relationship of another: behind those that were named before.
public struct StagedListPosition: Sendable {
    /// Of the object whose relationship it is: the entity, the relationship and the row.
    public let entity: Int
    public let relationship: Int
    /// Nil where the record ends the element's link.
    public let row: Int?
    /// A row of the destination.
    public let element: Int
    /// The link had ended before in the job: if it was in the store, it goes behind the others.
    public internal(set) var isAfresh = false
    /// Where the record begins that said it; 0 when a later key of that record has ended the link.
    var sourceOffset: UInt32
    /// Where its operation begins.
    let operation: UInt32
    /// Where the element itself stands in the text, or, said from the other side, the value that names the object.
    let offset: UInt32

    /// The order of the words.
    static func isSaidBefore(_ one: StagedListPosition, _ other: StagedListPosition) -> Bool {
        (one.sourceOffset, one.offset) < (other.sourceOffset, other.offset)
    }
}

extension StagingPlan {
    /// The entity in whose table the element is.
    func destinationTable(of place: StagedListPosition) -> Int {
        entities[place.entity].relationships[place.relationship].destinationTable
    }
}

extension StagingContext {
    /// Notes the link's place in the order of this side and of the other.
    ///
    /// - Parameter destination: nil ends the link.
    @inline(__always)
    mutating func notePlaces(
        _ plan: EntityPlan.RelationshipPlan, _ linkSource: LinkSource, _ destination: Int?, at offset: Int
    ) throws(StagingFault) {
        if plan.relationship.isOrdered, let destination {
            try note(
                StagedListPosition(
                    entity: linkSource.entity.index, relationship: plan.index, row: linkSource.row,
                    element: destination,
                    sourceOffset: linkSource.sourceOffset,
                    operation: operationOffset, offset: UInt32(offset)))
        }
        if let inverse = plan.orderedInverse {
            try note(
                StagedListPosition(
                    entity: plan.destinationTable, relationship: inverse, row: destination,
                    element: linkSource.row, sourceOffset: linkSource.sourceOffset,
                    operation: operationOffset, offset: UInt32(offset)))
        }
    }

    private mutating func note(_ place: StagedListPosition) throws(StagingFault) {
        try take(2 * MemoryLayout<StagedListPosition>.stride)
        places.append(place)
    }
}
