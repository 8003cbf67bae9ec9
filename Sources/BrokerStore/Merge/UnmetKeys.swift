/// A row whose object is not of the entity that a bare key asks for.
struct UnmetKeys {
    let entity: Int
    let row: Int
    /// The object's entity after the job's records.
    let concreteEntity: Int
}
