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
