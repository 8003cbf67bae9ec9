import BrokerModel

/// The changes that a changed model would make to the store: every change in the order of the stored model, then the
/// new parts.
///
/// Columns alone do not suffice: a `string` and a `date` are both TEXT. Parts of a model that only concern incoming
/// records may change freely: keys, `root`, formats and time zones, transforms, limits, `onInvalid`, defaults,
/// `assignment`, `missing`, `modified`. Unique lists, an identity that is given later, and whether the rows satisfy them, are
/// compared in the tables: ``StorePlan``.
struct ModelComparison {
    private(set) var changes: [StoreChange] = []
    let stored: Model
    let wanted: Model
    let match: ModelMatch
    private let removal: RemovalPolicy
    /// Entities of the stored model that may have no rows in the changed model, and have some.
    let populated: Set<Int>
    /// Values that attributes of another type or storage do not hold: ``StoredRows``.
    private let inexact: [StoredPart: (value: String, condition: String)]
    /// Attributes that are converted by a type that holds less, and by the subjects of their changes, the values that go to `_extra`.
    private(set) var converted: Set<StoredPart> = []
    private(set) var moved: [String: MovedValues] = [:]
    /// Parts of the stored model for whose values a change is refused: without values they may change freely.
    private(set) var obstacles: Set<StoredPart> = []
    /// The parts of the stored model that the wanted one lacks, by the subjects of their changes.
    private(set) var removed: [String: RemovedPart] = [:]
    /// The subjects about which the removal policy decides.
    private(set) var decided: Set<ExactText> = []
    private let retained: RetainedParts
    private let carried: CarriedValues

    /// - Parameters:
    ///   - stored: the effective model of the store: the model in force, and the retained parts of earlier models.
    ///   - inForce: the last model with which the store was opened.
    init(
        from stored: Model, inForce: Model, to wanted: Model, _ match: ModelMatch, _ removal: RemovalPolicy,
        populated: Set<Int>, inexact: [StoredPart: (value: String, condition: String)]
    ) {
        self.populated = populated
        self.inexact = inexact
        self.stored = stored
        self.wanted = wanted
        self.match = match
        self.removal = removal
        retained = RetainedParts(stored: stored, inForce: inForce)
        carried = CarriedValues(from: stored, to: wanted, match)
        for index in stored.entities.indices {
            let entity = stored.entities[index]
            if let new = match.entity(for: index) {
                compare(index, new)
            } else if populated.contains(index) {
                decided.insert(ExactText(entity.name))
                refuseLosingRows(of: index)
            } else if carried.emptied.contains(index) {
                change(
                    .migrated, entity.name,
                    "\(entity.name) goes, and what its objects have, the objects around them get")
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

    private mutating func change(
        _ verdict: StoreChange.Verdict, _ subject: String, _ text: String, remedy: String? = nil
    ) {
        changes.append(StoreChange(verdict, subject, text, remedy: remedy))
    }

    /// Refuses a subject, or `what`, that is something else in the model.
    private mutating func refuse(
        _ subject: String, _ what: String? = nil, is stored: String, becoming wanted: String, remedy: String
    ) {
        change(
            .refused, subject, "\(what ?? subject) is \(stored) in the store, and \(wanted) in the model",
            remedy: remedy)
    }

    /// - Parameter obstacle: why it cannot stay in the file.
    private mutating func remove(
        _ part: RemovedPart, _ subject: String, _ text: String, wasRetained: Bool, obstacle: String?
    ) {
        let choice = removal.choice(for: subject)
        decided.insert(ExactText(subject))
        if choice == .drop || !wasRetained { removed[subject] = part }
        let stays = choice == .keep || wasRetained && choice == .refuse
        if stays, let missing = missingDestination(of: part) {
            return change(
                .refused, subject, "\(subject) cannot be retained: \(missing) is dropped, and it needs that",
                remedy: "drop both, or keep both")
        }
        switch choice {
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

    /// An entity to which a part leads, or from which it inherits, that is neither in the model nor stays in the file.
    private func missingDestination(of part: RemovedPart) -> String? {
        let needed: [Int] =
            switch part {
            case .entity(let entity):
                stored.ancestors(of: entity) + stored.entities[entity].relationships.map(\.destination)
            case .part(.relationship, let index, let entity): [stored.entities[entity].relationships[index].destination]
            case .part: []
            }
        return needed.lazy.filter { match.entity(for: $0) == nil && !keeps(entity: $0) }.map {
            stored.entities[$0].name
        }
        .first
    }

    /// Whether an entity that the model lacks stays in the file.
    private func keeps(entity: Int) -> Bool { retained.keeps(entity: entity, removal) }

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
                decided.insert(ExactText(name))
                return change(.migrated, name, "\(name) has \(none) in the store, and is dropped")
            }
            if let taker = carried.takers[part] {
                return change(.migrated, name, "\(name) goes, and its values go to \(taker)")
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
            compareForm(old.attributes[index], new.attributes[found], new, part, isIdentity: isIdentity)
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
            return refuse(
                new.name, is: "identified by \(old.identityNames)", becoming: "by \(new.identityNames)",
                remedy:
                    "keep the identity, or say \"formerIdentity\" (`broker model set-key` does), or make another entity"
            )
        }
        guard old.isIdentityOptional != new.isIdentityOptional else { return compareRowKey(oldIndex, newIndex) }
        let words = old.isIdentityOptional ? ("optional", "required") : ("required", "optional")
        refuse(
            new.name, "the identity of \(new.name)", is: words.0, becoming: words.1,
            remedy: "keep it \(words.0), or make another entity")
    }

    /// Whether the entity, or the topmost one above it, has an identity for the first time, another one than before, or no objects
    /// without it any more.
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
        guard !new.isIdentityOptional else { return false }
        guard !old.isIdentityOptional else { return sources == old.identity }
        // Links are made of the earlier key, which stays as another attribute.
        guard !old.hasRowKey, !new.hasRowKey, old.identity.count == 1, wanted.holders.owners[topmost.new] == nil,
            let former = match.place(.attribute, for: old.identity[0], of: topmost.new)
        else { return false }
        return new.formerIdentity == new.attributes[former].name && sources.allSatisfy { $0 != nil }
    }

    private mutating func compareForm(
        _ old: Attribute, _ new: Attribute, _ entity: Entity, _ part: StoredPart, isIdentity: Bool
    ) {
        let name = "\(entity.name).\(new.name)"
        if !old.name.hasSameBytes(as: new.name) {
            change(.migrated, name, "\(entity.name).\(old.name) is renamed to \(new.name)")
        } else if !old.column.hasSameBytes(as: new.column) {
            change(
                .migrated, name, "\(name) is the column \(old.column) in the store, and \(new.column) in the model")
        }
        if old.type != new.type {
            let canChange = new.type.change(from: old.type) != nil
            // Stored in upper case, whatever was sent: the same records would make other objects.
            let losesForm = isIdentity && old.type == .uuid && new.type == .string
            compare(
                "\(name) is \(old.type.rawValue)", new.type.rawValue, part, new, entity, isIdentity,
                remedy: new.remedyForLostDigits,
                refusal: canChange
                    ? losesForm
                        ? "it identifies, and the store has it in upper case, so that a text in lower case would be another "
                            + "object; keep the type, or load the records into another store" : nil
                    : "keep the type, or give the new one another name, or let `broker model retype` convert the values"
            )
        } else if old.decimalScale != new.decimalScale {
            compare(
                "\(name) is stored as \(old.decimalForm)", "as \(new.decimalForm)", part, new, entity, isIdentity,
                remedy: new.remedyForLostDigits)
        } else if old.type == .date, old.dateStorage != new.dateStorage {
            compare(
                "\(name) is stored as \(old.dateStorage.rawValue)", "as \(new.dateStorage.rawValue)", part, new, entity,
                isIdentity, remedy: "keep the storage",
                refusal: "keep the storage, or give the new one another name")
        } else if old.precision != new.precision {
            compare(
                "\(name) has the precision \(old.precision)", "\(new.precision)", part, new, entity, isIdentity,
                remedy: "keep the precision")
        }
    }

    /// Another form that holds all stored values is taken. One that does not hold some, or may be taken on demand alone, is refused
    /// unless parts are dropped: then these values go to `_extra`.
    private mutating func compare(
        _ stored: String, _ wanted: String, _ part: StoredPart, _ new: Attribute, _ entity: Entity,
        _ isIdentity: Bool, remedy: String, refusal: String? = nil
    ) {
        let name = "\(entity.name).\(new.name)"
        let text = "\(stored) in the store, and \(wanted) in the model"
        let isConverted = removal.choice(for: name) == .drop && !isIdentity
        if isConverted { decided.insert(ExactText(name)) }
        if let refusal, !isConverted { return change(.refused, name, text, remedy: refusal) }
        if refusal != nil || isConverted && inexact[part] != nil { converted.insert(part) }
        guard let inexact = inexact[part] else { return change(.migrated, name, text) }
        guard isConverted, entity.mayMoveValues(of: new) else {
            let isPossible = !isIdentity && entity.mayMoveValues(of: new)
            return change(
                .refused, name, "\(text), which does not hold \(inexact.value)",
                remedy: isPossible ? "\(remedy), or let `broker model retype` put such values into _extra" : remedy)
        }
        moved[name] = MovedValues(part: part, condition: inexact.condition)
        change(.migrated, name, "\(text), and what it does not hold goes to _extra")
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

    private mutating func compareNew(_ index: Int) {
        let entity = wanted.entities[index]
        let hadRows = match.entities[index].old.map { !stored.entities[$0].isAbstract } ?? false
        for place in entity.attributeIndices where match.entities[index].attributes[place] == nil {
            let attribute = entity.attributes[place]
            let name = "\(entity.name).\(attribute.name)"
            let isInherited = isNewAbove(index, .attribute, place)
            if match.ownerLink(for: place, of: index, stored, wanted) != nil {
                change(.migrated, name, "\(name) is new, and rows that are there take it from their owner")
            } else if carried.flattened[index]?[place] != nil || carried.split[index]?.sources[place] != nil {
                change(.migrated, name, "\(name) is new, and takes the values of \(attribute.renamedFrom!)")
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
            return refuse(name, is: words.0, becoming: words.1, remedy: remedy)
        }
        if new.isOwned, !old.isOwned {
            change(
                .refused, name, "\(name) does not own its objects in the store, and owns them in the model",
                remedy: "take \"owned\" out, or give the new one another name and another entity")
        }
        if old.isOrdered != new.isOrdered {
            let words = old.isOrdered ? ("ordered", "not ordered") : ("not ordered", "ordered")
            refuse(name, is: words.0, becoming: words.1, remedy: remedy)
        }
        guard !keepsItsLinks(old, new) else { return }
        let (was, now) = (stored.inverse(of: old)?.name ?? "none", wanted.inverse(of: new)?.name ?? "none")
        refuse(name, "the inverse of \(name)", is: was, becoming: now, remedy: remedy)
    }

    /// Whether the inverse is the same, or was added or removed, and no link is lost by that.
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

// MARK: - Hierarchies, whose objects share a table

extension ModelComparison {
    private mutating func compareTable(_ oldIndex: Int, _ newIndex: Int) {
        let (old, new) = (stored.entities[oldIndex], wanted.entities[newIndex])
        let isDefault = old.table.hasSameBytes(as: old.name) && new.table.hasSameBytes(as: new.name)
        guard !old.table.hasSameBytes(as: new.table), !isDefault, (old.parent == nil) == (new.parent == nil) else {
            return
        }
        let words = old.parent == nil ? "stored in the table" : "seen in the view"
        change(
            .migrated, new.name,
            "\(new.name) is \(words) \(old.table) in the store, and in \(new.table) in the model")
    }

    private mutating func compareHierarchy(_ oldIndex: Int, _ newIndex: Int) {
        let (old, new) = (stored.entities[oldIndex], wanted.entities[newIndex])
        let table = stored.table(of: oldIndex)
        let remedy = "keep what it inherits from, or make another entity"
        guard match.tables[newIndex] == stored.topmost(of: oldIndex) else {
            let others = wanted.subentities(of: wanted.topmost(of: newIndex)).filter {
                $0 != newIndex && match.entities[$0].old.map(stored.topmost) == match.tables[newIndex]
            }
            guard let other = others.first, match.tables[newIndex] != nil else {
                return change(
                    .refused, new.name,
                    "\(new.name) lies in the table \(table) with others in the store, and in a table of its own, "
                        + "\(wanted.table(of: newIndex)), in the model", remedy: remedy)
            }
            return change(
                .refused, new.name,
                "\(new.name) lies in the table \(table) in the store, and in one table with "
                    + "\(wanted.entities[other].name) in the model; the rows of two tables are not put together",
                remedy: remedy)
        }
        if populated.contains(oldIndex) {
            change(
                .refused, new.name,
                "\(new.name) is abstract in the model, and the store has objects that are nothing more",
                remedy: "delete them with the model before, or keep it as it was")
        }
        guard old.parent.flatMap(match.entity(for:)) != new.parent || (old.parent == nil) != (new.parent == nil) else {
            return
        }
        let words = [old.parent.map { stored.entities[$0].name }, new.parent.map { wanted.entities[$0].name }].map {
            $0 ?? "nothing"
        }
        let moved =
            table.hasSameBytes(as: wanted.table(of: newIndex))
            ? "" : ", and its table \(table) becomes \(wanted.table(of: newIndex))"
        change(
            .migrated, new.name,
            "\(new.name) inherits from \(words[0]) in the store, and from \(words[1]) in the model\(moved)")
    }

    /// Refuses a model without an entity that has objects in a table that stays: nothing would tell their entity.
    private mutating func refuseLosingRows(of index: Int) {
        let name = stored.entities[index].name
        change(
            .refused, name, "\(name) is in the store, but not in the model, and the store has objects of it",
            remedy: "delete them with the model before, \"renamedFrom\" renames it")
    }

    private func obstacle(toRetainingConcreteEntity index: Int) -> String? {
        let topmost = stored.topmost(of: index)
        guard let taker = match.tables.firstIndex(of: topmost), match.entity(for: topmost) == nil else { return nil }
        return "its table is that of \(wanted.entities[wanted.topmost(of: taker)].name) in the model"
    }

    /// Identities are compared with the entities that declare them.
    private func inheritsIdentity(_ oldIndex: Int, _ newIndex: Int) -> Bool {
        guard let old = stored.entities[oldIndex].parent, let new = wanted.entities[newIndex].parent,
            match.entity(for: old) == new
        else { return false }
        return !stored.entities[old].identity.isEmpty && !wanted.entities[new].identity.isEmpty
    }

    /// An identity either is the key of its rows, or is stored beside a row key, which links refer to.
    private mutating func compareRowKey(_ oldIndex: Int, _ newIndex: Int) {
        let (old, new) = (stored.entities[oldIndex], wanted.entities[newIndex])
        guard old.hasRowKey != new.hasRowKey else { return }
        let words = { (hasRowKey: Bool) in hasRowKey ? "its own, beside a key of the store's" : "its whole table's" }
        refuse(
            new.name, "the identity of \(new.name)", is: "\(words(old.hasRowKey)),", becoming: words(new.hasRowKey),
            remedy: "have the identity with the same entity as before, topmost or below it")
    }

    /// To-many links have a table of their own, which is neither divided nor merged with another.
    private mutating func compareLinkTables(
        _ place: Int, _ relationship: Relationship, _ oldIndex: Int, _ newPlace: Int, _ newIndex: Int
    ) {
        guard relationship.isToMany else { return }
        let members = wanted.subentities(of: wanted.topmost(of: newIndex)).filter {
            match.entities[$0].old.map(stored.topmost) == stored.topmost(of: oldIndex)
        }
        let targets = Set(members.compactMap { match.place(.relationship, for: place, of: $0) })
        let sources = Set(members.compactMap { match.entities[$0].relationships[newPlace] })
        guard targets.count > 1 || sources.count > 1 else { return }
        let name = "\(wanted.entities[newIndex].name).\(relationship.name)"
        let words = targets.count > 1 ? ("one relationship", "several") : ("one of several relationships", "one")
        refuse(name, is: words.0, becoming: words.1, remedy: "have it with the same entity as before")
    }
}

extension Attribute {
    fileprivate var decimalForm: String { decimalScale.map { "scaled with the scale \($0)" } ?? "text" }

    fileprivate var remedyForLostDigits: String {
        decimalScale == nil ? "make it decimal" : "change the scale, or let the storage be text"
    }
}

extension Entity {
    /// Whether `_extra` has values that the attribute does not hold: not of one that is required, or decides about records.
    fileprivate func mayMoveValues(of attribute: Attribute) -> Bool {
        extra != nil && attribute.isOptional && !attribute.recordPaths.isEmpty
            && modified.map { attributes[$0].name } != attribute.name
            && !(tombstone?.contains(attribute.name) ?? false)
    }

    fileprivate var identityNames: String {
        identity.isEmpty ? "nothing" : identity.map { attributes[$0].name }.joined(separator: ", ")
    }
}

enum RemovedPart {
    case entity(Int)
    case part(PartKind, Int, of: Int)
}

/// The parts of a store that are not in force: retained from earlier models, unused.
struct RetainedParts {
    let stored: Model
    let inForce: Model

    func has(entity: Int) -> Bool { inForce.index(ofEntity: stored.entities[entity].name) == nil }

    /// Whether an entity that the model lacks stays in the file, from now on or as before.
    func keeps(entity: Int, _ removal: RemovalPolicy) -> Bool {
        keeps(stored.entities[entity].name, wasRetained: has(entity: entity), removal)
    }

    func keeps(_ kind: PartKind, _ index: Int, of entity: Int, _ removal: RemovalPolicy) -> Bool {
        let owner = stored.entities[entity]
        return keeps(
            "\(owner.name).\(owner.name(of: kind, index))", wasRetained: has(kind, index, of: entity), removal)
    }

    private func keeps(_ subject: String, wasRetained: Bool, _ removal: RemovalPolicy) -> Bool {
        switch removal.choice(for: subject) {
        case .keep: true
        case .refuse: wasRetained
        case .drop: false
        }
    }

    func has(_ kind: PartKind, _ index: Int, of entity: Int) -> Bool {
        let entity = stored.entities[entity]
        guard let found = inForce.index(ofEntity: entity.name) else { return false }
        return inForce.entities[found].index(of: kind, named: entity.name(of: kind, index)) == nil
    }
}

/// An attribute or a relationship of the stored model, found by its table: the entities of a hierarchy share their parts.
struct StoredPart: Hashable {
    let kind: PartKind
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
