/// Checks that no two tables of a model, and no two columns of a table, have names that SQLite treats as equal.
struct StoreNames {
    let drafts: [EntityDraft]
    /// The same entities, linked.
    let entities: [Entity]

    func check() {
        let hierarchies = Dictionary(grouping: entities.indices, by: topmost(of:))
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
                guard ownsJoinTable(relationship, of: index) else { continue }
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
    ///
    /// - Parameter members: the entities of the hierarchy, in order.
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

    private func topmost(of index: Int) -> Int {
        var ancestor = index
        while let parent = entities[ancestor].parent { ancestor = parent }
        return ancestor
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

    /// To-many without a to-one inverse; of a pair, the one whose entity, then whose own name, comes first.
    private func ownsJoinTable(_ relationship: Relationship, of index: Int) -> Bool {
        guard relationship.isToMany else { return false }
        guard let inverse = relationship.inverse else { return true }
        let destination = entities[relationship.destination]
        let other = destination.relationships[inverse]
        return other.isToMany
            && (entities[index].name, relationship.name) <= (destination.name, other.name)
    }
}

/// The names so far, and their owners.
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
