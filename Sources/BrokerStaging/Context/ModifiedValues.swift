/// What objects have of their `modified` attribute: in the store, and, while a job is staged again, after the records
/// that were taken so far.
///
/// With it staging is exact: records are taken or left out as if they had been applied to the store one after the other.
final class ModifiedValues {
    private struct Value {
        let stored: Cell
        /// Of a record being staged: points into what that staging keeps alive.
        var current: Cell
    }

    private let plan: StagingPlan
    private let tables: TableSet
    /// By entity index and row in `tables`.
    private var values: [[Value]]
    /// What the object has in the store that the operation names by its key.
    private(set) var subject: Cell?
    private var arena = ByteArena()
    /// What the store has was noted of all objects that the staging before named.
    var isComplete = false
    /// The newest staging met objects of which it was not, since it left out other records.
    private(set) var hasMetUnknown = false

    init(_ plan: StagingPlan) {
        self.plan = plan
        tables = TableSet(plan)
        values = Array(repeating: [], count: plan.entities.count)
    }

    /// - Parameter identity: a row's worth of cells; copied, like `stored`.
    func note(_ stored: Cell, _ entity: Int, identity: UnsafePointer<Cell>) {
        let value = arena.copy(of: stored)
        values[entity][place(entity, identity)] = Value(stored: value, current: value)
    }

    /// Whatever the store has of the object was noted.
    func know(_ entity: Int, identity: UnsafePointer<Cell>) { _ = place(entity, identity) }

    func note(subject stored: Cell) { subject = arena.copy(of: stored) }

    /// What the last staging took is forgotten.
    func begin() {
        hasMetUnknown = false
        for entity in plan.entitiesWithModified {
            for row in values[entity].indices { values[entity][row].current = values[entity][row].stored }
        }
    }

    /// Whether a record is newer than what its object has.
    func isNewer(_ cell: Cell, _ modified: ModifiedColumn, _ entity: Int, identity: UnsafePointer<Cell>) -> Bool {
        cell.kind == .absent || isNewer(tombstone: cell, modified, entity, identity: identity)
    }

    /// As ``isNewer(_:_:_:identity:)``, of a record that deletes the object.
    func isNewer(
        tombstone cell: Cell, _ modified: ModifiedColumn, _ entity: Int, identity: UnsafePointer<Cell>
    ) -> Bool {
        !modified.isStale(cell, against: values[entity][meet(entity, identity)].current)
    }

    /// A record was taken: the next one of that identity must be newer than this.
    func note(current cell: Cell, _ entity: Int, identity: UnsafePointer<Cell>) {
        if cell.kind != .absent { values[entity][meet(entity, identity)].current = cell }
    }

    /// A record that deletes the object was taken: the next one makes a fresh one.
    func noteDeletion(_ entity: Int, identity: UnsafePointer<Cell>) {
        values[entity][meet(entity, identity)].current = .absent
    }

    private func meet(_ entity: Int, _ identity: UnsafePointer<Cell>) -> Int {
        if tables[entity].pointee.find(identity: identity, kind: entity) == nil { hasMetUnknown = true }
        return place(entity, identity)
    }

    private func place(_ entity: Int, _ identity: UnsafePointer<Cell>) -> Int {
        let table = tables[entity]
        if let known = table.pointee.find(identity: identity, kind: entity) { return known }
        let columns = plan.entities[entity].identity
        var cells = Array(repeating: Cell.absent, count: plan.entities[entity].layout.columnCount)
        for column in columns { cells[column] = arena.copy(of: identity[column]) }
        values[entity].append(Value(stored: .absent, current: .absent))
        return cells.withUnsafeBufferPointer {
            table.pointee.findOrAdd(identity: $0.baseAddress!, offset: 0, origin: .record, kind: entity)
        }
    }
}
