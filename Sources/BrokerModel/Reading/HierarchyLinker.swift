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
        for index in parent?.entity.attributeIndices ?? [] {
            entity.attributes[index] = parent!.entity.attributes[index]
        }
        for index in parent?.entity.relationshipIndices ?? [] {
            entity.relationships[index] = parent!.entity.relationships[index]
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
        let folded = ModelName.folded(name)
        return attributes.contains { ModelName.folded($0.attribute.name).hasSameBytes(as: folded) }
            || relationships.contains { ModelName.folded($0.name).hasSameBytes(as: folded) }
    }
}

/// The properties of a hierarchy that share an index, and the names of their columns.
private struct ColumnPlan {
    /// By entity, the index of each of its own attributes.
    private(set) var attributes: [Int: [Int]] = [:]
    private(set) var relationships: [Int: [Int]] = [:]
    /// Folded names of several columns.
    private var divided: Set<[UInt8]> = []

    init(_ members: [(index: Int, draft: EntityDraft)]) {
        var claims: [[UInt8]: [Claim]] = [:]
        for (_, draft) in members {
            for attribute in draft.attributes {
                claims[Self.key(attribute.attribute.name), default: []].append(.attribute(attribute.attribute))
            }
            for relationship in draft.relationships where !relationship.relationship.isToMany {
                claims[Self.key(relationship.name), default: []].append(.relationship(relationship.relationship))
            }
        }
        for (name, claims) in claims
        where members.count > 1 && !claims.dropFirst().allSatisfy({ claims[0].canShare($0) }) {
            divided.insert(name)
        }
        placeAll(members)
    }

    private mutating func placeAll(_ members: [(index: Int, draft: EntityDraft)]) {
        var attributePlaces: [[UInt8]: Int] = [:]
        var relationshipPlaces: [[UInt8]: Int] = [:]
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
        _ name: String, isShared: Bool, _ places: inout [[UInt8]: Int], _ count: inout Int
    ) -> Int {
        let bytes = Array(name.utf8)
        if isShared, !divided.contains(Self.key(name)), let place = places[bytes] { return place }
        places[bytes] = count
        count += 1
        return count - 1
    }

    func named(_ attribute: Attribute, of entity: String) -> Attribute {
        var attribute = attribute
        if divided.contains(Self.key(attribute.name)) { attribute.column = "\(entity)_\(attribute.name)" }
        return attribute
    }

    func named(_ relationship: Relationship, of entity: String) -> Relationship {
        var relationship = relationship
        if divided.contains(Self.key(relationship.name)), !relationship.isToMany {
            relationship.column = "\(entity)_\(relationship.name)"
        }
        return relationship
    }

    private static func key(_ name: String) -> [UInt8] { Array(ModelName.folded(name).utf8) }
}
