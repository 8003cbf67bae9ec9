package import BrokerModel

/// A model that samples extend: what it has at the key paths of records.
struct KnownModel {
    enum Part {
        case attribute(Int)
        case relationship(Int)
        /// Paths of attributes or relationships lead through it.
        case inside
        case ignored
    }

    let model: Model
    /// By entity, the parts at key paths.
    private let parts: [[[ExactText]: Part]]
    /// By entity, the first keys of its paths.
    private let keys: [Set<[UInt8]>]

    init(_ model: Model) {
        self.model = model
        let nesting = model.mappings.reduce(into: [Int: Int]()) { nesting, mapping in
            guard case .record(let record) = mapping.form, let key = record.nesting else { return }
            nesting[record.entity] = key.attribute
        }
        parts = model.entities.enumerated().map { place, entity in
            var parts: [[ExactText]: Part] = [:]
            func note(_ path: [String], _ part: Part) {
                let path = path.map { ExactText($0) }
                for length in path.indices.dropFirst() where parts[Array(path[..<length])] == nil {
                    parts[Array(path[..<length])] = .inside
                }
                parts[path] = part
            }
            // A dictionary's key is none of its objects' keys.
            for index in entity.attributeIndices where index != nesting[place] {
                for path in Self.ownPaths(of: index, in: entity) { note(path, .attribute(index)) }
            }
            for index in entity.relationshipIndices {
                for path in entity.relationships[index].keyPaths { note(path, .relationship(index)) }
            }
            for path in entity.ignoredPaths { note(path, .ignored) }
            return parts
        }
        keys = parts.map { Set($0.keys.compactMap { $0.first.map { Array($0.text.utf8) } }) }
    }

    /// The key paths without `id`, which a single identity takes when no other attribute does.
    private static func ownPaths(of index: Int, in entity: Entity) -> [[String]] {
        let attribute = entity.attributes[index]
        let own = entity.identity.filter { entity.attributes[$0].holderValue == nil }
        guard own == [index], attribute.name != "id", attribute.keyPaths.count > 1, attribute.keyPaths.last == ["id"]
        else {
            return attribute.keyPaths
        }
        return attribute.keyPaths.dropLast()
    }

    func part(at path: [String], of entity: Int) -> Part? { parts[entity][path.map { ExactText($0) }] }

    /// Whether an object looks like a record of the entity: it has its identity, or most of its keys are known.
    func isRecord(_ keys: [String], of entity: Int) -> Bool {
        let identity = identity(of: entity).compactMap(\.first)
        guard identity.isEmpty else { return identity.allSatisfy(keys.contains) }
        let known = keys.count { self.keys[entity].contains(Array($0.utf8)) }
        return known > 0 && 2 * known >= keys.count
    }

    /// The attribute was always null when it was inferred, so it may become anything.
    func isPlaceholder(_ attribute: Int, of entity: Int) -> Bool {
        let attribute = model.entities[entity].attributes[attribute]
        return attribute.type == .transformable && attribute.description?.contains(ScalarShape.alwaysNull) ?? false
    }

    /// The relationship's mapping reads objects by their keys.
    func isMapped(_ relationship: Relationship) -> Bool { relationship.mapping.map(readsKeys) ?? false }

    private func readsKeys(_ mapping: Int) -> Bool {
        guard case .record(let record) = model.mappings[mapping].form else { return false }
        return record.nesting?.isCollection ?? false
    }

    /// The mapping that reads the entity's objects by their keys; nil when there is none.
    func keyMapping(of entity: Int) -> String? {
        model.mappings.indices.first { index in
            guard case .record(let record) = model.mappings[index].form else { return false }
            return record.entity == entity && readsKeys(index)
        }.map { model.mappings[$0].name }
    }

    /// The key paths of an entity's identity; those of an owned entity only among its siblings.
    func identity(of entity: Int) -> [[String]] {
        let entity = model.entities[entity]
        return entity.identity.compactMap { index in
            Self.ownPaths(of: index, in: entity).first { $0.count == 1 || !HolderValue.isReserved($0[0]) }
        }
    }

    /// The entity's objects live in those of another one.
    func isOwned(_ entity: Int) -> Bool { model.holders.owners[entity] != nil }

    /// The entity of objects with such keys, by its name or by its keys.
    func entity(like shape: ObjectShape, stem: String, identity: [[String]]) -> Int? {
        let own = Set(shape.keys.map { Array($0.utf8) })
        return model.entities.indices.first { index in
            guard self.identity(of: index) == identity, !isOwned(index), model.entities[index].parent == nil else {
                return false
            }
            let common = own.intersection(keys[index]).count
            let likeness = Double(common) / Double(max(1, own.union(keys[index]).count))
            let name = EntityName.words(model.entities[index].name)
            let isNamed = name == stem || stem.hasSuffix("_" + name) || name.hasSuffix("_" + stem)
            return isNamed && likeness >= ModelDesign.leastLikeness
                || likeness >= ModelDesign.equalLikeness && common >= ModelDesign.leastEqualKeys
        }
    }
}

extension Model {
    /// The mapping that reads the entity's objects by their keys; nil when there is none.
    package func keyMapping(of entity: String) -> String? {
        index(ofEntity: entity).flatMap { KnownModel(self).keyMapping(of: $0) }
    }
}
