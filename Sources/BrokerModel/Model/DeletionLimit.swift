/// The number of objects that a job may delete, those that a delete rule deletes included.
package enum DeletionLimit: Sendable, Equatable {
    /// The number for all entities together.
    case objects(Int)
    /// A part of the objects that an entity, with its subentities, had before the job, for each entity: in thousandths
    /// of a percent, so that the decision takes whole numbers only and is the same on every machine.
    case share(thousandthsOfPercent: Int)
}
