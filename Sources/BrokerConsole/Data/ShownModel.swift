import Broker

/// The model of the store in the order of its JSON, with what entities inherit.
struct ShownModel: Sendable {
    struct Attribute: Sendable {
        let name: String
        let type: String
        let isOptional: Bool
        /// The reason of a guess, where a command has inferred it.
        let description: String?
    }

    struct Relationship: Sendable {
        let name: String
        let entity: String
        let isToMany: Bool
        let inverse: String?
        let description: String?
    }

    struct Entity: Sendable {
        let name: String
        let parent: String?
        let isAbstract: Bool
        let description: String?
        fileprivate(set) var identity: [String]
        let isIdentityOptional: Bool
        let isIdentityGuessed: Bool
        fileprivate(set) var attributes: [Attribute]
        fileprivate(set) var relationships: [Relationship]

        /// Objects are named by their row's number, which is none of their values.
        var hasRowKey: Bool { identity.isEmpty || isIdentityOptional }

        /// The key of a fetched object; nil for the number of its row.
        func key(of object: JSONTree) -> JSONTree? {
            guard !hasRowKey else { return nil }
            let values = identity.map { JSONTree.Member(name: $0, value: object[$0] ?? .null) }
            return values.count == 1 ? values[0].value : .object(values)
        }

        func relationship(_ name: String) -> Relationship? { relationships.first { $0.name == name } }
    }

    let description: String?
    /// By their order.
    let entities: [Entity]

    init(_ json: RawJSON) throws {
        let root = try JSONTree(json)
        description = root["description"]?.string
        var all = (root["entities"]?.members ?? []).map { Entity(name: $0.name, $0.value) }
        let own = Dictionary(all.map { ($0.name, $0) }) { one, _ in one }
        for index in all.indices {
            var (parent, seen) = (all[index].parent, Set([all[index].name]))
            while let name = parent, let entity = own[name], seen.insert(name).inserted {
                if all[index].identity.isEmpty { all[index].identity = entity.identity }
                all[index].attributes = entity.attributes + all[index].attributes
                all[index].relationships = entity.relationships + all[index].relationships
                parent = entity.parent
            }
        }
        entities = all
    }

    subscript(_ name: String) -> Entity? { entities.first { $0.name == name } }
}

extension ShownModel.Entity {
    fileprivate init(name: String, _ json: JSONTree) {
        self.init(
            name: name, parent: json["parent"]?.string, isAbstract: json["abstract"]?.bool ?? false,
            description: json["description"]?.string, identity: json["identity"]?.elements.compactMap(\.string) ?? [],
            isIdentityOptional: json["identityOptional"]?.bool ?? false,
            isIdentityGuessed: json["identityGuessed"]?.bool ?? false,
            attributes: (json["attributes"]?.members ?? []).map {
                ShownModel.Attribute(
                    name: $0.name, type: $0.value["type"]?.string ?? "",
                    isOptional: $0.value["optional"]?.bool != false,
                    description: $0.value["description"]?.string)
            },
            relationships: (json["relationships"]?.members ?? []).map {
                ShownModel.Relationship(
                    name: $0.name, entity: $0.value["entity"]?.string ?? "",
                    isToMany: $0.value["toMany"]?.bool ?? false,
                    inverse: $0.value["inverse"]?.string, description: $0.value["description"]?.string)
            })
    }
}
