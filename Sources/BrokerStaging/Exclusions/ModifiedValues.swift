/// The values of objects' `modified` attributes: in the store, and, while a job is staged again, after the records that
/// were accepted so far.
///
/// With it staging is exact: records are accepted or skipped as if they were applied to the store one by one.
final class ModifiedValues {
    private struct Value {
        let stored: Cell
        /// The value of a staged record; points into memory of that staging.
        var current: Cell
    }

    private let plan: StagingPlan
    private let tables: TableSet
    /// By entity index and row in `tables`.
    private var values: [[Value]]
    /// The stored value of the object that the operation names by its key.
    private(set) var target: Cell?
    private var arena = ByteArena()
    /// The stored values of all objects that the previous staging named were noted.
    var isComplete = false
    /// The latest staging met objects without a noted value, because it skipped other records.
    private(set) var hasUnknownObjects = false

    init(_ plan: StagingPlan) {
        self.plan = plan
        tables = TableSet(plan)
        values = Array(repeating: [], count: plan.entities.count)
    }

    /// - Parameter identity: a row's worth of cells; copied, like `stored`.
    func note(_ stored: Cell, _ entity: Int, identity: UnsafePointer<Cell>) {
        let value = arena.copy(of: stored)
        values[entity][row(entity, identity)] = Value(stored: value, current: value)
    }

    /// Notes that the store was asked about the object.
    func know(_ entity: Int, identity: UnsafePointer<Cell>) { _ = row(entity, identity) }

    func note(target stored: Cell) { target = arena.copy(of: stored) }

    /// Forgets the records of the last staging.
    func begin() {
        hasUnknownObjects = false
        for entity in plan.entitiesWithModified {
            for row in values[entity].indices { values[entity][row].current = values[entity][row].stored }
        }
    }

    /// Whether a record is newer than its object.
    func isNewer(_ cell: Cell, _ modified: ModifiedColumn, _ entity: Int, identity: UnsafePointer<Cell>) -> Bool {
        cell.kind == .absent || isNewer(tombstone: cell, modified, entity, identity: identity)
    }

    /// As ``isNewer(_:_:_:identity:)``, for a record that deletes the object.
    func isNewer(
        tombstone cell: Cell, _ modified: ModifiedColumn, _ entity: Int, identity: UnsafePointer<Cell>
    ) -> Bool {
        !modified.isStale(cell, against: values[entity][rowNotingUnknown(entity, identity)].current)
    }

    /// Notes an accepted record: the next one of that identity must be newer.
    func note(current cell: Cell, _ entity: Int, identity: UnsafePointer<Cell>) {
        if cell.kind != .absent { values[entity][rowNotingUnknown(entity, identity)].current = cell }
    }

    /// Notes an accepted record that deletes the object: the next record inserts a new object.
    func noteDeletion(_ entity: Int, identity: UnsafePointer<Cell>) {
        values[entity][rowNotingUnknown(entity, identity)].current = .absent
    }

    private func rowNotingUnknown(_ entity: Int, _ identity: UnsafePointer<Cell>) -> Int {
        if tables[entity].pointee.find(identity: identity, concreteEntity: entity) == nil { hasUnknownObjects = true }
        return row(entity, identity)
    }

    private func row(_ entity: Int, _ identity: UnsafePointer<Cell>) -> Int {
        let row = tables[entity].pointee.findOrAdd(copying: identity, in: &arena, concreteEntity: entity)
        if row == values[entity].count { values[entity].append(Value(stored: .absent, current: .absent)) }
        return row
    }
}
