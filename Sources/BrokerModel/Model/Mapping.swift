package import BrokerPaths

/// The rule by which values of one shape become objects: a named part of the model, for `map`, routes and
/// relationships.
package struct Mapping: Sendable {
    package enum Form: Sendable {
        case record(RecordMapping)
        case select(SelectMapping)
    }

    package var name: String
    package var form: Form
    package var place: ModelPlace

    package init(name: String, form: Form, place: ModelPlace = .unknown) {
        self.name = name
        self.form = form
        self.place = place
    }
}

/// Records of one entity. Parts that it does not name follow the entity.
package struct RecordMapping: Sendable {
    package var entity: Int
    /// By attribute, most preferred first: the paths of its value, which replace those of the entity.
    package var attributes: [Int: [MappedPath]]
    package var relationships: [Int: MappedRelationship]
    /// Nil for plain records.
    package var nesting: KeyNesting?

    package init(
        entity: Int, attributes: [Int: [MappedPath]] = [:], relationships: [Int: MappedRelationship] = [:],
        nesting: KeyNesting? = nil
    ) {
        self.entity = entity
        self.attributes = attributes
        self.relationships = relationships
        self.nesting = nesting
    }
}

/// A record is a dictionary whose key is one of its values: `{"blake": {"email": …}}`.
package struct KeyNesting: Sendable {
    /// The attribute that takes the key.
    package var attribute: Int
    /// The dictionary has many records, one for each key.
    package var isCollection: Bool

    package init(attribute: Int, isCollection: Bool) {
        self.attribute = attribute
        self.isCollection = isCollection
    }
}

/// A path of keys in a mapping.
package struct MappedPath: Sendable, Equatable {
    /// The path begins below the key that is a value: `(username).email`.
    package var isBelowKey: Bool
    package var keys: [String]

    package init(isBelowKey: Bool = false, keys: [String]) {
        self.isBelowKey = isBelowKey
        self.keys = keys
    }
}

/// The mapping of a relationship.
package struct MappedRelationship: Sendable {
    /// Most preferred first.
    package var paths: [MappedPath]
    /// Index of the mapping of its values; nil follows the model's relationship.
    package var mapping: Int?

    package init(paths: [MappedPath], mapping: Int? = nil) {
        self.paths = paths
        self.mapping = mapping
    }
}

/// Chooses a mapping for each record by the value at a key.
package struct SelectMapping: Sendable {
    /// The treatment of a record that no case matches.
    package enum Otherwise: Sendable, Equatable {
        case mapping(Int)
        /// It is ignored without a warning.
        case decline
        /// It is `unmappable`.
        case refuse
    }

    /// The path of the key.
    package var key: [String]
    /// The values as text, and the mappings' indices.
    package var cases: [(value: String, mapping: Int)]
    package var otherwise: Otherwise

    package init(key: [String], cases: [(value: String, mapping: Int)], otherwise: Otherwise = .refuse) {
        self.key = key
        self.cases = cases
        self.otherwise = otherwise
    }
}

/// The position of a payload's objects: the mapping for a resource path and a key path.
package struct Route: Sendable {
    /// Matches a job's `path`; nil matches every job, also one without a path.
    package var pattern: PathPattern?
    /// Nil for the whole payload.
    package var keyPath: [String]?
    /// Nil for a route to errors.
    package var mapping: Int?
    /// The value is an error of the payload's sender.
    package var isError: Bool { mapping == nil }
    package var place: ModelPlace

    /// - Parameter mapping: index of a mapping; nil turns the payload into an error.
    package init(
        pattern: PathPattern? = nil, keyPath: [String]? = nil, mapping: Int?, place: ModelPlace = .unknown
    ) {
        self.pattern = pattern
        self.keyPath = keyPath
        self.mapping = mapping
        self.place = place
    }

    /// For people: `/articles/:articleID` and `articles`.
    package var summary: String {
        let parts = [pattern.map { "path \($0.text)" }, keyPath.map { "key path \($0.joined(separator: "."))" }]
        let text = parts.compactMap { $0 }.joined(separator: " and ")
        return text.isEmpty ? "any payload" : text
    }
}
