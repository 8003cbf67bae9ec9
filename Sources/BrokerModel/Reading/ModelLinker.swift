internal import BrokerJSON

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
        let divided = dividedNames(members)
        var attributes: [Attribute] = []
        var relationships: [Relationship] = []
        var attributePlaces: [ExactText: Int] = [:]
        var relationshipPlaces: [ExactText: Int] = [:]
        var own: [Int: (attributes: [Int], relationships: [Int])] = [:]
        for member in members {
            let prefix = drafts[member].name
            let places = drafts[member].attributes.map { draft in
                var attribute = draft.attribute
                let isDivided = divided.contains(FoldedName(attribute.name))
                if !isDivided, let place = attributePlaces[attribute.name] { return place }
                if isDivided { attribute.column = "\(prefix)_\(attribute.name)" }
                attributePlaces[attribute.name] = attributes.count
                attributes.append(attribute)
                return attributes.count - 1
            }
            relationshipIndices[member] = drafts[member].relationships.map { draft in
                var relationship = draft.relationship
                // Those in a table of links have no column.
                let hasColumn = !relationship.isToMany
                let isDivided = divided.contains(FoldedName(relationship.name))
                if hasColumn, !isDivided, let place = relationshipPlaces[relationship.name] { return place }
                if hasColumn, isDivided { relationship.column = "\(prefix)_\(relationship.name)" }
                relationship.owner = members.count > 1 ? member : nil
                if hasColumn { relationshipPlaces[relationship.name] = relationships.count }
                relationships.append(relationship)
                return relationships.count - 1
            }
            own[member] = (places, relationshipIndices[member])
        }
        for member in members { complete(member, attributes, relationships, own[member]!) }
        shareLists(members)
    }

    /// Names that parts of relatives have which cannot share a column.
    private func dividedNames(_ members: [Int]) -> Set<FoldedName> {
        guard members.count > 1 else { return [] }
        let drafts = members.map { self.drafts[$0] }
        let attributes = Dictionary(grouping: drafts.flatMap(\.attributes).map(\.attribute)) { FoldedName($0.name) }
        let links = drafts.flatMap(\.relationships).map(\.relationship).filter { !$0.isToMany }
        let relationships = Dictionary(grouping: links) { FoldedName($0.name) }
        let dividedAttributes = attributes.filter { name, all in
            let first = all[0]
            return relationships[name] != nil
                || !all.allSatisfy { $0.name.hasSameBytes(as: first.name) && $0.isStored(like: first) }
        }
        let dividedRelationships = relationships.filter { _, all in
            let first = all[0]
            return !all.dropFirst().allSatisfy {
                $0.name.hasSameBytes(as: first.name) && $0.destination == first.destination
                    && $0.deleteRule == first.deleteRule && $0.inverse == nil && first.inverse == nil
            }
        }
        return Set(dividedAttributes.keys).union(dividedRelationships.keys)
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
                for ancestor in drafts.ancestors(of: member) where drafts[ancestor].hasProperty(named: name) {
                    key.report(
                        "\(drafts[member].name) has \"\(name)\" from \(drafts[ancestor].name) already; "
                            + "take it out, or rename it")
                }
            }
        }
    }
}

extension [EntityDraft] {
    /// The entities that it inherits from, the nearest one first.
    fileprivate func ancestors(of index: Int) -> some Sequence<Int> {
        sequence(state: index) { current in
            guard let parent = self[current].entity.parent else { return nil }
            current = parent
            return parent
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
        return node.refuse("the model has no entity \"\(name)\"" + NearMiss.question(name, among: drafts.map(\.name)))
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
        drafts.ancestors(of: index).prefix(drafts.count).contains(index)
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
            return reportNoInverse(named: name, at: node, of: draft.relationship.destination)
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

    private func reportNoInverse(named name: String, at node: ModelNode, of index: Int) {
        let destination = drafts[index]
        let owners = drafts.ancestors(of: index).map { drafts[$0] }
        if let owner = owners.first(where: { $0.relationships.contains { $0.name.hasSameBytes(as: name) } })?.name {
            return node.report(
                "\(destination.name) has \"\(name)\" from \(owner), and so has every \(owner); "
                    + "an inverse of it leads to \(owner)")
        }
        let question = NearMiss.question(name, among: destination.relationships.map(\.name))
        node.report("\(destination.name) has no relationship \"\(name)\"" + question)
    }
}

/// Checks that no two tables of a model, and no two columns of a table, have names that SQLite treats as equal.
struct StoreNames {
    let drafts: [EntityDraft]
    let entities: [Entity]

    func check() {
        let hierarchies = Dictionary(grouping: entities.indices) { index in
            drafts.ancestors(of: index).reduce(index) { $1 }
        }
        var tables = NameRegister(kind: "table")
        for (draft, entity) in zip(drafts, entities) {
            tables.add(entity.table, of: "the entity \(entity.name)", at: draft.tableNode)
        }
        for index in entities.indices {
            checkProperties(of: index)
            if entities[index].parent == nil { checkColumns(of: index, hierarchies[index] ?? []) }
            for draft in drafts[index].relationships where draft.isResolved {
                guard let place = entities[index].index(ofRelationship: draft.name) else { continue }
                let relationship = entities[index].relationships[place]
                guard RowLayout.ownsLinkTable(relationship, of: index, in: entities) else { continue }
                let owner = "the relationship \"\(relationship.name)\" of \(entities[index].name)"
                tables.add("\(entities[index].name)_\(relationship.name)", of: owner, at: draft.key)
            }
        }
    }

    private func checkProperties(of index: Int) {
        for draft in drafts[index].relationships where entities[index].index(ofAttribute: draft.name) != nil {
            draft.key.report("\"\(draft.name)\" is an attribute of the entity as well; rename one of them")
        }
    }

    /// The columns of an entity's table, or of its hierarchy's, each once.
    private func checkColumns(of topmost: Int, _ members: [Int]) {
        var columns = NameRegister(kind: "column")
        if members.count > 1 { columns.reserve(entityColumnName, for: "the entity of each object") }
        var seen = (attributes: Set<Int>(), relationships: Set<Int>())
        for member in members {
            let entity = entities[member]
            // Of two equal names, the last.
            let places = Dictionary(
                entity.attributeIndices.map { (ExactText(entity.attributes[$0].name), $0) }, uniquingKeysWith: { $1 })
            for draft in drafts[member].attributes {
                guard let place = places[draft.attribute.name], seen.attributes.insert(place).inserted
                else { continue }
                columns.add(
                    entity.attributes[place].column, of: "the attribute \"\(draft.attribute.name)\"", at: draft.key)
            }
            for draft in drafts[member].relationships where draft.isResolved && !draft.relationship.isToMany {
                guard entity.index(ofAttribute: draft.name) == nil,
                    let place = entity.index(ofRelationship: draft.name),
                    seen.relationships.insert(place).inserted
                else { continue }
                let relationship = entity.relationships[place]
                for column in Self.columns(of: relationship, to: entities[relationship.destination]) {
                    columns.add(column, of: "the relationship \"\(relationship.name)\"", at: draft.key)
                }
                let inverse = relationship.inverse.map { entities[relationship.destination].relationships[$0] }
                if let position = inverse.flatMap({ Model.positionColumn(of: relationship, inverse: $0) }) {
                    columns.add(position, of: "the order of the inverse of \"\(relationship.name)\"", at: draft.key)
                }
            }
        }
        checkTable(columns, of: topmost)
    }

    /// SQLite's own limits (https://sqlite.org/limits.html), and that the rows can be distinguished.
    private func checkTable(_ columns: NameRegister, of index: Int) {
        let entity = entities[index]
        let count = columns.count + (entity.hasRowKey ? 1 : 0)
        if count > Self.maximumColumns {
            drafts[index].tableNode.report(
                "\(entity.name) would have \(count) columns, and a table of SQLite's has at most "
                    + "\(Self.maximumColumns); split the entity")
        }
        if !entity.hasRowKey, rowNumberNames.allSatisfy(columns.has) {
            drafts[index].tableNode.report(
                "\(entity.name) has columns of all three names that SQLite gives a row's number "
                    + "(\(rowNumberNames.joined(separator: ", "))); rename one of them")
        }
    }

    private static let maximumColumns = 2_000

    /// The contract's columns of a to-one relationship: one with its name, or several for a compound identity.
    private static func columns(of relationship: Relationship, to destination: Entity) -> [String] {
        guard !destination.hasRowKey, destination.identity.count > 1 else { return [relationship.column] }
        return destination.identity.map { "\(relationship.column)_\(destination.attributes[$0].column)" }
    }
}

private struct NameRegister {
    let kind: String
    private var owners: [FoldedName: String] = [:]

    init(kind: String) {
        self.kind = kind
    }

    var count: Int { owners.count }

    /// A name that no part of the model may have.
    mutating func reserve(_ name: String, for meaning: String) { owners[FoldedName(name)] = meaning }

    func has(_ name: String) -> Bool { owners[FoldedName(name)] != nil }

    mutating func add(_ name: String, of owner: String, at node: ModelNode) {
        let folded = FoldedName(name)
        guard let other = owners[folded] else {
            owners[folded] = owner
            return
        }
        node.report(
            "\(other) has the \(kind) \"\(name)\" already, whatever the case of its letters; rename one of them")
    }
}
