internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// The SQL that deletes objects by their relationships' delete rules, over sets.
///
/// The deletion set is a table of the connection's own: entity, row number, and the generation in which the object was
/// found. Foreign keys handle links that end by `nullify`, and rows of link tables.
///
/// No foreign key's ON DELETE CASCADE finds a row to delete, because SQLite nests these actions and stops after 1,000
/// of them (sqlite.org/limits.html, section 9):
///  1. Rows are deleted from tables in an order in which children come before their parents (``deletionOrder``).
///  2. A link against that order (into the row's own table, or around a cycle of tables) is set to NULL before.
///
/// Objects of ``leaves`` that a rule reaches are not in the deletion set: it would be ten times as large for a tree whose
/// branches have ten leaves each.
final class DeletionStatements {
    static let deletionSetName = "_broker_deletions"
    private static let deletionSet = "temp.\(deletionSetName)"

    private let plan: StagingPlan
    private let naming: ColumnNaming
    private let connection: Connection
    private let cache: StatementCache
    /// By the index of a table's entity: its position in the order of deletions.
    let deletionOrder: [Int]
    /// By entity index: a deletion of its objects may delete other objects, or others may prevent it.
    let reachesOthers: [Bool]
    /// By entity index: deleted objects may have row keys.
    let takesRowKeys: [Bool]
    /// By the index of an entity that reaches no others, all rules that reach it: they cascade, by links in its own table, whose
    /// rows therefore go first, and no rule denies.
    private let leaves: [Int: [(entity: Int, relationship: Int)]]

    /// - Parameter connection: outside of a transaction.
    init(_ plan: StagingPlan, on connection: Connection) throws(StoreError) {
        self.plan = plan
        self.connection = connection
        cache = StatementCache(on: connection)
        naming = ColumnNaming(model: plan.model, layout: plan.layout)
        deletionOrder = Self.childrenFirst(plan)
        reachesOthers = plan.model.entities.map { entity in
            entity.relationships.contains { $0.deleteRule == .cascade || $0.deleteRule == .deny }
        }
        leaves = Self.leaves(plan, reachesOthers)
        let hasRowKeys = plan.model.entities.contains(where: \.hasRowKey)
        takesRowKeys = zip(plan.model.entities, reachesOthers).map { $0.hasRowKey || $1 && hasRowKeys }
        try connection.execute(
            "CREATE TABLE \(Self.deletionSet) (entity INTEGER, number INTEGER, generation INTEGER, "
                + "PRIMARY KEY (entity, number)) WITHOUT ROWID")
        try connection.execute(
            "CREATE INDEX \(Self.deletionSet)_generation ON \(Self.deletionSetName) (generation, entity)")
    }

    enum Seeds {
        case key
        /// Parameters: a row number.
        case row
        /// Those for which the condition holds, which refers to them as `o`.
        case condition(String)
    }

    /// Deletes objects directly, when that reaches no others; else adds them to the deletion set.
    func seed(_ entity: Int, _ seeds: Seeds, isDirect: Bool) throws(StoreError) -> Statement {
        func sql(_ condition: String) -> String {
            isDirect
                ? "DELETE FROM \(table(entity)) AS o WHERE \(condition)"
                : add(entity, generation: "0", from: "", where: condition)
        }
        switch seeds {
        case .key:
            return try cache.statement(
                entity, isDirect ? 1 : 0, sql: sql(own(entity, equations(naming.keyColumns(entity).map(\.name)))))
        case .row: return try cache.statement(entity, isDirect ? 3 : 2, sql: sql("o.\(naming.rowNumber(entity)) = ?1"))
        case .condition(let condition): return try connection.prepare(sql(own(entity, condition)))
        }
    }

    // MARK: - Rules

    /// For each relationship of the entity that cascades to others than ``leaves``, a statement. Parameters: the generation. Adds
    /// the objects to the deletion set to which the relationship links objects of that generation.
    func cascades(_ entity: Int) throws(StoreError) -> [Statement] {
        var statements: [Statement] = []
        for (index, relationship) in plan.model.entities[entity].relationships.enumerated()
        where relationship.deleteRule == .cascade && leaves[relationship.destination] == nil {
            statements.append(try cache.statement(entity, index, sql: cascade(entity, index)))
        }
        return statements
    }

    private func cascade(_ entity: Int, _ relationship: Int) -> String {
        add(
            plan.model.destinationTable(entity, relationship), generation: "x.generation + 1",
            from: "\(reaching(entity, relationship))CROSS JOIN ",
            where: "x.generation = ?1 AND x.entity = \(entity) AND \(joined(entity, relationship))")
    }

    /// Returns the key of an object of the deletion set that the relationship links to one outside of it, if there is one.
    func denied(_ entity: Int, _ relationship: Int) throws(StoreError) -> Statement {
        let destination = plan.model.destinationTable(entity, relationship)
        return try cache.statement(
            entity, relationship,
            sql: "SELECT \(naming.keyColumns(entity).map { "e.\(quoted($0.name))" }.joined(separator: ", ")) "
                + "FROM \(reaching(entity, relationship))CROSS JOIN \(table(destination)) o "
                + "WHERE x.entity = \(entity) AND \(joined(entity, relationship)) "
                + "AND NOT EXISTS (SELECT 1 FROM \(Self.deletionSet) y WHERE y.entity = \(destination) "
                + "AND y.number = o.\(naming.rowNumber(destination))) LIMIT 1"
        )
    }

    /// The entities with objects of a generation, or of any, in the deletion set.
    func entities(in generation: Int64? = nil) throws(StoreError) -> [Int] {
        let statement = try cache.statement(
            generation == nil ? 0 : 1,
            sql: "SELECT DISTINCT entity FROM \(Self.deletionSet)" + (generation == nil ? "" : " WHERE generation = ?1")
        )
        if let generation { statement.bind(generation, at: 1) }
        var entities: [Int] = []
        while try statement.step() { entities.append(Int(statement.integer(0))) }
        return entities
    }

    /// Sets the links of rows in the deletion set to NULL that refer to rows whose table is deleted from later, or at
    /// the same time.
    ///
    /// A row whose table requires the link (another program's table may) does not change; the foreign key deletes it.
    func detach(_ entity: Int) throws(StoreError) -> [Statement] {
        var statements: [Statement] = []
        for (index, link) in plan.layout.entities[entity].links.enumerated() {
            let relationship = plan.model.entities[entity].relationships[link.relationship]
            guard plan.model.inverse(of: relationship)?.deleteRule == .cascade,
                deletionOrder[link.destination] <= deletionOrder[entity]
            else { continue }
            let columns = naming.linkColumns(relationship).map(quoted)
            statements.append(
                try cache.statement(
                    entity, index,
                    sql:
                        "UPDATE OR IGNORE \(table(entity)) SET \(columns.map { "\($0) = NULL" }.joined(separator: ", ")) "
                        + "WHERE \(isInDeletionSet(entity)) AND \(columns[0]) IS NOT NULL"))
        }
        return statements
    }

    /// The entities with objects in the deletion set, and the leaves that these may reach, in the order of deletions.
    func entitiesToDelete() throws(StoreError) -> [Int] {
        let found = Set(try entities())
        let reached = leaves.filter { $0.value.contains { found.contains($0.entity) } }.keys
        return found.union(reached).sorted { deletionOrder[$0] < deletionOrder[$1] }
    }

    func deleteSet(_ entity: Int) throws(StoreError) -> Statement {
        let reached = (leaves[entity] ?? []).map { source, relationship in
            " UNION ALL SELECT o.\(naming.rowNumber(entity)) FROM \(reaching(source, relationship))CROSS JOIN \(table(entity)) o "
                + "WHERE x.entity = \(source) AND \(joined(source, relationship))"
        }
        return try cache.statement(
            entity, sql: "DELETE FROM \(table(entity)) WHERE \(isInDeletionSet(entity, or: reached.joined()))")
    }

    func clear() throws(StoreError) -> Statement { try cache.statement(sql: "DELETE FROM \(Self.deletionSet)") }

    // MARK: - SQL

    /// By a table's entity: tables whose rows go with rows of another come before it, but for one link of each cycle.
    private static func childrenFirst(_ plan: StagingPlan) -> [Int] {
        var children: [[Int]] = Array(repeating: [], count: plan.model.entities.count)
        for entity in plan.model.tableEntities {
            for link in plan.layout.entities[entity].links {
                let relationship = plan.model.entities[entity].relationships[link.relationship]
                guard plan.model.inverse(of: relationship)?.deleteRule == .cascade else { continue }
                children[link.destination].append(entity)
            }
        }
        var order = Array(repeating: 0, count: children.count)
        var isVisited = Array(repeating: false, count: children.count)
        var next = 0
        func visit(_ entity: Int) {
            guard !isVisited[entity] else { return }
            isVisited[entity] = true
            for child in children[entity] { visit(child) }
            order[entity] = next
            next += 1
        }
        for entity in plan.model.tableEntities { visit(entity) }
        return order
    }

    private static func leaves(
        _ plan: StagingPlan, _ reachesOthers: [Bool]
    ) -> [Int: [(entity: Int, relationship: Int)]] {
        var leaves: [Int: [(entity: Int, relationship: Int)]] = [:]
        var others: Set<Int> = []
        for entity in plan.model.tableEntities {
            for (index, relationship) in plan.model.entities[entity].relationships.enumerated()
            where relationship.deleteRule == .cascade || relationship.deleteRule == .deny {
                let destination = relationship.destination
                if relationship.deleteRule == .cascade, !reachesOthers[destination],
                    !plan.model.isInHierarchy(destination),
                    case .destinationColumn = plan.layout.entities[entity].forms[index]
                {
                    leaves[destination, default: []].append((entity, index))
                } else {
                    others.insert(destination)
                }
            }
        }
        return leaves.filter { !others.contains($0.key) }
    }

    private func isInDeletionSet(_ entity: Int, or others: String = "") -> String {
        "\(naming.rowNumber(entity)) IN (SELECT number FROM \(Self.deletionSet) WHERE entity = \(entity)\(others))"
    }

    private func table(_ entity: Int) -> String { quoted(plan.model.table(of: entity)) }

    /// The rows `o` of the table that are the entity's.
    private func own(_ entity: Int, _ condition: String) -> String {
        naming.entityCondition(entity, alias: "o").map { "(\(condition)) AND \($0)" } ?? condition
    }

    private func add(_ entity: Int, generation: String, from: String, where condition: String) -> String {
        "INSERT OR IGNORE INTO \(Self.deletionSet) SELECT \(plan.model.topmost(of: entity)), o.\(naming.rowNumber(entity)), \(generation) "
            + "FROM \(from)\(table(entity)) o WHERE \(condition)"
    }

    /// The deletion set `x`, its rows `e`, and the rows `l` of the relationship's link table, where it has one. `CROSS JOIN`
    /// fixes the order: the deletion set is small beside the tables.
    private func reaching(_ entity: Int, _ relationship: Int) -> String {
        "\(Self.deletionSet) x CROSS JOIN \(table(entity)) e ON e.\(naming.rowNumber(entity)) = x.number "
            + naming.linkJoin(entity, relationship, as: "l")
    }

    private func joined(_ entity: Int, _ relationship: Int) -> String {
        naming.isLinked(entity, relationship, from: "e", to: "o", over: "l")
    }
}
