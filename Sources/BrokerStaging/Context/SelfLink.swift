internal import BrokerJSON
internal import BrokerModel

/// A relationship by which a record linked its object to itself.
struct SelfLinkEnd: Hashable {
    let entity: Int
    let row: Int
    /// The relationship of the assertion: the inverse of one that may end the link.
    let inverse: Int
}

/// The assertion of a link from an object to itself.
struct SelfLink {
    let sourceOffset: UInt32
    /// The link, if it is in a link table.
    let link: (table: Int, index: Int)?
    let listPositions: Range<Int>
}
