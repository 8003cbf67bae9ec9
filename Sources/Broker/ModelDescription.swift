/// The model in force: its entities with their attributes and relationships, every default written out.
///
/// The words are those of `protocol/model.schema.json`, which describes each member.
public struct ModelDescription: Sendable, Decodable {
    /// By name.
    public let entities: [String: Entity]
    /// By name.
    public let mappings: [String: Mapping]
    /// In the order in which they are tried.
    public let routes: [Route]
    /// How keys of records are made of names. Every key is written out here, so it is `exact`.
    public let keyStyle: String?
    /// For people.
    public let description: String?
    /// What commands that load records add to the model: `columns`.
    public let evolve: [String]?
    /// The store has readable views; nil for true.
    public let hasReadableViews: Bool?
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
    public struct Entity: Sendable, Decodable {
        /// For people.
        public let description: String?
        /// The table of the entity; that of its hierarchy for a subentity.
        public let table: String?
        /// The entity that it inherits from. Its attributes, relationships and identity are listed there only.
        public let parent: String?
        /// It has no objects of its own, only those of its subentities; nil for false.
        public let isAbstract: Bool?
        /// The key of records that holds the object.
        public let root: String?
        /// Key paths of records that the model ignores on purpose.
        public let ignore: KeyPaths
        /// The attributes of the identity; empty when there is none, or when the parent has it.
        public let identity: [String]
        /// Objects may lack an identity.
        public let isIdentityOptional: Bool?
        /// Inference has chosen the identity, and no person has said so.
        public let isIdentityGuessed: Bool?
        /// The attribute that identified the objects before.
        public let formerIdentity: String?
        /// The entity has the attribute `_extra`, for what no other attribute takes.
        public let keepsExtraValues: Bool?
        /// By name.
        public let attributes: [String: Attribute]
        /// By name.
        public let relationships: [String: Relationship]
        /// A predicate on records; one that matches deletes its object.
        public let tombstone: String?
        /// The objects that a job may delete: a number, or a percentage as a text.
        public let maximumDeletions: RawJSON?
        /// The attribute that says which of two records is newer.
        public let modified: String?
        /// Lists of attributes whose values no two objects share.
        public let unique: [[String]]
        /// Lists of attributes with an index.
        public let indexes: [[String]]
        /// Its name before; a migration renames the table.
        public let renamedFrom: String?

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
    public struct KeyPaths: Sendable, Decodable {
        /// The keys of each path, from the record downwards.
        public let paths: [[String]]

        /// - Parameter paths: the keys of each path, the preferred one first.
        public init(_ paths: [[String]]) { self.paths = paths }

        init() { paths = [] }

        private enum Path: Decodable {
            case dotted(String), keys([String])

            init(from decoder: any Decoder) throws {
                let container = try decoder.singleValueContainer()
                self =
                    if let text = try? container.decode(String.self) { .dotted(text) } else {
                        .keys(try container.decode([String].self))
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
    }

    /// A value of objects, in a column.
    public struct Attribute: Sendable, Decodable {
        /// For people.
        public let description: String?
        /// The model's word, such as `integer64`, `string`, `date`.
        public let type: String
        /// The key paths in records.
        public let key: KeyPaths?
        /// The value may be null; nil for true.
        public let isOptional: Bool?
        /// The value of new objects whose records bring none.
        public let `default`: RawJSON?
        /// A record without the attribute brings the default, also to an object that exists; nil for false.
        public let usesDefaultWhenMissing: Bool?
        /// Formats of dates, in the order in which they are tried; the first is written.
        public let formats: [String]?
        /// The time zone of dates without one; nil for UTC.
        public let timeZone: String?
        /// How dates are stored: `iso8601`, `unix` or `coreData`; how decimals are: `scaled`, else as text.
        public let storage: String?
        /// The digits after the point of scaled decimals.
        public let scale: Int?
        /// The digits of the second's fraction of dates; nil for the three that dates have by default.
        public let precision: Int?
        /// The smallest allowed number or date.
        public let min: RawJSON?
        /// The largest allowed number or date.
        public let max: RawJSON?
        /// The fewest characters of a text.
        public let minLength: Int?
        /// The most characters of a text.
        public let maxLength: Int?
        /// A regular expression that the whole text matches.
        public let pattern: String?
        /// The allowed values.
        public let `enum`: [RawJSON]?
        /// `trim`, `uppercase`, `lowercase`, in the order in which they are done.
        public let transform: [String]?
        /// `skip` or `null`; nil when an invalid value fails the record.
        public let onInvalid: String?
        /// Its name before; a migration renames the column.
        public let renamedFrom: String?

        private enum CodingKeys: String, CodingKey {
            case description, type, key, `default`, formats, timeZone, storage, scale, precision, min, max, minLength,
                maxLength
            case pattern, `enum`, transform, onInvalid, renamedFrom
            case isOptional = "optional"
            case usesDefaultWhenMissing = "defaultWhenMissing"
        }
    }

    /// Links from the objects of an entity to those of another.
    public struct Relationship: Sendable, Decodable {
        /// For people.
        public let description: String?
        /// The entity of the other end.
        public let entity: String
        /// An object has any number of links; nil for false.
        public let isToMany: Bool?
        /// The relationship of the other end.
        public let inverse: String?
        /// The key paths in records.
        public let key: KeyPaths?
        /// `nullify`, `cascade`, `deny` or `noAction`.
        public let deleteRule: String?
        /// `union` or `replace`; of a to-many relationship.
        public let assignment: String?
        /// The links of an object have an order, that of its records; nil for false.
        public let isOrdered: Bool?
        /// Its objects live in this end's object, and end with it.
        public let isOwned: Bool?
        /// The treatment of a key without an object: `stub`, `ignore` or `fail`.
        public let missing: String?
        /// The values that mean no object, besides null.
        public let none: [RawJSON]?
        /// The mapping of its records.
        public let mapping: String?
        /// Its name before; a migration renames its column or table.
        public let renamedFrom: String?

        private enum CodingKeys: String, CodingKey {
            case description, entity, inverse, key, deleteRule, assignment, missing, none, mapping, renamedFrom
            case isToMany = "toMany"
            case isOrdered = "ordered"
            case isOwned = "owned"
        }
    }

    /// How records of another form are read: as those of an entity, or by one of several mappings.
    public struct Mapping: Sendable, Decodable {
        /// The entity of the records; nil where ``select`` chooses another mapping.
        public let entity: String?
        /// The attribute that is the key of each record in an object of records.
        public let nestingKey: String?
        /// The object of ``nestingKey`` holds many records; nil for false.
        public let isCollection: Bool?
        /// Names of attributes, by the key paths of records.
        public let attributes: [String: String]?
        /// By the key paths of records.
        public let relationships: [String: MappedRelationship]?
        /// The choice of another mapping for each record.
        public let select: Selection?

        private enum CodingKeys: String, CodingKey {
            case entity, nestingKey, attributes, relationships, select
            case isCollection = "collection"
        }
    }

    /// A relationship of a mapping; in the model's JSON, its name alone or an object.
    public struct MappedRelationship: Sendable, Decodable {
        /// Its name in the entity.
        public let relationship: String
        /// The mapping of its records; nil for that of the model's relationship.
        public let mapping: String?

        private enum CodingKeys: String, CodingKey { case relationship, mapping }

        public init(from decoder: any Decoder) throws {
            if let name = try? decoder.singleValueContainer().decode(String.self) {
                (relationship, mapping) = (name, nil)
                return
            }
            let container = try decoder.container(keyedBy: CodingKeys.self)
            relationship = try container.decode(String.self, forKey: .relationship)
            mapping = try container.decodeIfPresent(String.self, forKey: .mapping)
        }
    }

    /// The choice of a mapping by a value of the record.
    public struct Selection: Sendable, Decodable {
        /// The key path of the value.
        public let key: String
        /// Names of mappings, by the value's text.
        public let cases: [String: String]
        /// The mapping for other values; null skips such records, and nil makes them faults.
        public let otherwise: Nullable<String>?

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
    public struct Route: Sendable, Decodable {
        /// A pattern of the path that the payload came from.
        public let path: String?
        /// The key path in the payload, with dots.
        public let keyPath: String?
        /// The mapping of the records there.
        public let mapping: String?
        /// The value there is an error of the server that sent it.
        public let isError: Bool?

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
public struct ModelMigration: Sendable, Equatable {
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
    public struct Change: Sendable, Equatable {
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
    public struct Loss: Sendable, Equatable {
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
