/// A to-many relationship of one object whose earlier links end: all with a source offset below `clearsBefore`, and the
/// store's links that this job does not name.
package struct StagedReplacement: Sendable {
    package let entity: Int
    package internal(set) var row: Int
    package let relationship: Int
    /// For `null`, the offset of its record; for a replacing set, the offset of its operation.
    let clearsBefore: UInt32
    /// The value is `null`: it ends all links, and a later assertion creates a new link.
    let isNull: Bool
}
