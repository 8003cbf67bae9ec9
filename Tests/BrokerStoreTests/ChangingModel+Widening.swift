import TestSupport

extension ChangingModel {
    /// Gives an attribute a type that holds the values of the one before.
    mutating func widen(_ entity: Int, _ attribute: Int, using generator: inout SeededGenerator) {
        let found = entities[entity].attributes[attribute]
        let isKey =
            found.isUnique
            || entities.contains { $0.identity.contains(found.number) || $0.unique.joined().contains(found.number) }
        let wider: [String] =
            switch found.type {
            case "integer16", "integer32", "integer64": ["decimal", "double", "string"]
            case "boolean", "date", "decimal": ["string"]
            default: []
            }
        guard let type = (wider + (isKey ? [] : ["transformable"])).randomElement(using: &generator),
            // The text of a double may be another than was sent.
            found.type != "double", found.type != "transformable"
        else { return }
        entities[entity].attributes[attribute].type = type
    }

    mutating func makeToMany(_ entity: Int, _ relationship: Int) {
        guard entities[entity].relationships[relationship].inverse == nil else { return }
        entities[entity].relationships[relationship].isToMany = true
    }

    /// Gives an entity an identity, if every object has another value there; see ``ChangingRecords``.
    mutating func identify(_ entity: Int, by attribute: Int) {
        let found = entities[entity].attributes[attribute]
        guard entities[entity].parent == nil, found.isRequired, found.defaultValue == nil,
            ["integer16", "integer32", "integer64", "string", "decimal", "date"].contains(found.type),
            entities.allSatisfy({ !isKind($0.number, of: entities[entity].number) || $0.identity.isEmpty }),
            // Its parts may get objects later, as subentities of another.
            !isShared(found), !found.hasShared
        else { return }
        entities[entity].identity = [found.number]
    }
}
