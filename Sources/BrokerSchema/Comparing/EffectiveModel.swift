internal import BrokerJSON
package import BrokerModel

/// The effective model of an opened store: the model in force, and after its parts the retained parts of earlier
/// models.
///
/// The tables are always those of the effective model. So a retained part is found again, with its meaning, when a
/// later model has it.
package struct EffectiveModel {
    package let model: Model
    /// The match of the stored model with `model`.
    package let match: ModelMatch
    /// Some part is retained.
    package let keepsParts: Bool
    /// Why the retained parts conflict with the wanted model; nil when they do not.
    package let fault: String?

    /// - Parameters:
    ///   - stored: the effective model of the store before.
    ///   - keeps: whether a part that the wanted model lacks is retained.
    package init(
        _ wanted: Model, keepingFrom stored: Model, _ match: ModelMatch, inForce: Model, removal: RemovalPolicy
    ) {
        var draft = EffectiveModelDraft(wanted, stored, match)
        if removal != .drop { draft.keep(besides: inForce, keepsAll: removal == .keep) }
        guard draft.keepsParts else {
            (model, self.match, keepsParts, fault) = (wanted, match, false, nil)
            return
        }
        keepsParts = true
        do throws(ModelError) {
            let held = try ModelReader.read(JSONText(copying: Array(draft.model.text.utf8)))
            let fault = Self.fault(of: held, for: wanted)
            // For a store that is refused, the plan is made for the wanted model.
            model = fault == nil ? held : wanted
            self.match = fault == nil ? draft.match(of: held) : match
            self.fault = fault
        } catch {
            (model, self.match) = (wanted, match)
            fault = error.faults.first.map(\.message) ?? "\(error)"
        }
    }

    /// The wanted model's rows must find their columns under the same names, and no other column may require a value.
    private static func fault(of held: Model, for wanted: Model) -> String? {
        let (there, needed) = (Schema(held), Schema(wanted))
        for table in needed.tables {
            guard let found = there.tables.first(where: { $0.name.hasSameBytes(as: table.name) }) else {
                return "the links of \(table.name) would be in another table"
            }
            for column in table.columns
            where !found.columns.contains(where: { $0.name.hasSameBytes(as: column.name) && $0.type == column.type }) {
                return "\(table.name).\(column.name) would have another name beside the retained tables"
            }
            for column in found.columns
            where column.isRequired && !table.columns.contains(where: { $0.name.hasSameBytes(as: column.name) }) {
                return "no row of \(table.name) could be inserted without its \(column.name)"
            }
        }
        return nil
    }
}

/// A draft of the effective model: sufficient for writing it; reading it resolves it again.
private struct EffectiveModelDraft {
    package private(set) var keepsParts = false
    private let stored: Model
    private let wanted: Model
    private let before: ModelMatch
    private var entities: [Entity]
    /// By entity of the draft: its index in the stored model.
    private var olds: [Int?]
    /// By entity of the draft: its own parts, without inherited ones.
    private var own: [(attributes: [Int], relationships: [Int])]
    /// Retained relationships, with their definitions in the stored model.
    private var unlinked: [(entity: Int, place: Int, before: Relationship)] = []

    package init(_ wanted: Model, _ stored: Model, _ match: ModelMatch) {
        (self.stored, self.wanted, before) = (stored, wanted, match)
        entities = wanted.entities.map(Self.cleared)
        olds = match.entities.map(\.old)
        own = wanted.entities.map { entity in
            let parent = entity.parent.map { wanted.entities[$0] }
            return (
                Array(entity.attributeIndices.dropFirst(parent?.attributeIndices.count ?? 0)),
                Array(entity.relationshipIndices.dropFirst(parent?.relationshipIndices.count ?? 0))
            )
        }
    }

    /// A retained part may have a name that another part had before, and mappings are not retained.
    private static func cleared(_ entity: Entity) -> Entity {
        var entity = entity
        entity.renamedFrom = nil
        for index in entity.attributes.indices { entity.attributes[index].renamedFrom = nil }
        for index in entity.relationships.indices {
            entity.relationships[index].renamedFrom = nil
            entity.relationships[index].mapping = nil
        }
        return entity
    }

    // MARK: - Retained parts

    package mutating func keep(besides inForce: Model, keepsAll: Bool) {
        let retained = RetainedParts(in: stored, besides: inForce)
        let gone = stored.entities.indices.filter {
            before.entity(for: $0) == nil && (keepsAll || retained.has(entity: $0))
        }
        // Parents first.
        for index in gone.sorted(by: { stored.ancestors(of: $0).count < stored.ancestors(of: $1).count }) {
            keep(entity: index)
        }
        for new in wanted.entities.indices {
            guard let old = olds[new] else { continue }
            let entity = stored.entities[old]
            for kind in PartKind.allCases {
                for place in entity.indices(of: kind)
                where before.place(kind, for: place, of: new) == nil
                    && !before.inherits(kind, place, of: new, stored, wanted)
                    && (keepsAll || retained.has(kind, place, of: old))
                    && !before.released.contains(stored.part(kind, place, of: old))
                {
                    keepsParts = true
                    keep(kind, place, of: old, in: new)
                }
            }
        }
        guard keepsParts else { return }
        compose()
        retainLists()
        link()
    }

    private mutating func keep(entity old: Int) {
        keepsParts = true
        var entity = Self.cleared(stored.entities[old])
        let parent = entity.parent
        entity.parent = parent.flatMap(heldEntity)
        // In a hierarchy that continues, the changed model decides the order of its entities' parts.
        if let top = entity.parent.map(topmost) {
            (entity.attributes, entity.relationships) = (entities[top].attributes, entities[top].relationships)
        } else {
            (entity.attributes, entity.relationships) = ([], [])
        }
        (entity.unique, entity.indexes) = ([], [])
        // They concern records, and retained entities receive none.
        (entity.modified, entity.tombstone) = (nil, nil)
        let identity = entity.identity
        let new = entities.count
        entities.append(entity)
        olds.append(old)
        own.append(([], []))
        let inherited = parent.map { stored.entities[$0] }
        for kind in PartKind.allCases {
            for place in entity.indices(of: kind) where inherited?.indices(of: kind).contains(place) != true {
                keep(kind, place, of: old, in: new)
            }
        }
        entities[new].attributeIndices = []
        entities[new].relationshipIndices = []
        retainedIdentities.append((new, identity))
    }

    /// Identities of retained entities, by indices of the stored model.
    private var retainedIdentities: [(entity: Int, identity: [Int])] = []

    private func heldEntity(_ old: Int) -> Int? { olds.firstIndex { $0 == old } }

    private func topmost(of entity: Int) -> Int {
        var topmost = entity
        while let parent = entities[topmost].parent { topmost = parent }
        return topmost
    }

    private mutating func keep(_ kind: PartKind, _ place: Int, of old: Int, in new: Int) {
        let retained = Self.cleared(stored.entities[old])
        let topmost = topmost(of: new)
        let members = entities.indices.filter { self.topmost(of: $0) == topmost }
        switch kind {
        case .attribute:
            own[new].attributes.append(entities[new].attributes.count)
            for index in members { entities[index].attributes.append(retained.attributes[place]) }
        case .relationship:
            unlinked.append((new, entities[new].relationships.count, retained.relationships[place]))
            own[new].relationships.append(entities[new].relationships.count)
            for index in members { entities[index].relationships.append(retained.relationships[place]) }
        }
    }

    /// Composes each entity from the parts of its parent and its own.
    private mutating func compose() {
        for index in entities.indices {
            var line = [index]
            while let parent = entities[line[0]].parent { line.insert(parent, at: 0) }
            entities[index].attributeIndices = line.flatMap { own[$0].attributes }
            entities[index].relationshipIndices = line.flatMap { own[$0].relationships }
        }
        for (entity, identity) in retainedIdentities {
            entities[entity].identity = identity.compactMap { heldAttribute($0, olds[entity]!, in: entity) }
        }
    }

    /// The index of an earlier attribute of an entity; it may have another name, unless it is retained.
    private func heldAttribute(_ old: Int, _ oldEntity: Int, in entity: Int) -> Int? {
        var ancestor: Int? = entity
        while let current = ancestor {
            if current < wanted.entities.count, let place = before.place(.attribute, for: old, of: current) {
                return place
            }
            ancestor = entities[current].parent
        }
        return entities[entity].index(ofAttribute: stored.entities[oldEntity].attributes[old].name)
    }

    private func heldRelationship(_ old: Int, _ oldEntity: Int, in entity: Int) -> Int? {
        if entity < wanted.entities.count, let place = before.place(.relationship, for: old, of: entity) {
            return place
        }
        return entities[entity].index(ofRelationship: stored.entities[oldEntity].relationships[old].name)
    }

    /// Retains unique lists and indexes that need a retained attribute.
    private mutating func retainLists() {
        for index in entities.indices {
            guard let old = olds[index] else { continue }
            let entity = stored.entities[old]
            let topmost = topmost(of: index)
            let keptFrom = topmost < wanted.entities.count ? wanted.entities[topmost].attributes.count : 0
            func mapped(_ list: [Int]) -> [Int]? {
                guard list.allSatisfy(entity.attributeIndices.contains) else { return nil }
                let places = list.compactMap { heldAttribute($0, old, in: index) }
                return places.count == list.count && places.contains { $0 >= keptFrom } ? places : nil
            }
            let (unique, indexes) = (entity.unique.compactMap(mapped), entity.indexes.compactMap(mapped))
            for member in entities.indices where self.topmost(of: member) == topmost {
                for list in unique where !entities[member].unique.contains(list) {
                    entities[member].unique.append(list)
                }
                for list in indexes where !entities[member].indexes.contains(list) {
                    entities[member].indexes.append(list)
                }
            }
        }
    }

    /// Links retained relationships with their destinations and inverses.
    private mutating func link() {
        for (entity, place, old) in unlinked {
            // The destination is missing: then the store is refused anyway, and this model only serves to report why.
            let found = heldEntity(old.destination)
            let destination = found ?? entity
            let inverse =
                found == nil ? nil : old.inverse.flatMap { heldRelationship($0, old.destination, in: destination) }
            entities[entity].relationships[place].destination = destination
            entities[entity].relationships[place].inverse = inverse
            guard let inverse else { continue }
            entities[destination].relationships[inverse].inverse = place
            if destination < wanted.entities.count, inverse < wanted.entities[destination].relationships.count {
                // The model in force has no inverse, so the links end with the objects to which they lead.
                entities[entity].relationships[place].deleteRule = .nullify
            }
        }
    }

    // MARK: - The complete model

    package var model: Model { Model(entities: entities) }

    /// The match of the stored model with this one, after it is written and read.
    package func match(of held: Model) -> ModelMatch {
        let entities = held.entities.enumerated().map { index, entity in
            func places(_ kind: PartKind) -> [Int?] {
                entity.names(of: kind).enumerated().map { place, name in
                    entity.indices(of: kind).contains(place) ? self.place(kind, named: name, of: index) : nil
                }
            }
            return ModelMatch.Entity(
                old: olds[index], attributes: places(.attribute), relationships: places(.relationship))
        }
        return ModelMatch(from: stored, to: held, entities: entities)
    }

    private func place(_ kind: PartKind, named name: String, of entity: Int) -> Int? {
        guard let old = olds[entity] else { return nil }
        if entity < wanted.entities.count, let place = wanted.entities[entity].index(of: kind, named: name) {
            return before.entities[entity][kind][place]
        }
        if let parent = entities[entity].parent, entities[parent].index(of: kind, named: name) != nil,
            let found = place(kind, named: name, of: parent)
        {
            return stored.entities[old].indices(of: kind).contains(found) ? found : nil
        }
        return stored.entities[old].index(of: kind, named: name)
    }
}

/// The kinds of an entity's parts. Both are matched, retained and compared by the same rules.
package enum PartKind: CaseIterable {
    case attribute, relationship
}

extension Entity {
    /// Indices of the parts that its objects have, inherited ones first.
    func indices(of kind: PartKind) -> [Int] { kind == .attribute ? attributeIndices : relationshipIndices }

    func names(of kind: PartKind) -> [String] {
        kind == .attribute ? attributes.map(\.name) : relationships.map(\.name)
    }

    func name(of kind: PartKind, _ index: Int) -> String {
        kind == .attribute ? attributes[index].name : relationships[index].name
    }

    /// Among those that its objects have.
    func index(of kind: PartKind, named name: String) -> Int? {
        kind == .attribute ? index(ofAttribute: name) : index(ofRelationship: name)
    }

    func renamedFrom(_ kind: PartKind, _ index: Int) -> String? {
        kind == .attribute ? attributes[index].renamedFrom : relationships[index].renamedFrom
    }
}
