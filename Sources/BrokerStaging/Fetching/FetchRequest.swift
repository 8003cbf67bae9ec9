public import BrokerModel

/// A fetch that a model can answer; all names are resolved.
public struct FetchRequest: Sendable {
    /// Objects come in the order of an attribute: the entity's own, or one at the end of to-one relationships.
    public struct SortTerm: Sendable, Equatable {
        /// Indices of relationships, the first of the fetched entity, each next one of the one before it.
        public var path: [Int]
        /// Of the entity at the end of the path.
        public var attribute: Int
        public var isDescending: Bool
    }

    /// A relationship whose objects are nested, and what is nested in those.
    public struct Inclusion: Sendable {
        public var relationship: Int
        public var inclusions: [Inclusion]
    }

    /// By whose model it was made; nil of one that was made without.
    public internal(set) var plan: StagingPlan?
    public var entity: Int
    /// What the objects match; nil for all.
    public var predicate: Predicate?
    /// The values of the key of the one object that is meant; nil for all.
    public var key: [OwnedCell]?
    public var sort: [SortTerm] = []
    public var limit = FetchDescription.defaultLimit
    public var offset = 0
    public var inclusions: [Inclusion] = []
    public var names = FetchNames.remote
    public var result = FetchResult.collection

    /// Every object of an entity.
    public init(entity: Int) { self.entity = entity }
}
