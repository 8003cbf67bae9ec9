internal import BrokerModel

/// Which part of a changed model is which part of the model before: found by its name, else by the name before.
///
/// Indices of parts that are new have no counterpart; parts before that nothing is matched with are gone.
struct ModelMatch {
    struct Entity {
        /// Nil when the entity is new.
        var old: Int?
        var attributes: [Int?]
        var relationships: [Int?]
    }

    /// By entity of the changed model.
    private(set) var entities: [Entity]

    init(from old: Model, to new: Model) {
        entities = new.entities.map { entity in
            let index =
                old.index(ofEntity: entity.name) ?? entity.renamedFrom.flatMap { name in old.index(ofEntity: name) }
            guard let index else {
                return Entity(
                    old: nil, attributes: entity.attributes.map { _ in nil },
                    relationships: entity.relationships.map { _ in nil })
            }
            let former = old.entities[index]
            return Entity(
                old: index,
                attributes: entity.attributes.map { attribute in
                    former.index(ofAttribute: attribute.name)
                        ?? attribute.renamedFrom.flatMap(former.index(ofAttribute:))
                },
                relationships: entity.relationships.map { relationship in
                    former.index(ofRelationship: relationship.name)
                        ?? relationship.renamedFrom.flatMap(former.index(ofRelationship:))
                })
        }
    }

    /// The entity of the changed model that was the one of that index; nil when it is gone.
    func entity(for old: Int) -> Int? { entities.firstIndex { $0.old == old } }

    func attribute(for old: Int, of entity: Int) -> Int? { entities[entity].attributes.firstIndex { $0 == old } }

    func relationship(for old: Int, of entity: Int) -> Int? {
        entities[entity].relationships.firstIndex { $0 == old }
    }

    /// The changed model has got parts behind its own, which were there before.
    mutating func append(entity old: Int, of model: Model) {
        let entity = model.entities[old]
        entities.append(
            Entity(
                old: old, attributes: entity.attributes.indices.map { $0 },
                relationships: entity.relationships.indices.map { $0 }))
    }

    mutating func append(attribute old: Int, to entity: Int) { entities[entity].attributes.append(old) }

    mutating func append(relationship old: Int, to entity: Int) { entities[entity].relationships.append(old) }
}
