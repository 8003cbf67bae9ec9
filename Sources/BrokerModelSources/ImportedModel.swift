internal import BrokerJSON

/// A model that is being written as text: an entity to a paragraph, an attribute or relationship to a line.
struct ImportedModel {
    struct Property {
        let name: String
        /// Members after the name, JSON; the description is last.
        var members: [(key: String, json: String)]
        let description: String
    }

    struct Entity {
        let name: String
        var members: [(key: String, json: String)] = []
        var attributes: [Property] = []
        var relationships: [Property] = []
        var description = ""
    }

    var description = ""
    var entities: [Entity] = []
    /// Each of them reads dictionaries: their keys are an attribute of the objects.
    var mappings: [(name: String, entity: String, nestingKey: String)] = []

    var text: String {
        let entities = entities.map(Self.text).joined(separator: ",\n")
        let mappings = mappings.map { mapping in
            "    \(Self.json(mapping.name)): {\"entity\": \(Self.json(mapping.entity)), "
                + "\"nestingKey\": \(Self.json(mapping.nestingKey)), \"collection\": true}"
        }.joined(separator: ",\n")
        return """
            {
              "description": \(Self.json(description)),
              "entities": {
            \(entities)
              }\(mappings.isEmpty ? "" : ",\n  \"mappings\": {\n\(mappings)\n  }")
            }

            """
    }

    private static func text(_ entity: Entity) -> String {
        var lines: [String] = []
        if !entity.description.isEmpty { lines.append("\"description\": \(json(entity.description))") }
        lines += entity.members.map { "\(json($0.key)): \($0.json)" }
        for (key, properties) in [("attributes", entity.attributes), ("relationships", entity.relationships)]
        where !properties.isEmpty {
            let members = properties.map { "        " + text($0) }.joined(separator: ",\n")
            lines.append("\"\(key)\": {\n\(members)\n      }")
        }
        return "    \(json(entity.name)): {\n\(lines.map { "      " + $0 }.joined(separator: ",\n"))\n    }"
    }

    static func text(_ property: Property) -> String {
        var members = property.members
        if !property.description.isEmpty { members.append(("description", json(property.description))) }
        return "\(json(property.name)): {\(members.map { "\(json($0.key)): \($0.json)" }.joined(separator: ", "))}"
    }

    static func json(_ text: String) -> String {
        var writer = JSONWriter()
        writer.string(text)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    static func json(_ texts: [String]) -> String { "[\(texts.map(json).joined(separator: ", "))]" }
}
