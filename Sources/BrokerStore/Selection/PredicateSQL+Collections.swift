internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// Conditions on the objects of a to-many relationship.
///
/// The search begins at those objects, and its result is the set of keys that lead to one of them. SQLite makes the set
/// once for a statement, so its time is linear in the links, and an index on a compared column is used. A subquery for
/// each object would examine the same links again for all objects that share a link before the relationship.
extension PredicateSQLWriter {
    /// At least one object meets the condition.
    mutating func condition(_ collection: PredicateCollection, _ inner: Predicate, _ table: Table) -> String {
        guard let first = collection.hops.first else {
            return leads(by: collection.relationship, to: inner, from: table)
        }
        let links = linkColumns(first, of: table)
        let chain = chain(collection.hops, from: table)
        let condition = leads(by: collection.relationship, to: inner, from: chain.last)
        return isIn(links, "\(work(perRow: 1))\(condition)", chain.sql, keyColumns(of: chain.first))
    }

    /// The row's key is among those that lead to an object that meets the condition.
    private mutating func leads(by relationship: Int, to inner: Predicate, from near: Table) -> String {
        let own = model.entities[near.entity].relationships[relationship]
        let far = Table(entity: own.destination, alias: newAlias())
        let table = "\(quoted(model.table(of: far.entity))) AS \(quoted(far.alias))"
        let work = work(for: inner, far)
        let keys: [String]
        var from = table
        var isLinked = ""
        switch naming.layout.entities[near.entity].forms[relationship] {
        case .column: preconditionFailure("a to-many relationship is not stored with its object")
        case .destinationColumn(let column):
            let link = naming.layout.entities[own.destination].link(atColumn: column)
            keys = linkColumns(link.relationship, of: far)
            isLinked = keys.map { " AND \($0) IS NOT NULL" }.joined()
        case .linkTable(let number, let isReversed):
            let link = naming.layout.linkTables[number]
            let alias = newAlias()
            let sides = naming.linkSides(link).map { $0.map { "\(quoted(alias)).\(quoted($0))" } }
            keys = sides[isReversed ? 1 : 0]
            let pairs = zip(keyColumns(of: far), sides[isReversed ? 0 : 1]).map { "\($0) = \($1)" }
            from =
                "\(quoted(naming.linkTable(link))) AS \(quoted(alias)) JOIN \(table) ON \(pairs.joined(separator: " AND "))"
        }
        let condition =
            "\(work)\(self.work(perRow: 1, reading: keys))\(self.condition(inner, isNegated: false, far))\(isLinked)"
        let left = keyColumns(of: near)
        return "(\(row(left)) IN (SELECT \(keys.joined(separator: ", ")) FROM \(from) WHERE \(condition)))"
    }

    /// Tests the number of objects.
    mutating func condition(
        _ test: PredicateTest, _ operand: PredicateOperand, countOf relationship: Int, _ table: Table
    ) -> String {
        guard let first = operand.hops.first else { return condition(test, onCount: count(relationship, of: table)) }
        // A missing link counts as none, so where none meet the test, the condition searches for the opposite.
        let isMetByNone = test.isMetByNone
        let links = linkColumns(first, of: table)
        let chain = chain(operand.hops, from: table)
        let counted = Table(entity: chain.last.entity, alias: newAlias())
        let tested = condition(test, onCount: count(relationship, of: counted))
        let keys = keyColumns(of: counted).joined(separator: ", ")
        let from = "\(quoted(model.table(of: counted.entity))) AS \(quoted(counted.alias))"
        let work = work(perRow: 1 + Self.countUnits(self.links))
        // The keys first: each object is counted once, however many lead to it.
        let isCounted =
            "\(row(keyColumns(of: chain.last))) IN (SELECT \(keys) FROM \(from) WHERE \(work)\(isMetByNone ? "NOT " : "")\(tested))"
        let sql = isIn(links, "\(self.work(perRow: 1))\(isCounted)", chain.sql, keyColumns(of: chain.first))
        return isMetByNone ? "(NOT \(sql))" : sql
    }

    private mutating func condition(_ test: PredicateTest, onCount count: String) -> String {
        switch test {
        case .isNil: return "(0)"
        case .equals(let value): return "(\(count) = \(parameter(.value(value))))"
        case .isOrdered(let order, let value): return "(\(count) \(order.sql) \(parameter(.value(value))))"
        case .isOneOf(let values):
            guard let list = Self.list(values) else { preconditionFailure("counts are compared with integers") }
            return "(\(count) IN (SELECT value FROM json_each(\(parameter(.value(.text(list)))))))"
        case .text, .equalsOperand, .isOrderedAgainst: preconditionFailure("a count is compared with a number")
        }
    }

    /// The number of objects to which the relationship of a row leads.
    mutating func count(_ relationship: Int, of near: Table) -> String {
        let own = model.entities[near.entity].relationships[relationship]
        let alias = newAlias()
        let (table, links): (String, [String])
        switch naming.layout.entities[near.entity].forms[relationship] {
        case .column: preconditionFailure("a to-many relationship is not stored with its object")
        case .destinationColumn(let column):
            let link = naming.layout.entities[own.destination].link(atColumn: column)
            table = model.table(of: own.destination)
            links = naming.linkColumns(model.entities[own.destination].relationships[link.relationship])
        case .linkTable(let number, let isReversed):
            let link = naming.layout.linkTables[number]
            table = naming.linkTable(link)
            links = naming.linkSides(link)[isReversed ? 1 : 0]
        }
        let pairs = zip(links, keyColumns(of: near)).map { "\(quoted(alias)).\(quoted($0)) = \($1)" }
        return
            "(SELECT count(*) FROM \(quoted(table)) AS \(quoted(alias)) WHERE \(work(perRow: 1))\(pairs.joined(separator: " AND ")))"
    }

    /// Units for beginning to count.
    static func countUnits(_ links: Int) -> Int { 1 + 2 * links / cursorsPerUnit }

    /// Charges a row. Empty when work is not counted.
    private func work(perRow units: Int, reading columns: [String] = []) -> String {
        guard longColumns != nil, units > 0 || !columns.isEmpty else { return "" }
        return PredicateFunctions.work(units, for: columns) + " AND "
    }

    /// The first link leads to one of the rows.
    private func isIn(_ links: [String], _ condition: String, _ from: String, _ keys: [String]) -> String {
        let isLinked = links.map { " AND \($0) IS NOT NULL" }.joined()
        return "(\(row(links)) IN (SELECT \(keys.joined(separator: ", ")) FROM \(from) WHERE \(condition))\(isLinked))"
    }

    private func row(_ columns: [String]) -> String {
        columns.count == 1 ? columns[0] : "(\(columns.joined(separator: ", ")))"
    }
}

extension PredicateTest {
    /// The test of a count of 0.
    fileprivate var isMetByNone: Bool {
        switch self {
        case .equals(.integer(let value)): value == 0
        case .isOneOf(let values): values.contains(.integer(0))
        case .isOrdered(let order, .integer(let value)):
            switch order {
            case .less: 0 < value
            case .atMost: 0 <= value
            case .greater: 0 > value
            case .atLeast: 0 >= value
            }
        default: false
        }
    }
}
