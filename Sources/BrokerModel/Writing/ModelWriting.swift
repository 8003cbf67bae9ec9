package import BrokerJSON

extension Model {
    /// Writes the model in force in the form that ``ModelReader`` reads, with everything resolved: reading it returns
    /// an equal model.
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            // Every key path is written, so no key style applies.
            writer.member("keyStyle", KeyStyle.exact.rawValue)
            writer.member("description", description)
            if evolves { writer.strings("evolve", ["columns"]) }
            if !hasReadableViews { writer.member("readableViews", false) }
            writer.object("entities") { writer in
                for entity in entities { write(entity, to: &writer) }
            }
            writeMappings(to: &writer)
        }
    }

    private func write(_ entity: Entity, to writer: inout JSONWriter) {
        let names = { (indices: [Int]) in indices.map { entity.attributes[$0].name } }
        let parent = entity.parent.map { entities[$0] }
        writer.object(entity.name) { writer in
            writer.member("description", entity.description)
            writer.member("table", entity.table)
            writer.member("parent", parent?.name)
            writer.flag("abstract", entity.isAbstract)
            writer.member("root", entity.root)
            if !entity.ignoredPaths.isEmpty {
                writer.key("ignore")
                KeyPathForm.list(entity.ignoredPaths).write(to: &writer)
            }
            writer.member("renamedFrom", entity.renamedFrom)
            if !entity.identity.isEmpty, parent?.identity.isEmpty ?? true {
                writer.strings("identity", names(entity.identity))
                writer.flag("identityOptional", entity.isIdentityOptional)
                writer.flag("identityGuessed", entity.isIdentityGuessed)
            }
            writer.member("formerIdentity", entity.formerIdentity)
            let own = entity.attributeIndices.dropFirst(parent?.attributeIndices.count ?? 0)
            writer.flag("extra", own.contains { entity.attributes[$0].isExtra })
            writer.object("attributes") { writer in
                for index in own where !entity.attributes[index].isExtra {
                    entity.attributes[index].write(to: &writer)
                }
            }
            let relationships = entity.relationshipIndices.dropFirst(parent?.relationshipIndices.count ?? 0)
            if !relationships.isEmpty {
                writer.object("relationships") { writer in
                    for index in relationships { write(entity.relationships[index], to: &writer) }
                }
            }
            if let tombstone = entity.tombstone, parent?.tombstone != tombstone {
                writer.member("tombstone", tombstone)
            }
            if let limit = entity.maximumDeletions {
                if case .objects(let count) = limit {
                    writer.member("maximumDeletions", count)
                } else {
                    writer.member("maximumDeletions", limit.text)
                }
            }
            if let modified = entity.modified, parent == nil {
                writer.member("modified", entity.attributes[modified].name)
            }
            for (key, lists) in lists(of: entity) where !lists.isEmpty {
                writer.array(key, of: lists) { list, writer in writer.array(of: names(list)) { $1.string($0) } }
            }
        }
    }

    /// Each list of a hierarchy is written with the first entity that has all its attributes.
    private func lists(of entity: Entity) -> [(key: String, lists: [[Int]])] {
        let parent = entity.parent.map { Set(entities[$0].attributeIndices) } ?? []
        let own = Set(entity.attributeIndices)
        let isOwn = { (list: [Int]) in
            own.isSuperset(of: list) && (entity.parent == nil || !parent.isSuperset(of: list))
        }
        return [("unique", entity.unique.filter(isOwn)), ("indexes", entity.indexes.filter(isOwn))]
    }

    private func write(_ relationship: Relationship, to writer: inout JSONWriter) {
        writer.object(relationship.name) { writer in
            writer.member("description", relationship.description)
            writer.member("entity", entities[relationship.destination].name)
            writer.member("toMany", relationship.isToMany)
            writer.member("inverse", inverse(of: relationship)?.name)
            writer.key("key")
            KeyPathForm.write(relationship.keyPaths, to: &writer)
            writer.member("deleteRule", relationship.deleteRule.rawValue)
            if relationship.isToMany { writer.member("assignment", relationship.assignment.rawValue) }
            writer.flag("owned", relationship.isOwned)
            writer.flag("ordered", relationship.isOrdered)
            writer.member("missing", relationship.missing.rawValue)
            writer.member("none", relationship.none)
            writer.member("renamedFrom", relationship.renamedFrom)
            writer.member("mapping", relationship.mapping.map { mappings[$0].name })
        }
    }
}

extension Attribute {
    /// Key and value; defaults are omitted, except the type, the keys and `optional`.
    fileprivate func write(to writer: inout JSONWriter) {
        writer.object(name) { writer in
            writer.member("description", description)
            writer.member("type", type.rawValue)
            writer.key("key")
            KeyPathForm.write(keyPaths, to: &writer)
            writer.member("optional", isOptional)
            writer.member("default", raw: defaultValue?.text.utf8)
            writer.flag("defaultWhenMissing", usesDefaultWhenMissing)
            if !dateFormats.isEmpty { writer.strings("formats", dateFormats) }
            writer.member("timeZone", timeZone)
            if type == .date { writer.member("storage", dateStorage.rawValue) }
            if precision != Self.defaultPrecision { writer.member("precision", precision) }
            if let decimalScale {
                writer.member("storage", DecimalStorage.scaled.rawValue)
                writer.member("scale", decimalScale)
            }
            constraints.writeMembers(to: &writer)
            if !transforms.isEmpty { writer.strings("transform", transforms.map(\.rawValue)) }
            if onInvalid != .fail { writer.member("onInvalid", onInvalid.rawValue) }
            writer.member("renamedFrom", renamedFrom)
        }
    }
}

extension ValueConstraints {
    fileprivate func writeMembers(to writer: inout JSONWriter) {
        writer.member("min", raw: minimum?.text.utf8)
        writer.member("max", raw: maximum?.text.utf8)
        if let minimumLength { writer.member("minLength", minimumLength) }
        if let maximumLength { writer.member("maxLength", maximumLength) }
        writer.member("pattern", pattern)
        writer.member("enum", allowed)
    }
}

extension JSONWriter {
    /// Writes nothing for false.
    fileprivate mutating func flag(_ key: String, _ isSet: Bool) {
        if isSet { member(key, true) }
    }

    /// Writes nothing for an empty list.
    fileprivate mutating func member(_ key: String, _ values: [JSONFragment]) {
        if !values.isEmpty { array(key, of: values) { $1.raw($0.text.utf8) } }
    }
}

/// Mappings and routes, in the form that ``MappingReader`` and ``RouteReader`` read.
extension Model {
    func writeMappings(to writer: inout JSONWriter) {
        if !mappings.isEmpty {
            writer.object("mappings") { writer in
                for mapping in mappings {
                    writer.key(mapping.name)
                    switch mapping.form {
                    case .record(let record): write(record, to: &writer)
                    case .select(let select): write(select, to: &writer)
                    }
                }
            }
        }
        if !routes.isEmpty {
            writer.array("routes", of: routes) { write($0, to: &$1) }
        }
    }

    private func write(_ mapping: RecordMapping, to writer: inout JSONWriter) {
        let entity = entities[mapping.entity]
        let nesting = mapping.nesting.map { entity.attributes[$0.attribute].name }
        writer.object { writer in
            writer.member("entity", entity.name)
            writer.member("nestingKey", nesting)
            writer.flag("collection", mapping.nesting?.isCollection ?? false)
            if !mapping.attributes.isEmpty {
                writer.object("attributes") { writer in
                    for (index, paths) in mapping.attributes.sorted(by: { $0.key < $1.key }) {
                        for path in paths { writer.member(path.text(nesting), entity.attributes[index].name) }
                    }
                }
            }
            guard !mapping.relationships.isEmpty else { return }
            writer.object("relationships") { writer in
                for (index, mapped) in mapping.relationships.sorted(by: { $0.key < $1.key }) {
                    for path in mapped.paths {
                        write(mapped, path.text(nesting), entity.relationships[index].name, to: &writer)
                    }
                }
            }
        }
    }

    private func write(_ mapped: MappedRelationship, _ path: String, _ name: String, to writer: inout JSONWriter) {
        guard let mapping = mapped.mapping else { return writer.member(path, name) }
        writer.object(path) { writer in
            writer.member("relationship", name)
            writer.member("mapping", mappings[mapping].name)
        }
    }

    private func write(_ select: SelectMapping, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.object("select") { writer in
                writer.member("key", select.key.joined(separator: "."))
                writer.object("cases") { writer in
                    for choice in select.cases { writer.member(choice.value, mappings[choice.mapping].name) }
                }
                switch select.otherwise {
                case .mapping(let mapping): writer.member("otherwise", mappings[mapping].name)
                case .decline:
                    writer.key("otherwise")
                    writer.null()
                case .refuse: break
                }
            }
        }
    }

    private func write(_ route: Route, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("path", route.pattern?.text)
            writer.member("keyPath", route.keyPath?.joined(separator: "."))
            writer.member("mapping", route.mapping.map { mappings[$0].name })
            writer.flag("error", route.isError)
        }
    }
}

extension MappedPath {
    fileprivate func text(_ nesting: String?) -> String {
        ((isBelowKey ? nesting.map { ["(\($0))"] } ?? [] : []) + keys).joined(separator: ".")
    }
}
