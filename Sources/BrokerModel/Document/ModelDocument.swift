package import BrokerJSON

/// A source's description of a model, before it is checked: a tree in the model's JSON form, which any source can make.
///
/// ``ModelReader`` reads it and reports faults at the positions of the values.
package struct ModelDocument: Sendable {
    package var root: ModelValue
    /// The files of the values, in the order in which their faults are reported.
    package var sources: [String]
    /// The decisions that were made while the tree was built.
    package var notes: [ModelNote]
    /// The faults that were found while the tree was built; the reader reports them with its own.
    package var faults: [ModelFault]

    package init(root: ModelValue, sources: [String], notes: [ModelNote] = [], faults: [ModelFault] = []) {
        self.root = root
        self.sources = sources
        self.notes = notes
        self.faults = faults
    }

    /// The tree of a JSON text.
    ///
    /// - Parameter source: the file's name for positions; empty when faults need no file name.
    /// - Throws: ``ModelError`` with one fault when the text is no JSON.
    package init(parsing text: JSONText, source: String = "") throws(ModelError) {
        do throws(JSONError) {
            self.init(root: try ModelValue(parsing: text, source: source), sources: [source])
        } catch {
            let place = ModelPlace(
                pointer: "", source: source, line: error.position.line, column: error.position.column)
            throw ModelError(faults: [ModelFault("the model is not JSON: \(error.reason)", at: place)])
        }
    }
}

extension ModelDocument {
    /// The tree with the notes as the `description` of the entities, attributes and relationships that they are about.
    /// A note about a missing part is added to the nearest enclosing part.
    package func described(by notes: [ModelNote]) -> ModelValue {
        var texts: [ExactText: [String]] = [:]
        for note in notes {
            var path = note.place.pointer
            var said = "\(note.kind.rawValue): \(note.message)"
            while !Self.bearsDescription(path) || root.value(at: path)?.kind != .object {
                guard let slash = path.lastIndex(of: "/") else { break }
                if Self.bearsDescription(path) { said = "\(path[path.index(after: slash)...]) \(said)" }
                path = String(path[..<slash])
            }
            texts[ExactText(path), default: []].append(said)
        }
        return root.described("", texts)
    }

    private static func bearsDescription(_ pointer: String) -> Bool {
        let parts = pointer.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        switch parts.count {
        case 0: return true
        case 2: return parts.first == "entities"
        case 4: return parts.first == "entities" && ["attributes", "relationships"].contains(parts[3])
        default: return false
        }
    }
}

extension ModelValue {
    /// The value at a JSON Pointer; nil when there is none.
    fileprivate func value(at pointer: String) -> ModelValue? {
        var value = self
        for token in pointer.split(separator: "/", omittingEmptySubsequences: false).dropFirst() {
            guard let found = value.members.last(where: { $0.key.asPointerToken.hasSameBytes(as: String(token)) })
            else { return nil }
            value = found.value
        }
        return value
    }

    fileprivate func described(_ pointer: String, _ texts: [ExactText: [String]]) -> ModelValue {
        guard case .object(var members) = content else { return self }
        // An entity's parts have descriptions of their own; the parts below those do not.
        if pointer.utf8.count(where: { $0 == UInt8(ascii: "/") }) < 4 {
            for index in members.indices {
                let pointer = "\(pointer)/\(members[index].key.asPointerToken)"
                members[index].value = members[index].value.described(pointer, texts)
            }
        }
        if let said = texts[pointer] {
            let older = members.filter { $0.key == "description" }.compactMap(\.value.string)
            members.removeAll { $0.key == "description" }
            let text = ModelValue(.string((older + said).joined(separator: "; ")), at: place)
            members.insert(Member("description", at: place, text), at: 0)
        }
        var described = self
        described.content = .object(members)
        return described
    }
}

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

private struct ModelMerge {
    var notes: [ModelNote]
    var faults: [ModelFault]

    /// The keys from the root.
    private struct Path {
        var keys: [String] = []

        var pointer: String { keys.map { "/" + $0.asPointerToken }.joined() }
        private var isOfEntities: Bool { keys.first == "entities" }
        var isEntity: Bool { isOfEntities && keys.count == 2 }
        var isAttribute: Bool { isOfEntities && keys.count == 4 && keys[2] == "attributes" }
        /// An entity, an attribute or a relationship.
        var isNamed: Bool { isEntity || isAttribute || isOfEntities && keys.count == 4 && keys[2] == "relationships" }

        /// The kind of the members, where the model's author chose their names; removing a member that does not exist
        /// is a mistake.
        var namedMember: String? {
            switch (keys.count, keys.last) {
            case (1, "entities"): "entity"
            case (1, "mappings"): "mapping"
            case (3, "attributes") where isOfEntities: "attribute"
            case (3, "relationships") where isOfEntities: "relationship"
            default: nil
            }
        }
    }

    mutating func root(_ earlier: ModelValue, with later: ModelValue) -> ModelValue {
        guard later.kind == .object else {
            let message = "expected an object that describes a model, saw \(later.kind.phrase)"
            faults.append(ModelFault(message, at: ModelPlace(pointer: "", at: later.place)))
            return earlier
        }
        return merge(earlier, with: later, Path())
    }

    private mutating func merge(_ earlier: ModelValue, with later: ModelValue, _ path: Path) -> ModelValue {
        var earlier = earlier
        if path.isAttribute {
            // A plain type name that replaces an object changes the type alone.
            if earlier.kind == .object, later.kind == .string {
                earlier.set(["type"], later)
                return earlier
            }
            if earlier.kind == .string, later.kind == .object {
                let type = ModelValue.Member("type", at: earlier.place, earlier)
                earlier = ModelValue(.object([type]), at: earlier.place)
            }
        }
        guard earlier.kind == .object, later.kind == .object else { return later }
        var members = earlier.members
        let indices = [ExactText: Int](firstOf: members.enumerated().map { ($1.key, $0) })
        var lines: [ExactText: Int] = [:]
        var removed: Set<Int> = []
        for member in later.members {
            let pointer = Path(keys: path.keys + [member.key]).pointer
            if let line = lines.updateValue(member.keyPlace.line, forKey: ExactText(member.key)) {
                report(
                    "\"\(member.key)\" occurs twice here, first on line \(line); keep one of them", member, pointer)
                continue
            }
            guard let index = indices[member.key] else {
                if let kind = path.namedMember, member.value.isNull {
                    let question = NearMiss.question(member.key, among: earlier.members.map(\.key))
                    report("there is no \(kind) \"\(member.key)\" to remove" + question, member, pointer)
                } else if !isTakingAway(member, path) {
                    members.append(member)
                }
                continue
            }
            if isTakingAway(member, path) {
                removed.insert(index)
                notes.removeAll { $0.place.pointer == pointer || $0.place.pointer.hasPrefix(pointer + "/") }
            } else {
                members[index].value = value(members[index], with: member, path)
            }
        }
        var merged = earlier
        merged.content = .object(members.enumerated().filter { !removed.contains($0.offset) }.map(\.element))
        if path.isNamed { noteOverride(later, path.pointer) }
        return path.isEntity ? withoutDefaults(ofIdentityIn: merged, overriddenBy: later, path.pointer) : merged
    }

    private mutating func value(
        _ earlier: ModelValue.Member, with later: ModelValue.Member, _ path: Path
    ) -> ModelValue {
        if path.keys.isEmpty, later.key == "routes", earlier.value.kind == .array, later.value.kind == .array {
            // The first match counts, so added elements precede the existing ones.
            return ModelValue(.array(later.value.elements + earlier.value.elements), at: later.value.place)
        }
        // One value each, of any contents.
        let isWhole = ["select", "default", "enum"].contains(later.key) && path.namedMember == nil
        return isWhole
            ? later.value : merge(earlier.value, with: later.value, Path(keys: path.keys + [later.key]))
    }

    private func isTakingAway(_ member: ModelValue.Member, _ path: Path) -> Bool {
        if member.value.isNull { return true }
        return path.isEntity && member.key == "identity" && member.value.kind == .array
            && member.value.elements.isEmpty
    }
}

// MARK: - Attributes

extension ModelMerge {
    /// An attribute that an override makes the identity loses its earlier default: all records without one would be one
    /// object. A default in the override itself stays, and the reader reports it.
    private mutating func withoutDefaults(
        ofIdentityIn entity: ModelValue, overriddenBy later: ModelValue, _ pointer: String
    ) -> ModelValue {
        guard let names = later["identity"]?.oneOrMoreStrings else { return entity }
        var entity = entity
        for attribute in entity["attributes"]?.members ?? [] where names.contains(where: attribute.key.hasSameBytes) {
            guard attribute.value["default"] != nil, later["attributes"]?[attribute.key]?["default"] == nil else {
                continue
            }
            for field in ["default", "defaultWhenMissing"] { entity.set(["attributes", attribute.key, field], nil) }
            let pointer = "\(pointer)/attributes/\(attribute.key.asPointerToken)"
            notes.append(
                ModelNote(
                    .passedOver, "the default: all records without an identity would be one object",
                    at: ModelPlace(pointer: pointer, at: attribute.value.place)))
        }
        return entity
    }
}

// MARK: - Reports

extension ModelMerge {
    private mutating func report(_ message: String, _ member: ModelValue.Member, _ pointer: String) {
        faults.append(ModelFault(message, at: ModelPlace(pointer: pointer, at: member.keyPlace)))
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
            ModelNote(
                .taken, "\(fields.joined(separator: ", ")): as \(source) says",
                at: ModelPlace(pointer: pointer, at: later.place)))
    }
}
