/// One assertion about an object's position in an ordered to-many relationship of another: after those named earlier.
package struct StagedListPosition: Sendable {
    /// The entity whose relationship it is.
    package let entity: Int
    package let relationship: Int
    /// The row of the object with the list; nil where the record ends the element's link, or a tombstone deletes the object.
    package internal(set) var row: Int?
    /// A row of the destination.
    package internal(set) var element: Int
    /// The link had ended earlier in the job: a stored link moves to the end of the list.
    package internal(set) var isRelinked = false
    /// Offset of the asserting record; 0 when a later key of that record has ended the link.
    var sourceOffset: UInt32
    /// The same of the link, which may be that of a tombstone inside the record (``StagingContext/sourceOffset(_:linkingTo:of:)``):
    /// a null that ends the link ends its position, too.
    var linkOffset: UInt32
    /// Offset of its operation.
    let operation: UInt32
    /// Offset of the element in the text, or, for an assertion from the other side, of the value that names the object.
    let offset: UInt32

    /// Compares assertions by their order in the text.
    static func precedes(_ one: StagedListPosition, _ other: StagedListPosition) -> Bool {
        (one.sourceOffset, one.offset) < (other.sourceOffset, other.offset)
    }
}

extension StagingPlan {
    /// Returns the entity whose table has the element.
    func destinationTable(of position: StagedListPosition) -> Int {
        entities[position.entity].relationships[position.relationship].destinationTable
    }
}
