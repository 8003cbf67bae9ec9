/// Checks the former names (`renamedFrom`) of a model's parts.
///
/// A store finds a part by its name, or else by its former name. So no former name may be the name of another part, or
/// the former name of two parts.
struct FormerNames {
    /// By the bytes of the name: the part that has it, as in a sentence.
    private var owners: [[UInt8]: String] = [:]
    private var claims: [(name: String, owner: String, node: ModelNode)] = []

    static func check(_ entities: [EntityDraft]) {
        var names = FormerNames()
        for draft in entities { names.add(draft.name, "the entity \"\(draft.name)\"", draft.renamedFrom) }
        names.check()
    }

    /// The names of one entity: its attributes and relationships share one name space.
    static func check(_ attributes: [AttributeDraft], _ relationships: [RelationshipDraft]) {
        var names = FormerNames()
        for draft in attributes {
            names.add(draft.attribute.name, "the attribute \"\(draft.attribute.name)\"", draft.renamedFrom)
        }
        for draft in relationships {
            names.add(draft.name, "the relationship \"\(draft.name)\"", draft.renamedFrom)
        }
        names.check()
    }

    private mutating func add(_ name: String, _ owner: String, _ node: ModelNode?) {
        owners[Array(name.utf8)] = owner
        if let node, let former = node.value.string { claims.append((former, owner, node)) }
    }

    private func check() {
        var claimed: [[UInt8]: String] = [:]
        for claim in claims {
            let name = Array(claim.name.utf8)
            if let owner = owners[name] {
                claim.node.report(
                    "\"\(claim.name)\" is still the name of \(owner), so nothing can be renamed from it; take this out, "
                        + "or rename that as well")
            } else if let other = claimed[name] {
                claim.node.report("\(other) is renamed from \"\(claim.name)\" already; only one can be")
            } else {
                claimed[name] = claim.owner
            }
        }
    }
}
