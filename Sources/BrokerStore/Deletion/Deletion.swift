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
    let merger: Merger
    let entity: Int
    /// The location of the operation in the message: a JSON Pointer, for faults.
    let pointer: String

    private var statements: DeletionStatements { merger.deletions }

    /// Deletes the objects whose keys the rows name.
    ///
    /// - Returns: the number of keys that name no object.
    func delete(named rows: StagedRows) throws(MergeFailure) -> Int {
        guard let table = rows.tables[merger.plan.model.topmost(of: entity)] else { return 0 }
        return try deleting([entity]) { isDirect throws(StoreError) in try seed(table, isDirect: isDirect) }
    }

    /// Deletes the object that each row names, or adds it to the deletion set.
    ///
    /// - Returns: the number of distinct named objects that do not exist.
    private func seed(_ table: FrozenTable, isDirect: Bool) throws(StoreError) -> Int {
        let given = table.keysByRow
        let statement = try isDirect ? statements.deleteKey(entity) : statements.addKey(entity)
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

    /// Deletes the objects for which the condition holds.
    ///
    /// - Parameters:
    ///   - condition: SQL that refers to them as `o`.
    ///   - bind: binds its parameters, from 1.
    func delete(where condition: String, _ bind: (Statement) -> Void) throws(MergeFailure) {
        _ = try deleting([entity]) { isDirect throws(StoreError) in
            let statement =
                try isDirect
                ? statements.delete(entity, where: condition) : statements.add(entity, where: condition)
            bind(statement)
            try statement.run()
            return 0
        }
    }

    /// Deletes, as one deletion, owned objects that no owner names any more.
    ///
    /// - Parameter orphans: their row numbers, by entity index; not empty.
    static func delete(orphans: [Int: Set<Int64>], _ merger: Merger, at pointer: String) throws(MergeFailure) {
        let entities = orphans.keys.sorted()
        let deletion = Deletion(merger: merger, entity: entities[0], pointer: pointer)
        _ = try deletion.deleting(entities) { isDirect throws(StoreError) in
            for entity in entities {
                let statements = merger.deletions
                let statement = try isDirect ? statements.deleteRow(entity) : statements.addRow(entity)
                for number in orphans[entity]!.sorted() {
                    statement.bind(number, at: 1)
                    try statement.run()
                }
            }
            return 0
        }
    }

    /// - Parameters:
    ///   - entities: the entities of the objects.
    ///   - seed: deletes the objects directly, or adds them to the deletion set. Returns the number of those that do not
    ///     exist.
    private func deleting(
        _ entities: [Int], _ seed: (_ isDirect: Bool) throws(StoreError) -> Int
    ) throws(MergeFailure) -> Int {
        let (missing, fault) = try storing { () throws(StoreError) -> (Int, Fault?) in
            if entities.contains(where: { statements.takesRowKeys[$0] }) { try merger.readRowKeys() }
            guard entities.contains(where: { statements.reachesOthers[$0] }) else { return (try seed(true), nil) }
            try statements.clear().run()
            let missing = try seed(false)
            try cascade()
            let fault = try denial()
            if fault == nil { try deleteSet() }
            return (missing, fault)
        }
        if let fault { throw .fault(fault) }
        return missing
    }

    private func deleteSet() throws(StoreError) {
        let order = statements.deletionOrder
        let entities = try entities(statements.allEntities()).sorted { order[$0] < order[$1] }
        for entity in entities {
            for detach in try statements.detach(entity) { try detach.run() }
        }
        for entity in entities { try statements.deleteSet(entity).run() }
        try statements.clear().run()
    }

    private func cascade() throws(StoreError) {
        var generation: Int64 = 0
        while true {
            let all = try statements.entities()
            all.bind(generation, at: 1)
            let entities = try entities(all)
            guard !entities.isEmpty else { return }
            for entity in entities {
                for cascade in try statements.cascades(entity) {
                    cascade.bind(generation, at: 1)
                    try cascade.run()
                }
            }
            generation += 1
        }
    }

    /// The `deny` rule that prevents the deletion.
    private func denial() throws(StoreError) -> Fault? {
        for entity in try entities(statements.allEntities()) {
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

    private func entities(_ statement: Statement) throws(StoreError) -> [Int] {
        var entities: [Int] = []
        while try statement.step() { entities.append(Int(statement.integer(0))) }
        return entities
    }
}
