package import BrokerJSON

/// The names of the members of fetched objects.
package enum FetchNames: String, Sendable, CaseIterable {
    /// The inverse mapping: a record that could be sent again, with each attribute at its first key path.
    case remote
    /// The names in the model.
    case local
}

/// The form of the dates of fetched objects.
package enum FetchDates: String, Sendable, CaseIterable {
    /// The attribute's first format, so that a record could be sent again.
    case model
    case iso8601
}

/// The form of the fetched objects.
package enum FetchResult: String, Sendable, CaseIterable {
    /// An array.
    case collection
    /// The first object, or null.
    case object
    /// An object, with the text of the identity as key.
    case dictionary
    /// The number of objects.
    case count
}

/// A client's fetch. Nothing of it is checked against a model yet; `StagingPlan.fetchRequest(_:)` does that.
///
/// Its JSON values are valid as long as the document that they were read from.
package struct FetchDescription {
    /// The maximum number of objects, and the default, of a fetch that is not streamed.
    package static let limits = 0...100_000
    package static let defaultLimit = 10_000

    package var entity: String
    /// A predicate that the objects match; nil for all objects.
    package var predicate: String?
    package var arguments: JSONValue?
    /// The key of the one requested object.
    package var object: JSONValue?
    /// The key after which the objects come.
    package var after: JSONValue?
    /// Attributes, or key paths to them; with `-` before them in descending order.
    package var sort: [String] = []
    /// Nil for the default: ``defaultLimit``, or all objects of a stream and of a count.
    package var limit: Int?
    package var offset = 0
    /// Paths of relationships whose objects are nested.
    package var include: [String] = []
    /// Attributes, to-one relationships, or key paths to them: the only values of the objects. Empty for whole objects.
    package var select: [String] = []
    package var names = FetchNames.remote
    /// With remote names; with local ones dates are in ISO 8601.
    package var dates = FetchDates.model
    package var result = FetchResult.collection
    /// The objects come in several answers of one read transaction.
    package var isStreamed = false

    package init(entity: String) { self.entity = entity }
}
