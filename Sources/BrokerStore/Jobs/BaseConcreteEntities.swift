internal import BrokerSchema
internal import BrokerModel
internal import BrokerStaging

/// The concrete entities of the hierarchy objects that a job's first step named or changed: read from the store where
/// the job itself does not determine them.
struct BaseConcreteEntities {
    private let model: Model
    /// By entity index of a hierarchy's table, then by staged row.
    private var rows: [Int: [Int]] = [:]
    /// By entity index, the row numbers of the entity's own objects.
    private var outside: [Int: Set<Int64>] = [:]

    /// Has no objects.
    init(_ model: Model) { self.model = model }

    /// - Parameters:
    ///   - states: as ``MergedRows/states``.
    ///   - recorded: the state of rows that the net changes report instead.
    mutating func read(
        _ staged: StagedRows, _ merged: MergedRows, _ states: [[UInt8]], _ changedOutside: [Set<Int64>],
        recorded: UInt8,
        _ merger: Merger
    ) throws(StoreError) {
        for case let table? in staged.tables where model.isInHierarchy(table.entityIndex) {
            let entity = table.entityIndex
            var concreteEntities: [Int] = []
            for row in 0..<table.rowCount {
                let concreteEntity = table.concreteEntity(of: row)
                concreteEntities.append(concreteEntity)
                let isKnown =
                    states[entity][row] == MergeTally.RowState.inserted.rawValue || states[entity][row] == recorded
                    || model.subentities(of: concreteEntity).count == 1
                if isKnown { continue }
                let key = try merger.key(of: row, table, merged)
                concreteEntities[row] = try merger.entities[entity].find(key)?.concreteEntity ?? concreteEntity
            }
            rows[entity] = concreteEntities
        }
        for entity in model.tableEntities where model.isInHierarchy(entity) {
            let find = try merger.entities[entity].concreteEntityOfRow()
            for number in changedOutside[entity] {
                find.bind(number, at: 1)
                defer { find.reset() }
                if try find.step() {
                    outside[model.index(ofEntity: find.text(0)) ?? entity, default: []].insert(number)
                }
            }
        }
    }

    /// Whether the staged row of a table is one of the entity's own objects.
    func isOne(_ row: Int, of table: Int, _ entity: Int) -> Bool { rows[table].map { $0[row] == entity } ?? true }

    /// The entity's own objects among the rows that changed beside the staged ones, by table.
    func changedOutside(_ entity: Int, _ all: [Set<Int64>]) -> Set<Int64> {
        model.isInHierarchy(entity) ? outside[entity] ?? [] : all[entity]
    }
}
