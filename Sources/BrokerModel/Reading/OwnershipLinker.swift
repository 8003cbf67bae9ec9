/// Completes the entities that a relationship owns (`owned`).
///
/// ```
/// Order  id                       lines: owned, to-many          OrderLine  parent_id │ position │ sku │ order
///                                                                           └── identity ──┘
/// ```
///
/// 1. The identity of an owned entity is the owner's identity, then its own identity or, without one, the position in a
///    to-many relationship. Attributes with the keys `@parent.…` bring these values; those that the entity lacks are
///    added. So a model that was written out reads as the same model.
/// 2. A to-one inverse, which no record can name, has the foreign key.
/// 3. The relationship replaces, and deletes its objects.
struct OwnershipLinker {
    private(set) var drafts: [EntityDraft]
    private var owners: [Int: Owner] = [:]
    private var completed: Set<Int> = []
    /// Entities that others inherit from.
    private let parents: Set<Int>
    /// By entity, the names of its attributes and relationships.
    private var takenNames: [Int: Set<FoldedName>] = [:]

    /// The relationship that owns an entity's objects: the entity that declares it, and its index there.
    private struct Owner {
        let entity: Int
        let relationship: Int
        let node: ModelNode
    }

    init(_ drafts: [EntityDraft]) {
        self.drafts = drafts
        parents = Set(drafts.compactMap(\.entity.parent))
    }

    mutating func link() {
        for entity in drafts.indices {
            for index in drafts[entity].relationships.indices { findOwner(entity, index) }
        }
        guard !owners.isEmpty else { return }
        let obstacles = owners.keys.compactMap { entity in obstacle(above: entity).map { (entity, $0) } }
        for (entity, obstacle) in obstacles {
            let owner = owners[entity]!
            owner.node.report(obstacle)
            drafts[owner.entity].relationships[owner.relationship].relationship.isOwned = false
            owners[entity] = nil
        }
        for entity in owners.keys.sorted() { complete(entity) }
        restrictOtherLinks()
    }

    // MARK: - Owners

    private mutating func findOwner(_ entity: Int, _ index: Int) {
        let draft = drafts[entity].relationships[index]
        guard draft.relationship.isOwned, draft.isResolved, let fields = draft.fields, let node = fields["owned"] else {
            return
        }
        let owned = draft.relationship.destination
        if let obstacle = obstacle(toOwning: owned) {
            drafts[entity].relationships[index].relationship.isOwned = false
            return node.report(obstacle)
        }
        if let rule = fields["deleteRule"], draft.relationship.deleteRule != .cascade {
            rule.report("owned objects are deleted with their owner; take this out, or \"owned\"")
        }
        if let assignment = fields["assignment"], draft.relationship.assignment != .replace {
            assignment.report(
                "a value names all owned objects, and the others are deleted; take this out, or \"owned\"")
        }
        drafts[entity].relationships[index].relationship.deleteRule = .cascade
        if draft.relationship.isToMany { drafts[entity].relationships[index].relationship.assignment = .replace }
        owners[owned] = Owner(entity: entity, relationship: index, node: node)
    }

    private func obstacle(toOwning entity: Int) -> String? {
        let name = drafts[entity].name
        if let owner = owners[entity] {
            let relationship = drafts[owner.entity].relationships[owner.relationship].name
            return
                "\(name) is owned by \(drafts[owner.entity].name).\(relationship) already, and an object lives in one "
                + "other; take one out, or make another entity"
        }
        guard drafts[entity].entity.parent == nil, !parents.contains(entity) else {
            return
                "\(name) inherits from another entity, or others from it, and such an entity cannot be owned; take this "
                + "out, or make another entity"
        }
        return nil
    }

    private func obstacle(above entity: Int) -> String? {
        let name = drafts[entity].name
        var owner = owners[entity]?.entity
        for _ in 0..<ModelLimits.mostOwners {
            guard let current = owner else { return nil }
            if current == entity {
                return "\(name) would be owned by itself, over its owners, so none of its objects could be made; take "
                    + "\"owned\" out of one of these relationships"
            }
            owner = owners[current]?.entity
        }
        guard owner != nil else { return nil }
        return
            "\(name) has more than \(ModelLimits.mostOwners) owners, one above the other; take \"owned\" out of one of "
            + "these relationships"
    }

    // MARK: - Completing

    private mutating func complete(_ entity: Int) {
        guard let owner = owners[entity], completed.insert(entity).inserted else { return }
        complete(owner.entity)
        let properties = drafts[entity].attributes.map(\.attribute.name) + drafts[entity].relationships.map(\.name)
        takenNames[entity] = Set(properties.map(FoldedName.init))
        guard let parts = identity(of: owner) else { return }
        let own = Self.names(drafts[entity].fields?["identity"])
        if let node = drafts[entity].fields?["identityOptional"], node.value.bool == true {
            node.report("the identity of an owned entity is not optional; take this out")
        }
        if parts.isEmpty {
            if let node = drafts[entity].fields?["identity"] {
                node.report(
                    "\(drafts[owner.entity].name), which owns these objects, has no identity, so they have none either; "
                        + "give it one, or take this out")
            }
        } else {
            drafts[entity].ownedIdentity = identity(of: entity, parts, own, owner)
        }
        addInverse(to: entity, owner, parts)
    }

    /// The attributes of the owner's identity; empty when it has none, nil when they are not known or cannot be used.
    private func identity(of owner: Owner) -> [AttributeDraft]? {
        var line = [owner.entity]
        while let parent = drafts[line.last!].entity.parent { line.append(parent) }
        let names = line.map { drafts[$0].ownedIdentity ?? Self.names(drafts[$0].fields?["identity"]) }
        guard let head = names.lastIndex(where: { !$0.isEmpty }) else { return [] }
        let name = drafts[line[head]].name
        guard head == line.count - 1 else {
            return owner.node.refuse(
                "the identity of \(name) does not hold for \(drafts[line.last!].name), the topmost entity of its "
                    + "hierarchy, so it cannot identify owned objects; give it to the topmost entity, or take this out")
        }
        if drafts[line[head]].fields?["identityOptional"]?.value.bool == true {
            return owner.node.refuse(
                "the identity of \(name) is optional, so it cannot identify owned objects; take \"identityOptional\" "
                    + "out, or this")
        }
        let attributes = names[head].compactMap { name in
            drafts[line[head]].attributes.first { $0.attribute.name.hasSameBytes(as: name) }
        }
        // A name without an attribute is reported where it is read.
        return attributes.count == names[head].count ? attributes : nil
    }

    /// The complete identity of an owned entity, which gets the attributes that it lacks.
    private mutating func identity(
        of entity: Int, _ parts: [AttributeDraft], _ own: [String], _ owner: Owner
    ) -> [String] {
        var added: [AttributeDraft] = []
        var names: [String] = []
        for part in parts {
            let value = HolderValue.attribute(part.attribute.name)
            names.append(attribute(value, "parent_\(part.attribute.name)", like: part, entity, owner, &added))
        }
        let others = own.filter { name in !names.contains { $0.hasSameBytes(as: name) } }
        names += others
        let owning = drafts[owner.entity].relationships[owner.relationship]
        if others.isEmpty, owning.relationship.isToMany {
            if owning.relationship.isOrdered {
                owning.fields?["ordered"]?.report(
                    "owned objects without an identity of their own are identified by their position; take this out")
            }
            names.append(attribute(.position, "position", like: nil, entity, owner, &added))
        }
        drafts[entity].attributes.insert(contentsOf: added, at: 0)
        return names
    }

    /// The name of the attribute with that value. If the entity has none, one is added.
    private mutating func attribute(
        _ value: HolderValue, _ name: String, like part: AttributeDraft?, _ entity: Int, _ owner: Owner,
        _ added: inout [AttributeDraft]
    ) -> String {
        if let known = drafts[entity].attributes.first(where: { $0.attribute.keyPaths.contains(value.path) }) {
            if known.attribute.keyPaths.count > 1 {
                known.key.report(
                    "\"\(known.attribute.name)\" identifies an owned object, whose record is always in its owner's; take "
                        + "its keys out but \"\(value.text)\"")
            }
            return known.attribute.name
        }
        let place = drafts[owner.entity].relationships[owner.relationship]
        var owned = Attribute(
            name: Self.numbered(name) { !isTaken($0, entity) }, type: part?.attribute.type ?? .integer64,
            place: place.relationship.place)
        (owned.keyPaths, owned.isOptional) = ([value.path], false)
        var draft = AttributeDraft(attribute: owned, key: place.key)
        if let part {
            draft.attribute.dateFormats = part.attribute.dateFormats
            draft.attribute.timeZone = part.attribute.timeZone
            draft.attribute.dateStorage = part.attribute.dateStorage
            draft.attribute.precision = part.attribute.precision
            draft.attribute.transforms = part.attribute.transforms
            draft.attribute.renamedFrom = part.attribute.renamedFrom.map { "parent_\($0)" }
        }
        draft.isTyped = part?.isTyped ?? true
        if draft.attribute.name.utf8.count > ModelLimits.longestName {
            owner.node.report(
                "an attribute of \(drafts[entity].name) would have a name of more than \(ModelLimits.longestName) bytes; "
                    + "give it one with the key \"\(value.text)\"")
        }
        added.append(draft)
        takenNames[entity]?.insert(FoldedName(draft.attribute.name))
        return draft.attribute.name
    }

    // MARK: - Inverses

    /// Adds an inverse, or checks the one that the model has.
    private mutating func addInverse(to entity: Int, _ owner: Owner, _ parts: [AttributeDraft]) {
        let relationship = drafts[owner.entity].relationships[owner.relationship].relationship
        if let inverse = relationship.inverse { return check(inverse, of: entity) }
        let owning = drafts[owner.entity]
        var inverse = Relationship(
            name: inverseName(of: owning.name, entity, parts), destination: owner.entity, place: relationship.place)
        (inverse.inverse, inverse.keyPaths) = (owner.relationship, [])
        inverse.renamedFrom = owning.entity.renamedFrom.map(Self.lowercasedFirst)
        var draft = RelationshipDraft(relationship: inverse, key: owning.relationships[owner.relationship].key)
        draft.isResolved = true
        drafts[owner.entity].relationships[owner.relationship].relationship.inverse =
            drafts[entity].relationships.count
        drafts[entity].relationships.append(draft)
    }

    private mutating func check(_ index: Int, of entity: Int) {
        let draft = drafts[entity].relationships[index]
        if draft.relationship.isToMany {
            draft.key.report("an owned object has one owner, so this inverse cannot be to-many; take \"toMany\" out")
        }
        if draft.relationship.deleteRule == .cascade || draft.relationship.deleteRule == .deny {
            draft.fields?["deleteRule"]?.report(
                "this relationship leads to the owner of its objects, which stays when they go; take this out")
        }
        if let key = draft.fields?["key"], !key.isEmptyArray {
            key.report("an owned object's owner is the record around it, so no key names it; take this out")
        }
        drafts[entity].relationships[index].relationship.keyPaths = []
    }

    private func inverseName(of owner: String, _ entity: Int, _ parts: [AttributeDraft]) -> String {
        func isFree(_ name: String) -> Bool {
            let columns = parts.count > 1 ? parts.map { "\(name)_\($0.attribute.name)" } : []
            return ModelName.fault(ofProperty: name) == nil && ([name] + columns).allSatisfy { !isTaken($0, entity) }
        }
        let name = Self.lowercasedFirst(owner)
        return isFree(name) ? name : Self.numbered("owner", where: isFree)
    }

    // MARK: - Other relationships

    /// A bare key cannot make an owned object, which lives in its owner.
    private mutating func restrictOtherLinks() {
        for entity in drafts.indices {
            for (index, draft) in drafts[entity].relationships.enumerated()
            where owners[draft.relationship.destination] != nil && !draft.relationship.isOwned && draft.isResolved
                && draft.relationship.missing == .stub
            {
                draft.fields?["missing"]?.report(
                    "\(drafts[draft.relationship.destination].name) is owned, so a bare key makes no object of it; write "
                        + "\"ignore\" or \"fail\"")
                drafts[entity].relationships[index].relationship.missing = .fail
            }
        }
    }

    // MARK: - Names

    private func isTaken(_ name: String, _ entity: Int) -> Bool {
        takenNames[entity]?.contains(FoldedName(name)) ?? false
    }

    /// The name, or with a number, from 2, if it is not free.
    private static func numbered(_ name: String, where isFree: (String) -> Bool) -> String {
        if isFree(name) { return name }
        var number = 2
        while !isFree("\(name)\(number)") { number += 1 }
        return "\(name)\(number)"
    }

    private static func lowercasedFirst(_ name: String) -> String { name.prefix(1).lowercased() + name.dropFirst() }

    /// The names in a field `identity`; faults in it are reported where it is read.
    private static func names(_ node: ModelNode?) -> [String] { node?.value.oneOrMoreStrings ?? [] }
}
