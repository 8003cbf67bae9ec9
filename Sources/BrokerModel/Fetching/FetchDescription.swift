package import BrokerJSON

/// Which names fetched objects bear.
package enum FetchNames: String, Sendable, CaseIterable {
    /// The inverse mapping: what would be sent to be processed, at each attribute's first key path.
    case remote
    /// The model's own.
    case local
}

/// In which form fetched objects are told.
package enum FetchResult: String, Sendable, CaseIterable {
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
package struct FetchDescription {
    /// Objects that are told at most, and unless a client asks for another number.
    package static let limits = 0...100_000
    package static let defaultLimit = 10_000

    package var entity: String
    /// A predicate that the objects match; nil for all.
    package var predicate: String?
    package var arguments: JSONValue?
    /// The key of the one object that is meant.
    package var object: JSONValue?
    /// Attributes, or key paths to them; with `-` before them from the last to the first.
    package var sort: [String] = []
    package var limit = defaultLimit
    package var offset = 0
    /// Paths of relationships whose objects are nested.
    package var include: [String] = []
    package var names = FetchNames.remote
    package var result = FetchResult.collection

    package init(entity: String) { self.entity = entity }
}
