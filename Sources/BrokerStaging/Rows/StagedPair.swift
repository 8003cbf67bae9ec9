/// One record's assertion about a one-to-one relationship: the row's partner, or none.
struct StagedPair {
    let entity: Int
    let row: Int
    let column: Int
    /// A row of the other entity; nil ends the link.
    let partner: Int?
    let sourceOffset: UInt32
}
