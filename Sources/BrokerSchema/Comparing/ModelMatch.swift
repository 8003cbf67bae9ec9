import BrokerModel

/// Matches the parts of a changed model with those of the model before: by name, or by the earlier name.
///
/// For each entity, the match covers all attributes and relationships of its objects, also inherited ones: a part that
/// moves from a subentity to its parent, or the other way, is found. New parts have no counterpart; earlier parts
/// without a match are removed.
struct ModelMatch {
    struct Entity {
        /// Nil when the entity is new.
        var old: Int?
        /// By index in the entity's hierarchy; nil where its objects do not have the attribute, or did not have it.
        var attributes: [Int?]
        var relationships: [Int?]

        subscript(kind: PartKind) -> [Int?] { kind == .attribute ? attributes : relationships }
    }

    /// By entity of the changed model.
    private(set) var entities: [Entity]
    /// Parts of the earlier model without a value in any row, which no part of the changed model continues.
    private(set) var released: Set<StoredPart> = []
    /// By entity of the changed model, the topmost entity of the earlier hierarchy whose table has its objects; nil
    /// when they have a new table.
    let tables: [Int?]
    /// By entity of the earlier model.
    private let successors: [Int: Int]

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
        successors = Dictionary(
            entities.enumerated().compactMap { index, entity in entity.old.map { ($0, index) } },
            uniquingKeysWith: { first, _ in first })
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

    /// Separates parts without values from their counterparts: they are removed, and the counterparts are new.
    mutating func release(_ parts: Set<StoredPart>, of old: Model) {
        released.formUnion(parts)
        for index in entities.indices {
            guard let former = entities[index].old else { continue }
            func kept(_ kind: PartKind) -> [Int?] {
                entities[index][kind].map { place in
                    place.flatMap { parts.contains(old.part(kind, $0, of: former)) ? nil : $0 }
                }
            }
            (entities[index].attributes, entities[index].relationships) = (kept(.attribute), kept(.relationship))
        }
    }

    private static func match(_ entity: BrokerModel.Entity, _ old: (index: Int, entity: BrokerModel.Entity)?) -> Entity
    {
        func places(_ kind: PartKind) -> [Int?] {
            let names = entity.names(of: kind)
            var places: [Int?] = names.map { _ in nil }
            guard let former = old?.entity else { return places }
            var taken: Set<Int> = []
            for index in entity.indices(of: kind) {
                let before = entity.renamedFrom(kind, index).flatMap {
                    entity.index(of: kind, named: $0) == nil ? former.index(of: kind, named: $0) : nil
                }
                let found = former.index(of: kind, named: names[index]) ?? before
                if let found, taken.insert(found).inserted { places[index] = found }
            }
            return places
        }
        return Entity(old: old?.index, attributes: places(.attribute), relationships: places(.relationship))
    }

    /// The entity of the changed model that matches the earlier one with that index; nil when there is none.
    func entity(for old: Int) -> Int? { successors[old] }

    /// The part of an entity of the changed model that matches the earlier one with that index; nil when there is none.
    func place(_ kind: PartKind, for old: Int, of entity: Int) -> Int? {
        entities[entity][kind].firstIndex { $0 == old }
    }
}

// MARK: - Owned objects

extension ModelMatch {
    /// The earlier relationship that leads to the owner, from which stored objects can take an attribute that identifies
    /// them now; nil where that is no new attribute with a value of the owner, or the owner had an identity before.
    func ownerLink(for attribute: Int, of entity: Int, _ stored: Model, _ wanted: Model) -> Int? {
        let added = wanted.entities[entity].attributes[attribute]
        guard added.holderValue != nil, entities[entity].attributes[attribute] == nil,
            let owner = wanted.holders.owners[entity], !wanted.entities[owner.entity].hasRowKey,
            let inverse = wanted.entities[owner.entity].relationships[owner.relationship].inverse,
            let old = entities[entity].old, let link = entities[entity].relationships[inverse]
        else { return nil }
        let before = stored.entities[old]
        let isTaken = before.attributes.contains { FoldedName($0.column) == FoldedName(added.column) }
        let relationship = before.relationships[link]
        guard before.identity.isEmpty, !isTaken, !relationship.isToMany,
            stored.entities[stored.topmost(of: relationship.destination)].hasRowKey
        else { return nil }
        return link
    }
}

// MARK: - Inheritance

extension ModelMatch {
    /// Whether an entity inherited a part, and still inherits its counterpart: the change is then reported, and the part
    /// retained, with the ancestor.
    func inherits(_ kind: PartKind, _ old: Int, of entity: Int, _ stored: Model, _ wanted: Model) -> Bool {
        let now = place(kind, for: old, of: entity)
        return ancestors(of: entity, stored, wanted).contains {
            stored.entities[$0.old].indices(of: kind).contains(old) && place(kind, for: old, of: $0.new) == now
        }
    }

    /// Entities above it in both models.
    private func ancestors(of entity: Int, _ stored: Model, _ wanted: Model) -> [(old: Int, new: Int)] {
        guard let old = entities[entity].old else { return [] }
        let above = stored.ancestors(of: old)
        return wanted.ancestors(of: entity).compactMap { ancestor in
            guard let found = entities[ancestor].old, above.contains(found) else { return nil }
            return (found, ancestor)
        }
    }
}
