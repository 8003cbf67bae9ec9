package enum DeleteRule: String, Sendable, CaseIterable {
    case nullify, cascade, deny, noAction
}

/// What a to-many value does to the links that are there.
package enum Assignment: String, Sendable, CaseIterable {
    case union, replace
}

/// What becomes of a bare key whose object does not exist.
package enum MissingDestination: String, Sendable, CaseIterable {
    /// The object is created with that identity.
    case stub
    /// The link is left out.
    case ignore
    /// The record is invalid (`objectNotFound`).
    case fail
}

/// A link from an entity's objects to those of another, or of the same one.
package struct Relationship: Sendable {
    package var name: String
    /// What the names of its columns begin with: its own, unless relatives in the same table have another property of
    /// that name.
    package var column: String
    /// Of a hierarchy, the entity that has it and gives it to those below: what its link table is named for.
    package var owner: Int?
    /// Index of the destination entity in the model.
    package var destination: Int
    package var isToMany: Bool
    /// Index of the inverse among the destination's relationships.
    package var inverse: Int?
    /// Where a record may hold the value, most preferred first; each is a path of keys.
    package var keyPaths: [[String]]
    /// What deleting this side's object does to the other side's.
    package var deleteRule: DeleteRule
    package var assignment: Assignment
    package var missing: MissingDestination
    /// A to-many relationship keeps the order in which records name its objects.
    package var isOrdered: Bool
    /// The name before: a store that knows the relationship by it keeps its links.
    package var renamedFrom: String?
    /// Index of the mapping that records nested here are read by; nil reads them as the destination's.
    package var mapping: Int?
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
