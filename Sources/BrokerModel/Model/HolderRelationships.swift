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
