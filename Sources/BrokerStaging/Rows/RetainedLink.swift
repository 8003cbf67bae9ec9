/// An element of a to-many relationship that was rejected. The job makes no link to it, but a link that existed before
/// the operation is retained, even when the relationship is replaced.
package struct RetainedLink: Sendable {
    package let entity: Int
    package internal(set) var row: Int
    package let relationship: Int
    /// The entity of the element's record, to which the identity belongs.
    package let concreteEntity: Int
    /// The identity of the element, in the order of its entity's identity. The rows own the memory of its cells.
    package let identity: [Cell]
    /// The offset of the operation that rejected the element.
    let operation: UInt32
}
