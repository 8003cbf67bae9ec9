/// A row whose object is not of the entity that its bare keys ask for.
struct MismatchedKeys {
    let entity: Int
    let row: Int
    /// The object's entity after the job's records.
    let concreteEntity: Int
}
