/// The concrete entities of objects in hierarchies: in the store, and, while a job is staged again, after the records
/// that were accepted so far.
///
/// With it staging is exact: records are accepted or rejected as if they were applied to the store one by one.
final class KnownEntities {
    private struct Kind {
        /// Nil if the object does not exist.
        let stored: Int?
        var current: Int?
    }

    private let plan: StagingPlan
    private let tables: TableSet
    /// By entity index and row in `tables`.
    private var kinds: [[Kind]]
    private var arena = ByteArena()

    init(_ plan: StagingPlan) {
        self.plan = plan
        tables = TableSet(plan)
        kinds = Array(repeating: [], count: plan.entities.count)
    }

    /// - Parameters:
    ///   - entity: index of the table's entity.
    ///   - identity: a row's worth of cells, which are copied.
    ///   - kind: the entity whose identity that is.
    func note(stored: Int?, _ entity: Int, identity: UnsafePointer<Cell>, kind: Int) {
        let columns = plan.entities[entity].identityColumns(of: kind)
        guard tables[entity].pointee.find(identity: identity, kind: kind) == nil else { return }
        var cells = Array(repeating: Cell.absent, count: plan.entities[entity].layout.columnCount)
        for column in columns { cells[column] = arena.copy(of: identity[column]) }
        cells.withUnsafeBufferPointer {
            _ = tables[entity].pointee.findOrAdd(identity: $0.baseAddress!, offset: 0, origin: .record, kind: kind)
        }
        kinds[entity].append(Kind(stored: stored, current: stored))
    }

    /// A stored or staged fact about an object.
    struct Known {
        /// Nil if the object does not exist.
        let kind: Int?
    }

    /// Forgets the records of the last staging.
    func begin() {
        for entity in kinds.indices {
            for row in kinds[entity].indices { kinds[entity][row].current = kinds[entity][row].stored }
        }
    }

    /// Returns the object's concrete entity at this point; nil if the store was not asked about the object.
    func meet(_ entity: EntityPlan, _ identity: UnsafePointer<Cell>) -> Known? {
        place(entity, identity).map { Known(kind: kinds[entity.index][$0].current) }
    }

    func note(current kind: Int, _ entity: EntityPlan, _ identity: UnsafePointer<Cell>) {
        if let place = place(entity, identity) { kinds[entity.index][place].current = kind }
    }

    /// Notes that a record deletes the object.
    func noteDeletion(_ entity: EntityPlan, _ identity: UnsafePointer<Cell>) {
        guard let place = place(entity, identity) else { return }
        kinds[entity.index][place].current = nil
    }

    private func place(_ entity: EntityPlan, _ identity: UnsafePointer<Cell>) -> Int? {
        guard tables.exists(entity.index) else { return nil }
        return tables[entity.index].pointee.find(identity: identity, kind: entity.kind)
    }
}
