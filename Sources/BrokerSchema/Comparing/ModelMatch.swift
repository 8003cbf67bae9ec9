package import BrokerModel

/// Matches the parts of a changed model with those of the model before: by name, or by the earlier name.
///
/// For each entity, the match covers all attributes and relationships of its objects, also inherited ones: a part that
/// moves from a subentity to its parent, or the other way, is found. New parts have no counterpart; earlier parts
/// without a match are removed.
package struct ModelMatch {
    package struct Entity {
        /// Nil when the entity is new.
        var old: Int?
        /// By index in the entity's hierarchy; nil where its objects do not have the attribute, or did not have it.
        var attributes: [Int?]
        var relationships: [Int?]
    }

    /// By entity of the changed model.
    package let entities: [Entity]
    /// By entity of the changed model, the topmost entity of the earlier hierarchy whose table has its objects; nil
    /// when they have a new table.
    package let tables: [Int?]

    package init(from old: Model, to new: Model) {
        self.init(
            from: old, to: new,
            entities: new.entities.map { entity in
                let index =
                    old.index(ofEntity: entity.name) ?? entity.renamedFrom.flatMap { name in old.index(ofEntity: name) }
                return Self.match(entity, index.map { ($0, old.entities[$0]) })
            })
    }

    package init(from old: Model, to new: Model, entities: [Entity]) {
        self.entities = entities
        var tables: [Int?] = new.entities.map { _ in nil }
        var taken: Set<Int> = []
        for topmost in new.tableEntities {
            // The table belongs to the topmost entity, otherwise to the first that existed before.
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

    /// The entity of the changed model that matches the earlier one with that index; nil when there is none.
    package func entity(for old: Int) -> Int? { entities.firstIndex { $0.old == old } }

    package func attribute(for old: Int, of entity: Int) -> Int? {
        entities[entity].attributes.firstIndex { $0 == old }
    }

    package func relationship(for old: Int, of entity: Int) -> Int? {
        entities[entity].relationships.firstIndex { $0 == old }
    }
}

// MARK: - Inheritance

extension ModelMatch {
    /// Whether an entity inherited an attribute, and still inherits its counterpart: the change is then reported, and
    /// the attribute retained, with the ancestor.
    package func inherits(attribute old: Int, of entity: Int, _ stored: Model, _ wanted: Model) -> Bool {
        let now = attribute(for: old, of: entity)
        return ancestors(of: entity, stored, wanted).contains {
            stored.entities[$0.old].attributeIndices.contains(old) && attribute(for: old, of: $0.new) == now
        }
    }

    package func inherits(relationship old: Int, of entity: Int, _ stored: Model, _ wanted: Model) -> Bool {
        let now = relationship(for: old, of: entity)
        return ancestors(of: entity, stored, wanted).contains {
            stored.entities[$0.old].relationshipIndices.contains(old) && relationship(for: old, of: $0.new) == now
        }
    }

    /// Entities above it in both models.
    private func ancestors(of entity: Int, _ stored: Model, _ wanted: Model) -> [(old: Int, new: Int)] {
        guard let old = entities[entity].old else { return [] }
        let above = stored.ancestors(of: old)
        // Retained entities come after those of the wanted model, and have no ancestors there.
        guard entity < wanted.entities.count else { return [] }
        return wanted.ancestors(of: entity).compactMap { ancestor in
            guard let found = entities[ancestor].old, above.contains(found) else { return nil }
            return (found, ancestor)
        }
    }
}
