/// What the entities are: read once, checked whole, then immutable and shared by every thread.
///
/// Entities, attributes and relationships refer to each other by index, in the order in which the model names them.
public struct Model: Sendable {
    public let entities: [Entity]
    /// By the bytes of the name: what clients ask for is compared as it stands, never by Unicode's normal forms.
    private let indexByName: [[UInt8]: Int]

    /// - Precondition: every index inside `entities` is in range and names are unique; ``ModelReader`` sees to that.
    public init(entities: [Entity]) {
        self.entities = entities
        indexByName = Dictionary(uniqueKeysWithValues: entities.enumerated().map { (Array($1.name.utf8), $0) })
    }

    /// The index of the entity of that name (exact case), nil when the model has none.
    public func index(ofEntity name: String) -> Int? { indexByName[Array(name.utf8)] }

    /// The other side of a relationship, nil when it has no inverse.
    public func inverse(of relationship: Relationship) -> Relationship? {
        relationship.inverse.map { entities[relationship.destination].relationships[$0] }
    }

    /// The column beside a to-one relationship's own in which its object's place stands among the others that its
    /// inverse holds; nil when that keeps no order.
    public func positionColumn(of relationship: Relationship) -> String? {
        inverse(of: relationship).flatMap { Self.positionColumn(of: relationship, inverse: $0) }
    }

    static func positionColumn(of relationship: Relationship, inverse: Relationship) -> String? {
        !relationship.isToMany && inverse.isOrdered ? "\(relationship.name)_position" : nil
    }
}
