/// Why the records of a step are applied one after the other, and their rows are not merged as sets.
package enum InterpretationReason: String, CaseIterable, Sendable {
    /// The operation names its object.
    case object
    /// A record deletes its object.
    case tombstone
    /// Several records assert a link, a set or a list, or one asserts it twice.
    case links
    /// Records of several entities name one object, or one of an abstract entity.
    case entity
    /// A later record has what the object could not be made without.
    case required
    /// Several records with a time of change name one object; or one is not newer than its object, and names links.
    case modified
    /// Several records with unique values name one object.
    case unique
    /// A sync may not insert, or not update.
    case roles
    /// An object that must exist, or a value that it must have, is missing.
    case missing
    /// The store does not take a row: mostly, another object has its unique value.
    case constraint
    /// An owned object has another owner, or its deletion reaches other objects.
    case owned
}
