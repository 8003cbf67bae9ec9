/// A kind of object. One that stands alone has a table in the store; those of a hierarchy have one together.
package struct Entity: Sendable {
    package var name: String
    /// The name of its table, of a subentity that of its view; the entity's own unless the model says otherwise.
    package var table: String
    /// The key that may wrap each record, beside the entity's name with a lower-case first letter.
    package var root: String?
    /// Indices of the attributes that identify an object, in order; empty when it has no identity.
    package var identity: [Int]
    /// Records without identity are new objects with NULL there, instead of an error.
    package var isIdentityOptional: Bool
    /// Of a hierarchy, those of all its entities: what the columns of their one table are. Its relatives name the same
    /// ones by the same indices, and say of those that they have what they are for them.
    package var attributes: [Attribute]
    /// Of a hierarchy, those of all its entities.
    package var relationships: [Relationship]
    /// Indices of the attributes that its objects have, inherited ones first.
    package var attributeIndices: [Int]
    /// Indices of the relationships that its objects have, inherited ones first.
    package var relationshipIndices: [Int]
    /// Index of the entity that it inherits from; nil at the top of a hierarchy, and of an entity that stands alone.
    package var parent: Int?
    /// It has no objects of its own, only those of its subentities.
    package var isAbstract: Bool
    /// The topmost entity of its hierarchy has no identity, and this one, or one between them, has.
    package var hasIdentityOfItsOwn = false
    /// Sets of attribute indices that are unique together, besides the identity.
    package var unique: [[Int]]
    /// Sets of attribute indices that have an index.
    package var indexes: [[Int]]
    /// Index of the attribute that tells how new a record is; nil takes every record.
    package var modified: Int?
    /// A predicate on a record's attributes: a record of which it is true deletes its object. It is checked where the model is compiled.
    package var tombstone: String?
    /// The name before: a store that knows the entity by it keeps its objects.
    package var renamedFrom: String?
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

    /// Objects are found by a `_pk` that the store gives, because not every one of them has an identity.
    ///
    /// Relationships to such an entity hold the `_pk`.
    package var hasRowKey: Bool { identity.isEmpty || isIdentityOptional || hasIdentityOfItsOwn }

    /// Clients name its objects by that `_pk`: they have no identity, or not every one of them has.
    package var isNamedByRowKey: Bool { identity.isEmpty || isIdentityOptional }

    /// The attribute of a single-attribute identity.
    package var singleIdentity: Attribute? { identity.count == 1 ? attributes[identity[0]] : nil }

    /// Of those that its objects have.
    package func index(ofAttribute name: String) -> Int? {
        attributeIndices.first { attributes[$0].name.hasSameBytes(as: name) }
    }

    /// Of those that its objects have.
    package func index(ofRelationship name: String) -> Int? {
        relationshipIndices.first { relationships[$0].name.hasSameBytes(as: name) }
    }

    /// Of those that its objects have.
    package var attributeNames: [String] { attributeIndices.map { attributes[$0].name } }
    /// Of those that its objects have.
    package var relationshipNames: [String] { relationshipIndices.map { relationships[$0].name } }
}

/// The column of a hierarchy's table that holds the name of each object's own entity.
package let entityColumnName = "_entity"

/// SQLite's own names for the number of a row, as long as no column has them.
package let rowNumberNames = ["rowid", "_rowid_", "oid"]

/// Where in the model's document something stands, for faults: a JSON Pointer (RFC 6901), line and column from 1.
package struct ModelPlace: Sendable, Equatable {
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

    /// Of a model made in code.
    package static let unknown = ModelPlace(pointer: "", line: 0, column: 0)
}

extension String {
    /// Equal byte by byte. `==` takes Unicode's forms of one text for the same, which SQLite's names and the contract's
    /// ids do not, and takes quadratic time to do so.
    package func hasSameBytes(as other: String) -> Bool {
        let areSame = utf8.withContiguousStorageIfAvailable { own in
            other.utf8.withContiguousStorageIfAvailable { own.count == $0.count && own.elementsEqual($0) }
        }
        return (areSame ?? nil) ?? utf8.elementsEqual(other.utf8)
    }
}
