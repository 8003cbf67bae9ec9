package import BrokerModel

/// A fetch that a model can answer; all names are resolved.
package struct FetchRequest: Sendable {
    /// Orders objects by an attribute: the entity's own, or one at the end of to-one relationships.
    package struct SortTerm: Sendable, Equatable {
        /// Indices of relationships: the first of the fetched entity, each next one of the previous destination.
        package var path: [Int]
        /// Index in the entity at the end of the path.
        package var attribute: Int
        package var isDescending: Bool
    }

    /// A relationship whose objects are nested, with the relationships nested in those.
    package struct Inclusion: Sendable {
        package var relationship: Int
        package var inclusions: [Inclusion]
    }

    /// A value that the objects have by the name with which a client selected it.
    package struct SelectedValue: Sendable, Equatable {
        package enum Kind: Sendable, Equatable {
            /// Index in the entity at the end of the path.
            case attribute(Int)
            /// The key of the object to which this relationship of the entity at the end of the path leads.
            case relationship(Int)
        }

        package var name: String
        /// To-one relationships, as of ``SortTerm/path``.
        package var path: [Int]
        package var kind: Kind
    }

    /// The plan that resolved the names; nil for a request without one.
    package internal(set) var plan: StagingPlan?
    package var entity: Int
    /// The predicate of the objects; nil for all.
    package var predicate: Predicate?
    /// The key values of the one object to fetch; nil for all.
    package var key: [OwnedCell]?
    /// The key values after which the objects come, in the order of their keys; nil from the first. Not with `sort`.
    package var after: [OwnedCell]?
    package var sort: [SortTerm] = []
    /// `Int.max` for all objects.
    package var limit = FetchDescription.defaultLimit
    package var offset = 0
    package var inclusions: [Inclusion] = []
    /// The only values of the objects; empty for whole objects. Not with inclusions.
    package var selection: [SelectedValue] = []
    package var names = FetchNames.remote
    package var dates = FetchDates.model
    package var result = FetchResult.collection
    /// The objects come in several answers.
    package var isStreamed = false

    /// A fetch of all objects of an entity.
    package init(entity: Int) { self.entity = entity }
}
