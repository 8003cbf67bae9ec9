/// The effect of a step on the store.
package enum StepAction: Sendable {
    /// Inserts and updates objects, and links them.
    case merge
    /// Deletes the objects of that entity that the rows name.
    case delete(entity: Int)
    /// Deletes the selected objects.
    case deleteMatching(StagedSelection)
    /// Merges, then deletes the selected objects that the rows do not name.
    case sync(StagedSync)
}
