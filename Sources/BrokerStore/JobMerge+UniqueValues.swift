internal import BrokerModel
internal import BrokerStaging

/// Unique values, looked through before anything is written: the careful way, taken only after a conflict.
extension JobMerge {
    /// Leaves out whose claims cannot be met; the others give up the values that they had, so that these may pass from
    /// one object to another in any order.
    mutating func settleUniqueValues() throws(StoreError) {
        for (entity, table) in rows.tables.enumerated() {
            let model = merger.entities[entity].entity
            let lists = model.unique
            guard let table, !lists.isEmpty else { continue }
            let claims = try claims(lists, table)
            let refused = try refusedRows(lists, claims, table)
            if refused.isEmpty { try vacate(lists, claims, table) }
            for (row, list) in refused.sorted(by: { $0.key < $1.key }) {
                reject(entity, row) { Self.taken(list, model, isTold: $0) }
            }
        }
    }

    /// By list, what each staged row has and wants.
    private func claims(_ lists: [[Int]], _ table: FrozenTable) throws(StoreError) -> [[UniqueClaims.Claim]] {
        let entity = table.entityIndex
        let attributes = Set(lists.joined()).sorted()
        let values = try merger.entities[entity].values(of: attributes)
        var claims = lists.map { _ in [UniqueClaims.Claim]() }
        for row in 0..<table.rowCount {
            let staged = table.row(row)
            bindKey(ofRow: row, entity, to: values, from: 1)
            defer { values.reset() }
            let exists = try values.step()
            if exists, attributes.allSatisfy({ staged[$0].kind == .absent }) { continue }
            let old = Dictionary(
                uniqueKeysWithValues: attributes.enumerated().map { ($1, exists ? values.cell($0) : .null) })
            for (number, list) in lists.enumerated() {
                let new = list.map { column -> Cell in
                    if staged[column].kind != .absent { return staged[column] }
                    return exists
                        ? old[column]! : merger.plan.defaultCell(entity: entity, attribute: column) ?? .null
                }
                claims[number].append(
                    UniqueClaims.Claim(
                        row: row, claimedAt: table.claim(of: list, row: row),
                        old: exists ? StoredKey(list.map { old[$0]! }) : nil, new: StoredKey(new)))
            }
        }
        return claims
    }

    /// The rows to be left out, with the list that they fail.
    private mutating func refusedRows(
        _ lists: [[Int]], _ claims: [[UniqueClaims.Claim]], _ table: FrozenTable
    ) throws(StoreError) -> [Int: [Int]] {
        var refused: [Int: [Int]] = [:]
        var known = -1
        // Who is left out for one list keeps its values of the others, too.
        while refused.count > known {
            known = refused.count
            for (list, claims) in zip(lists, claims) {
                let holder = try merger.entities[table.entityIndex].holder(of: list)
                var settling = UniqueClaims(claims, refused: Set(refused.keys))
                try settling.settle { value throws(StoreError) in
                    value.bind(to: holder, from: 1)
                    defer { holder.reset() }
                    guard try holder.step() else { return .nobody }
                    return stagedRow(table.entityIndex, holder, from: 0).map { .staged(row: $0) } ?? .stranger
                }
                for row in settling.refused where refused[row] == nil { refused[row] = list }
            }
        }
        return refused
    }

    /// Puts values in place that nobody else has, where others are on their way.
    private func vacate(
        _ lists: [[Int]], _ claims: [[UniqueClaims.Claim]], _ table: FrozenTable
    ) throws(StoreError) {
        let statements = merger.entities[table.entityIndex]
        for (list, claims) in zip(lists, claims) {
            for claim in claims where claim.isGivingUp {
                let columns = list.filter { column in
                    table.row(claim.row)[column].kind != .absent
                        && (statements.entity.hasRowKey || !statements.entity.identity.contains(column))
                }
                guard !columns.isEmpty else { continue }
                let vacate = try statements.vacate(columns)
                var index = bindKey(ofRow: claim.row, table.entityIndex, to: vacate, from: 1)
                for _ in columns {
                    // No value of the contract's types: those that are blobs do not begin like this by chance.
                    vacate.bind(blob: Array("_broker_vacant \(table.entityIndex) \(claim.row)".utf8), at: index)
                    index += 1
                }
                try vacate.run()
            }
        }
    }

    private static func taken(_ list: [Int], _ model: Entity, isTold: Bool) -> Fault {
        let names = list.map { model.attributes[$0].name }
        let what = names.count == 1 ? "value of \(names[0])" : "values of \(names.joined(separator: ", ")) together"
        return Fault(
            .constraintViolation,
            isTold
                ? "Another \(model.name) has the \(what) that this one would get, and they are unique in the model. "
                    + "Change one of the two, or take the unique constraint out of the model." : "",
            entity: model.name, attribute: names.count == 1 ? names[0] : nil)
    }
}
