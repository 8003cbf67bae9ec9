package import BrokerPaths
internal import Glibc

/// A kind of object. An entity without relatives has a table in the store; the entities of a hierarchy share one.
package struct Entity: Sendable {
    package var name: String
    /// The name of its table, or of its view for a subentity; the entity's own name unless the model gives another.
    package var table: String
    /// The key that may wrap each record, besides the entity's name with a lower-case first letter.
    package var root: String?
    /// Indices of the attributes that identify an object, in order; empty when it has no identity.
    package var identity: [Int]
    /// A record without identity becomes a new object with NULL there, and is no error.
    package var isIdentityOptional: Bool
    /// In a hierarchy, the attributes of all its entities: the columns of their one table. Relatives have the same
    /// attributes at the same indices, with their own definitions of those that they have.
    package var attributes: [Attribute]
    /// In a hierarchy, the relationships of all its entities.
    package var relationships: [Relationship]
    /// Indices of the attributes that its objects have, inherited ones first.
    package var attributeIndices: [Int]
    /// Indices of the relationships that its objects have, inherited ones first.
    package var relationshipIndices: [Int]
    /// Index of the entity that it inherits from; nil for a topmost entity and for an entity without relatives.
    package var parent: Int?
    /// All its objects are objects of its subentities.
    package var isAbstract: Bool
    /// The topmost entity of its hierarchy has no identity, but this entity, or one between the two, has.
    package var hasIdentityOfItsOwn = false
    /// Sets of attribute indices that are unique together, besides the identity.
    package var unique: [[Int]]
    /// Sets of attribute indices that have an index.
    package var indexes: [[Int]]
    /// Index of the attribute that orders records by age; nil accepts every record.
    package var modified: Int?
    /// A predicate on a record's attributes: a record that matches it deletes its object. It is checked when the model
    /// is compiled.
    package var tombstone: String?
    /// The former name: a store that has the entity under that name retains its objects.
    package var renamedFrom: String?
    /// Key paths of records that the model ignores on purpose: no warning counts them.
    package var ignoredPaths: [[String]] = []
    /// For people.
    package var description: String?
    package var place: ModelPlace

    package init(
        name: String, table: String, root: String? = nil, identity: [Int] = [], isIdentityOptional: Bool = false,
        attributes: [Attribute] = [], relationships: [Relationship] = [], unique: [[Int]] = [],
        indexes: [[Int]] = [], modified: Int? = nil, tombstone: String? = nil, parent: Int? = nil,
        isAbstract: Bool = false, renamedFrom: String? = nil, place: ModelPlace = .unknown
    ) {
        self.name = name
        self.table = table
        self.root = root
        self.identity = identity
        self.isIdentityOptional = isIdentityOptional
        self.attributes = attributes
        self.relationships = relationships
        self.unique = unique
        self.indexes = indexes
        self.modified = modified
        self.tombstone = tombstone
        self.renamedFrom = renamedFrom
        self.parent = parent
        self.isAbstract = isAbstract
        attributeIndices = Array(attributes.indices)
        relationshipIndices = Array(relationships.indices)
        self.place = place
    }

    /// Objects are found by a `_pk` that the store assigns, because some of them may have no identity.
    ///
    /// Relationships to such an entity store the `_pk`.
    package var hasRowKey: Bool { identity.isEmpty || isIdentityOptional || hasIdentityOfItsOwn }

    /// Clients name its objects by `_pk`: all or some of them have no identity.
    package var isNamedByRowKey: Bool { identity.isEmpty || isIdentityOptional }

    /// The attribute of a single-attribute identity.
    package var singleIdentity: Attribute? { identity.count == 1 ? attributes[identity[0]] : nil }

    /// Among those that its objects have.
    package func index(ofAttribute name: String) -> Int? {
        attributeIndices.first { attributes[$0].name.hasSameBytes(as: name) }
    }

    /// Among those that its objects have.
    package func index(ofRelationship name: String) -> Int? {
        relationshipIndices.first { relationships[$0].name.hasSameBytes(as: name) }
    }

    /// Among those that its objects have.
    package var attributeNames: [String] { attributeIndices.map { attributes[$0].name } }
    /// Among those that its objects have.
    package var relationshipNames: [String] { relationshipIndices.map { relationships[$0].name } }
}

/// The column of a hierarchy's table with the name of each object's concrete entity.
package let entityColumnName = "_entity"

/// SQLite's own names for the number of a row, as long as no column has them.
package let rowNumberNames = ["rowid", "_rowid_", "oid"]

/// The position of a part in the model's document, for faults: a JSON Pointer (RFC 6901), line and column from 1.
package struct ModelPlace: Sendable, Hashable {
    package var pointer: String
    /// The file; empty when there is only one.
    package var source: String
    package var line: Int
    package var column: Int

    package init(pointer: String, source: String = "", line: Int, column: Int) {
        self.pointer = pointer
        self.source = source
        self.line = line
        self.column = column
    }

    /// The position in a model that was made in code.
    package static let unknown = ModelPlace(pointer: "", line: 0, column: 0)
}

extension String {
    /// Equal byte by byte. `==` treats the normal forms of one Unicode text as equal, which SQLite's names and the
    /// contract's ids do not, and takes quadratic time for that.
    package func hasSameBytes(as other: String) -> Bool {
        let areSame = utf8.withContiguousStorageIfAvailable { own in
            other.utf8.withContiguousStorageIfAvailable {
                own.count == $0.count && (own.isEmpty || memcmp(own.baseAddress!, $0.baseAddress!, own.count) == 0)
            }
        }
        return (areSame ?? nil) ?? utf8.elementsEqual(other.utf8)
    }
}

/// One fault of a model.
package struct ModelFault: Sendable, Hashable, CustomStringConvertible {
    package let place: ModelPlace
    /// The fault and the remedy.
    package let message: String

    package init(_ message: String, at place: ModelPlace) {
        self.message = message
        self.place = place
    }

    package var description: String {
        let source = place.source.isEmpty ? "" : place.source + ": "
        guard place.line > 0 else { return source + message }
        let pointer = place.pointer.isEmpty ? "" : " (\(place.pointer))"
        return "\(source)line \(place.line), column \(place.column)\(pointer): \(message)"
    }
}

/// A model was refused: all its faults, in the order of the document.
package struct ModelError: Error, Sendable, CustomStringConvertible {
    package let faults: [ModelFault]

    package init(faults: [ModelFault]) {
        self.faults = faults
    }

    package var description: String { faults.map(\.description).joined(separator: "\n") }
}

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
