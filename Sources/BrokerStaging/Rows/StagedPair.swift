/// One record's assertion about a one-to-one relationship: the row's partner, or none.
struct StagedPair {
    let entity: Int
    var row: Int
    let column: Int
    /// A row of the other entity; nil ends the link.
    var partner: Int?
    let sourceOffset: UInt32
}
