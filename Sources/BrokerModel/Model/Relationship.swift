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
