internal import BrokerJSON
import BrokerModel

/// Matches the parts of a changed model with those of the model before: by name, or by the earlier name.
///
/// For each entity, the match covers all attributes and relationships of its objects, also inherited ones: a part that
/// moves from a subentity to its parent, or the other way, is found. New parts have no counterpart; earlier parts
/// without a match are removed.
struct ModelMatch {
    struct Entity {
        var old: Int?
        /// By index in the entity's hierarchy; nil where its objects do not have the attribute, or did not have it.
        var attributes: [Int?]
        var relationships: [Int?]

        subscript(kind: PartKind) -> [Int?] { kind == .attribute ? attributes : relationships }
    }

    private(set) var entities: [Entity]
    /// Parts of the earlier model without a value in any row, which no part of the changed model continues.
    private(set) var released: Set<StoredPart> = []
    /// Attributes that are converted, also where their new form does not hold a value: that goes to `_extra`.
    var moved: Set<StoredPart> = []
    /// By entity of the changed model, the topmost entity of the earlier hierarchy with its objects; nil for a new table.
    let tables: [Int?]
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
        guard let value = added.holderValue, value != .content, entities[entity].attributes[attribute] == nil,
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
    /// Whether an entity inherited a part, and still inherits its counterpart: the change is then that of the ancestor.
    func inherits(_ kind: PartKind, _ old: Int, of entity: Int, _ stored: Model, _ wanted: Model) -> Bool {
        let now = place(kind, for: old, of: entity)
        return ancestors(of: entity, stored, wanted).contains {
            stored.entities[$0.old].indices(of: kind).contains(old) && place(kind, for: old, of: $0.new) == now
        }
    }

    private func ancestors(of entity: Int, _ stored: Model, _ wanted: Model) -> [(old: Int, new: Int)] {
        guard let old = entities[entity].old else { return [] }
        let above = stored.ancestors(of: old)
        return wanted.ancestors(of: entity).compactMap { ancestor in
            guard let found = entities[ancestor].old, above.contains(found) else { return nil }
            return (found, ancestor)
        }
    }
}

/// The effective model of an opened store: the model in force, and after its parts the retained parts of earlier
/// models.
///
/// The tables are always those of the effective model. So a retained part is found again, with its meaning, when a
/// later model has it.
struct EffectiveModel {
    let model: Model
    let match: ModelMatch
    let keepsParts: Bool
    /// Why the retained parts conflict with the wanted model; nil when they do not.
    let fault: String?

    init(
        _ wanted: Model, keepingFrom stored: Model, _ match: ModelMatch, inForce: Model, removal: RemovalPolicy
    ) {
        let retained = RetainedModel(wanted, stored, match, besides: inForce, removal)
        keepsParts = !retained.isEmpty
        guard keepsParts else {
            (model, self.match, fault) = (wanted, match, nil)
            return
        }
        do throws(ModelError) {
            let held = try ModelReader.read(retained.document())
            let fault = Self.fault(of: held, for: wanted)
            // For a store that is refused, the plan is made for the wanted model.
            model = fault == nil ? held : wanted
            self.match = fault == nil ? retained.match(of: held) : match
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

/// The parts of a stored model that a wanted one lacks and a store retains, and the document of both.
private struct RetainedModel {
    private let stored: Model
    private let wanted: Model
    private let before: ModelMatch
    private var entities: [Int] = []
    /// Parts of the stored model, by the index of the wanted model's entity that retains them.
    private var parts: [Int: [(kind: PartKind, place: Int)]] = [:]
    /// All retained parts, also those of retained entities.
    private var all: Set<StoredPart> = []

    init(_ wanted: Model, _ stored: Model, _ match: ModelMatch, besides inForce: Model, _ removal: RemovalPolicy) {
        (self.stored, self.wanted, before) = (stored, wanted, match)
        let unused = RetainedParts(stored: stored, inForce: inForce)
        entities = stored.entities.indices.filter {
            before.entity(for: $0) == nil && unused.keeps(entity: $0, removal)
        }.sorted { stored.ancestors(of: $0).count < stored.ancestors(of: $1).count }
        for index in entities {
            for kind in PartKind.allCases {
                all.formUnion(stored.entities[index].indices(of: kind).map { stored.part(kind, $0, of: index) })
            }
        }
        for (new, old) in before.entities.map(\.old).enumerated() {
            guard let old else { continue }
            for kind in PartKind.allCases {
                for place in stored.entities[old].indices(of: kind)
                where before.place(kind, for: place, of: new) == nil
                    && !before.inherits(kind, place, of: new, stored, wanted)
                    && unused.keeps(kind, place, of: old, removal)
                    && !before.released.contains(stored.part(kind, place, of: old))
                {
                    parts[new, default: []].append((kind, place))
                    all.insert(stored.part(kind, place, of: old))
                }
            }
        }
    }

    var isEmpty: Bool { entities.isEmpty && parts.isEmpty }

    // MARK: - Names

    private func name(ofEntity old: Int) -> String? {
        if let new = before.entity(for: old) { return wanted.entities[new].name }
        return entities.contains(old) ? stored.entities[old].name : nil
    }

    /// The name of a part of an entity of the stored model; nil when neither the wanted model nor the store has it.
    private func name(of kind: PartKind, _ place: Int, of old: Int) -> (name: String, isRetained: Bool)? {
        for entity in [old] + stored.ancestors(of: old) {
            guard let new = before.entity(for: entity), let found = before.place(kind, for: place, of: new) else {
                continue
            }
            return (wanted.entities[new].name(of: kind, found), false)
        }
        let isRetained = all.contains(stored.part(kind, place, of: old))
        return isRetained ? (stored.entities[old].name(of: kind, place), true) : nil
    }

    // MARK: - The document

    /// The wanted model's entities with the retained parts, then the retained entities.
    func document() throws(ModelError) -> ModelDocument {
        let root = try Self.root(of: wanted)
        let former = try Self.root(of: stored)["entities"]?.members.map(\.value) ?? []
        var members = root["entities"]?.members ?? []
        for index in members.indices {
            members[index].value = Self.cleared(members[index].value)
            guard let old = before.entities[index].old else { continue }
            for (kind, place) in parts[index] ?? [] {
                let name = stored.entities[old].name(of: kind, place)
                let owners = [old] + stored.ancestors(of: old)
                guard let part = owners.lazy.compactMap({ former[$0][kind.key]?[name] }).first else { continue }
                members[index].value.set([kind.key, name], linked(part, kind, place, of: old))
            }
            retainLists(of: old, in: &members[index].value)
        }
        members += entities.map { ModelValue.Member(stored.entities[$0].name, at: .unknown, retained($0, former[$0])) }
        var document = ModelDocument(root: ModelValue(.object([]), at: .unknown), sources: [""])
        document.root.set(["keyStyle"], root["keyStyle"])
        document.root.set(["entities"], ModelValue(.object(members), at: .unknown))
        return document
    }

    private static func root(of model: Model) throws(ModelError) -> ModelValue {
        try ModelDocument(parsing: JSONText(copying: Array(model.text.utf8))).root
    }

    /// A retained part may have a name that another part had before, and mappings are not retained.
    private static func cleared(_ entity: ModelValue) -> ModelValue {
        var entity = entity
        entity.set(["renamedFrom"], nil)
        for kind in PartKind.allCases {
            for part in entity[kind.key]?.members ?? [] {
                // A path is no part's name.
                if part.value["renamedFrom"]?.string?.contains(".") != true {
                    entity.set([kind.key, part.key, "renamedFrom"], nil)
                }
                entity.set([kind.key, part.key, "mapping"], nil)
            }
        }
        return entity
    }

    private func retained(_ old: Int, _ value: ModelValue) -> ModelValue {
        var value = value
        let entity = stored.entities[old]
        value.set(["parent"], entity.parent.flatMap(name(ofEntity:)).map(ModelValue.text))
        if value["identity"] != nil {
            let names = entity.identity.compactMap { name(of: .attribute, $0, of: old)?.name }
            value.set(["identity"], ModelValue(names))
        }
        // They concern records, and retained entities receive none.
        for key in ["renamedFrom", "modified", "tombstone", "unique", "indexes"] { value.set([key], nil) }
        for kind in PartKind.allCases {
            for part in value[kind.key]?.members ?? [] {
                let place = entity.index(of: kind, named: part.key)!
                value.set([kind.key, part.key], linked(part.value, kind, place, of: old))
            }
        }
        retainLists(of: old, in: &value)
        return value
    }

    /// A retained part, with the present names of what it leads to.
    private func linked(_ part: ModelValue, _ kind: PartKind, _ place: Int, of old: Int) -> ModelValue {
        var part = part
        part.set(["renamedFrom"], nil)
        guard kind == .relationship else { return part }
        part.set(["mapping"], nil)
        let relationship = stored.entities[old].relationships[place]
        let destination = name(ofEntity: relationship.destination)
        // The destination is missing: then the store is refused anyway, and this model only serves to report why.
        part.set(["entity"], (destination ?? name(ofEntity: old)).map(ModelValue.text))
        let inverse =
            destination == nil
            ? nil : relationship.inverse.flatMap { name(of: .relationship, $0, of: relationship.destination) }
        part.set(["inverse"], inverse.map { .text($0.name) })
        // The model in force has no inverse, so the links end with the objects to which they lead.
        if let inverse, !inverse.isRetained { part.set(["deleteRule"], .text(DeleteRule.nullify.rawValue)) }
        return part
    }

    /// Retains unique lists and indexes that need a retained attribute.
    private func retainLists(of old: Int, in value: inout ModelValue) {
        let entity = stored.entities[old]
        for (key, lists) in [("unique", entity.unique), ("indexes", entity.indexes)] {
            var elements = value[key]?.elements ?? []
            for list in lists where list.allSatisfy(entity.attributeIndices.contains) {
                let names = list.compactMap { name(of: .attribute, $0, of: old) }
                guard names.count == list.count, names.contains(where: \.isRetained) else { continue }
                elements.append(ModelValue(names.map(\.name)))
            }
            value.set([key], elements.isEmpty ? nil : ModelValue(.array(elements), at: .unknown))
        }
    }

    // MARK: - The match

    func match(of held: Model) -> ModelMatch {
        let olds = before.entities.map(\.old) + entities
        func place(_ kind: PartKind, named name: String, of entity: Int) -> Int? {
            guard let old = olds[entity] else { return nil }
            if entity < wanted.entities.count, let place = wanted.entities[entity].index(of: kind, named: name) {
                return before.entities[entity][kind][place]
            }
            if let parent = held.entities[entity].parent, held.entities[parent].index(of: kind, named: name) != nil,
                let found = place(kind, named: name, of: parent)
            {
                return stored.entities[old].indices(of: kind).contains(found) ? found : nil
            }
            return stored.entities[old].index(of: kind, named: name)
        }
        let entities = held.entities.enumerated().map { index, entity in
            func places(_ kind: PartKind) -> [Int?] {
                entity.names(of: kind).enumerated().map { position, name in
                    entity.indices(of: kind).contains(position) ? place(kind, named: name, of: index) : nil
                }
            }
            return ModelMatch.Entity(
                old: olds[index], attributes: places(.attribute), relationships: places(.relationship))
        }
        return ModelMatch(from: stored, to: held, entities: entities)
    }
}

/// The kinds of an entity's parts. Both are matched, retained and compared by the same rules.
enum PartKind: CaseIterable {
    case attribute, relationship
}

extension PartKind {
    fileprivate var key: String { self == .attribute ? "attributes" : "relationships" }
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

    func index(of kind: PartKind, named name: String) -> Int? {
        kind == .attribute ? index(ofAttribute: name) : index(ofRelationship: name)
    }

    func renamedFrom(_ kind: PartKind, _ index: Int) -> String? {
        kind == .attribute ? attributes[index].renamedFrom : relationships[index].renamedFrom
    }
}
