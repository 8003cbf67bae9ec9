/// Unites the entities of each hierarchy: one row of attributes and relationships, which all of them index.
///
/// ```
/// Person    name │ boss
/// Employee  name │ salary │ boss          one table:  name │ salary │ Manager_title │ Clerk_title │ boss
/// Manager   name │ salary │ title │ boss
/// Clerk     name │ title │ boss           each entity says which of them its objects have
/// ```
///
/// Relatives that are not on one path may use one name: attributes of one type share a column; otherwise each has its
/// own column, prefixed with the entity's name. An entity without relatives is a hierarchy of one.
struct HierarchyLinker {
    private(set) var drafts: [EntityDraft]
    /// By entity, its direct subentities.
    private let children: [Int: [Int]]
    /// By entity and index among its own relationships, the index in the hierarchy.
    private var relationshipIndices: [[Int]]

    init(_ drafts: [EntityDraft]) {
        self.drafts = drafts
        var children: [Int: [Int]] = [:]
        for (index, draft) in drafts.enumerated() {
            if let parent = draft.entity.parent { children[parent, default: []].append(index) }
        }
        self.children = children
        relationshipIndices = Array(repeating: [], count: drafts.count)
    }

    mutating func link() {
        for index in drafts.indices where drafts[index].entity.parent == nil { link(hierarchyOf: index) }
        for index in drafts.indices {
            translateInverses(of: index)
            EntityReader.claimPlainID(in: &drafts[index].entity)
        }
    }

    private mutating func link(hierarchyOf topmost: Int) {
        let members = members(below: topmost)
        reportRepetitions(members)
        let columns = ColumnPlan(members.map { ($0, drafts[$0]) })
        var attributes: [Attribute] = []
        var relationships: [Relationship] = []
        var own: [Int: (attributes: [Int], relationships: [Int])] = [:]
        for member in members {
            let places = columns.attributes[member]!
            for (draft, place) in zip(drafts[member].attributes, places) where place == attributes.count {
                attributes.append(columns.named(draft.attribute, of: drafts[member].name))
            }
            let linkPlaces = columns.relationships[member]!
            for (draft, place) in zip(drafts[member].relationships, linkPlaces) where place == relationships.count {
                relationships.append(columns.named(draft.relationship, of: drafts[member].name))
                relationships[place].owner = members.count > 1 ? member : nil
            }
            relationshipIndices[member] = linkPlaces
            own[member] = (places, linkPlaces)
        }
        for member in members { complete(member, attributes, relationships, own[member]!) }
        shareLists(members)
    }

    /// The topmost entity first, each before its subentities.
    private func members(below topmost: Int) -> [Int] {
        var members = [topmost]
        var position = 0
        while position < members.count {
            members += children[members[position]] ?? []
            position += 1
        }
        return members
    }

    /// Completes one entity; its parent is complete.
    private mutating func complete(
        _ member: Int, _ attributes: [Attribute], _ relationships: [Relationship],
        _ own: (attributes: [Int], relationships: [Int])
    ) {
        let parent = drafts[member].entity.parent.map { drafts[$0] }
        var entity = drafts[member].entity
        entity.attributes = attributes
        entity.relationships = relationships
        if let parent = parent?.entity {
            for index in parent.attributeIndices { entity.attributes[index] = parent.attributes[index] }
            for index in parent.relationshipIndices { entity.relationships[index] = parent.relationships[index] }
        }
        var byIndex = parent?.attributesByIndex ?? [:]
        for (draft, index) in zip(drafts[member].attributes, own.attributes) {
            let column = entity.attributes[index].column
            entity.attributes[index] = draft.attribute
            entity.attributes[index].column = column
            byIndex[index] = draft
        }
        for (draft, index) in zip(drafts[member].relationships, own.relationships) {
            let (column, owner) = (entity.relationships[index].column, entity.relationships[index].owner)
            entity.relationships[index] = draft.relationship
            (entity.relationships[index].column, entity.relationships[index].owner) = (column, owner)
        }
        entity.attributeIndices = (parent?.entity.attributeIndices ?? []) + own.attributes
        entity.relationshipIndices = (parent?.entity.relationshipIndices ?? []) + own.relationships
        drafts[member].entity = entity
        drafts[member].attributesByIndex = byIndex
        EntityReader.complete(&drafts[member], inheritingFrom: parent)
    }

    /// Lists of columns that are unique or indexed belong to the table.
    private mutating func shareLists(_ members: [Int]) {
        guard members.count > 1 else { return }
        var unique: [[Int]] = []
        var indexes: [[Int]] = []
        for member in members {
            for list in drafts[member].entity.unique where !unique.contains(list) { unique.append(list) }
        }
        for member in members {
            for list in drafts[member].entity.indexes where !(unique + indexes).contains(list) { indexes.append(list) }
        }
        for member in members { (drafts[member].entity.unique, drafts[member].entity.indexes) = (unique, indexes) }
    }

    /// At this point an inverse is the other entity's own, by its index there.
    private mutating func translateInverses(of index: Int) {
        for place in drafts[index].entity.relationships.indices {
            let relationship = drafts[index].entity.relationships[place]
            guard let inverse = relationship.inverse else { continue }
            drafts[index].entity.relationships[place].inverse = relationshipIndices[relationship.destination][inverse]
        }
    }

    private func reportRepetitions(_ members: [Int]) {
        for member in members {
            let keys = drafts[member].attributes.map(\.key) + drafts[member].relationships.map(\.key)
            let names = drafts[member].attributes.map(\.attribute.name) + drafts[member].relationships.map(\.name)
            for (key, name) in zip(keys, names) {
                var ancestor = drafts[member].entity.parent
                while let current = ancestor {
                    if drafts[current].hasProperty(named: name) {
                        key.report(
                            "\(drafts[member].name) has \"\(name)\" from \(drafts[current].name) already; "
                                + "take it out, or rename it")
                    }
                    ancestor = drafts[current].entity.parent
                }
            }
        }
    }
}

extension EntityDraft {
    /// A property of its own, compared without ASCII case.
    fileprivate func hasProperty(named name: String) -> Bool {
        let folded = FoldedName(name)
        return attributes.contains { FoldedName($0.attribute.name) == folded }
            || relationships.contains { FoldedName($0.name) == folded }
    }
}

/// The properties of a hierarchy that share an index, and the names of their columns.
private struct ColumnPlan {
    /// By entity, the index of each of its own attributes.
    private(set) var attributes: [Int: [Int]] = [:]
    private(set) var relationships: [Int: [Int]] = [:]
    /// Names of several columns.
    private var divided: Set<FoldedName> = []

    init(_ members: [(index: Int, draft: EntityDraft)]) {
        var claims: [FoldedName: [Claim]] = [:]
        for (_, draft) in members where members.count > 1 {
            for attribute in draft.attributes {
                claims[FoldedName(attribute.attribute.name), default: []].append(.attribute(attribute.attribute))
            }
            for relationship in draft.relationships where !relationship.relationship.isToMany {
                claims[FoldedName(relationship.name), default: []].append(.relationship(relationship.relationship))
            }
        }
        divided = Set(claims.filter { !$1.dropFirst().allSatisfy($1[0].canShare) }.keys)
        var attributePlaces: [ExactText: Int] = [:]
        var relationshipPlaces: [ExactText: Int] = [:]
        var counts = (attributes: 0, relationships: 0)
        for (index, draft) in members {
            attributes[index] = draft.attributes.map {
                place($0.attribute.name, isShared: true, &attributePlaces, &counts.attributes)
            }
            relationships[index] = draft.relationships.map {
                let isShared = !$0.relationship.isToMany
                return place($0.name, isShared: isShared, &relationshipPlaces, &counts.relationships)
            }
        }
    }

    private enum Claim {
        case attribute(Attribute)
        case relationship(Relationship)

        func canShare(_ other: Claim) -> Bool {
            switch (self, other) {
            case (.attribute(let one), .attribute(let other)):
                one.name.hasSameBytes(as: other.name) && one.isStored(like: other)
            case (.relationship(let one), .relationship(let other)):
                one.name.hasSameBytes(as: other.name) && one.destination == other.destination
                    && one.deleteRule == other.deleteRule && one.inverse == nil && other.inverse == nil
            default: false
            }
        }
    }

    private func place(
        _ name: String, isShared: Bool, _ places: inout [ExactText: Int], _ count: inout Int
    ) -> Int {
        if isShared, !divided.contains(FoldedName(name)), let place = places[name] { return place }
        places[name] = count
        count += 1
        return count - 1
    }

    func named(_ attribute: Attribute, of entity: String) -> Attribute {
        var attribute = attribute
        if divided.contains(FoldedName(attribute.name)) { attribute.column = "\(entity)_\(attribute.name)" }
        return attribute
    }

    func named(_ relationship: Relationship, of entity: String) -> Relationship {
        var relationship = relationship
        if divided.contains(FoldedName(relationship.name)), !relationship.isToMany {
            relationship.column = "\(entity)_\(relationship.name)"
        }
        return relationship
    }
}

/// The rules for the names of a model's parts. The store quotes names, so almost all characters are allowed.
enum ModelName {
    /// The fault of the name of an attribute or relationship; nil for a valid name.
    static func fault(ofProperty name: String) -> String? {
        if let fault = fault(of: name) { return fault }
        if name.contains(".") {
            return
                "a name with a dot cannot be distinguished from a path; take the dot out and give the path as \"key\""
        }
        if FoldedName(name) == FoldedName("_pk") { return "the column \"_pk\" is Broker's own; choose another name" }
        return nil
    }

    /// The fault of a table's name; nil for a valid name.
    static func fault(ofTable name: String) -> String? {
        if let fault = fault(of: name) { return fault }
        for (prefix, owner) in [("_broker_", "Broker's"), ("sqlite_", "SQLite's")]
        where FoldedName(name).hasPrefix(prefix) {
            return "tables whose names begin with \"\(prefix)\" are \(owner) own; choose another name"
        }
        return nil
    }

    private static func fault(of name: String) -> String? {
        if name.isEmpty { return "the name is empty; give it one" }
        if name.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }) {
            return "the name holds a control character; take it out"
        }
        return nil
    }
}

/// Resolves the references between entities, and checks rules about several of them.
///
/// ```
/// parents ─▶ destinations ─▶ inverses ─▶ owned entities completed ─▶ hierarchies put together, topmost entities first
///         ─▶ values of records around others ─▶ names in the store
/// ```
struct ModelLinker {
    var drafts: [EntityDraft]
    /// The first entity of each name.
    private let indexByName: [ExactText: Int]

    init(_ drafts: [EntityDraft]) {
        self.drafts = drafts
        indexByName = Dictionary(firstOf: drafts.enumerated().map { ($1.name, $0) })
    }

    /// The entities with relationships that have a destination; only meaningful when no fault was reported.
    mutating func link() -> [Entity] {
        resolveParents()
        for entity in drafts.indices {
            for index in drafts[entity].relationships.indices { resolveDestination(of: index, in: entity) }
        }
        for entity in drafts.indices {
            for index in drafts[entity].relationships.indices { resolveInverse(of: index, in: entity) }
        }
        var ownership = OwnershipLinker(drafts)
        ownership.link()
        var hierarchies = HierarchyLinker(ownership.drafts)
        hierarchies.link()
        drafts = hierarchies.drafts
        let entities = drafts.map(\.entity)
        HolderCheck(drafts: drafts, entities: entities).check()
        StoreNames(drafts: drafts, entities: entities).check()
        FormerNames.check(drafts)
        return entities
    }

    /// The entity that a node names; nil, with a report, when there is none.
    private func entity(namedBy node: ModelNode) -> Int? {
        guard let name = node.string() else { return nil }
        if let index = indexByName[name] { return index }
        node.report("the model has no entity \"\(name)\"" + NearMiss.question(name, among: drafts.map(\.name)))
        return nil
    }

    private mutating func resolveDestination(of index: Int, in entity: Int) {
        guard let node = drafts[entity].relationships[index].fields?["entity"],
            let destination = self.entity(namedBy: node)
        else { return }
        drafts[entity].relationships[index].relationship.destination = destination
        drafts[entity].relationships[index].isResolved = true
    }
}

// MARK: - Parents

extension ModelLinker {
    private mutating func resolveParents() {
        for index in drafts.indices {
            drafts[index].entity.parent = drafts[index].fields?["parent"].flatMap(entity(namedBy:))
        }
        for index in drafts.indices where isInCircle(index) {
            drafts[index].fields?["parent"]?.report(
                "\(drafts[index].name) would inherit from itself, over its parents; one of them must have no parent")
        }
        // From here on, no loop over ancestors meets a circle.
        let circle = drafts.indices.filter(isInCircle)
        for index in circle { drafts[index].entity.parent = nil }
    }

    private func isInCircle(_ index: Int) -> Bool {
        var ancestor = drafts[index].entity.parent
        for _ in drafts.indices {
            guard let current = ancestor else { return false }
            if current == index { return true }
            ancestor = drafts[current].entity.parent
        }
        return false
    }
}

// MARK: - Inverses

extension ModelLinker {
    /// Links both sides when this one names its inverse; the other side need not name it.
    private mutating func resolveInverse(of index: Int, in entity: Int) {
        let draft = drafts[entity].relationships[index]
        guard let node = draft.fields?["inverse"], let name = node.string(), draft.isResolved else { return }
        let destination = drafts[draft.relationship.destination]
        guard let otherIndex = destination.relationships.firstIndex(where: { $0.name.hasSameBytes(as: name) }) else {
            return reportNoInverse(named: name, at: node, of: destination)
        }
        let other = destination.relationships[otherIndex]
        guard other.isResolved else { return }
        guard other.relationship.destination == entity else {
            let target = drafts[other.relationship.destination].name
            node.report(
                "\"\(name)\" of \(destination.name) leads to \(target), not to \(drafts[entity].name); "
                    + "an inverse leads back")
            return
        }
        if let back = other.fields?["inverse"]?.value.string, !back.hasSameBytes(as: draft.name) {
            node.report(
                "\"\(name)\" of \(destination.name) names \"\(back)\" as its inverse, not \"\(draft.name)\"; "
                    + "let each name the other")
            return
        }
        if let taken = other.relationship.inverse, taken != index {
            let holder = drafts[entity].relationships[taken].name
            node.report(
                "\"\(name)\" of \(destination.name) is the inverse of \"\(holder)\" already; "
                    + "give each its own inverse")
            return
        }
        drafts[entity].relationships[index].relationship.inverse = otherIndex
        drafts[draft.relationship.destination].relationships[otherIndex].relationship.inverse = index
    }

    private func reportNoInverse(named name: String, at node: ModelNode, of destination: EntityDraft) {
        var ancestor = destination.entity.parent
        while let current = ancestor {
            if drafts[current].relationships.contains(where: { $0.name.hasSameBytes(as: name) }) {
                let owner = drafts[current].name
                return node.report(
                    "\(destination.name) has \"\(name)\" from \(owner), and so has every \(owner); "
                        + "an inverse of it leads to \(owner)")
            }
            ancestor = drafts[current].entity.parent
        }
        let question = NearMiss.question(name, among: destination.relationships.map(\.name))
        node.report("\(destination.name) has no relationship \"\(name)\"" + question)
    }
}
