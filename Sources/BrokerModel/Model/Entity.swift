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
    package var isToMany: Bool
    /// Index of the inverse among the destination's relationships.
    package var inverse: Int?
    /// The key paths of the value in a record, most preferred first.
    package var keyPaths: [[String]]
    /// The effect of deleting this side's object on the objects of the other side.
    package var deleteRule: DeleteRule
    package var assignment: Assignment
    package var missing: MissingDestination
    /// Values that mean no object, besides null: texts, whole numbers, booleans and the empty array.
    package var none: [JSONFragment] = []
    /// The objects of the other side live in this side's object: they have no other one, and end with it.
    package var isOwned = false
    /// A to-many relationship stores the order in which records name its objects.
    package var isOrdered: Bool
    /// The former name: a store that has the relationship under that name retains its links.
    package var renamedFrom: String?
    /// Index of the mapping that reads the nested records; nil reads them as records of the destination.
    package var mapping: Int?
    /// For people.
    package var description: String?
    package var place: ModelPlace

    package init(
        name: String, destination: Int, isToMany: Bool = false, inverse: Int? = nil, keyPaths: [[String]]? = nil,
        deleteRule: DeleteRule = .nullify, assignment: Assignment = .union, missing: MissingDestination = .stub,
        isOrdered: Bool = false, renamedFrom: String? = nil, place: ModelPlace = .unknown
    ) {
        self.name = name
        column = name
        self.destination = destination
        self.isToMany = isToMany
        self.inverse = inverse
        self.keyPaths = keyPaths ?? [[name]]
        self.deleteRule = deleteRule
        self.assignment = assignment
        self.missing = missing
        self.isOrdered = isOrdered
        self.renamedFrom = renamedFrom
        self.place = place
    }
}
