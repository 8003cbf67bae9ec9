internal import BrokerJSON

/// An entity as the model gives it, before it is linked to others.
struct EntityDraft {
    /// Its attributes and relationships are complete when the linker has united those of its hierarchy.
    var entity: Entity
    var attributes: [AttributeDraft] = []
    var relationships: [RelationshipDraft] = []
    let key: ModelNode
    /// The position of the table's name: at `table`, or at the entity's own name.
    var tableNode: ModelNode
    var fields: ModelFields?
    /// By index of the entity's attributes, those that its objects have.
    var attributesByIndex: [Int: AttributeDraft] = [:]
    /// The names of the identity of an owned entity; nil for any other entity.
    var ownedIdentity: [String]?

    var name: String { entity.name }
}

/// Reads one entity, first as far as that is possible without the others; and the rest, when its attributes are
/// complete.
struct EntityReader {
    let keyStyle: KeyStyle

    /// There is always a draft, even with faults, so that one fault does not make the entity unknown elsewhere.
    func read(_ member: ModelMember) -> EntityDraft {
        var draft = EntityDraft(
            entity: Entity(name: member.name, table: member.name, place: member.node.place), key: member.key,
            tableNode: member.key)
        defer { if let fault = ModelName.fault(ofTable: draft.entity.table) { draft.tableNode.report(fault) } }
        guard let fields = ModelFields(of: member.node, vocabulary: .entity) else { return draft }
        draft.fields = fields
        draft.entity.description = fields.description
        if member.name.isEmpty, fields["table"] != nil { member.key.report("the name is empty; give it one") }
        if let node = fields["table"], let table = node.string() {
            draft.entity.table = table
            draft.tableNode = node
        }
        draft.entity.root = fields["root"]?.string()
        draft.entity.ignoredPaths =
            fields["ignore"].flatMap { KeyPaths.paths($0, mayNameHolder: false, isList: true) } ?? []
        draft.entity.isAbstract = fields.flag("abstract")
        draft.attributes =
            fields["attributes"]?.members(expected: "an object of attributes by name")?
            .map(AttributeReader(keyStyle: keyStyle).read) ?? []
        if fields.flag("extra"), let node = fields["extra"] {
            draft.attributes.append(AttributeDraft(attribute: .extra(at: node.place), key: node, isTyped: true))
        }
        draft.relationships =
            fields["relationships"]?.members(expected: "an object of relationships by name")?
            .map(RelationshipReader(keyStyle: keyStyle).read) ?? []
        if let extra = draft.attributes.last, extra.attribute.isExtra {
            let others = draft.attributes.dropLast().map { ($0.key, $0.attribute.name) }
            for (key, name) in others + draft.relationships.map({ ($0.key, $0.name) })
            where FoldedName(name) == FoldedName(Attribute.extraName) {
                key.report("with \"extra\", _extra has what no other attribute takes; choose another name")
            }
        }
        draft.entity.renamedFrom = fields["renamedFrom"]?.string()
        draft.entity.maximumDeletions = readMaximumDeletions(fields)
        draft.entity.formerIdentity = fields["formerIdentity"]?.string()
        FormerNames.check(draft.attributes, draft.relationships)
        return draft
    }

    /// Reads the fields that name attributes, which may be inherited ones.
    static func complete(_ draft: inout EntityDraft, inheritingFrom parent: EntityDraft?) {
        guard let fields = draft.fields else { return }
        let reader = PropertyNamesReader(fields: fields, attributes: draft.attributesByIndex)
        reader.readIdentity(draft.ownedIdentity, inheritingFrom: parent, into: &draft.entity)
        reader.readIndexes(of: draft.attributes, into: &draft.entity)
        reader.readModified(inheritingFrom: parent, into: &draft.entity)
        reader.readTombstone(inheritingFrom: parent, into: &draft.entity)
    }

    /// The contract's rule: a key `id` that no other part claims belongs to the single identity attribute that the record
    /// itself brings, after all its own keys.
    static func claimPlainID(in entity: inout Entity) {
        let own = entity.identity.filter { entity.attributes[$0].holderValue == nil }
        guard own.count == 1 else { return }
        let plain = ["id"]
        let isClaimed = entity.attributeIndices.contains { entity.attributes[$0].keyPaths.contains(plain) }
        guard !isClaimed,
            !entity.relationshipIndices.contains(where: { entity.relationships[$0].keyPaths.contains(plain) })
        else { return }
        entity.attributes[own[0]].keyPaths.append(plain)
    }
}

/// Reads the fields of an entity that name its attributes.
struct PropertyNamesReader {
    let fields: ModelFields
    /// By index, those that the entity's objects have.
    let attributes: [Int: AttributeDraft]
}

// MARK: - Identity

extension PropertyNamesReader {
    fileprivate func readIdentity(
        _ ownedIdentity: [String]?, inheritingFrom parent: EntityDraft?, into entity: inout Entity
    ) {
        if let parent, !parent.entity.identity.isEmpty { return inheritIdentity(of: parent.entity, into: &entity) }
        entity.isIdentityOptional = fields.flag("identityOptional")
        entity.isIdentityGuessed = fields.flag("identityGuessed")
        guard let node = fields["identity"] ?? ownedIdentity.map({ _ in fields.node }) else {
            if entity.isIdentityOptional {
                fields["identityOptional"]?.report(
                    "the entity has no identity that could be optional; add \"identity\"")
            }
            return
        }
        let expected = "the name of an attribute or an array of them"
        let named = fields["identity"]?.oneOrMore(expected: expected) ?? []
        entity.identity = indices(of: named.filter { !isRelationship($0, of: entity) }, in: entity)
        if let ownedIdentity { entity.identity = ownedIdentity.compactMap(entity.index(ofAttribute:)) }
        entity.hasIdentityOfItsOwn = parent != nil && !entity.identity.isEmpty
        for index in entity.identity {
            guard let draft = attributes[index] else { continue }
            if draft.isTyped, draft.attribute.type == .transformable {
                node.report(
                    "\"\(draft.attribute.name)\" is transformable and cannot identify an object; choose another")
            }
            if draft.attribute.decimalScale != nil {
                node.report(
                    "\"\(draft.attribute.name)\" is a scaled decimal and cannot identify an object; let its \"storage\" be "
                        + "\"text\", or choose another")
            }
            if let defaultNode = draft.fields?["default"], !defaultNode.value.isNull {
                defaultNode.report(
                    "an identity has no default, or all records without one would be one object; take it out")
            }
        }
        guard entity.isIdentityOptional else {
            for index in entity.identity { entity.attributes[index].isOptional = false }
            return
        }
        if let first = entity.identity.first, entity.identity.allSatisfy({ !entity.attributes[$0].isOptional }) {
            attributes[first]?.fields?["optional"]?.report(
                "the entity says \"identityOptional\", so its identity is optional; take this out")
        }
    }

    /// Reports a name that is a relationship's.
    private func isRelationship(_ node: ModelNode, of entity: Entity) -> Bool {
        guard let name = node.value.string, entity.index(ofAttribute: name) == nil,
            entity.index(ofRelationship: name) != nil
        else { return false }
        node.report(
            "\"\(name)\" is a relationship, and attributes identify an object; name an attribute with the key "
                + "\"@parent.id\" instead, which takes the id of the record around this one, or make the relationship "
                + "that leads here \"owned\"")
        return true
    }

    private func inheritIdentity(of parent: Entity, into entity: inout Entity) {
        entity.identity = parent.identity
        entity.isIdentityOptional = parent.isIdentityOptional
        entity.hasIdentityOfItsOwn = parent.hasIdentityOfItsOwn
        let names = parent.identity.map { "\"\(parent.attributes[$0].name)\"" }.joined(separator: ", ")
        if let node = fields["identity"], !node.isEmptyArray {
            node.report(
                "\(parent.name) has the identity \(names) already, and what inherits from it has the same; take one out"
            )
        }
        fields["identityOptional"]?.report("the identity is that of \(parent.name); say there whether it is optional")
    }

    /// The indices of the attributes that `nodes` name, each once; a name without an attribute is reported.
    private func indices(of nodes: [ModelNode], in entity: Entity) -> [Int] {
        var indices: [Int] = []
        for node in nodes {
            guard let name = node.string() else { continue }
            guard let index = entity.index(ofAttribute: name) else {
                let question = NearMiss.question(name, among: entity.attributeNames)
                node.report("the entity has no attribute \"\(name)\"" + question)
                continue
            }
            if entity.attributes[index].isExtra {
                node.report("\"\(name)\" has what no other attribute takes, and is none to choose; take it out")
            } else if indices.contains(index) {
                node.report("\"\(name)\" occurs twice here; take one out")
            } else {
                indices.append(index)
            }
        }
        return indices
    }
}

// MARK: - Indexes

extension PropertyNamesReader {
    /// Those of the attributes come first. Lists that the identity or another list covers are omitted.
    fileprivate func readIndexes(of own: [AttributeDraft], into entity: inout Entity) {
        let single = own.filter { $0.isUnique || $0.isIndexed }.compactMap { draft in
            entity.index(ofAttribute: draft.attribute.name).map { (index: $0, draft: draft) }
        }
        let unique = single.filter(\.draft.isUnique).map { [$0.index] } + lists("unique", of: fields, in: entity)
        for list in unique where Set(list) != Set(entity.identity) && !entity.unique.contains(list) {
            entity.unique.append(list)
        }
        let indexes = single.filter(\.draft.isIndexed).map { [$0.index] } + lists("indexes", of: fields, in: entity)
        for list in indexes where list != entity.identity && !(entity.unique + entity.indexes).contains(list) {
            entity.indexes.append(list)
        }
    }

    /// A single name is a list of one; several plain names would not show whether they are one list.
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

extension PropertyNamesReader {
    fileprivate func readModified(inheritingFrom parent: EntityDraft?, into entity: inout Entity) {
        entity.modified = parent?.entity.modified
        guard let node = fields["modified"], node.string() != nil else { return }
        if let parent {
            return node.report(
                "\"modified\" holds for a whole hierarchy; give it to the topmost entity, above "
                    + "\(parent.name)")
        }
        guard let index = indices(of: [node], in: entity).first, let draft = attributes[index] else { return }
        let attribute = draft.attribute
        if entity.identity.isEmpty {
            reportNeed(of: node)
        } else if entity.identity.contains(index) {
            node.report("\"\(attribute.name)\" identifies the object and so is never newer; choose another")
        } else if draft.isTyped, !attribute.type.traits.isOrdered {
            node.report(
                "\"\(attribute.name)\" is \(attribute.type.rawValue), and of those none is newer than another; "
                    + "choose a date, a number or a string")
        }
        entity.modified = index
    }

    /// An entity's own `modified` replaces an inherited one.
    fileprivate func readTombstone(inheritingFrom parent: EntityDraft?, into entity: inout Entity) {
        entity.tombstone = parent?.entity.tombstone
        guard let node = fields["tombstone"], let text = node.string() else { return }
        if entity.identity.isEmpty { reportNeed(of: node) }
        entity.tombstone = text
    }

    /// Reports a field of an entity that lacks the identity which the field needs, unless its identity is what is wrong.
    private func reportNeed(of node: ModelNode) {
        guard fields["identity"] == nil else { return }
        node.report("every record of an entity without identity is a new object; take this out, or add \"identity\"")
    }
}

extension EntityReader {
    /// The whole table of a hierarchy is counted, so only its topmost entity has the field.
    private func readMaximumDeletions(_ fields: ModelFields) -> DeletionLimit? {
        guard let node = fields["maximumDeletions"] else { return nil }
        guard fields["parent"] == nil else {
            return node.refuse("the deletions of a hierarchy are counted together; say this of the topmost entity")
        }
        if let limit = node.value.string.flatMap({ DeletionLimit(percentage: Array($0.utf8)) }) { return limit }
        guard let count = node.value.int64.flatMap({ Int(exactly: $0) }), count >= 0 else {
            return node.refuseExpected("a whole number from 0, or a percentage like \"2.5%\"")
        }
        return .objects(count)
    }
}

/// Checks the former names (`renamedFrom`) of a model's parts.
///
/// A store finds a part by its name, or else by its former name: no former name is that of another part, or of two parts.
struct FormerNames {
    /// By name, the part that has it, as in a sentence.
    private var owners: [ExactText: String] = [:]
    private var claims: [(name: String, owner: String, node: ModelNode)] = []

    static func check(_ entities: [EntityDraft]) {
        var names = FormerNames()
        for draft in entities { names.add(draft.name, "entity", draft.fields) }
        names.check()
    }

    /// The names of one entity: its attributes and relationships share one name space.
    static func check(_ attributes: [AttributeDraft], _ relationships: [RelationshipDraft]) {
        var names = FormerNames()
        for draft in attributes { names.add(draft.attribute.name, "attribute", draft.fields) }
        for draft in relationships { names.add(draft.name, "relationship", draft.fields) }
        names.check()
    }

    private mutating func add(_ name: String, _ kind: String, _ fields: ModelFields?) {
        let owner = "the \(kind) \"\(name)\""
        owners[name] = owner
        if let node = fields?["renamedFrom"], let former = node.value.string { claims.append((former, owner, node)) }
    }

    private func check() {
        var claimed: [ExactText: String] = [:]
        for claim in claims {
            if let owner = owners[claim.name] {
                claim.node.report(
                    "\"\(claim.name)\" is still the name of \(owner), so nothing can be renamed from it; take this out, "
                        + "or rename that as well")
            } else if let other = claimed[claim.name] {
                claim.node.report("\(other) is renamed from \"\(claim.name)\" already; only one can be")
            } else {
                claimed[claim.name] = claim.owner
            }
        }
    }
}

/// A relationship as the model gives it, before the names of its destination and its inverse are resolved.
struct RelationshipDraft {
    var relationship: Relationship
    let key: ModelNode
    var fields: ModelFields?
    /// False until the destination is found; until then the relationship has a substitute.
    var isResolved = false

    var name: String { relationship.name }
}

struct RelationshipReader {
    let keyStyle: KeyStyle

    /// There is always a draft, even with faults, so that one fault does not make the relationship unknown elsewhere.
    func read(_ member: ModelMember) -> RelationshipDraft {
        if let fault = ModelName.fault(ofProperty: member.name) { member.key.report(fault) }
        var draft = RelationshipDraft(
            relationship: Relationship(name: member.name, destination: 0, place: member.node.place), key: member.key)
        guard let fields = ModelFields(of: member.node, vocabulary: .relationship) else { return draft }
        draft.relationship.description = fields.description
        draft.fields = fields
        if fields["entity"] == nil {
            fields.node.report("a relationship needs an \"entity\"; add the name of the entity that it leads to")
        }
        draft.relationship.renamedFrom = fields["renamedFrom"]?.string()
        draft.relationship.isToMany = fields.flag("toMany")
        draft.relationship.keyPaths = KeyPaths.read(
            fields["key"], name: draft.relationship.renamedFrom ?? member.name, style: keyStyle)
        draft.relationship.deleteRule = fields["deleteRule"]?.choice() ?? .nullify
        draft.relationship.missing = fields["missing"]?.choice() ?? .stub
        draft.relationship.none = readNone(fields)
        draft.relationship.isOwned = fields.flag("owned")
        draft.relationship.isOrdered = fields.flag("ordered")
        if draft.relationship.isOrdered, !draft.relationship.isToMany {
            fields["ordered"]?.report(
                "\"ordered\" is for to-many relationships; take it out, or add \"toMany\": true")
        }
        if let assignment = fields["assignment"] {
            draft.relationship.assignment = assignment.choice() ?? .union
            if !draft.relationship.isToMany {
                assignment.report("\"assignment\" is for to-many relationships; take it out, or add \"toMany\": true")
            }
        }
        return draft
    }

    private static let mostNoneValues = 16

    private func readNone(_ fields: ModelFields) -> [JSONFragment] {
        let expected = "an array of values that mean no object, as [\"\", 0, false, []]"
        guard let nodes = fields["none"]?.elements(expected: expected) else { return [] }
        guard nodes.count <= Self.mostNoneValues else {
            fields["none"]?.report("\"none\" has \(nodes.count) values; \(Self.mostNoneValues) are the most")
            return []
        }
        return nodes.compactMap { node in
            switch node.value.kind {
            case .string, .true, .false: break
            case .number where node.value.int64 != nil: break
            case .array where node.isEmptyArray: break
            default:
                return node.refuseExpected(
                    "a text, a whole number, true, false or an empty array; null always means no object")
            }
            return node.fragment(for: nil)
        }
    }
}
