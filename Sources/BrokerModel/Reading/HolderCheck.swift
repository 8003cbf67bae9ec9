/// Checks the attributes whose values come from the record around their own (``HolderValue``).
struct HolderCheck {
    let drafts: [EntityDraft]
    /// The same entities, linked.
    let entities: [Entity]

    func check() {
        var holders: HolderRelationships?
        for (index, draft) in drafts.enumerated() {
            for attribute in draft.attributes where attribute.attribute.holderValue != nil {
                let known = holders ?? HolderRelationships(entities)
                holders = known
                check(attribute, of: index, known)
            }
        }
    }

    private func check(_ draft: AttributeDraft, of entity: Int, _ relationships: HolderRelationships) {
        let attribute = draft.attribute
        let values = attribute.keyPaths.compactMap(HolderValue.init)
        guard let value = values.first, draft.isTyped else { return }
        if values.count > 1 {
            draft.key.report(
                "\"\(attribute.name)\" has the keys \(values.map { "\"\($0.text)\"" }.joined(separator: " and ")), and an "
                    + "attribute takes one value from the record around its own; take one out")
        }
        let holders = relationships.holders(of: entity)
        guard !holders.isEmpty else {
            return draft.key.report(
                "no relationship leads to \(entities[entity].name), so there is no record around its own that "
                    + "\"\(value.text)\" could mean; add the relationship, or take this key out")
        }
        switch value {
        case .position:
            if attribute.type != .integer32, attribute.type != .integer64 {
                draft.key.report(
                    "\"\(value.text)\" is a position; give \"\(attribute.name)\" the type integer32 or integer64")
            }
        case .attribute(let name):
            for holder in holders where holder.destination == entity { check(draft, name, holder) }
        }
    }

    private func check(_ draft: AttributeDraft, _ name: String, _ holder: HolderRelationship) {
        let entity = entities[holder.entity]
        let path = "\"\(HolderValue.attribute(name).text)\""
        let leads = "\(entity.name).\(entity.relationships[holder.relationship].name) leads here"
        guard let place = entity.identity.first(where: { entity.attributes[$0].name.hasSameBytes(as: name) }) else {
            let names = entity.identity.map { "\"@parent.\(entity.attributes[$0].name)\"" }.joined(separator: ", ")
            return draft.key.report(
                "\(leads), and \"\(name)\" is no attribute of the identity of \(entity.name), as \(path) needs; "
                    + (names.isEmpty ? "give \(entity.name) an identity" : "write \(names)"))
        }
        let (own, other) = (draft.attribute, entity.attributes[place])
        if !own.isStored(like: other) {
            let form =
                other.type == .date
                ? "date with the storage \(other.dateStorage.rawValue) and the precision \(other.precision)"
                : other.type.rawValue
            draft.key.report(
                "\(leads), and its \"\(name)\" is \(form); \"\(own.name)\" has the key \(path) and needs the same type")
        }
    }
}
