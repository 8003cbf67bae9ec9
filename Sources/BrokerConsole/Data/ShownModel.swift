import Broker
import BrokerModel

/// The model of the store in the order of its JSON, with what entities inherit.
struct ShownModel: Sendable {
    struct Attribute: Sendable {
        let name: String
        fileprivate let json: ModelValue

        var type: String { json["type"]?.string ?? "" }
        var isOptional: Bool { json["optional"]?.bool != false }
        /// The reason of a guess, where a command has inferred it.
        var description: String? { json["description"]?.string }
    }

    struct Relationship: Sendable {
        let name: String
        fileprivate let json: ModelValue

        var entity: String { json["entity"]?.string ?? "" }
        var isToMany: Bool { json["toMany"]?.bool ?? false }
        var inverse: String? { json["inverse"]?.string }
        var description: String? { json["description"]?.string }
    }

    struct Entity: Sendable {
        let name: String
        private let json: ModelValue
        fileprivate(set) var identity: [String]
        fileprivate(set) var attributes: [Attribute]
        fileprivate(set) var relationships: [Relationship]

        fileprivate init(name: String, _ json: ModelValue) {
            (self.name, self.json) = (name, json)
            identity = json["identity"]?.elements.compactMap(\.string) ?? []
            attributes = (json["attributes"]?.members ?? []).map { Attribute(name: $0.key, json: $0.value) }
            relationships = (json["relationships"]?.members ?? []).map { Relationship(name: $0.key, json: $0.value) }
        }

        var parent: String? { json["parent"]?.string }
        var isAbstract: Bool { json["abstract"]?.bool ?? false }
        var description: String? { json["description"]?.string }
        var isIdentityGuessed: Bool { json["identityGuessed"]?.bool ?? false }

        /// Objects are named by their row's number, which is none of their values.
        var hasRowKey: Bool { identity.isEmpty || json["identityOptional"]?.bool == true }

        /// The key of a fetched object; nil for the number of its row.
        func key(of object: ModelValue) -> ModelValue? {
            guard !hasRowKey else { return nil }
            let values = identity.map { ModelValue.Member($0, at: .unknown, object[$0] ?? .null) }
            return values.count == 1 ? values[0].value : ModelValue(.object(values), at: .unknown)
        }

        func relationship(_ name: String) -> Relationship? { relationships.first { $0.name == name } }
    }

    let description: String?
    /// By their order.
    let entities: [Entity]

    init(_ json: RawJSON) throws {
        let root = try ModelValue(json)
        description = root["description"]?.string
        var all = (root["entities"]?.members ?? []).map { Entity(name: $0.key, $0.value) }
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
