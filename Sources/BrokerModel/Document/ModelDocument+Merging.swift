internal import BrokerJSON

extension ModelDocument {
    /// Returns this document, changed by a later one.
    ///
    /// Objects are merged key by key; any other value replaces the earlier one, and `null` removes it. New members are
    /// added unchanged. Both retain their positions, so that a fault is reported where it was written.
    package func merged(with later: ModelDocument) -> ModelDocument {
        var merge = ModelMerge(notes: notes, faults: faults + later.faults)
        let root = merge.root(root, with: later.root)
        let known = Set(sources)
        return ModelDocument(
            root: root, sources: sources + later.sources.filter { !known.contains($0) },
            notes: merge.notes + later.notes, faults: merge.faults)
    }
}

/// One merge of two trees.
private struct ModelMerge {
    var notes: [ModelNote]
    var faults: [ModelFault]

    /// The kind of an object's member, for merging.
    private enum Level {
        case model, entities, entity, attributes, attribute, relationships, relationship, mappings
        /// The fields of mappings, routes and the like, which follow the general rule.
        case other

        func level(of key: String) -> Level {
            switch (self, key) {
            case (.model, "entities"): .entities
            case (.model, "mappings"): .mappings
            case (.entities, _): .entity
            case (.entity, "attributes"): .attributes
            case (.entity, "relationships"): .relationships
            case (.attributes, _): .attribute
            case (.relationships, _): .relationship
            default: .other
            }
        }

        /// The kind of the members, where the model's author chose their names; removing a member that does not exist
        /// is a mistake.
        var namedMember: String? {
            switch self {
            case .entities: "entity"
            case .attributes: "attribute"
            case .relationships: "relationship"
            case .mappings: "mapping"
            default: nil
            }
        }

        var isNamed: Bool { self == .entity || self == .attribute || self == .relationship }
    }

    mutating func root(_ earlier: ModelValue, with later: ModelValue) -> ModelValue {
        guard later.kind == .object else {
            let message = "expected an object that describes a model, saw \(later.kind.phrase)"
            faults.append(ModelFault(message, at: place(later.place, "")))
            return earlier
        }
        return merge(earlier, with: later, .model, "")
    }

    private mutating func merge(
        _ earlier: ModelValue, with later: ModelValue, _ level: Level, _ pointer: String
    ) -> ModelValue {
        var earlier = earlier
        if level == .attribute {
            if earlier.kind == .object, later.kind == .string { return replacingType(of: earlier, by: later) }
            if earlier.kind == .string, later.kind == .object { earlier = asObject(earlier) }
        }
        guard earlier.kind == .object, later.kind == .object else { return later }
        var members = earlier.members
        // By bytes, as everywhere: names that differ only in Unicode's normal form are different names.
        var indices: [[UInt8]: Int] = [:]
        for (index, member) in members.enumerated() where indices[Array(member.key.utf8)] == nil {
            indices[Array(member.key.utf8)] = index
        }
        var lines: [[UInt8]: Int] = [:]
        var removed: Set<Int> = []
        for member in later.members {
            let key = Array(member.key.utf8)
            let pointer = "\(pointer)/\(member.key.asPointerToken)"
            if let line = lines.updateValue(member.keyPlace.line, forKey: key) {
                faults.append(
                    ModelFault(
                        "\"\(member.key)\" occurs twice here, first on line \(line); keep one of them",
                        at: place(member.keyPlace, pointer)))
                continue
            }
            guard let index = indices[key] else {
                if let kind = level.namedMember, member.value.isNull {
                    reportNothing(kind, member, among: earlier.members, pointer)
                } else if !isTakingAway(member, level) {
                    members.append(member)
                }
                continue
            }
            if isTakingAway(member, level) {
                removed.insert(index)
                notes.removeAll { $0.place.pointer == pointer || $0.place.pointer.hasPrefix(pointer + "/") }
            } else {
                members[index].value = value(members[index], with: member, level, pointer)
            }
        }
        var merged = earlier
        merged.content = .object(members.enumerated().filter { !removed.contains($0.offset) }.map(\.element))
        if level.isNamed { noteOverride(later, pointer) }
        return level == .entity ? withoutDefaults(ofIdentityIn: merged, overriddenBy: later, pointer) : merged
    }

    private mutating func value(
        _ earlier: ModelValue.Member, with later: ModelValue.Member, _ level: Level, _ pointer: String
    ) -> ModelValue {
        if level == .model, later.key == "routes", earlier.value.kind == .array, later.value.kind == .array {
            // The first match counts, so added elements precede the existing ones.
            return ModelValue(.array(later.value.elements + earlier.value.elements), at: later.value.place)
        }
        // One value each, of any contents.
        let isWhole = ["select", "default", "enum"].contains(later.key) && level.namedMember == nil
        return isWhole
            ? later.value : merge(earlier.value, with: later.value, level.level(of: later.key), pointer)
    }

    private func isTakingAway(_ member: ModelValue.Member, _ level: Level) -> Bool {
        if member.value.isNull { return true }
        return level == .entity && member.key == "identity" && member.value.kind == .array
            && member.value.elements.isEmpty
    }
}

// MARK: - Attributes

extension ModelMerge {
    /// A plain type name that replaces an object changes the type alone.
    private func replacingType(of attribute: ModelValue, by type: ModelValue) -> ModelValue {
        var members = attribute.members
        if let index = members.firstIndex(where: { $0.key == "type" }) {
            members[index].value = type
        } else {
            members.insert(ModelValue.Member("type", at: type.place, type), at: 0)
        }
        var attribute = attribute
        attribute.content = .object(members)
        return attribute
    }

    private func asObject(_ type: ModelValue) -> ModelValue {
        ModelValue(.object([ModelValue.Member("type", at: type.place, type)]), at: type.place)
    }

    /// An attribute that an override makes the identity loses its earlier default: all records without one would be one
    /// object. A default in the override itself stays, and the reader reports it.
    private mutating func withoutDefaults(
        ofIdentityIn entity: ModelValue, overriddenBy later: ModelValue, _ pointer: String
    ) -> ModelValue {
        guard let identity = later["identity"],
            let place = entity.members.firstIndex(where: { $0.key == "attributes" })
        else { return entity }
        let names = (identity.string.map { [$0] } ?? identity.elements.compactMap(\.string)).map { Array($0.utf8) }
        var members = entity.members
        var attributes = members[place].value.members
        for index in attributes.indices where names.contains(Array(attributes[index].key.utf8)) {
            let attribute = attributes[index]
            guard attribute.value["default"] != nil, later["attributes"]?[attribute.key]?["default"] == nil else {
                continue
            }
            attributes[index].value.content = .object(
                attribute.value.members.filter { $0.key != "default" && $0.key != "defaultWhenMissing" })
            let pointer = "\(pointer)/attributes/\(attribute.key.asPointerToken)"
            notes.append(
                ModelNote(
                    .passedOver, "the default: all records without an identity would be one object",
                    at: self.place(attribute.value.place, pointer)))
        }
        members[place].value.content = .object(attributes)
        var entity = entity
        entity.content = .object(members)
        return entity
    }
}

// MARK: - Reports

extension ModelMerge {
    private mutating func reportNothing(
        _ kind: String, _ member: ModelValue.Member, among others: [ModelValue.Member], _ pointer: String
    ) {
        let question = NearMiss.question(member.key, among: others.map(\.key))
        faults.append(
            ModelFault(
                "there is no \(kind) \"\(member.key)\" to remove" + question,
                at: place(member.keyPlace, pointer)))
    }

    private mutating func noteOverride(_ later: ModelValue, _ pointer: String) {
        let fields = later.members.map(\.key).filter { $0 != "attributes" && $0 != "relationships" }
        guard !fields.isEmpty else { return }
        if fields.contains("identity") {
            // The notes about the replaced value.
            notes.removeAll {
                ($0.place.pointer == pointer || $0.place.pointer.hasPrefix(pointer + "/attributes/"))
                    && $0.message.contains("identity")
            }
        }
        let source = later.place.source.isEmpty ? "a later model" : later.place.source
        notes.append(
            ModelNote(.taken, "\(fields.joined(separator: ", ")): as \(source) says", at: place(later.place, pointer)))
    }

    private func place(_ place: SourcePlace, _ pointer: String) -> ModelPlace {
        ModelPlace(pointer: pointer, source: place.source, line: place.line, column: place.column)
    }
}
