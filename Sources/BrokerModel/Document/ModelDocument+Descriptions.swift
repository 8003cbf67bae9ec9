internal import BrokerJSON

extension ModelDocument {
    /// The tree with the notes as the `description` of the entities, attributes and relationships that they are about.
    /// A note about a missing part is added to the nearest enclosing part.
    package func described(by notes: [ModelNote]) -> ModelValue {
        var texts: [[UInt8]: [String]] = [:]
        for note in notes {
            var path = note.place.pointer
            var said = "\(note.kind.rawValue): \(note.message)"
            while !Self.bearsDescription(path) || root.value(at: path)?.kind != .object {
                guard let slash = path.lastIndex(of: "/") else { break }
                if Self.bearsDescription(path) { said = "\(path[path.index(after: slash)...]) \(said)" }
                path = String(path[..<slash])
            }
            texts[Array(path.utf8), default: []].append(said)
        }
        return root.described("", texts)
    }

    /// The model, an entity, an attribute or a relationship.
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

    fileprivate func described(_ pointer: String, _ texts: [[UInt8]: [String]]) -> ModelValue {
        guard case .object(var members) = content else { return self }
        // An entity's parts have descriptions of their own; the parts below those do not.
        if pointer.utf8.count(where: { $0 == UInt8(ascii: "/") }) < 4 {
            for index in members.indices {
                let pointer = "\(pointer)/\(members[index].key.asPointerToken)"
                members[index].value = members[index].value.described(pointer, texts)
            }
        }
        if let said = texts[Array(pointer.utf8)] {
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
