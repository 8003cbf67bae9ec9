/// An entity as the model gives it, before its relationships are linked.
struct EntityDraft {
    var entity: Entity
    var relationships: [RelationshipDraft] = []
    let key: ModelNode
    /// Where the table's name stands: at `table`, or at the entity's own name.
    var tableNode: ModelNode
    /// Where the attributes' names stand.
    var attributeKeys: [ModelNode] = []
    /// Where the model tells the name before.
    var renamedFrom: ModelNode?

    var name: String { entity.name }
}

/// Reads one entity, as far as that goes without the others.
struct EntityReader {
    let keyStyle: KeyStyle

    /// Whatever is wrong, there is a draft, so that one fault does not make the entity unknown elsewhere.
    func read(_ member: ModelMember) -> EntityDraft {
        var draft = EntityDraft(
            entity: Entity(name: member.name, table: member.name, place: member.node.place), key: member.key,
            tableNode: member.key)
        defer { if let fault = ModelName.fault(ofTable: draft.entity.table) { draft.tableNode.report(fault) } }
        guard let fields = ModelFields(of: member.node, vocabulary: .entity) else { return draft }
        if member.name.isEmpty, fields["table"] != nil { member.key.report("the name is empty; give it one") }
        if let node = fields["table"], let table = node.string() {
            draft.entity.table = table
            draft.tableNode = node
        }
        draft.entity.root = fields["root"]?.string()
        fields.refuseIfTrue("abstract", meaning: "entities without objects of their own")
        let attributes =
            fields["attributes"]?.members(expected: "an object of attributes by name")?
            .map(AttributeReader(keyStyle: keyStyle).read) ?? []
        draft.entity.attributes = attributes.map(\.attribute)
        draft.attributeKeys = attributes.map(\.key)
        draft.relationships =
            fields["relationships"]?.members(expected: "an object of relationships by name")?
            .map(RelationshipReader(keyStyle: keyStyle).read) ?? []
        draft.renamedFrom = fields["renamedFrom"]
        draft.entity.renamedFrom = draft.renamedFrom?.string()
        FormerNames.check(attributes, draft.relationships)
        readIdentity(fields, attributes: attributes, into: &draft.entity)
        claimPlainID(in: &draft)
        readIndexes(fields, attributes: attributes, into: &draft.entity)
        readModified(fields, attributes: attributes, into: &draft.entity)
        readTombstone(fields, into: &draft.entity)
        return draft
    }

    /// The contract's rule: a key `id` that nothing claims is the single identity attribute's, after all of its own.
    private func claimPlainID(in draft: inout EntityDraft) {
        guard draft.entity.identity.count == 1 else { return }
        let plain = ["id"]
        let isClaimed = draft.entity.attributes.contains { $0.keyPaths.contains(plain) }
        guard !isClaimed, !draft.relationships.contains(where: { $0.relationship.keyPaths.contains(plain) }) else {
            return
        }
        draft.entity.attributes[draft.entity.identity[0]].keyPaths.append(plain)
    }
}

// MARK: - Identity

extension EntityReader {
    private func readIdentity(_ fields: ModelFields, attributes: [AttributeDraft], into entity: inout Entity) {
        entity.isIdentityOptional = fields.flag("identityOptional")
        guard let node = fields["identity"] else {
            if entity.isIdentityOptional {
                fields["identityOptional"]?.report(
                    "the entity has no identity that could be optional; add \"identity\"")
            }
            return
        }
        let expected = "the name of an attribute or an array of them"
        entity.identity = indices(of: node.oneOrMore(expected: expected) ?? [], in: entity)
        for index in entity.identity {
            let draft = attributes[index]
            if draft.isTyped, draft.attribute.type == .transformable {
                node.report(
                    "\"\(draft.attribute.name)\" is transformable and cannot identify an object; choose another")
            }
            if let defaultNode = draft.defaultNode, !defaultNode.value.isNull {
                defaultNode.report(
                    "an identity has no default, or all records without one would be one object; take it out")
            }
        }
        guard entity.isIdentityOptional else {
            for index in entity.identity { entity.attributes[index].isOptional = false }
            return
        }
        if !entity.identity.isEmpty, entity.identity.allSatisfy({ !attributes[$0].attribute.isOptional }) {
            attributes[entity.identity[0]].optional?.report(
                "the entity says \"identityOptional\", so its identity is optional; take this out")
        }
    }

    /// The indices of the attributes that `nodes` name, each once; what names none is reported.
    private func indices(of nodes: [ModelNode], in entity: Entity) -> [Int] {
        var indices: [Int] = []
        for node in nodes {
            guard let name = node.string() else { continue }
            guard let index = entity.index(ofAttribute: name) else {
                let question = NearMiss.question(name, among: entity.attributes.map(\.name))
                node.report("the entity has no attribute \"\(name)\"" + question)
                continue
            }
            if indices.contains(index) {
                node.report("\"\(name)\" stands here twice; take one out")
            } else {
                indices.append(index)
            }
        }
        return indices
    }
}

// MARK: - Indexes

extension EntityReader {
    /// Those of the attributes come first. What the identity or another list gives already is left out.
    private func readIndexes(_ fields: ModelFields, attributes: [AttributeDraft], into entity: inout Entity) {
        let single = attributes.indices
        let unique = single.filter { attributes[$0].isUnique }.map { [$0] } + lists("unique", of: fields, in: entity)
        for list in unique where Set(list) != Set(entity.identity) && !entity.unique.contains(list) {
            entity.unique.append(list)
        }
        let indexes = single.filter { attributes[$0].isIndexed }.map { [$0] } + lists("indexes", of: fields, in: entity)
        for list in indexes where list != entity.identity && !(entity.unique + entity.indexes).contains(list) {
            entity.indexes.append(list)
        }
    }

    /// A plain name is a list of one where it stands alone; of several it would not be plain whether they are one list.
    private func lists(_ name: String, of fields: ModelFields, in entity: Entity) -> [[Int]] {
        let expected = "an array of arrays of attribute names"
        guard let node = fields[name], let elements = node.elements(expected: expected, mayBeEmpty: true) else {
            return []
        }
        if elements.count > 1, elements.allSatisfy({ $0.value.kind == .string }) {
            node.report("write [[\"a\", \"b\"]] for attributes together, or [[\"a\"], [\"b\"]] for each by itself")
            return []
        }
        return elements.compactMap { element in
            guard let names = element.oneOrMore(expected: "an array of attribute names") else { return nil }
            let indices = indices(of: names, in: entity)
            return indices.isEmpty ? nil : indices
        }
    }
}

// MARK: - Modified

extension EntityReader {
    private func readModified(_ fields: ModelFields, attributes: [AttributeDraft], into entity: inout Entity) {
        guard let node = fields["modified"], node.string() != nil else { return }
        guard let index = indices(of: [node], in: entity).first else { return }
        let attribute = attributes[index].attribute
        if entity.identity.isEmpty {
            node.report(
                "every record of an entity without identity is a new object; take this out, or add \"identity\"")
        } else if entity.identity.contains(index) {
            node.report("\"\(attribute.name)\" identifies the object and so is never newer; choose another")
        } else if attributes[index].isTyped, !attribute.type.tellsNewer {
            node.report(
                "\"\(attribute.name)\" is \(attribute.type.rawValue), and of those none is newer than another; "
                    + "choose a date, a number or a string")
        }
        entity.modified = index
    }
}

extension EntityReader {
    private func readTombstone(_ fields: ModelFields, into entity: inout Entity) {
        guard let node = fields["tombstone"], let text = node.string() else { return }
        if entity.identity.isEmpty {
            node.report(
                "every record of an entity without identity is a new object; take this out, or add \"identity\"")
        }
        entity.tombstone = text
    }
}

extension AttributeType {
    /// Its values have an order in which one that comes later is newer.
    fileprivate var tellsNewer: Bool {
        switch self {
        case .integer16, .integer32, .integer64, .decimal, .double, .float, .date, .string: true
        case .boolean, .binary, .uuid, .uri, .transformable: false
        }
    }
}
