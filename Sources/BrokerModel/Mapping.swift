public import BrokerPaths

/// How values of one shape become objects: a named part of the model, for `map`, routes and relationships.
public struct Mapping: Sendable {
    public enum Form: Sendable {
        case record(RecordMapping)
        case select(SelectMapping)
    }

    public var name: String
    public var form: Form
    public var place: ModelPlace

    public init(name: String, form: Form, place: ModelPlace = .unknown) {
        self.name = name
        self.form = form
        self.place = place
    }
}

/// Records of one entity. What it does not name follows the entity.
public struct RecordMapping: Sendable {
    public var entity: Int
    /// By attribute, most preferred first: where its value is, instead of where the entity says.
    public var attributes: [Int: [MappedPath]]
    public var relationships: [Int: MappedRelationship]
    /// Nil of plain records.
    public var nesting: KeyNesting?

    public init(
        entity: Int, attributes: [Int: [MappedPath]] = [:], relationships: [Int: MappedRelationship] = [:],
        nesting: KeyNesting? = nil
    ) {
        self.entity = entity
        self.attributes = attributes
        self.relationships = relationships
        self.nesting = nesting
    }
}

/// A record is a dictionary whose key is a value of it: `{"blake": {"email": …}}`.
public struct KeyNesting: Sendable {
    /// The attribute that takes the key.
    public var attribute: Int
    /// The dictionary holds many, one for each key.
    public var isCollection: Bool

    public init(attribute: Int, isCollection: Bool) {
        self.attribute = attribute
        self.isCollection = isCollection
    }
}

/// A path of keys in a mapping.
public struct MappedPath: Sendable, Equatable {
    /// It begins below the key that is a value: `(username).email`.
    public var isBelowKey: Bool
    public var keys: [String]

    public init(isBelowKey: Bool = false, keys: [String]) {
        self.isBelowKey = isBelowKey
        self.keys = keys
    }
}

/// What a mapping says of a relationship.
public struct MappedRelationship: Sendable {
    /// Most preferred first.
    public var paths: [MappedPath]
    /// Index of the mapping of its values; nil follows the model's relationship.
    public var mapping: Int?

    public init(paths: [MappedPath], mapping: Int? = nil) {
        self.paths = paths
        self.mapping = mapping
    }
}

/// Chooses a mapping for each record by the value at a key.
public struct SelectMapping: Sendable {
    /// What becomes of a record that no case fits.
    public enum Otherwise: Sendable, Equatable {
        case mapping(Int)
        /// It is passed over without a word.
        case decline
        /// It is `unmappable`.
        case refuse
    }

    /// The path of the key.
    public var key: [String]
    /// The values as text, and the mappings' indices.
    public var cases: [(value: String, mapping: Int)]
    public var otherwise: Otherwise

    public init(key: [String], cases: [(value: String, mapping: Int)], otherwise: Otherwise = .refuse) {
        self.key = key
        self.cases = cases
        self.otherwise = otherwise
    }
}

/// Where a payload's objects are: which mapping is for which path and which key path.
public struct Route: Sendable {
    /// Fits a job's `path`; nil fits every job, also one without a path.
    public var pattern: PathPattern?
    /// Nil is the whole payload.
    public var keyPath: [String]?
    /// Nil of a route for errors.
    public var mapping: Int?
    /// What is there is an error of whoever sent the payload.
    public var isError: Bool { mapping == nil }
    public var place: ModelPlace

    /// - Parameter mapping: index of a mapping; nil turns the payload into an error.
    public init(
        pattern: PathPattern? = nil, keyPath: [String]? = nil, mapping: Int?, place: ModelPlace = .unknown
    ) {
        self.pattern = pattern
        self.keyPath = keyPath
        self.mapping = mapping
        self.place = place
    }

    /// For a person: `/articles/:articleID` and `articles`.
    public var summary: String {
        let parts = [pattern.map { "path \($0.text)" }, keyPath.map { "key path \($0.joined(separator: "."))" }]
        let text = parts.compactMap { $0 }.joined(separator: " and ")
        return text.isEmpty ? "any payload" : text
    }
}
