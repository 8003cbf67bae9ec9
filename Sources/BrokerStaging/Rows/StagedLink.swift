/// A link of a link table, as row numbers in the staged tables of the table's two entities.
@frozen package struct StagedLink: Sendable {
    package internal(set) var source: UInt32
    package internal(set) var destination: UInt32
    /// The offset in the text of the latest record that asserted the link.
    var sourceOffset: UInt32
    /// A record of the source asserted it.
    package internal(set) var isNamedBySource: Bool
    /// A record of the destination asserted it, by the inverse relationship.
    package internal(set) var isNamedByDestination: Bool
}
