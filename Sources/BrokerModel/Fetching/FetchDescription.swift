public import BrokerJSON

/// Which names fetched objects bear.
public enum FetchNames: String, Sendable, CaseIterable {
    /// The inverse mapping: what would be sent to be processed, at each attribute's first key path.
    case remote
    /// The model's own.
    case local
}

/// In which form fetched objects are told.
public enum FetchResult: String, Sendable, CaseIterable {
    /// An array.
    case collection
    /// The first one, or null.
    case object
    /// An object by the text of the identity.
    case dictionary
}

/// A fetch as a client says it: nothing of it is checked against a model. `StagingPlan.fetchRequest(_:)` does that.
///
/// Its JSON values are valid while the document lives that they were read from.
public struct FetchDescription {
    /// Objects that are told at most, and unless a client asks for another number.
    public static let limits = 0...100_000
    public static let defaultLimit = 10_000

    public var entity: String
    /// A predicate that the objects match; nil for all.
    public var predicate: String?
    public var arguments: JSONValue?
    /// The key of the one object that is meant.
    public var object: JSONValue?
    /// Attributes, or key paths to them; with `-` before them from the last to the first.
    public var sort: [String] = []
    public var limit = defaultLimit
    public var offset = 0
    /// Paths of relationships whose objects are nested.
    public var include: [String] = []
    public var names = FetchNames.remote
    public var result = FetchResult.collection

    public init(entity: String) { self.entity = entity }
}
