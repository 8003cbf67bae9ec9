package import BrokerModel

/// The changes that a changed model would make to the store: every change in the order of the stored model, then the
/// new parts.
///
/// Columns alone do not suffice: a `string` and a `date` are both TEXT. Parts of a model that only concern incoming
/// records may change freely: keys, `root`, formats and time zones, transforms, limits, `onInvalid`, defaults,
/// `assignment`, `missing`, `modified`. Unique lists, an identity that is given later, and whether the rows satisfy them, are
/// compared in the tables: ``StorePlan``.
package struct ModelComparison {
    package private(set) var changes: [StoreChange] = []
    package let stored: Model
    package let wanted: Model
    package let match: ModelMatch
    private let removal: RemovalPolicy
    /// Entities of the stored model that may have no rows in the changed model, and have some.
    package let populated: Set<Int>
    /// Values that attributes of another type or storage may not hold: ``StoredRows``.
    private let inexact: [StoredPart: String]
    /// Parts of the stored model for whose values a change is refused: without values they may change freely.
    package private(set) var obstacles: Set<StoredPart> = []
    /// The parts of the stored model that the wanted one lacks, by the subjects of their changes.
    package private(set) var removed: [String: RemovedPart] = [:]
    /// The parts of the stored model that were not in force any more.
    private let retained: RetainedParts

    /// - Parameters:
    ///   - stored: the effective model of the store: the model in force, and the retained parts of earlier models.
    ///   - inForce: the last model with which the store was opened.
    ///   - populated: see ``StoredRows``.
    ///   - inexact: see ``StoredRows``.
    package init(
        from stored: Model, inForce: Model, to wanted: Model, _ match: ModelMatch, _ removal: RemovalPolicy,
        populated: Set<Int>, inexact: [StoredPart: String]
    ) {
        self.populated = populated
        self.inexact = inexact
        self.stored = stored
        self.wanted = wanted
        self.match = match
        self.removal = removal
        retained = RetainedParts(in: stored, besides: inForce)
        for index in stored.entities.indices {
            let entity = stored.entities[index]
            if let new = match.entity(for: index) {
                compare(index, new)
            } else if populated.contains(index) {
                refuseLosingRows(of: index)
            } else {
                remove(
                    .entity(index), entity.name, "\(entity.name) is in the store, but not in the model",
                    wasRetained: retained.has(entity: index), obstacle: obstacle(toRetainingEntity: index))
            }
        }
        for (index, entity) in wanted.entities.enumerated() {
            if match.entities[index].old == nil {
                change(.migrated, entity.name, "\(entity.name) is new")
            } else {
                compareNew(index)
            }
        }
    }

    package mutating func change(
        _ verdict: StoreChange.Verdict, _ subject: String, _ text: String, remedy: String? = nil
    ) {
        changes.append(StoreChange(verdict, subject, text, remedy: remedy))
    }

    /// - Parameter obstacle: why it cannot stay in the file.
    private mutating func remove(
        _ part: RemovedPart, _ subject: String, _ text: String, wasRetained: Bool, obstacle: String?
    ) {
        if removal == .drop || !wasRetained { removed[subject] = part }
        switch removal {
        case .drop:
            change(.dropped, subject, wasRetained ? "\(subject) was retained from an earlier model" : text)
        case _ where wasRetained: break
        case .keep:
            if let obstacle {
                change(
                    .refused, subject, "\(text), and cannot be retained: \(obstacle)",
                    remedy: StoreChange.remedyByDropping)
            } else {
                change(.kept, subject, text)
            }
        case .refuse:
            change(
                .refused, subject, text,
                remedy: "`broker migrate --keep` leaves it in the file, \(StoreChange.remedyByDropping), "
                    + "\"renamedFrom\" renames it")
        }
    }

    private mutating func compare(_ oldIndex: Int, _ newIndex: Int) {
        let (old, new) = (stored.entities[oldIndex], wanted.entities[newIndex])
        if !old.name.hasSameBytes(as: new.name) {
            change(.migrated, new.name, "\(old.name) is renamed to \(new.name)")
        }
        if retained.has(entity: oldIndex) { change(.migrated, new.name, "\(new.name) was retained, and is used again") }
        compareTable(oldIndex, newIndex)
        compareHierarchy(oldIndex, newIndex)
        compareIdentity(oldIndex, newIndex)
        for kind in PartKind.allCases {
            for index in old.indices(of: kind) where !match.inherits(kind, index, of: newIndex, stored, wanted) {
                compare(kind, index, of: oldIndex, newIndex)
            }
        }
    }

    private mutating func compare(_ kind: PartKind, _ index: Int, of oldIndex: Int, _ newIndex: Int) {
        let (old, new) = (stored.entities[oldIndex], wanted.entities[newIndex])
        let name = "\(old.name).\(old.name(of: kind, index))"
        let wasRetained = retained.has(kind, index, of: oldIndex)
        let part = stored.part(kind, index, of: oldIndex)
        let found = match.place(kind, for: index, of: newIndex)
        let isIdentity =
            kind == .attribute && (old.identity.contains(index) || found.map(new.identity.contains) ?? false)
        let reported = changes.count
        defer {
            let isRefused = changes[reported...].contains { $0.verdict == .refused }
            if isRefused, !isIdentity { obstacles.insert(part) }
        }
        guard let found else {
            if match.released.contains(part) {
                let none = kind == .attribute ? "no value" : "no link"
                return change(.migrated, name, "\(name) has \(none) in the store, and is dropped")
            }
            // A retained part would be in the way of a new one of its name.
            if PartKind.allCases.contains(where: { new.index(of: $0, named: old.name(of: kind, index)) != nil }) {
                obstacles.insert(part)
            }
            return remove(
                .part(kind, index, of: oldIndex), name, "\(name) is in the store, but not in the model",
                wasRetained: wasRetained,
                obstacle: obstacle(toRetaining: kind, index, of: oldIndex))
        }
        if wasRetained { change(.migrated, name, "\(name) was retained, and is used again") }
        switch kind {
        case .attribute:
            compareForm(old.attributes[index], new.attributes[found], new, part)
            if !isIdentity { compareRequirement(old.attributes[index], new.attributes[found], new) }
        case .relationship:
            compareLinkTables(index, old.relationships[index], oldIndex, found, newIndex)
            compare(old.relationships[index], new.relationships[found], of: newIndex)
        }
    }

    private mutating func compareIdentity(_ oldIndex: Int, _ newIndex: Int) {
        let (old, new) = (stored.entities[oldIndex], wanted.entities[newIndex])
        guard !inheritsIdentity(oldIndex, newIndex), !gainsIdentity(oldIndex, newIndex) else { return }
        guard old.identity.map({ match.place(.attribute, for: $0, of: newIndex) }) == new.identity else {
            return change(
                .refused, new.name,
                "\(new.name) is identified by \(old.identityNames) in the store, and by \(new.identityNames) in the model",
                remedy: "keep the identity, or make another entity")
        }
        guard old.isIdentityOptional != new.isIdentityOptional else { return compareRowKey(oldIndex, newIndex) }
        let words = old.isIdentityOptional ? ("optional", "required") : ("required", "optional")
        change(
            .refused, new.name, "the identity of \(new.name) is \(words.0) in the store, and \(words.1) in the model",
            remedy: "keep it \(words.0), or make another entity")
    }

    /// Whether the entity, or the topmost one above it, has an identity for the first time, or objects that lack it no
    /// more. Whether the rows allow it is seen in the table.
    private func gainsIdentity(_ oldIndex: Int, _ newIndex: Int) -> Bool {
        let topmost = (old: stored.topmost(of: oldIndex), new: wanted.topmost(of: newIndex))
        guard match.entity(for: topmost.old) == topmost.new else { return false }
        let (old, new) = (stored.entities[topmost.old], wanted.entities[topmost.new])
        guard !new.identity.isEmpty, new.identity == wanted.entities[newIndex].identity,
            old.identity == stored.entities[oldIndex].identity
        else { return false }
        let sources = new.identity.map { match.entities[topmost.new].attributes[$0] }
        guard !old.identity.isEmpty else {
            return zip(new.identity, sources).allSatisfy { place, source in
                source != nil || match.ownerLink(for: place, of: topmost.new, stored, wanted) != nil
            }
        }
        return old.isIdentityOptional && !new.isIdentityOptional && sources == old.identity
    }

    private mutating func compareForm(_ old: Attribute, _ new: Attribute, _ entity: Entity, _ part: StoredPart) {
        let name = "\(entity.name).\(new.name)"
        if !old.name.hasSameBytes(as: new.name) {
            change(.migrated, name, "\(entity.name).\(old.name) is renamed to \(new.name)")
        } else if !old.column.hasSameBytes(as: new.column) {
            change(
                .migrated, name, "\(name) is the column \(old.column) in the store, and \(new.column) in the model")
        }
        if old.type != new.type {
            let text = "\(name) is \(old.type.rawValue) in the store, and \(new.type.rawValue) in the model"
            if let number = inexact[part] {
                change(.refused, name, "\(text), which does not hold \(number)", remedy: new.remedyForLostDigits)
            } else if new.type.change(from: old.type) != nil {
                change(.migrated, name, text)
            } else {
                change(.refused, name, text, remedy: "keep the type, or give the new one another name")
            }
        } else if old.decimalScale != new.decimalScale {
            let text = "\(name) is stored as \(old.decimalForm) in the store, and as \(new.decimalForm) in the model"
            if let number = inexact[part] {
                change(.refused, name, "\(text), which does not hold \(number)", remedy: new.remedyForLostDigits)
            } else {
                change(.migrated, name, text)
            }
        } else if old.type == .date, old.dateStorage != new.dateStorage {
            change(
                .refused, name,
                "\(name) is stored as \(old.dateStorage.rawValue) in the store, and as \(new.dateStorage.rawValue) in "
                    + "the model", remedy: "keep the storage, or give the new one another name")
        } else if old.precision != new.precision {
            let text = "\(name) has the precision \(old.precision) in the store, and \(new.precision) in the model"
            if let date = inexact[part] {
                change(.refused, name, "\(text), which does not hold \(date)", remedy: "keep the precision")
            } else {
                change(.migrated, name, text)
            }
        }
    }

    private mutating func compareRequirement(_ old: Attribute, _ new: Attribute, _ entity: Entity) {
        let name = "\(entity.name).\(new.name)"
        guard old.isOptional != new.isOptional else { return }
        if new.isOptional {
            change(.migrated, name, "\(name) is required in the store, and optional in the model")
        } else if let value = new.defaultValue {
            change(
                .migrated, name,
                "\(name) is optional in the store, and required in the model, and rows without it take its default "
                    + value.text)
        } else {
            change(
                .refused, name, "\(name) is optional in the store, and required in the model",
                remedy: "give it a default, which rows without it would take")
        }
    }

    /// Compares the new parts of an entity that existed before.
    private mutating func compareNew(_ index: Int) {
        let entity = wanted.entities[index]
        let hadRows = match.entities[index].old.map { !stored.entities[$0].isAbstract } ?? false
        for place in entity.attributeIndices where match.entities[index].attributes[place] == nil {
            let attribute = entity.attributes[place]
            let name = "\(entity.name).\(attribute.name)"
            let isInherited = isNewAbove(index, .attribute, place)
            if match.ownerLink(for: place, of: index, stored, wanted) != nil {
                change(.migrated, name, "\(name) is new, and rows that are there take it from their owner")
            } else if let value = attribute.defaultValue {
                guard !isInherited else { continue }
                change(.migrated, name, "\(name) is new, and rows that are there take its default \(value.text)")
            } else if attribute.isOptional || !hadRows {
                if !isInherited { change(.migrated, name, "\(name) is new") }
            } else if !entity.identity.contains(place) {
                change(
                    .refused, name, "\(name) is new and required, but there may be rows without it",
                    remedy: "give it a default, which they would take")
            } else {
                change(.refused, name, "\(name) is new and identifies \(entity.name)", remedy: "keep the identity")
            }
        }
        for place in entity.relationshipIndices where match.entities[index].relationships[place] == nil {
            let name = "\(entity.name).\(entity.relationships[place].name)"
            if !isNewAbove(index, .relationship, place) { change(.migrated, name, "\(name) is new") }
        }
    }

    /// Whether the part is also new in an ancestor that existed before; then the change is reported there.
    private func isNewAbove(_ entity: Int, _ kind: PartKind, _ place: Int) -> Bool {
        wanted.ancestors(of: entity).contains {
            match.entities[$0].old != nil && match.entities[$0][kind][place] == nil
                && wanted.entities[$0].indices(of: kind).contains(place)
        }
    }
}

// MARK: - Obstacles to keeping a part

extension ModelComparison {
    private func obstacle(toRetaining kind: PartKind, _ index: Int, of entity: Int) -> String? {
        let entity = stored.entities[entity]
        if kind == .attribute {
            return entity.identity.contains(index) || !entity.attributes[index].isOptional
                ? "it is required, so that no row could be inserted without it" : nil
        }
        let relationship = entity.relationships[index]
        guard !relationship.isToMany, let rule = stored.inverse(of: relationship)?.deleteRule,
            match.entity(for: relationship.destination) != nil
        else { return nil }
        let destination = stored.entities[relationship.destination].name
        switch rule {
        case .nullify: return nil
        case .cascade: return "deleting a \(destination) would delete what refers to it, as the model does not say"
        case .deny, .noAction: return "it would prevent the deletion of a \(destination)"
        }
    }

    private func obstacle(toRetainingEntity index: Int) -> String? {
        if let obstacle = obstacle(toRetainingConcreteEntity: index) { return obstacle }
        for relationship in stored.entities[index].relationships where !relationship.isToMany {
            guard match.entity(for: relationship.destination) != nil else { continue }
            switch stored.inverse(of: relationship)?.deleteRule {
            case .deny, .noAction:
                return "its \(relationship.name) would prevent the deletion of a "
                    + stored.entities[relationship.destination].name
            case .nullify, .cascade, nil: continue
            }
        }
        return nil
    }
}

// MARK: - Relationships

extension ModelComparison {
    private mutating func compare(_ old: Relationship, _ new: Relationship, of entityIndex: Int) {
        let entity = wanted.entities[entityIndex]
        let name = "\(entity.name).\(new.name)"
        if !old.name.hasSameBytes(as: new.name) {
            change(.migrated, name, "\(entity.name).\(old.name) is renamed to \(new.name)")
        }
        let remedy = "keep it as it was, or give the new one another name"
        guard match.entity(for: old.destination) == new.destination else {
            let (was, now) = (stored.entities[old.destination].name, wanted.entities[new.destination].name)
            return change(
                .refused, name, "\(name) leads to \(was) in the store, and to \(now) in the model", remedy: remedy)
        }
        if !old.isToMany, new.isToMany, old.inverse == nil, new.inverse == nil {
            return change(.migrated, name, "\(name) is to-one in the store, and to-many in the model")
        }
        guard old.isToMany == new.isToMany else {
            let words = old.isToMany ? ("to-many", "to-one") : ("to-one", "to-many")
            return change(
                .refused, name, "\(name) is \(words.0) in the store, and \(words.1) in the model", remedy: remedy)
        }
        if new.isOwned, !old.isOwned {
            change(
                .refused, name, "\(name) does not own its objects in the store, and owns them in the model",
                remedy: "take \"owned\" out, or give the new one another name and another entity")
        }
        if old.isOrdered != new.isOrdered {
            let words = old.isOrdered ? ("ordered", "not ordered") : ("not ordered", "ordered")
            change(.refused, name, "\(name) is \(words.0) in the store, and \(words.1) in the model", remedy: remedy)
        }
        guard !keepsItsLinks(old, new) else { return }
        let (was, now) = (stored.inverse(of: old)?.name ?? "none", wanted.inverse(of: new)?.name ?? "none")
        change(
            .refused, name, "the inverse of \(name) is \(was) in the store, and \(now) in the model", remedy: remedy)
    }

    /// Whether the inverse is the same, or was added or removed, and the links stay where they are or move without
    /// loss.
    private func keepsItsLinks(_ old: Relationship, _ new: Relationship) -> Bool {
        switch (old.inverse, new.inverse) {
        case (nil, nil): return true
        case (let before?, let now?):
            return match.entities[new.destination].relationships[now] == before
        case (nil, let now?):
            // The inverse must be new, too; an existing relationship would have links of its own.
            let inverse = wanted.entities[new.destination].relationships[now]
            return match.entities[new.destination].relationships[now] == nil && inverse.isToMany && !inverse.isOrdered
        case (let before?, nil):
            let inverse = stored.entities[old.destination].relationships[before]
            // The removal of the inverse is reported by itself.
            return match.place(.relationship, for: before, of: new.destination) == nil
                && (inverse.isToMany || !old.isToMany)
        }
    }
}

extension Attribute {
    fileprivate var decimalForm: String { decimalScale.map { "scaled with the scale \($0)" } ?? "text" }

    fileprivate var remedyForLostDigits: String {
        decimalScale == nil ? "make it decimal" : "change the scale, or let the storage be text"
    }
}

extension Entity {
    fileprivate var identityNames: String {
        identity.isEmpty ? "nothing" : identity.map { attributes[$0].name }.joined(separator: ", ")
    }
}

/// A part of the stored model that the wanted one lacks, by its indices.
package enum RemovedPart {
    case entity(Int)
    case part(PartKind, Int, of: Int)
}

/// The parts of a store that are not in force: retained from earlier models, unused.
package struct RetainedParts {
    private let stored: Model
    private let inForce: Model

    package init(in stored: Model, besides inForce: Model) {
        self.stored = stored
        self.inForce = inForce
    }

    package func has(entity: Int) -> Bool { inForce.index(ofEntity: stored.entities[entity].name) == nil }

    package func has(_ kind: PartKind, _ index: Int, of entity: Int) -> Bool {
        let entity = stored.entities[entity]
        guard let found = inForce.index(ofEntity: entity.name) else { return false }
        return inForce.entities[found].index(of: kind, named: entity.name(of: kind, index)) == nil
    }
}

/// An attribute or a relationship of the stored model, found by its table: the entities of a hierarchy share their parts.
package struct StoredPart: Hashable {
    let kind: PartKind
    /// The topmost entity of its hierarchy.
    let topmost: Int
    let index: Int
}

extension Model {
    func part(_ kind: PartKind, _ index: Int, of entity: Int) -> StoredPart {
        StoredPart(kind: kind, topmost: topmost(of: entity), index: index)
    }

    /// The part itself, and the inverse of a relationship: the two have the same links.
    func both(_ part: StoredPart) -> [StoredPart] {
        guard part.kind == .relationship else { return [part] }
        let relationship = entities[part.topmost].relationships[part.index]
        guard let inverse = relationship.inverse else { return [part] }
        return [part, self.part(.relationship, inverse, of: relationship.destination)]
    }
}
