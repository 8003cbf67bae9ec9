/// The treatment of the parts of a store that its model no longer has: entities, attributes, relationships, unique lists.
public struct RemovedParts: RawRepresentable, Sendable, Hashable {
    /// The protocol's word.
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }

    /// The store is not changed, and the changes name them.
    public static let refuse = RemovedParts(rawValue: "refuse")
    /// They stay in the file, unused, so that the earlier model can be used again.
    public static let keep = RemovedParts(rawValue: "keep")
    /// They are deleted with their values.
    public static let drop = RemovedParts(rawValue: "drop")
}
