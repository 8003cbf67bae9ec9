/// The model of random operations: every form of relationship, ordered ones, each delete rule, a compound identity,
/// an entity without identity, and one with a required attribute.
enum GraphModel {
    struct Relationship {
        let name: String
        let destination: String
        let isToMany: Bool
        let inverse: String?
        let rule: String
        let replaces: Bool
        /// At most one of a pair of relationships.
        let isOrdered: Bool

        init(
            _ name: String, _ destination: String, many isToMany: Bool = false, inverse: String? = nil,
            _ rule: String = "nullify", replaces: Bool = false, ordered isOrdered: Bool = false
        ) {
            self.name = name
            self.destination = destination
            self.isToMany = isToMany
            self.inverse = inverse
            self.rule = rule
            self.replaces = replaces
            self.isOrdered = isOrdered
        }
    }

    struct Entity {
        let name: String
        let identity: [String]
        let integers: [String]
        let texts: [String]
        var required: String?
        let relationships: [Relationship]

        var attributes: [String] { integers + texts }
        var keyColumns: [String] { identity.isEmpty ? ["_pk"] : identity }

        /// A value that no attribute takes.
        static let wrong = "?"

        /// A value as JSON.
        func json(_ attribute: String, _ value: String) -> String {
            if attribute == "_pk" || integers.contains(attribute) { return value == Self.wrong ? "\"?\"" : value }
            return value == Self.wrong ? "{}" : "\"\(value)\""
        }

        /// A key as it is in operations and answers.
        func json(key: [String]) -> String {
            let parts = zip(keyColumns, key).map { json($0, $1) }
            guard parts.count > 1 else { return parts[0] }
            return "{" + zip(keyColumns, parts).map { "\"\($0)\":\($1)" }.joined(separator: ",") + "}"
        }
    }

    static let entities = [
        Entity(
            name: "Badge", identity: ["id"], integers: ["id"], texts: [],
            relationships: [Relationship("owner", "Person", inverse: "badge")]),
        Entity(
            name: "Desk", identity: ["id"], integers: ["id"], texts: ["label"], required: "label",
            relationships: [Relationship("room", "Room", inverse: "desks")]),
        Entity(
            name: "Note", identity: [], integers: [], texts: ["text"],
            relationships: [Relationship("about", "Person", "noAction"), Relationship("next", "Note", "cascade")]),
        Entity(
            name: "Paper", identity: ["id"], integers: ["id"], texts: [],
            relationships: [
                Relationship("follows", "Paper", "cascade"), Relationship("seal", "Tag", "deny"),
                Relationship("cover", "Tag", inverse: "covered", "noAction"),
            ]),
        Entity(
            name: "Person", identity: ["id"], integers: ["id", "age"], texts: ["name"],
            relationships: [
                Relationship("team", "Team", inverse: "staff"), Relationship("boss", "Person"),
                Relationship("badge", "Badge", inverse: "owner"), Relationship("seat", "Room"),
                Relationship("stay", "Room", inverse: "guests"),
                Relationship("tags", "Tag", many: true, inverse: "bearers"),
                Relationship("papers", "Paper", many: true, "cascade", ordered: true),
                Relationship("notes", "Note", many: true, "cascade"),
            ]),
        Entity(
            name: "Room", identity: ["floor", "number"], integers: ["floor"], texts: ["number", "colour"],
            relationships: [
                Relationship("team", "Team", inverse: "rooms"),
                Relationship("desks", "Desk", many: true, inverse: "room", "deny"),
                Relationship("guests", "Person", many: true, inverse: "stay", "noAction"),
            ]),
        Entity(
            name: "Tag", identity: ["word"], integers: [], texts: ["word"],
            relationships: [
                Relationship("bearers", "Person", many: true, inverse: "tags", ordered: true),
                Relationship("places", "Room", many: true, replaces: true, ordered: true),
                Relationship("covered", "Paper", inverse: "cover"),
                Relationship("guards", "Badge", many: true, "deny"),
            ]),
        Entity(
            name: "Team", identity: ["id"], integers: ["id"], texts: ["name"],
            relationships: [
                Relationship("staff", "Person", many: true, inverse: "team", ordered: true),
                Relationship("rooms", "Room", many: true, inverse: "team", "cascade", replaces: true, ordered: true),
            ]),
    ]

    static func entity(_ name: String) -> Entity { entities.first { $0.name == name }! }

    /// As a model's document.
    static var json: String {
        let members = entities.map { entity in
            let attributes = entity.attributes.map { attribute in
                "\"\(attribute)\": {\"type\": \"\(entity.integers.contains(attribute) ? "integer64" : "string")\", "
                    + "\"optional\": \(attribute != entity.required)}"
            }
            let relationships = entity.relationships.map { relationship in
                "\"\(relationship.name)\": {\"entity\": \"\(relationship.destination)\", "
                    + "\"toMany\": \(relationship.isToMany), \"ordered\": \(relationship.isOrdered), \"deleteRule\": \"\(relationship.rule)\""
                    + (relationship.inverse.map { ", \"inverse\": \"\($0)\"" } ?? "")
                    + (relationship.replaces ? ", \"assignment\": \"replace\"}" : "}")
            }
            let identity = entity.identity.map { "\"\($0)\"" }.joined(separator: ", ")
            return "\"\(entity.name)\": {" + (identity.isEmpty ? "" : "\"identity\": [\(identity)], ")
                + "\"attributes\": {\(attributes.joined(separator: ", "))}, "
                + "\"relationships\": {\(relationships.joined(separator: ", "))}}"
        }
        return "{\"entities\": {\(members.joined(separator: ",\n"))}}"
    }
}
