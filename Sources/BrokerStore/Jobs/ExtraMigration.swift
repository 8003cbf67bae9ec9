internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// Moves values of `_extra` to the attributes that a changed model has for them, in the transaction of the migration.
struct ExtraMigration {
    private let plan: StagingPlan
    private let connection: Connection
    private let naming: ColumnNaming
    private let statements: StatementCache

    init(_ plan: StagingPlan, on connection: Connection) {
        self.plan = plan
        self.connection = connection
        naming = ColumnNaming(model: plan.model, layout: plan.layout)
        statements = StatementCache(on: connection)
    }

    /// Only attributes without a value take one; what they cannot hold stays.
    ///
    /// - Returns: what was done, as sentences.
    func run() throws(StoreError) -> [String] {
        var counts: [Subject: Int] = [:]
        try forEachValue { (number, entity, extra, column) throws(StoreError) in
            try move(number, entity, extra, column, &counts)
        }
        return counts.sorted { ($0.key.entity, $0.key.attribute) < ($1.key.entity, $1.key.attribute) }.map {
            let entity = plan.model.entities[$0.entity]
            return
                "\(entity.name).\(entity.attributes[$0.attribute].name) took \($1) \($1 == 1 ? "value" : "values") from _extra."
        }
    }

    /// Calls `body` with each row that has a value there: its number, its entity, the value, and the quoted column.
    func forEachValue(
        _ body: (_ number: Int64, _ entity: Int, _ value: Cell, _ column: String) throws(StoreError) -> Void
    ) throws(StoreError) {
        for table in plan.model.tableEntities {
            guard let extra = plan.extraColumns[table] else { continue }
            let entity = plan.model.entities[table]
            let column = quoted(entity.attributes[extra.column].column)
            let isInHierarchy = plan.model.isInHierarchy(table)
            let rows = try connection.prepare(
                "SELECT \(naming.rowNumber(table)), \(column)\(isInHierarchy ? ", \(quoted(entityColumnName))" : "") "
                    + "FROM \(quoted(entity.table)) WHERE \(column) IS NOT NULL ORDER BY 1")
            while try rows.step() {
                let own = isInHierarchy ? plan.model.index(ofEntity: rows.text(2)) : table
                guard let own, rows.cell(1).kind == .text else { continue }
                try body(rows.cell(0).integer, own, rows.cell(1), column)
            }
        }
    }

    private struct Subject: Hashable {
        let entity: Int
        let attribute: Int
    }

    private func move(
        _ number: Int64, _ entity: Int, _ extra: Cell, _ column: String, _ counts: inout [Subject: Int]
    ) throws(StoreError) {
        let table = quoted(plan.model.table(of: entity))
        let isRow = "WHERE \(naming.rowNumber(plan.model.topmost(of: entity))) = ?1"
        var (removals, names, columns, cells): ([UInt8], [String], [Int], [OwnedCell]) = ([], [], [], [])
        for candidate in plan.candidates(of: entity, in: extra.bytes) {
            let name = quoted(plan.model.entities[entity].attributes[candidate.attribute].column)
            let isNull = try statements.statement(
                entity, candidate.attribute, sql: "SELECT 1 FROM \(table) \(isRow) AND \(name) IS NULL")
            guard try isNull.first(number, read: { _ in true }) ?? false else { continue }
            removals += (removals.isEmpty ? [] : [UInt8(ascii: ",")]) + candidate.removal
            names.append(name)
            columns.append(candidate.attribute)
            cells.append(candidate.cell)
        }
        guard !names.isEmpty else { return }
        var rest: [UInt8]?
        // Values only go, so there are never too many.
        do throws(TooManyExtraKeys) { rest = try ExtraValues.applied(removals, to: extra.bytes) } catch { return }
        let assignments = names.enumerated().map { "\($1) = ?\($0 + 3)" }.joined(separator: ", ")
        let update = try statements.statement(
            entity, columns: columns, sql: "UPDATE \(table) SET \(column) = ?2, \(assignments) \(isRow)")
        update.bind(number, at: 1)
        if let rest { update.bind(text: rest, at: 2) } else { update.bind(.null, at: 2) }
        for (position, cell) in cells.enumerated() { update.bind(cell.cell, at: position + 3) }
        do throws(StoreError) {
            try update.run()
        } catch {
            // Another object has the unique value: all stay.
            guard error.code == .constraint else { throw error }
            return
        }
        for column in columns { counts[Subject(entity: entity, attribute: column), default: 0] += 1 }
    }
}
