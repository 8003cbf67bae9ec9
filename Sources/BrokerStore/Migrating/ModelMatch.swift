internal import BrokerModel

/// Which part of a changed model is which part of the model before: found by its name, else by the name before.
///
/// Attributes and relationships are matched for each entity by those that its objects have, inherited ones too: one that
/// goes from a subentity to its parent, or the other way, is found again. Parts that are new have no counterpart; parts
/// before that nothing is matched with are gone.
struct ModelMatch {
    struct Entity {
        /// Nil when the entity is new.
        var old: Int?
        /// By index in the entity's hierarchy; nil where its objects have none, or had none.
        var attributes: [Int?]
        var relationships: [Int?]
    }

    /// By entity of the changed model.
    let entities: [Entity]
    /// By entity of the changed model, the topmost one of the hierarchy before whose table its objects lie in; nil when
    /// they have a new one.
    let tables: [Int?]

    init(from old: Model, to new: Model) {
        self.init(
            from: old, to: new,
            entities: new.entities.map { entity in
                let index =
                    old.index(ofEntity: entity.name) ?? entity.renamedFrom.flatMap { name in old.index(ofEntity: name) }
                return Self.match(entity, index.map { ($0, old.entities[$0]) })
            })
    }

    init(from old: Model, to new: Model, entities: [Entity]) {
        self.entities = entities
        var tables: [Int?] = new.entities.map { _ in nil }
        var taken: Set<Int> = []
        for topmost in new.tableEntities {
            // The table goes with the topmost entity, else with the first that was there.
            let members = [topmost] + new.subentities(of: topmost)
            guard let found = members.lazy.compactMap({ entities[$0].old.map(old.topmost) }).first,
                taken.insert(found).inserted
            else { continue }
            for member in members { tables[member] = found }
        }
        self.tables = tables
    }

    private static func match(_ entity: BrokerModel.Entity, _ old: (index: Int, entity: BrokerModel.Entity)?) -> Entity
    {
        var match = Entity(
            old: old?.index, attributes: entity.attributes.map { _ in nil },
            relationships: entity.relationships.map { _ in nil })
        guard let former = old?.entity else { return match }
        var taken: Set<Int> = []
        for index in entity.attributeIndices {
            let attribute = entity.attributes[index]
            let before = attribute.renamedFrom.flatMap { entity.index(ofAttribute: $0) == nil ? $0 : nil }
            let found = former.index(ofAttribute: attribute.name) ?? before.flatMap(former.index(ofAttribute:))
            if let found, taken.insert(found).inserted { match.attributes[index] = found }
        }
        taken = []
        for index in entity.relationshipIndices {
            let relationship = entity.relationships[index]
            let before = relationship.renamedFrom.flatMap { entity.index(ofRelationship: $0) == nil ? $0 : nil }
            let found = former.index(ofRelationship: relationship.name) ?? before.flatMap(former.index(ofRelationship:))
            if let found, taken.insert(found).inserted { match.relationships[index] = found }
        }
        return match
    }

    /// The entity of the changed model that was the one of that index; nil when it is gone.
    func entity(for old: Int) -> Int? { entities.firstIndex { $0.old == old } }

    func attribute(for old: Int, of entity: Int) -> Int? { entities[entity].attributes.firstIndex { $0 == old } }

    func relationship(for old: Int, of entity: Int) -> Int? {
        entities[entity].relationships.firstIndex { $0 == old }
    }
}

// MARK: - What goes down a hierarchy

extension ModelMatch {
    /// An attribute that an entity had from one above it, as it has now what has become of it: told and kept with that.
    func inherits(attribute old: Int, of entity: Int, _ stored: Model, _ wanted: Model) -> Bool {
        let now = attribute(for: old, of: entity)
        return ancestors(of: entity, stored, wanted).contains {
            stored.entities[$0.old].attributeIndices.contains(old) && attribute(for: old, of: $0.new) == now
        }
    }

    func inherits(relationship old: Int, of entity: Int, _ stored: Model, _ wanted: Model) -> Bool {
        let now = relationship(for: old, of: entity)
        return ancestors(of: entity, stored, wanted).contains {
            stored.entities[$0.old].relationshipIndices.contains(old) && relationship(for: old, of: $0.new) == now
        }
    }

    /// Entities above it in both models.
    private func ancestors(of entity: Int, _ stored: Model, _ wanted: Model) -> [(old: Int, new: Int)] {
        guard let old = entities[entity].old else { return [] }
        let above = stored.ancestors(of: old)
        // What is kept stands behind the wanted model's entities, and has nothing above it there.
        guard entity < wanted.entities.count else { return [] }
        return wanted.ancestors(of: entity).compactMap { ancestor in
            guard let found = entities[ancestor].old, above.contains(found) else { return nil }
            return (found, ancestor)
        }
    }
}
