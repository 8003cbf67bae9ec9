/// One word on where an object stands in an ordered to-many relationship of another: behind those that were named before.
public struct StagedPlace: Sendable {
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
    var saidAt: UInt32
    /// Where its operation begins.
    let operation: UInt32
    /// Where the element itself stands in the text, or, said from the other side, the value that names the object.
    let offset: UInt32

    /// The order of the words.
    static func isSaidBefore(_ one: StagedPlace, _ other: StagedPlace) -> Bool {
        (one.saidAt, one.offset) < (other.saidAt, other.offset)
    }
}

extension StagingPlan {
    /// The entity in whose table the element is.
    func destinationTable(of place: StagedPlace) -> Int {
        entities[place.entity].relationships[place.relationship].destinationTable
    }
}

extension StagingContext {
    /// Notes the link's place in the order of this side and of the other.
    ///
    /// - Parameter destination: nil ends the link.
    @inline(__always)
    mutating func notePlaces(
        _ plan: EntityPlan.RelationshipPlan, _ speaker: Speaker, _ destination: Int?, at offset: Int
    ) throws(StagingFault) {
        if plan.relationship.isOrdered, let destination {
            try note(
                StagedPlace(
                    entity: speaker.entity.index, relationship: plan.index, row: speaker.row, element: destination,
                    saidAt: speaker.saidAt,
                    operation: operationOffset, offset: UInt32(offset)))
        }
        if let inverse = plan.orderedInverse {
            try note(
                StagedPlace(
                    entity: plan.destinationTable, relationship: inverse, row: destination,
                    element: speaker.row, saidAt: speaker.saidAt,
                    operation: operationOffset, offset: UInt32(offset)))
        }
    }

    private mutating func note(_ place: StagedPlace) throws(StagingFault) {
        try take(2 * MemoryLayout<StagedPlace>.stride)
        places.append(place)
    }
}
