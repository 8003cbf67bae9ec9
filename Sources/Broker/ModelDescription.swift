/// The model in force: its entities with their attributes and relationships, every default written out.
///
/// The words are those of `protocol/model.schema.json`, which describes each member.
public struct ModelDescription: Sendable, Hashable, Codable {
    /// By name.
    public var entities: [String: Entity]
    /// By name.
    public var mappings: [String: Mapping]
    /// In the order in which they are tried.
    public var routes: [Route]
    /// How keys of records are made of names. Every key is written out here, so it is `exact`.
    public var keyStyle: String?
    /// For people.
    public var description: String?
    /// What commands that load records add to the model: `columns`.
    public var evolve: [String]?
    /// The store has readable views; nil for true.
    public var hasReadableViews: Bool?
    /// The whole model, in the form of `protocol/model.schema.json`, with what a newer server adds to it.
    public var json: RawJSON { RawJSON(text) }
    private var text: [UInt8] = []

    private enum CodingKeys: String, CodingKey {
        case entities, mappings, routes, keyStyle, description, evolve
        case hasReadableViews = "readableViews"
    }

    package init(json: [UInt8]) throws {
        self = try ValueDecoder.decode(Self.self, from: json)
        text = json
    }
}

extension ModelDescription {
    /// A type of objects, with a table of its own or that of its hierarchy.
    public struct Entity: Sendable, Hashable, Codable {
        /// For people.
        public var description: String?
        /// The table of the entity; that of its hierarchy for a subentity.
        public var table: String?
        /// The entity that it inherits from. Its attributes, relationships and identity are listed there only.
        public var parent: String?
        /// It has no objects of its own, only those of its subentities; nil for false.
        public var isAbstract: Bool?
        /// The key of records that holds the object.
        public var root: String?
        /// Key paths of records that the model ignores on purpose.
        public var ignore: KeyPaths
        /// The attributes of the identity; empty when there is none, or when the parent has it.
        public var identity: [String]
        /// Objects may lack an identity.
        public var isIdentityOptional: Bool?
        /// Inference has chosen the identity, and no person has said so.
        public var isIdentityGuessed: Bool?
        /// The attribute that identified the objects before.
        public var formerIdentity: String?
        /// The entity has the attribute `_extra`, for what no other attribute takes.
        public var keepsExtraValues: Bool?
        /// By name.
        public var attributes: [String: Attribute]
        /// By name.
        public var relationships: [String: Relationship]
        /// A predicate on records; one that matches deletes its object.
        public var tombstone: String?
        /// The objects that a job may delete: a number, or a percentage as a text.
        public var maximumDeletions: RawJSON?
        /// The attribute that says which of two records is newer.
        public var modified: String?
        /// Lists of attributes whose values no two objects share.
        public var unique: [[String]]
        /// Lists of attributes with an index.
        public var indexes: [[String]]
        /// Its name before; a migration renames the table.
        public var renamedFrom: String?

        private enum CodingKeys: String, CodingKey {
            case description, table, parent, root, ignore, identity, formerIdentity, attributes, relationships,
                tombstone
            case maximumDeletions, modified, unique, indexes, renamedFrom
            case isAbstract = "abstract"
            case isIdentityOptional = "identityOptional"
            case isIdentityGuessed = "identityGuessed"
            case keepsExtraValues = "extra"
        }
    }

    /// The key paths of a value in records, the preferred one first.
    public struct KeyPaths: Sendable, Hashable, Codable {
        /// The keys of each path, from the record downwards.
        public var paths: [[String]]

        /// - Parameter paths: the keys of each path, the preferred one first.
        public init(_ paths: [[String]]) { self.paths = paths }

        init() { paths = [] }

        private enum Path: Codable {
            case dotted(String), keys([String])

            init(_ keys: [String]) {
                let isPlain = !keys.isEmpty && keys.allSatisfy { !$0.isEmpty && !$0.contains(".") }
                self = isPlain ? .dotted(keys.joined(separator: ".")) : .keys(keys)
            }

            init(from decoder: any Decoder) throws {
                let container = try decoder.singleValueContainer()
                self =
                    if let text = try? container.decode(String.self) { .dotted(text) } else {
                        .keys(try container.decode([String].self))
                    }
            }

            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                switch self {
                case .dotted(let text): try container.encode(text)
                case .keys(let keys): try container.encode(keys)
                }
            }

            var keys: [String] {
                switch self {
                case .dotted(let text): text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
                case .keys(let keys): keys
                }
            }
        }

        /// A text has dots between the keys; an array with one text is one key; any other array has paths, which are texts or
        /// arrays of keys.
        public init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let text = try? container.decode(String.self) {
                paths = [Path.dotted(text).keys]
            } else {
                let all = try container.decode([Path].self)
                if all.count == 1, case .dotted(let key) = all[0] { paths = [[key]] } else { paths = all.map(\.keys) }
            }
        }

        public func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            guard paths.count == 1 else { return try container.encode(paths.map(Path.init)) }
            if paths[0].count == 1 { return try container.encode(paths[0]) }
            switch Path(paths[0]) {
            case .dotted(let text): try container.encode(text)
            case .keys(let keys): try container.encode([keys])
            }
        }
    }

    /// A value of objects, in a column.
    public struct Attribute: Sendable, Hashable, Codable {
        /// For people.
        public var description: String?
        /// The model's word, such as `integer64`, `string`, `date`.
        public var type: String
        /// The key paths in records.
        public var key: KeyPaths?
        /// The value may be null; nil for true.
        public var isOptional: Bool?
        /// The value of new objects whose records bring none.
        public var `default`: RawJSON?
        /// A record without the attribute brings the default, also to an object that exists; nil for false.
        public var usesDefaultWhenMissing: Bool?
        /// Formats of dates, in the order in which they are tried; the first is written.
        public var formats: [String]?
        /// The time zone of dates without one; nil for UTC.
        public var timeZone: String?
        /// How dates are stored: `iso8601`, `unix` or `coreData`; how decimals are: `scaled`, else as text.
        public var storage: String?
        /// The digits after the point of scaled decimals.
        public var scale: Int?
        /// The digits of the second's fraction of dates; nil for the three that dates have by default.
        public var precision: Int?
        /// The smallest allowed number or date.
        public var min: RawJSON?
        /// The largest allowed number or date.
        public var max: RawJSON?
        /// The fewest characters of a text.
        public var minLength: Int?
        /// The most characters of a text.
        public var maxLength: Int?
        /// A regular expression that the whole text matches.
        public var pattern: String?
        /// The allowed values.
        public var `enum`: [RawJSON]?
        /// `trim`, `uppercase`, `lowercase`, in the order in which they are done.
        public var transform: [String]?
        /// `skip` or `null`; nil when an invalid value fails the record.
        public var onInvalid: String?
        /// Its name before; a migration renames the column.
        public var renamedFrom: String?

        private enum CodingKeys: String, CodingKey {
            case description, type, key, `default`, formats, timeZone, storage, scale, precision, min, max, minLength,
                maxLength
            case pattern, `enum`, transform, onInvalid, renamedFrom
            case isOptional = "optional"
            case usesDefaultWhenMissing = "defaultWhenMissing"
        }
    }

    /// Links from the objects of an entity to those of another.
    public struct Relationship: Sendable, Hashable, Codable {
        /// For people.
        public var description: String?
        /// The entity of the other end.
        public var entity: String
        /// An object has any number of links; nil for false.
        public var isToMany: Bool?
        /// The relationship of the other end.
        public var inverse: String?
        /// The key paths in records.
        public var key: KeyPaths?
        /// `nullify`, `cascade`, `deny` or `noAction`.
        public var deleteRule: String?
        /// `union` or `replace`; of a to-many relationship.
        public var assignment: String?
        /// The links of an object have an order, that of its records; nil for false.
        public var isOrdered: Bool?
        /// Its objects live in this end's object, and end with it.
        public var isOwned: Bool?
        /// The treatment of a key without an object: `stub`, `ignore` or `fail`.
        public var missing: String?
        /// The values that mean no object, besides null.
        public var none: [RawJSON]?
        /// The mapping of its records.
        public var mapping: String?
        /// Its name before; a migration renames its column or table.
        public var renamedFrom: String?

        private enum CodingKeys: String, CodingKey {
            case description, entity, inverse, key, deleteRule, assignment, missing, none, mapping, renamedFrom
            case isToMany = "toMany"
            case isOrdered = "ordered"
            case isOwned = "owned"
        }
    }

    /// How records of another form are read: as those of an entity, or by one of several mappings.
    public struct Mapping: Sendable, Hashable, Codable {
        /// The entity of the records; nil where ``select`` chooses another mapping.
        public var entity: String?
        /// The attribute that is the key of each record in an object of records.
        public var nestingKey: String?
        /// The object of ``nestingKey`` holds many records; nil for false.
        public var isCollection: Bool?
        /// Names of attributes, by the key paths of records.
        public var attributes: [String: String]?
        /// By the key paths of records.
        public var relationships: [String: MappedRelationship]?
        /// The choice of another mapping for each record.
        public var select: Selection?

        private enum CodingKeys: String, CodingKey {
            case entity, nestingKey, attributes, relationships, select
            case isCollection = "collection"
        }
    }

    /// A relationship of a mapping; in the model's JSON, its name alone or an object.
    public struct MappedRelationship: Sendable, Hashable, Codable {
        /// Its name in the entity.
        public var relationship: String
        /// The mapping of its records; nil for that of the model's relationship.
        public var mapping: String?

        private enum CodingKeys: String, CodingKey { case relationship, mapping }

        public init(from decoder: any Decoder) throws {
            if let name = try? decoder.singleValueContainer().decode(String.self) {
                relationship = name
                return
            }
            let container = try decoder.container(keyedBy: CodingKeys.self)
            relationship = try container.decode(String.self, forKey: .relationship)
            mapping = try container.decodeIfPresent(String.self, forKey: .mapping)
        }

        public func encode(to encoder: any Encoder) throws {
            guard let mapping else {
                var container = encoder.singleValueContainer()
                return try container.encode(relationship)
            }
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(relationship, forKey: .relationship)
            try container.encode(mapping, forKey: .mapping)
        }
    }

    /// The choice of a mapping by a value of the record.
    public struct Selection: Sendable, Hashable, Codable {
        /// The key path of the value.
        public var key: String
        /// Names of mappings, by the value's text.
        public var cases: [String: String]
        /// The mapping for other values; null skips such records, and nil makes them faults.
        public var otherwise: Nullable<String>?

        private enum CodingKeys: String, CodingKey { case key, cases, otherwise }

        public init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            key = try container.decode(String.self, forKey: .key)
            cases = try container.decode([String: String].self, forKey: .cases)
            otherwise =
                container.contains(.otherwise)
                ? try container.decode(Nullable<String>.self, forKey: .otherwise) : nil
        }
    }

    /// Where a payload has records.
    public struct Route: Sendable, Hashable, Codable {
        /// A pattern of the path that the payload came from.
        public var path: String?
        /// The key path in the payload, with dots.
        public var keyPath: String?
        /// The mapping of the records there.
        public var mapping: String?
        /// The value there is an error of the server that sent it.
        public var isError: Bool?

        private enum CodingKeys: String, CodingKey {
            case path, keyPath, mapping
            case isError = "error"
        }
    }
}

/// An attribute of a record whose nil clears the column.
///
/// Swift's synthesized `Codable` writes no member for an optional that is nil, and a member that a record lacks leaves the
/// column as it is. With this wrapper, nil is written as `null`, which sets the column to NULL:
///
/// ```swift
/// struct Employee: Codable {
///     var id: Int
///     var nickname: String?  // nil leaves the column as it is
///     @Nullable var phone: String?  // nil sets the column to NULL
/// }
/// ```
///
/// A record that decides case by case has a property of the type `Nullable<String>?`: nil writes no member, and
/// `Nullable(nil)` writes `null`. A member that is missing or `null` is read as nil.
@propertyWrapper public struct Nullable<Value> {
    /// The value; nil is written as `null`.
    public var wrappedValue: Value?

    /// As a property wrapper.
    public init(wrappedValue: Value?) { self.wrappedValue = wrappedValue }

    /// - Parameter value: nil is written as `null`.
    public init(_ value: Value?) { wrappedValue = value }
}

extension Nullable: Sendable where Value: Sendable {}
extension Nullable: Equatable where Value: Equatable {}
extension Nullable: Hashable where Value: Hashable {}

extension Nullable: Encodable where Value: Encodable {
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        if let wrappedValue { try container.encode(wrappedValue) } else { try container.encodeNil() }
    }
}

extension Nullable: Decodable where Value: Decodable {
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        wrappedValue = container.decodeNil() ? nil : try container.decode(Value.self)
    }
}

extension KeyedDecodingContainer {
    /// Synthesized `Decodable` calls this for a property with ``Nullable``, so a missing member is nil.
    public func decode<Value: Decodable>(
        _ type: Nullable<Value>.Type, forKey key: Key
    ) throws -> Nullable<Value> {
        try decodeIfPresent(type, forKey: key) ?? Nullable(nil)
    }
}

/// The changes that a changed model makes to a store.
public struct ModelMigration: Sendable, Hashable {
    /// In the order of the store's model, then what is new. Empty when the store fits.
    public var changes: [Change]
    /// The paths of the server's model; empty when the server does not name them.
    public var modelFiles: [String]
    /// The path of the store; nil when the server does not name it.
    public var storeFile: String?

    /// A migration, for doubles of a broker.
    public init(changes: [Change], modelFiles: [String] = [], storeFile: String? = nil) {
        self.changes = changes
        self.modelFiles = modelFiles
        self.storeFile = storeFile
    }

    /// Whether any change is refused, so that nothing is changed at all.
    public var isRefused: Bool { changes.contains { $0.kind == .refused } }

    /// A difference between the store and the model.
    public struct Change: Sendable, Hashable {
        /// What becomes of the difference.
        public var kind: Kind
        /// An entity, `Entity.attribute`, a table or `table.column`.
        public var subject: String
        /// The state in the store and in the model; for people.
        public var message: String
        /// The remedy for a refused change; for people.
        public var remedy: String?
        /// In a dry run: what goes when the part is dropped, or to `_extra`; for a refused change, what would go.
        public var loss: Loss?

        /// A change, for doubles of a broker.
        public init(kind: Kind, subject: String, message: String, remedy: String? = nil, loss: Loss? = nil) {
            self.kind = kind
            self.subject = subject
            self.message = message
            self.remedy = remedy
            self.loss = loss
        }
    }

    /// The treatment of a difference.
    public struct Kind: RawRepresentable, Sendable, Hashable {
        /// The protocol's word.
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        /// Nothing is lost.
        public static let migrated = Kind(rawValue: "migrated")
        /// The part stays in the file, unused.
        public static let kept = Kind(rawValue: "kept")
        /// The part is deleted with its values.
        public static let dropped = Kind(rawValue: "dropped")
        /// The difference prevents the whole migration.
        public static let refused = Kind(rawValue: "refused")
    }

    /// Rows or values that go with a part.
    public struct Loss: Sendable, Hashable {
        /// What goes. A newer server may have other words.
        public struct Kind: RawRepresentable, Sendable, Hashable {
            /// The protocol's word.
            public let rawValue: String

            public init(rawValue: String) { self.rawValue = rawValue }

            /// Objects of an entity.
            public static let objects = Kind(rawValue: "objects")
            /// Values of an attribute.
            public static let values = Kind(rawValue: "values")
            /// Links of a relationship.
            public static let links = Kind(rawValue: "links")
        }

        /// What goes.
        public var kind: Kind
        /// Their number.
        public var count: Int64
        /// Ten at most, for people: the key of an object, and what it has.
        public var examples: [String]

        /// A loss, for doubles of a broker.
        public init(kind: Kind, count: Int64, examples: [String]) {
            self.kind = kind
            self.count = count
            self.examples = examples
        }
    }
}

/// The treatment of the parts of a store that its model no longer has: entities, attributes, relationships, unique lists.
public struct RemovedParts: RawRepresentable, Sendable, Hashable {
    /// The protocol's word.
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }

    /// The store is not changed, and the changes name them.
    public static let refuse = RemovedParts(rawValue: "refuse")
    /// They stay in the file, unused, so that the earlier model can be used again.
    public static let keep = RemovedParts(rawValue: "keep")
    /// They are deleted with their values.
    public static let drop = RemovedParts(rawValue: "drop")

    package static let known: [Self] = [.refuse, .keep, .drop]
}

/// A list of a message that is not there when it is empty.
protocol OmittedWhenEmpty: Decodable {
    init()
}

extension Array: OmittedWhenEmpty where Element: Decodable {}
extension Dictionary: OmittedWhenEmpty where Key: Decodable, Value: Decodable {}
extension ModelDescription.KeyPaths: OmittedWhenEmpty {}

extension KeyedDecodingContainer {
    /// Used by the decoding that the compiler makes.
    func decode<Value: OmittedWhenEmpty>(_ type: Value.Type, forKey key: Key) throws -> Value {
        try decodeIfPresent(type, forKey: key) ?? Value()
    }
}
