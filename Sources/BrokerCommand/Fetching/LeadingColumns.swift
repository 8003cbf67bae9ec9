import Broker

/// The values that come first in a table of whole objects: where the table has no room, its last columns are omitted.
struct LeadingColumns {
    private let entities: [String: ModelDescription.Entity]
    private let isLocal: Bool

    /// - Parameter isLocal: the objects have the model's own names.
    init(_ model: ModelDescription, isLocal: Bool) {
        entities = model.entities
        self.isLocal = isLocal
    }

    /// The paths of the identity; then, for each path of relationships, those of the identities on it, and its beginning,
    /// which is that of all its values.
    func paths(of entity: String, including relationships: [String]) -> [String] {
        identity(of: entity) + relationships.flatMap { included(Substring($0), of: entity) }
    }

    private func included(_ path: Substring, of entity: String) -> [String] {
        var entity = entity
        var prefix = ""
        var identities: [String] = []
        var beginning: String?
        for name in path.split(separator: ".") {
            guard let relationship = first(of: entity, { $0.relationships[String(name)] }) else { break }
            prefix += keys(String(name), relationship.key)[0]
            entity = relationship.entity
            beginning = beginning ?? prefix
            prefix += "."
            identities += identity(of: entity).map { prefix + $0 }
        }
        return identities + (beginning.map { [$0] } ?? [])
    }

    private func identity(of entity: String) -> [String] {
        let names = first(of: entity) { $0.identity.isEmpty ? nil : $0.identity } ?? []
        return names.flatMap { name in keys(name, first(of: entity) { $0.attributes[name] }?.key) }
    }

    /// The names that fetched objects have for a property.
    private func keys(_ name: String, _ keys: [String]?) -> [String] {
        guard !isLocal, let keys, !keys.isEmpty else { return [name] }
        return keys
    }

    /// The value of the entity, or else of the nearest entity above it that has one.
    private func first<Value>(of entity: String, _ value: (ModelDescription.Entity) -> Value?) -> Value? {
        var next = entities[entity]
        while let entity = next {
            if let value = value(entity) { return value }
            next = entity.parent.flatMap { entities[$0] }
        }
        return nil
    }
}
