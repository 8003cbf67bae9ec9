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
        indexByName = Dictionary(firstOf: entities.enumerated().map { ($1.name, $0) })
        mappingByName = Dictionary(firstOf: mappings.enumerated().map { ($1.name, $0) })
    }

    /// The index of the entity of that name (exact case); nil when the model has none.
    package func index(ofEntity name: String) -> Int? { indexByName[name] }

    /// The index of the mapping of that name (exact case); nil when the model has none.
    package func index(ofMapping name: String) -> Int? { mappingByName[name] }

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

/// A relationship whose values may contain records of an entity.
package struct HolderRelationship: Sendable {
    /// The entity that declares it.
    package let entity: Int
    package let relationship: Int
    package let destination: Int
}

/// The relationships of a model, by the entities whose records their values may contain.
package struct HolderRelationships: Sendable {
    private let entities: [Entity]
    private var byDestination: [Int: [HolderRelationship]] = [:]
    /// By owned entity, the relationship that owns its objects.
    package private(set) var owners: [Int: HolderRelationship] = [:]

    package init(_ entities: [Entity]) {
        self.entities = entities
        for (index, entity) in entities.enumerated() {
            let inherited = Set(entity.parent.map { entities[$0].relationshipIndices } ?? [])
            for place in entity.relationshipIndices where !inherited.contains(place) {
                let relationship = entity.relationships[place]
                let holder = HolderRelationship(
                    entity: index, relationship: place, destination: relationship.destination)
                byDestination[relationship.destination, default: []].append(holder)
                if relationship.isOwned { owners[relationship.destination] = holder }
            }
        }
    }

    /// The relationships whose values may contain records of that entity: of an owned entity its owner's alone, otherwise
    /// also those that lead to entities above, because a mapping may choose an entity below.
    package func holders(of entity: Int) -> [HolderRelationship] {
        if let owner = owners[entity] { return [owner] }
        var holders: [HolderRelationship] = []
        var ancestor: Int? = entity
        while let current = ancestor {
            holders += byDestination[current] ?? []
            ancestor = entities[current].parent
        }
        return holders
    }
}
