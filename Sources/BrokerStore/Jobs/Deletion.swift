internal import BrokerModel
internal import BrokerStaging

/// Deletes objects by the delete rules of their relationships: `nullify`, `cascade`, `deny`, `noAction`.
///
/// ```
/// seeds ─▶ objects reached by cascade, generation after generation ─▶ check of deny rules ─▶ DELETE
/// ```
///
/// It runs inside the caller's savepoint, and the caller rolls back.
struct Deletion {
    private let merger: Merger
    private let pointer: String
    private let statements: DeletionStatements

    init(_ merger: Merger, at pointer: String) {
        self.merger = merger
        self.pointer = pointer
        statements = merger.deletions
    }

    /// Deletes the objects whose keys the rows name, and returns the number of keys that name none.
    func delete(_ entity: Int, named rows: StagedRows) throws -> Int {
        guard let table = rows.tables[merger.plan.model.topmost(of: entity)] else { return 0 }
        return try deleting([entity]) { try seed(entity, table, isDirect: $0) }
    }

    /// Deletes the object that each row names, or adds it to the deletion set. Returns the number of those that do not exist.
    private func seed(_ entity: Int, _ table: FrozenTable, isDirect: Bool) throws(StoreError) -> Int {
        let given = table.keysByRow
        let statement = try statements.seed(entity, .key, isDirect: isDirect)
        var missing = 0
        // Values that differ in JSON may be one value in a column.
        var seen: Set<StoredKey>? = merger.forms.changesKey(of: table.entityIndex) ? [] : nil
        for row in 0..<table.rowCount {
            if seen != nil, table.hasIdentity(row) {
                let key = try merger.forms.key(table.identity(ofRow: row), of: table.entityIndex)
                guard seen!.insert(key).inserted else { continue }
            }
            if merger.entities[table.entityIndex].hasRowKey {
                var key = given[row]
                if key == nil, table.hasIdentity(row) {
                    key = try merger.rowKey(of: table.row(row), table.concreteEntity(of: row))
                }
                // No row has the number 0.
                statement.bind(key ?? 0, at: 1)
            } else {
                merger.entities[table.entityIndex].bindIdentity(table.row(row), to: statement, from: 1)
            }
            try statement.run()
            if merger.connection.changes == 0 { missing += 1 }
        }
        return missing
    }

    /// Deletes the objects `o` for which the condition holds, whose parameters `bind` binds from 1 on.
    func delete(_ entity: Int, where condition: String, _ bind: (Statement) -> Void) throws {
        _ = try deleting([entity]) { isDirect in
            let statement = try statements.seed(entity, .condition(condition), isDirect: isDirect)
            bind(statement)
            try statement.run()
            return 0
        }
    }

    /// Deletes objects as one deletion: by entity index, their row numbers.
    func delete(rows: [Int: Set<Int64>]) throws {
        let entities = rows.keys.sorted()
        _ = try deleting(entities) { isDirect in
            for entity in entities {
                let statement = try statements.seed(entity, .row, isDirect: isDirect)
                for number in rows[entity]!.sorted() { try statement.run(number) }
            }
            return 0
        }
    }

    /// - Parameter seed: deletes objects of the entities directly, or adds them to the deletion set. Returns how many do not exist.
    private func deleting(_ entities: [Int], _ seed: (_ isDirect: Bool) throws -> Int) throws -> Int {
        if entities.contains(where: { statements.takesRowKeys[$0] }) { try merger.readRowKeys() }
        guard entities.contains(where: { statements.reachesOthers[$0] }) else { return try seed(true) }
        try statements.clear().run()
        let missing = try seed(false)
        try cascade()
        if let fault = try denial() { throw MergeFailure.fault(fault) }
        try deleteSet()
        return missing
    }

    private func deleteSet() throws(StoreError) {
        let entities = try statements.entitiesToDelete()
        for entity in entities {
            for detach in try statements.detach(entity) { try detach.run() }
        }
        for entity in entities { try statements.deleteSet(entity).run() }
        try statements.clear().run()
    }

    private func cascade() throws(StoreError) {
        var generation: Int64 = 0
        while true {
            let entities = try statements.entities(in: generation)
            guard !entities.isEmpty else { return }
            for entity in entities {
                for cascade in try statements.cascades(entity) { try cascade.run(generation) }
            }
            generation += 1
        }
    }

    private func denial() throws(StoreError) -> Fault? {
        for entity in try statements.entities() {
            let model = merger.plan.model.entities[entity]
            for (index, relationship) in model.relationships.enumerated() where relationship.deleteRule == .deny {
                let denied = try statements.denied(entity, index)
                defer { denied.reset() }
                guard try denied.step() else { continue }
                let key = StoredKey(merger.entities[entity].keyNames.indices.map { denied.cell($0) })
                let other = merger.plan.model.entities[relationship.destination].name
                return Fault(
                    .constraintViolation,
                    "The \(model.name) \(key.described) cannot be deleted: its \(relationship.name) has the delete "
                        + "rule deny, and leads to an object of \(other) that stays. Delete that in the same operation, or "
                        + "end the link first.", path: pointer, entity: model.name)
            }
        }
        return nil
    }
}

extension DeletionLimit {
    /// The entities whose deleted objects are named in a message; the others are counted.
    private static let listedEntities = 5

    /// The fault of a job that deleted more objects than it may; nil if it did not. The tables have the state after the job.
    func fault(
        of changes: [(entity: String, counts: ChangeCounts)], _ merger: Merger
    ) throws(StoreError) -> Fault? {
        let deleted = changes.filter { $0.counts.deleted > 0 }
        switch self {
        case .objects(let limit):
            guard deleted.reduce(0, { $0 + $1.counts.deleted }) > limit else { return nil }
            let total = deleted.reduce(0) { $0 + $1.counts.deleted }
            let parts = deleted.map { "\($0.counts.deleted) \($0.entity)" }
            let sum = parts.count > 1 ? ", \(total) objects in all" : ""
            return Self.fault("\(Self.list(parts))\(sum)", limit: "\(limit)")
        case .share:
            var parts: [String] = []
            for (entity, deleted, before) in try Self.shares(of: changes, merger) {
                if forbids(deleted, of: before) { parts.append("\(deleted) of \(before) \(entity)") }
            }
            guard !parts.isEmpty else { return nil }
            return Self.fault(Self.list(parts), limit: "\(text) of an entity's objects")
        }
    }

    /// The fault of a job that deleted more objects of an entity than the model lets any job; nil if it did not.
    static func fault(
        ofModel merger: Merger, _ changes: [(entity: String, counts: ChangeCounts)]
    ) throws(StoreError) -> Fault? {
        let model = merger.plan.model
        let limited = changes.filter { change in
            change.counts.deleted > 0
                && model.index(ofEntity: change.entity).map { model.deletionLimit(of: $0) != nil } ?? false
        }
        guard !limited.isEmpty else { return nil }
        // All of the hierarchy counts, also what was inserted.
        let topmost = Set(limited.compactMap { model.index(ofEntity: $0.entity).map(model.topmost) })
        for (entity, deleted, before) in try shares(
            of: changes.filter {
                model.index(ofEntity: $0.entity).map { topmost.contains(model.topmost(of: $0)) } ?? false
            },
            merger)
        {
            guard let limit = model.index(ofEntity: entity).flatMap(model.deletionLimit),
                limit.forbids(deleted, of: before)
            else { continue }
            return Fault(
                .tooManyDeletions,
                "The job would delete \(deleted) of \(before) \(entity), and the model lets a job delete \(limit.text) "
                    + "(`maximumDeletions` of the entity). Nothing was changed. If all of them are to be deleted, have the operator "
                    + "change the model.", entity: entity)
        }
        return nil
    }

    /// The fault of a job that deleted objects (``JobTally/deletions``), though its sender may not; nil if it did not.
    static func unauthorized(_ deleted: [Int: Int], _ model: Model) -> Fault? {
        guard !deleted.isEmpty else { return nil }
        let parts = deleted.map { "\($0.value) \(model.entities[$0.key].name)" }.sorted()
        return Fault(
            .unauthorized,
            "The job would delete \(list(parts)), perhaps to make the same again, and its sender may not delete objects "
                + "(the role is insert). Nothing was changed. Have the operator allow the role write.")
    }

    /// By topmost entity, the number of deleted objects and the number of objects before the job.
    private static func shares(
        of changes: [(entity: String, counts: ChangeCounts)], _ merger: Merger
    ) throws(StoreError) -> [(entity: String, deleted: Int, before: Int)] {
        let model = merger.plan.model
        var sums: [Int: (deleted: Int, inserted: Int)] = [:]
        for (entity, counts) in changes {
            guard let index = model.index(ofEntity: entity) else { continue }
            sums[model.topmost(of: index), default: (0, 0)].deleted += counts.deleted
            sums[model.topmost(of: index), default: (0, 0)].inserted += counts.inserted
        }
        var shares: [(entity: String, deleted: Int, before: Int)] = []
        for (index, sum) in sums.sorted(by: { $0.key < $1.key }) where sum.deleted > 0 {
            let count = try merger.entities[index].objectCount()
            shares.append((model.entities[index].name, sum.deleted, count - sum.inserted + sum.deleted))
        }
        return shares
    }

    private static func list(_ parts: [String]) -> String {
        let rest = parts.count > listedEntities ? " and objects of \(parts.count - listedEntities) more entities" : ""
        return parts.prefix(listedEntities).joined(separator: ", ") + rest
    }

    private static func fault(_ deleted: String, limit: String) -> Fault {
        Fault(
            .tooManyDeletions,
            "The job would delete \(deleted), and its `maximumDeletions` is \(limit). Nothing was changed. If all of them "
                + "are to be deleted, send it with a larger `maximumDeletions`.")
    }
}
