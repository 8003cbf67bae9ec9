/// Checks that no two tables of a model, and no two columns of a table, have names that SQLite takes for one another.
struct StoreNames {
    let drafts: [EntityDraft]
    /// The same entities, linked.
    let entities: [Entity]

    func check() {
        var tables = NameRegister(kind: "table")
        for (draft, entity) in zip(drafts, entities) {
            tables.add(entity.table, of: "the entity \(entity.name)", at: draft.tableNode)
        }
        for index in entities.indices {
            checkColumns(of: index)
            for (draft, relationship) in zip(drafts[index].relationships, entities[index].relationships)
            where draft.isResolved && ownsJoinTable(relationship, of: index) {
                let owner = "the relationship \"\(relationship.name)\" of \(entities[index].name)"
                tables.add("\(entities[index].name)_\(relationship.name)", of: owner, at: draft.key)
            }
        }
    }

    private func checkColumns(of index: Int) {
        let entity = entities[index]
        var columns = NameRegister(kind: "column")
        for (attribute, key) in zip(entity.attributes, drafts[index].attributeKeys) {
            columns.add(attribute.name, of: "the attribute \"\(attribute.name)\"", at: key)
        }
        for (draft, relationship) in zip(drafts[index].relationships, entity.relationships) {
            guard entity.index(ofAttribute: relationship.name) == nil else {
                draft.key.report("\"\(relationship.name)\" is an attribute of the entity as well; rename one of them")
                continue
            }
            guard draft.isResolved, !relationship.isToMany else { continue }
            for column in Self.columns(of: relationship, to: entities[relationship.destination]) {
                columns.add(column, of: "the relationship \"\(relationship.name)\"", at: draft.key)
            }
            if let position = relationship.inverse.flatMap({ positionColumn(relationship, inverse: $0) }) {
                columns.add(position, of: "the order of the inverse of \"\(relationship.name)\"", at: draft.key)
            }
        }
        checkTable(columns, of: index)
    }

    /// SQLite's own limits (https://sqlite.org/limits.html), and that the rows can be told apart.
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

    /// The contract's columns of a to-one relationship: one of its name, several for a compound identity.
    private static func columns(of relationship: Relationship, to destination: Entity) -> [String] {
        guard !destination.hasRowKey, destination.identity.count > 1 else { return [relationship.name] }
        return destination.identity.map { "\(relationship.name)_\(destination.attributes[$0].name)" }
    }

    /// Where the order of the to-many at the other side is kept.
    private func positionColumn(_ relationship: Relationship, inverse: Int) -> String? {
        Model.positionColumn(of: relationship, inverse: entities[relationship.destination].relationships[inverse])
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

/// Names given so far, and to what.
private struct NameRegister {
    let kind: String
    /// By the bytes of the folded name: names that differ in Unicode's form only are different names to SQLite.
    private var owners: [[UInt8]: String] = [:]

    init(kind: String) {
        self.kind = kind
    }

    var count: Int { owners.count }

    func has(_ name: String) -> Bool { owners[Array(name.utf8)] != nil }

    mutating func add(_ name: String, of owner: String, at node: ModelNode) {
        let folded = Array(ModelName.folded(name).utf8)
        guard let other = owners[folded] else {
            owners[folded] = owner
            return
        }
        node.report(
            "\(other) has the \(kind) \"\(name)\" already, whatever the case of its letters; rename one of them")
    }
}
