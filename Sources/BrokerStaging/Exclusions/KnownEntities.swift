/// The concrete entities of objects in hierarchies: in the store, and, while a job is staged again, after the records
/// that were accepted so far.
///
/// With it staging is exact: records are accepted or rejected as if they were applied to the store one by one.
final class KnownEntities {
    private struct Fact {
        /// Nil if the object does not exist.
        let stored: Int?
        var current: Int?
        /// Entities of the object after all records of earlier stagings, in which bare keys asked for another entity.
        var final: [Int] = []
    }

    private let plan: StagingPlan
    private let tables: TableSet
    /// By entity index and row in `tables`.
    private var facts: [[Fact]]
    private var arena = ByteArena()

    init(_ plan: StagingPlan) {
        self.plan = plan
        tables = TableSet(plan)
        facts = Array(repeating: [], count: plan.entities.count)
    }

    /// - Parameters:
    ///   - entity: index of the table's entity.
    ///   - identity: a row's worth of cells, which are copied.
    ///   - concreteEntity: the entity whose identity that is.
    func note(stored: Int?, _ entity: Int, identity: UnsafePointer<Cell>, concreteEntity: Int) {
        let row = tables[entity].pointee.findOrAdd(copying: identity, in: &arena, concreteEntity: concreteEntity)
        if row == facts[entity].count { facts[entity].append(Fact(stored: stored, current: stored)) }
    }

    /// A stored or staged fact about an object.
    struct Known {
        /// Nil if the object does not exist.
        let concreteEntity: Int?
    }

    /// Forgets the records of the last staging.
    func begin() {
        for entity in facts.indices {
            for row in facts[entity].indices { facts[entity][row].current = facts[entity][row].stored }
        }
    }

    /// Returns the object's concrete entity at this point; nil if the store was not asked about the object.
    func find(_ entity: EntityPlan, _ identity: UnsafePointer<Cell>) -> Known? {
        row(entity, identity).map { Known(concreteEntity: facts[entity.index][$0].current) }
    }

    /// Whether the store was asked about the row's object.
    func knows(_ row: Int, of table: FrozenTable) -> Bool {
        find(plan.entities[table.concreteEntity(of: row)], table.row(row)) != nil
    }

    func note(current concreteEntity: Int, _ entity: EntityPlan, _ identity: UnsafePointer<Cell>) {
        if let row = row(entity, identity) { facts[entity.index][row].current = concreteEntity }
    }

    /// Notes an entity of the object after all records. From then on staging ignores bare keys that ask for another one.
    func note(final concreteEntity: Int, _ entity: EntityPlan, _ identity: UnsafePointer<Cell>) {
        if let row = row(entity, identity) { facts[entity.index][row].final.append(concreteEntity) }
    }

    /// Returns an entity of the object after all records that neither is `entity` nor inherits from it.
    func finalEntity(of identity: UnsafePointer<Cell>, unlike entity: EntityPlan) -> Int? {
        row(entity, identity).flatMap { row in
            facts[entity.index][row].final.first { !plan.model.isKind($0, of: entity.ownIndex) }
        }
    }

    /// Notes that a record deletes the object.
    func noteDeletion(_ entity: EntityPlan, _ identity: UnsafePointer<Cell>) {
        guard let row = row(entity, identity) else { return }
        facts[entity.index][row].current = nil
    }

    private func row(_ entity: EntityPlan, _ identity: UnsafePointer<Cell>) -> Int? {
        guard tables.exists(entity.index) else { return nil }
        return tables[entity.index].pointee.find(identity: identity, concreteEntity: entity.ownIndex)
    }
}
