/// The model in force: its entities with their attributes and relationships, every default written out.
public struct ModelDescription: Sendable, Decodable {
    public struct Entity: Sendable, Decodable {
        /// The table of the entity.
        public var table: String?
        /// The attributes of the identity; empty when there is none.
        public var identity: [String]
        /// By name.
        public var attributes: [String: Attribute]
        /// By name.
        public var relationships: [String: Relationship]
        /// The entity that it inherits from.
        public var parent: String?

        private enum CodingKeys: String, CodingKey { case table, identity, attributes, relationships, parent }

        public init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            table = try container.decodeIfPresent(String.self, forKey: .table)
            identity = try container.decodeIfPresent([String].self, forKey: .identity) ?? []
            attributes = try container.decodeIfPresent([String: Attribute].self, forKey: .attributes) ?? [:]
            relationships = try container.decodeIfPresent([String: Relationship].self, forKey: .relationships) ?? [:]
            parent = try container.decodeIfPresent(String.self, forKey: .parent)
        }
    }

    public struct Attribute: Sendable, Decodable {
        /// The model's word, such as `integer64`, `string`, `date`.
        public var type: String
        public var optional: Bool?
    }

    public struct Relationship: Sendable, Decodable {
        /// The entity of the other end.
        public var entity: String
        public var toMany: Bool?
        public var inverse: String?
    }

    /// By name.
    public var entities: [String: Entity]
    /// The whole model, in the form of `protocol/model.schema.json`.
    public var json: RawJSON { RawJSON(text) }
    private var text: [UInt8] = []

    private enum CodingKeys: String, CodingKey { case entities }

    package init(json: [UInt8]) throws {
        self = try ValueDecoder.decode(Self.self, from: json)
        text = json
    }
}
