internal import BrokerModel

/// Writes one entity in the model's form.
struct EntityConversion {
    let index: Int
    let sources: EntitySources
    let rules: KeyRules
    let leftOut: Set<[UInt8]>

    private var entity: EntitySource { sources.entities[index] }

    func value() -> ModelValue {
        let element = entity.element
        var writer = DocumentWriter(at: element.place)
        if let parent = element["parentEntity"], !parent.isEmpty { writer.add("parent", parent) }
        addAbstract(to: &writer)
        if let renamed = element["elementID"] ?? element["renamingIdentifier"], !renamed.isEmpty, renamed != entity.name
        {
            writer.add("renamedFrom", renamed)
            entity.report.taken("renaming identifier \(renamed)")
        }
        if !entity.identity.isEmpty { writer.add("identity", entity.identity) }
        let identity = Set(entity.identity)
        var attributes = DocumentWriter(at: element.place)
        for attribute in entity.attributes {
            let keys = rules.keys(attribute, ofEntity: entity.name)
            let conversion = AttributeConversion(
                source: attribute, keys: keys, isIdentity: identity.contains(attribute.name))
            attributes.add(attribute.name, conversion.value())
        }
        writer.add("attributes", attributes.object)
        if !entity.relationships.isEmpty {
            var relationships = DocumentWriter(at: element.place)
            for relationship in entity.relationships {
                let conversion = RelationshipConversion(
                    source: relationship, owner: index, sources: sources, rules: rules, leftOut: leftOut)
                relationships.add(relationship.name, conversion.value())
            }
            writer.add("relationships", relationships.object)
        }
        let unique = uniqueLists()
        if !unique.isEmpty { writer.add("unique", unique) }
        let indexes = indexLists()
        if !indexes.isEmpty { writer.add("indexes", indexes) }
        UserInfoVocabulary.entity.noteUnfollowed(entity.userInfo, on: entity.report)
        return writer.object
    }

    private func addAbstract(to writer: inout DocumentWriter) {
        if entity.element.flag("isAbstract") == true { writer.add("abstract", true) }
        if entity.element["abstract"] != nil {
            entity.report.passedOver("abstract: Core Data reads isAbstract")
        }
    }
}

// MARK: - Unique lists and indexes

extension EntityConversion {
    private func uniqueLists() -> [[String]] {
        entity.uniquenessConstraints.enumerated().compactMap { index, names in
            guard index != entity.identityConstraint, !names.isEmpty, names != entity.identity else { return nil }
            guard let other = names.first(where: { !hasAttribute($0) }) else { return names }
            entity.report.leftOut(
                "the uniqueness constraint over \(names.joined(separator: ", ")): \(other) is no attribute that is stored"
            )
            return nil
        }
    }

    /// The names of `fetchIndex`, and of its predecessor `compoundIndex`.
    private func indexLists() -> [[String]] {
        var lists: [[String]] = []
        func add(_ names: [String], _ what: String, at element: SourceElement) {
            guard !names.isEmpty else { return }
            if names.count == 1, entity.relationships.contains(where: { $0.name.hasSameBytes(as: names[0]) }) {
                return entity.report.passedOver("\(what): a relationship has an index anyway")
            }
            if let other = names.first(where: { !hasAttribute($0) }) {
                return entity.report.leftOut("\(what): \(other) is no attribute that is stored")
            }
            if !lists.contains(names) { lists.append(names) }
        }
        for index in entity.element.children(named: "fetchIndex") {
            let elements = index.children(named: "fetchIndexElement")
            let what = "the index \(index["name"] ?? "")"
            if elements.contains(where: { $0["type"]?.lowercased() == "rtree" }) {
                entity.report.leftOut("\(what): Broker makes no R-trees")
            } else if elements.contains(where: { $0["property"] == nil }) {
                entity.report.leftOut("\(what): Broker indexes attributes, not expressions")
            } else {
                add(elements.compactMap { $0["property"] }, what, at: index)
            }
        }
        for index in entity.element.children(named: "compoundIndexes").flatMap({ $0.children(named: "compoundIndex") })
        {
            let names = index.children(named: "index").compactMap { $0["value"] }
            add(names, "the index over \(names.joined(separator: ", "))", at: index)
        }
        return lists
    }

    private func hasAttribute(_ name: String) -> Bool {
        entity.attribute(named: name) != nil
            || entity.ancestors.contains { sources.entities[$0].attribute(named: name) != nil }
    }
}
