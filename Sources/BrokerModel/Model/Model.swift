/// A data model: read once, checked completely, then immutable and shared by every thread.
///
/// Entities, attributes, relationships and mappings refer to each other by index, in the order in which the model names
/// them.
package final class Model: Sendable {
    package let entities: [Entity]
    package let mappings: [Mapping]
    /// In the order in which they are tried.
    package let routes: [Route]
    /// For people.
    package let description: String?
    /// The digest by which `broker submit` sees whether a person has edited the model that it inferred; nil otherwise.
    package let inferred: String?
    package let holders: HolderRelationships
    /// By entity index.
    private let families: [Family]
    /// Topmost entities whose hierarchies' objects may be linked to any number of others, or have delete rules.
    private let reaching: Set<Int>
    /// By the bytes of the name: client's names are compared as bytes, never by Unicode's normal forms.
    private let indexByName: [ExactText: Int]
    private let mappingByName: [ExactText: Int]

    /// The ancestors and subentities of an entity.
    private struct Family: Sendable {
        var topmost: Int
        /// The nearest one first.
        var ancestors: [Int] = []
        /// The entity itself and those below it, in the model's order.
        var subentities: [Int] = []
    }

    /// - Precondition: every index is in range, names are unique, and parents form no circle. ``ModelReader`` ensures
    ///   that.
    package init(
        entities: [Entity], mappings: [Mapping] = [], routes: [Route] = [], description: String? = nil,
        inferred: String? = nil
    ) {
        self.entities = entities
        self.mappings = mappings
        self.routes = routes
        self.description = description
        self.inferred = inferred
        holders = HolderRelationships(entities)
        var families = entities.indices.map { Family(topmost: $0) }
        for index in entities.indices {
            var ancestor = index
            families[index].subentities.append(index)
            while let parent = entities[ancestor].parent {
                families[index].ancestors.append(parent)
                families[parent].subentities.append(index)
                ancestor = parent
            }
            families[index].topmost = ancestor
        }
        for index in families.indices { families[index].subentities.sort() }
        self.families = families
        reaching = entities.enumerated().reduce(into: []) { reaching, entity in
            for relationship in entity.element.relationships {
                if relationship.isToMany || [.cascade, .deny].contains(relationship.deleteRule) {
                    reaching.insert(families[entity.offset].topmost)
                }
                if relationship.inverse == nil { reaching.insert(families[relationship.destination].topmost) }
            }
        }
        indexByName = Dictionary(uniqueKeysWithValues: entities.enumerated().map { (ExactText($1.name), $0) })
        mappingByName = Dictionary(uniqueKeysWithValues: mappings.enumerated().map { (ExactText($1.name), $0) })
    }

    /// The index of the entity of that name (exact case); nil when the model has none.
    package func index(ofEntity name: String) -> Int? { indexByName[ExactText(name)] }

    /// The index of the mapping of that name (exact case); nil when the model has none.
    package func index(ofMapping name: String) -> Int? { mappingByName[ExactText(name)] }

    /// The other side of a relationship; nil when it has no inverse.
    package func inverse(of relationship: Relationship) -> Relationship? {
        relationship.inverse.map { entities[relationship.destination].relationships[$0] }
    }

    /// The column, besides a to-one relationship's own, of the object's position in the ordered list of its inverse;
    /// nil when the inverse is not ordered.
    package func positionColumn(of relationship: Relationship) -> String? {
        inverse(of: relationship).flatMap { Self.positionColumn(of: relationship, inverse: $0) }
    }

    static func positionColumn(of relationship: Relationship, inverse: Relationship) -> String? {
        !relationship.isToMany && inverse.isOrdered ? "\(relationship.column)_position" : nil
    }
}

// MARK: - Hierarchies

extension Model {
    /// The entity whose table has the objects: the topmost entity, or the entity itself.
    package func topmost(of entity: Int) -> Int { families[entity].topmost }

    /// The entities that it inherits from, the nearest one first.
    package func ancestors(of entity: Int) -> [Int] { families[entity].ancestors }

    /// The entity itself and all that inherit from it, in the model's order: the possible concrete entities of its
    /// objects.
    package func subentities(of entity: Int) -> [Int] { families[entity].subentities }

    /// Whether the entity shares a table with other entities.
    package func isInHierarchy(_ entity: Int) -> Bool { families[families[entity].topmost].subentities.count > 1 }

    /// The entity whose table has a relationship's destinations.
    package func destinationTable(_ entity: Int, _ relationship: Int) -> Int {
        topmost(of: entities[entity].relationships[relationship].destination)
    }

    /// The name of the table that has the entity's objects.
    package func table(of entity: Int) -> String { entities[topmost(of: entity)].table }

    /// Entities that have a table of their own, or for their hierarchy.
    package var tableEntities: [Int] { entities.indices.filter { entities[$0].parent == nil } }

    /// Whether deleting one object of the entity, or of its hierarchy, may delete or change any number of others.
    package func deletionReachesOthers(_ entity: Int) -> Bool { reaching.contains(topmost(of: entity)) }

    /// Whether an object of `entity` is also an object of `other`.
    package func isKind(_ entity: Int, of other: Int) -> Bool {
        entity == other || families[entity].ancestors.contains(other)
    }
}
