public import BrokerModel

/// A fetch that a model can answer; all names are resolved.
public struct FetchRequest: Sendable {
    /// Orders objects by an attribute: the entity's own, or one at the end of to-one relationships.
    public struct SortTerm: Sendable, Equatable {
        /// Indices of relationships: the first of the fetched entity, each next one of the previous destination.
        public var path: [Int]
        /// Index in the entity at the end of the path.
        public var attribute: Int
        public var isDescending: Bool
    }

    /// A relationship whose objects are nested, with the relationships nested in those.
    public struct Inclusion: Sendable {
        public var relationship: Int
        public var inclusions: [Inclusion]
    }

    /// The plan that resolved the names; nil for a request without one.
    public internal(set) var plan: StagingPlan?
    public var entity: Int
    /// The predicate of the objects; nil for all.
    public var predicate: Predicate?
    /// The key values of the one object to fetch; nil for all.
    public var key: [OwnedCell]?
    public var sort: [SortTerm] = []
    public var limit = FetchDescription.defaultLimit
    public var offset = 0
    public var inclusions: [Inclusion] = []
    public var names = FetchNames.remote
    public var result = FetchResult.collection

    /// A fetch of all objects of an entity.
    public init(entity: Int) { self.entity = entity }
}
