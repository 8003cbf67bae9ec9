/// The fixed model of random operations: every form of relationship, each delete rule but `noAction`, a compound identity
/// and an entity without identity.
enum GraphModel {
    struct Relationship {
        let name: String
        let destination: String
        let isToMany: Bool
        let inverse: String?
        let rule: String
        let replaces: Bool

        init(
            _ name: String, _ destination: String, many isToMany: Bool = false, inverse: String? = nil,
            _ rule: String = "nullify", replaces: Bool = false
        ) {
            self.name = name
            self.destination = destination
            self.isToMany = isToMany
            self.inverse = inverse
            self.rule = rule
            self.replaces = replaces
        }

        var hasLinkTable: Bool { isToMany && (inverse.map { entity(destination).relationship($0).isToMany } ?? true) }
    }

    struct Entity {
        let name: String
        let identity: [String]
        let integers: [String]
        let texts: [String]
        let relationships: [Relationship]

        var attributes: [String] { integers + texts }
        var keyColumns: [String] { identity.isEmpty ? ["_pk"] : identity }

        func relationship(_ name: String) -> Relationship { relationships.first { $0.name == name }! }

        /// A value as JSON.
        func json(_ attribute: String, _ value: String) -> String {
            attribute == "_pk" || integers.contains(attribute) ? value : "\"\(value)\""
        }

        /// A key as operations send it and answers tell it.
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
            name: "Desk", identity: ["id"], integers: ["id"], texts: ["label"],
            relationships: [Relationship("room", "Room", inverse: "desks")]),
        Entity(
            name: "Note", identity: [], integers: [], texts: ["mark", "text"],
            relationships: [Relationship("about", "Person"), Relationship("next", "Note", "cascade")]),
        Entity(
            name: "Paper", identity: ["id"], integers: ["id"], texts: [],
            relationships: [Relationship("follows", "Paper", "cascade"), Relationship("seal", "Tag", "deny")]),
        Entity(
            name: "Person", identity: ["id"], integers: ["id", "age"], texts: ["name"],
            relationships: [
                Relationship("team", "Team", inverse: "staff"), Relationship("boss", "Person"),
                Relationship("badge", "Badge", inverse: "owner"), Relationship("seat", "Room"),
                Relationship("tags", "Tag", many: true, inverse: "bearers"),
                Relationship("papers", "Paper", many: true, "cascade"),
                Relationship("notes", "Note", many: true, "cascade"),
            ]),
        Entity(
            name: "Room", identity: ["floor", "number"], integers: ["floor"], texts: ["number", "colour"],
            relationships: [
                Relationship("team", "Team", inverse: "rooms"),
                Relationship("desks", "Desk", many: true, inverse: "room", "deny"),
            ]),
        Entity(
            name: "Tag", identity: ["word"], integers: [], texts: ["word"],
            relationships: [
                Relationship("bearers", "Person", many: true, inverse: "tags"),
                Relationship("places", "Room", many: true, replaces: true),
                Relationship("guards", "Badge", many: true, "deny"),
            ]),
        Entity(
            name: "Team", identity: ["id"], integers: ["id"], texts: ["name"],
            relationships: [
                Relationship("staff", "Person", many: true, inverse: "team"),
                Relationship("rooms", "Room", many: true, inverse: "team", "cascade", replaces: true),
            ]),
    ]

    static func entity(_ name: String) -> Entity { entities.first { $0.name == name }! }

    static var json: String {
        let members = entities.map { entity in
            let attributes =
                entity.integers.map { "\"\($0)\": \"integer64\"" } + entity.texts.map { "\"\($0)\": \"string\"" }
            let relationships = entity.relationships.map { relationship in
                "\"\(relationship.name)\": {\"entity\": \"\(relationship.destination)\", "
                    + "\"toMany\": \(relationship.isToMany), \"deleteRule\": \"\(relationship.rule)\""
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
