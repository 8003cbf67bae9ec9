internal import BrokerModel

/// Of what a store holds, the parts that are not in force: kept from models before, unused.
struct KeptParts {
    private let stored: Model
    private let inForce: Model

    init(in stored: Model, besides inForce: Model) {
        self.stored = stored
        self.inForce = inForce
    }

    func has(entity: Int) -> Bool { inForce.index(ofEntity: stored.entities[entity].name) == nil }

    func has(attribute: Int, of entity: Int) -> Bool {
        guard let found = inForceEntity(entity) else { return false }
        return found.index(ofAttribute: stored.entities[entity].attributes[attribute].name) == nil
    }

    func has(relationship: Int, of entity: Int) -> Bool {
        guard let found = inForceEntity(entity) else { return false }
        return found.index(ofRelationship: stored.entities[entity].relationships[relationship].name) == nil
    }

    private func inForceEntity(_ entity: Int) -> Entity? {
        inForce.index(ofEntity: stored.entities[entity].name).map { inForce.entities[$0] }
    }
}

/// What a store holds once it is opened: the model in force, and behind its parts those that are kept.
///
/// The tables are always those of this model. So what is kept is found again, with its meaning, when a model has it again.
struct HeldModel {
    let model: Model
    /// Of the stored model to ``model``.
    let match: ModelMatch
    /// Something is kept.
    let keepsParts: Bool

    /// - Parameters:
    ///   - stored: what the store held before.
    ///   - keeps: of a part that the wanted model lacks, whether it stays.
    init(
        _ wanted: Model, keepingFrom stored: Model, _ match: ModelMatch, inForce: Model, removal: RemovalPolicy
    ) {
        guard removal != .drop else {
            (model, self.match, keepsParts) = (wanted, match, false)
            return
        }
        let kept = KeptParts(in: stored, besides: inForce)
        var draft = HeldModelDraft(wanted, stored, match)
        for (index, _) in stored.entities.enumerated() where match.entity(for: index) == nil {
            if removal == .keep || kept.has(entity: index) { draft.keep(entity: index) }
        }
        for (index, entity) in stored.entities.enumerated() {
            guard let new = match.entity(for: index) else { continue }
            for attribute in entity.attributes.indices where match.attribute(for: attribute, of: new) == nil {
                if removal == .keep || kept.has(attribute: attribute, of: index) {
                    draft.keep(attribute: attribute, of: index, in: new)
                }
            }
            for relationship in entity.relationships.indices
            where match.relationship(for: relationship, of: new) == nil {
                if removal == .keep || kept.has(relationship: relationship, of: index) {
                    draft.keep(relationship: relationship, of: index, in: new)
                }
            }
            draft.keepLists(of: index, in: new)
        }
        draft.link()
        (model, self.match, keepsParts) = (Model(entities: draft.entities), draft.match, draft.keepsParts)
    }
}

/// A held model that is being made.
private struct HeldModelDraft {
    private(set) var entities: [Entity]
    private(set) var match: ModelMatch
    private(set) var keepsParts = false
    private let stored: Model
    /// Kept relationships, and as the stored model has them.
    private var unlinked: [(entity: Int, relationship: Int, before: Relationship)] = []
    /// By entity of the wanted model; behind so many are the kept ones.
    private let wantedCounts: [(attributes: Int, relationships: Int)]

    init(_ wanted: Model, _ stored: Model, _ match: ModelMatch) {
        entities = wanted.entities
        // A kept part may bear the name that another had before.
        for entity in entities.indices {
            entities[entity].renamedFrom = nil
            for index in entities[entity].attributes.indices { entities[entity].attributes[index].renamedFrom = nil }
            for index in entities[entity].relationships.indices {
                entities[entity].relationships[index].renamedFrom = nil
            }
        }
        wantedCounts = wanted.entities.map { ($0.attributes.count, $0.relationships.count) }
        self.stored = stored
        self.match = match
    }

    mutating func keep(entity old: Int) {
        keepsParts = true
        unlinked += stored.entities[old].relationships.enumerated().map { (entities.count, $0, $1) }
        entities.append(stored.entities[old])
        match.append(entity: old, of: stored)
    }

    mutating func keep(attribute: Int, of old: Int, in new: Int) {
        keepsParts = true
        entities[new].attributeIndices.append(entities[new].attributes.count)
        entities[new].attributes.append(stored.entities[old].attributes[attribute])
        match.append(attribute: attribute, to: new)
    }

    mutating func keep(relationship: Int, of old: Int, in new: Int) {
        keepsParts = true
        let before = stored.entities[old].relationships[relationship]
        unlinked.append((new, entities[new].relationships.count, before))
        entities[new].relationshipIndices.append(entities[new].relationships.count)
        entities[new].relationships.append(before)
        match.append(relationship: relationship, to: new)
    }

    /// Unique lists and indexes that need a kept attribute.
    mutating func keepLists(of old: Int, in new: Int) {
        let entity = stored.entities[old]
        let wanted = match.entities[new].attributes
        func mapped(_ list: [Int]) -> [Int]? {
            let list = list.map { attribute in wanted.firstIndex { $0 == attribute } }
            return list.allSatisfy { $0 != nil } ? list.map { $0! } : nil
        }
        let keptFrom = wantedCounts[new].attributes
        for list in entity.unique.compactMap(mapped) where list.contains(where: { $0 >= keptFrom }) {
            entities[new].unique.append(list)
        }
        for list in entity.indexes.compactMap(mapped) where list.contains(where: { $0 >= keptFrom }) {
            entities[new].indexes.append(list)
        }
    }

    /// Kept relationships find their destinations and inverses again.
    mutating func link() {
        for (entity, index, old) in unlinked {
            // The destination is gone: then the store is refused anyway, and this model is for telling why alone.
            let destination = match.entity(for: old.destination) ?? entity
            let inverse =
                destination == match.entity(for: old.destination)
                ? old.inverse.flatMap { match.relationship(for: $0, of: destination) } : nil
            entities[entity].relationships[index].destination = destination
            entities[entity].relationships[index].inverse = inverse
            guard let inverse else { continue }
            entities[destination].relationships[inverse].inverse = index
            if destination < wantedCounts.count, inverse < wantedCounts[destination].relationships {
                // What is in force has no inverse, and so its links end with what they lead to.
                entities[entity].relationships[index].deleteRule = .nullify
            }
        }
    }
}
