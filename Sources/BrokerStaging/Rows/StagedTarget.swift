internal import BrokerJSON

/// The object that an operation names by its key and works on.
struct StagedTarget {
    /// The entity whose table has the object.
    let entity: Int
    /// The entity by which the operation names it.
    let concreteEntity: Int
    /// The object's key: the values of the identity of ``concreteEntity``, or the store's own key.
    let key: [Cell]
    /// The record has another identity, which the object gets.
    var isRenamed = false
    /// Offset of the record for the object.
    let recordOffset: Int

    /// - Parameter offset: offset of a record of the entity.
    func isMadeOf(recordAt offset: Int, _ entity: EntityPlan) -> Bool {
        offset == recordOffset && entity.index == self.entity
    }
}
