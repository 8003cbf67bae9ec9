internal import BrokerJSON
internal import BrokerModel

/// The object that an operation names by its key and works on. It must exist.
package struct StagedTarget: @unchecked Sendable {
    /// The entity whose table has the object.
    package let entity: Int
    /// The object must be of that entity or of one of its subentities.
    package let concreteEntity: Int
    /// An object of an ancestor becomes an object of that entity.
    package let mayBecome: Bool
    /// Its staged row.
    package internal(set) var row: Int
    /// The object's key: the values of the identity of ``concreteEntity``, or the store's own key. The rows own the memory of
    /// these cells.
    package let key: [Cell]
    /// The record has another identity, which the object gets.
    package internal(set) var isRenamed = false
    /// Offset of the key in the text.
    package let offset: Int
    /// Offset of the record for the object.
    let recordOffset: Int

    /// - Parameter offset: offset of a record of the entity.
    func isMadeOf(recordAt offset: Int, _ entity: EntityPlan) -> Bool {
        offset == recordOffset && entity.index == self.entity
    }
}
