package import BrokerModel

/// Selects objects of an entity.
package struct StagedSelection: Sendable {
    package let entity: Int
    /// Nil selects all.
    package let predicate: Predicate?

    package init(entity: Int, _ predicate: Predicate?) {
        self.entity = entity
        self.predicate = predicate
    }
}
