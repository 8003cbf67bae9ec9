/// A relationship as the model gives it, before the names of its destination and its inverse are resolved.
struct RelationshipDraft {
    var relationship: Relationship
    let key: ModelNode
    /// The positions of the destination and the inverse; nil without one.
    var destinationNode: ModelNode?
    var inverseNode: ModelNode?
    /// The position of the former name.
    var renamedFrom: ModelNode?
    /// The position of the name of the mapping of its values.
    var mappingNode: ModelNode?
    var fields: ModelFields?
    /// False until the destination is found; until then the relationship has a substitute.
    var isResolved = false

    var name: String { relationship.name }
}

/// Reads one relationship.
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
        if let entity = fields["entity"] {
            draft.destinationNode = entity
        } else {
            fields.node.report("a relationship needs an \"entity\"; add the name of the entity that it leads to")
        }
        draft.inverseNode = fields["inverse"]
        draft.renamedFrom = fields["renamedFrom"]
        draft.relationship.renamedFrom = draft.renamedFrom?.string()
        draft.mappingNode = fields["mapping"]
        draft.relationship.isToMany = fields.flag("toMany")
        draft.relationship.keyPaths = KeyPaths.read(fields["key"], name: member.name, style: keyStyle)
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

    /// Limit on the values that mean no object.
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
                node.reportExpected(
                    "a text, a whole number, true, false or an empty array; null always means no object")
                return nil
            }
            return node.fragment(for: nil)
        }
    }
}
