/// An object that a record deletes.
struct StagedDeletion {
    let entity: Int
    let concreteEntity: Int
    /// A row's worth of cells; valid as long as the part that has the record.
    let identity: UnsafePointer<Cell>
    let offset: UInt32
}
