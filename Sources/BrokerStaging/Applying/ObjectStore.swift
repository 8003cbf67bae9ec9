package import BrokerModel

/// An object of the store that a record or a key of a job names.
package struct AppliedObject: Hashable, Sendable {
    /// The entity whose table has the object.
    package let table: Int
    /// The number of the object's row, while the object keeps its identity.
    package let number: Int64
    /// The object's concrete entity.
    package let entity: Int

    package init(table: Int, number: Int64, entity: Int) {
        self.table = table
        self.number = number
        self.entity = entity
    }
}

extension AppliedObject {
    /// The same object, whatever its concrete entity is.
    var withoutEntity: AppliedObject { AppliedObject(table: table, number: number, entity: table) }
}

/// Why a record or a bare key is not applied.
package enum ApplyingFault: Error {
    /// It is at fault. `offset` is that of the value in the text; nil for the record that is being applied.
    indirect case invalid(Fault, offset: Int?)
    /// A hook or a mapping declines it, or the sync may not insert it. This is not a fault.
    case skipped
    /// The job ends: the store failed, or a budget is spent.
    case ended(any Error)
}

/// The primitives by which an ``Interpreter`` finds, changes and links objects, one at a time.
///
/// All calls come from one thread, inside the savepoint of the job. Cells are valid during the call.
package protocol ObjectStore: AnyObject {
    // MARK: Objects

    /// - Parameters:
    ///   - entity: the entity whose identity that is.
    ///   - identity: a row's worth of cells.
    func object(_ entity: Int, identity: UnsafePointer<Cell>) throws(ApplyingFault) -> AppliedObject?

    /// - Parameter key: the values of the entity's identity in its order, or the store's own key.
    func object(_ entity: Int, key: [Cell]) throws(ApplyingFault) -> AppliedObject?

    /// The stored value of an attribute. Valid until the next call.
    func value(of attribute: Int, _ object: AppliedObject) throws(ApplyingFault) -> Cell

    func exists(_ object: AppliedObject) throws(ApplyingFault) -> Bool

    /// The columns for which a new object of the entity needs a value besides its identity: attributes without a default,
    /// and to-one relationships that another program's table requires.
    func required(_ entity: Int) -> [Int]

    /// - Parameters:
    ///   - cells: a row's worth; absent attributes take their defaults.
    ///   - links: by column, the objects of to-one relationships.
    ///   - offset: of the record, which claims the object's unique values.
    func insert(
        _ entity: Int, _ cells: UnsafePointer<Cell>, links: [Int: AppliedObject], claimedAt offset: Int
    ) throws(ApplyingFault) -> AppliedObject

    /// Sets the attributes that are present. An object of an ancestor becomes one of `entity`.
    func update(
        _ object: AppliedObject, as entity: Int, _ cells: UnsafePointer<Cell>, claimedAt offset: Int
    ) throws(ApplyingFault) -> AppliedObject

    /// Gives the object another identity, where that is its key; references to the object follow.
    func rename(_ object: AppliedObject, _ cells: UnsafePointer<Cell>) throws(ApplyingFault) -> AppliedObject

    /// Deletes the object by the delete rules.
    func delete(_ object: AppliedObject) throws(ApplyingFault)

    /// Counts the object, also if nothing in it changes.
    ///
    /// - Parameter namesLinks: a record of the object names links in link tables: if they change, the object does.
    func touch(_ object: AppliedObject, namesLinks: Bool) throws(ApplyingFault)

    // MARK: Links

    /// Sets or ends a to-one link.
    func link(_ object: AppliedObject, _ relationship: Int, to destination: AppliedObject?) throws(ApplyingFault)

    /// Adds objects to a to-many relationship, in an ordered one after those that are there.
    ///
    /// - Parameters:
    ///   - replaces: the links to all other objects end, but for `retained`; owned objects are deleted. In an ordered
    ///     relationship the elements then have the positions from 0.
    func set(
        _ elements: [AppliedObject], of object: AppliedObject, _ relationship: Int, replacing replaces: Bool,
        retaining retained: [AppliedObject]
    ) throws(ApplyingFault)

    /// Gives the elements of an ordered relationship the positions from 0, in their order. No element takes the position
    /// of another object that stays in the list.
    func order(
        _ elements: [AppliedObject], of object: AppliedObject, _ relationship: Int
    ) throws(ApplyingFault)

    // MARK: Records that are undone

    func mark() throws(ApplyingFault)
    /// The changes since the last mark stay.
    func accept() throws(ApplyingFault)
    func undo() throws(ApplyingFault)
}

extension ObjectStore {
    func set(
        _ elements: [AppliedObject], of object: AppliedObject, _ relationship: Int, replacing replaces: Bool
    ) throws(ApplyingFault) {
        try set(elements, of: object, relationship, replacing: replaces, retaining: [])
    }
}
