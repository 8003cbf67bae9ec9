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
    package var isIdentityOptional = false
    /// Inference has chosen the identity, and no person has said so.
    package var isIdentityGuessed = false
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
    package var isAbstract = false
    /// The topmost entity of its hierarchy has no identity, but this entity, or one between the two, has.
    package var hasIdentityOfItsOwn = false
    /// Sets of attribute indices that are unique together, besides the identity.
    package var unique: [[Int]] = []
    /// Sets of attribute indices that have an index.
    package var indexes: [[Int]] = []
    /// Index of the attribute that orders records by age; nil accepts every record.
    package var modified: Int?
    /// A predicate on a record's attributes: a record that matches it deletes its object. It is checked when the model
    /// is compiled.
    package var tombstone: String?
    /// The objects of it, and of those that inherit from it, that a job may delete.
    package var maximumDeletions: DeletionLimit?
    /// The former name: a store that has the entity under that name retains its objects.
    package var renamedFrom: String?
    /// The attribute that identified the objects before: in a store with that identity they get the other one.
    package var formerIdentity: String?
    /// Key paths of records that the model ignores on purpose: no warning counts them.
    package var ignoredPaths: [[String]] = []
    /// For people.
    package var description: String?
    package var place: ModelPlace

    /// Index of the attribute that has what no other attribute takes; nil in an entity without `extra`.
    package var extra: Int? { attributeIndices.first { attributes[$0].isExtra } }

    package init(
        name: String, table: String, identity: [Int] = [], attributes: [Attribute] = [],
        relationships: [Relationship] = [], place: ModelPlace = .unknown
    ) {
        self.name = name
        self.table = table
        self.identity = identity
        self.attributes = attributes
        self.relationships = relationships
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

    package var singleIdentity: Attribute? { identity.count == 1 ? attributes[identity[0]] : nil }

    package func index(ofAttribute name: String) -> Int? {
        attributeIndices.first { attributes[$0].name.hasSameBytes(as: name) }
    }

    package func index(ofRelationship name: String) -> Int? {
        relationshipIndices.first { relationships[$0].name.hasSameBytes(as: name) }
    }

    package var attributeNames: [String] { attributeIndices.map { attributes[$0].name } }
    package var relationshipNames: [String] { relationshipIndices.map { relationships[$0].name } }
}

/// The column of a hierarchy's table with the name of each object's concrete entity.
package let entityColumnName = "_entity"

/// SQLite's own names for the number of a row, as long as no column has them.
package let rowNumberNames = ["rowid", "_rowid_", "oid"]

package enum DeleteRule: String, Sendable, CaseIterable {
    case nullify, cascade, deny, noAction
}

/// The effect of a to-many value on the existing links.
package enum Assignment: String, Sendable, CaseIterable {
    case union, replace
}

/// The treatment of a bare key whose object does not exist.
package enum MissingDestination: String, Sendable, CaseIterable {
    /// The object is inserted with that identity.
    case stub
    /// The link is ignored.
    case ignore
    /// The record is invalid (`objectNotFound`).
    case fail
}

/// A link from an entity's objects to those of another, or of the same one.
package struct Relationship: Sendable {
    package var name: String
    /// The prefix of its columns' names: its own name, unless relatives in the same table have another property of that
    /// name.
    package var column: String
    /// In a hierarchy, the entity that declares it: its link table has that entity's name.
    package var owner: Int?
    /// Index of the destination entity in the model.
    package var destination: Int
    package var isToMany = false
    /// Index of the inverse among the destination's relationships.
    package var inverse: Int?
    /// The key paths of the value in a record, most preferred first.
    package var keyPaths: [[String]]
    /// The effect of deleting this side's object on the objects of the other side.
    package var deleteRule = DeleteRule.nullify
    package var assignment = Assignment.union
    package var missing = MissingDestination.stub
    /// Values that mean no object, besides null: texts, whole numbers, booleans and the empty array.
    package var none: [JSONFragment] = []
    /// The objects of the other side live in this side's object: they have no other one, and end with it.
    package var isOwned = false
    /// A to-many relationship stores the order in which records name its objects.
    package var isOrdered = false
    /// The former name: a store that has the relationship under that name retains its links.
    package var renamedFrom: String?
    /// Index of the mapping that reads the nested records; nil reads them as records of the destination.
    package var mapping: Int?
    /// For people.
    package var description: String?
    package var place: ModelPlace

    package init(name: String, destination: Int, place: ModelPlace = .unknown) {
        self.name = name
        column = name
        self.destination = destination
        keyPaths = [[name]]
        self.place = place
    }
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
}

/// Records of one entity. Parts that it does not name follow the entity.
package struct RecordMapping: Sendable {
    package var entity: Int
    /// By attribute, most preferred first: the paths of its value, which replace those of the entity.
    package var attributes: [Int: [MappedPath]] = [:]
    package var relationships: [Int: MappedRelationship] = [:]
    package var nesting: KeyNesting?
}

/// A record is a dictionary whose key is one of its values: `{"blake": {"email": …}}`.
package struct KeyNesting: Sendable {
    /// The attribute that takes the key.
    package var attribute: Int
    /// The dictionary has many records, one for each key.
    package var isCollection: Bool
}

/// A path of keys in a mapping.
package struct MappedPath: Sendable, Equatable {
    /// The path begins below the key that is a value: `(username).email`.
    package var isBelowKey = false
    package var keys: [String]
}

package struct MappedRelationship: Sendable {
    /// Most preferred first.
    package var paths: [MappedPath]
    /// Index of the mapping of its values; nil follows the model's relationship.
    package var mapping: Int?
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
    package var otherwise = Otherwise.refuse
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

    /// For people: `/articles/:articleID` and `articles`.
    package var summary: String {
        let parts = [pattern.map { "path \($0.text)" }, keyPath.map { "key path \($0.joined(separator: "."))" }]
        let text = parts.compactMap { $0 }.joined(separator: " and ")
        return text.isEmpty ? "any payload" : text
    }
}

/// The position of a part in the model's document, for faults: a JSON Pointer (RFC 6901), line and column from 1.
package struct ModelPlace: Sendable, Hashable {
    package var pointer: String
    package var source: String
    package var line: Int
    package var column: Int

    package init(pointer: String, source: String = "", line: Int, column: Int) {
        self.pointer = pointer
        self.source = source
        self.line = line
        self.column = column
    }

    package static let unknown = ModelPlace(pointer: "", line: 0, column: 0)
}

package struct ModelFault: Sendable, Hashable, CustomStringConvertible {
    package let place: ModelPlace
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
