internal import BrokerJSON
internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging
internal import CSQLite
internal import Glibc

/// A predicate as an SQL condition on the rows of its entity's table.
///
/// 1. The condition is never NULL, so it may be negated and joined as it is.
/// 2. Every constant is a parameter; names are quoted and, with the alias, qualified.
/// 3. A column that is compared with a constant is a term by itself, so that an index on it can be used; key paths are
///    `IN (SELECT …)` over the column of the first relationship, which has an index.
///
/// Belongs to the thread of the connection on which it is used.
struct PredicateSQL {
    /// With `?` as its parameters.
    let condition: String
    private let parameters: [Parameter]
    private let run: MatchRun

    enum Parameter {
        case value(PredicateValue)
        case test(ValueTest)
    }

    /// - Parameters:
    ///   - longColumns: by entity, if the work is charged row by row. A statement ends when the connection's budget is spent.
    ///   - isOver: called before each test that SQL itself does not have; if it returns true, the statement is interrupted.
    init(
        _ predicate: Predicate, entity: Int, plan: StagingPlan, alias: String,
        charging longColumns: [LongColumns]? = nil, isOver: @escaping () -> Bool = { false }
    ) {
        run = MatchRun(isOver: isOver)
        var writer = PredicateSQLWriter(
            naming: ColumnNaming(model: plan.model, layout: plan.layout), longColumns: longColumns,
            links: predicate.linkCount)
        let table = PredicateSQLWriter.Table(entity: entity, alias: alias)
        let work = writer.work(for: predicate, table)
        condition = work + writer.condition(predicate, isNegated: false, table)
        parameters = writer.parameters
    }

    /// Binds all constants, from the parameter `index` on, for one execution. Returns the next parameter's index.
    func bind(to statement: Statement, from index: Int) -> Int {
        run.begin()
        for (position, parameter) in parameters.enumerated() {
            switch parameter {
            case .value(.integer(let integer)): statement.bind(integer, at: index + position)
            case .value(.real(let real)): statement.bind(.real(real), at: index + position)
            case .value(.text(let bytes)): statement.bind(text: bytes, at: index + position)
            case .value(.blob(let bytes)): statement.bind(blob: bytes, at: index + position)
            case .test(let test): BoundTest(test, run).bind(to: statement, at: index + position)
            }
        }
        return index + parameters.count
    }

    /// Why the statement ended early: a text was too long for a pattern, or the budget is spent. To be read when
    /// running the statement threw; the caller adds the path.
    var fault: Fault? { run.fault }
}

/// Writes conditions, and collects the parameters in their order.
struct PredicateSQLWriter {
    struct Table {
        let entity: Int
        let alias: String
    }

    let naming: ColumnNaming
    var parameters: [PredicateSQL.Parameter] = []
    fileprivate var aliases = 0

    mutating func newAlias() -> String {
        aliases += 1
        return "_broker_path\(aliases)"
    }

    /// Nil when work is not counted.
    let longColumns: [LongColumns]?
    /// The number of links that all key paths of the predicate follow.
    let links: Int

    var model: Model { naming.model }

    /// Negation is pushed down to the comparisons: SQLite's parser has room for little nesting.
    mutating func condition(_ predicate: Predicate, isNegated: Bool, _ table: Table) -> String {
        switch predicate {
        case .always(let truth): return truth != isNegated ? "1" : "0"
        case .not(let inner): return condition(inner, isNegated: !isNegated, table)
        case .all(let parts): return joined(parts, by: isNegated ? " OR " : " AND ", isNegated, table)
        case .any(let parts): return joined(parts, by: isNegated ? " AND " : " OR ", isNegated, table)
        case .comparison(let comparison):
            let sql = condition(comparison, table)
            return isNegated ? "NOT \(sql)" : sql
        case .exists(let collection, let inner):
            let sql = condition(collection, inner, table)
            return isNegated ? "NOT \(sql)" : sql
        }
    }

    private mutating func joined(
        _ parts: [Predicate], by word: String, _ isNegated: Bool, _ table: Table
    ) -> String {
        let conditions = parts.map { condition($0, isNegated: isNegated, table) }
        return "(\(Self.joined(conditions[...], by: word)))"
    }

    /// A chain is an expression as high as the chain is long, and in a `SELECT` of its own it counts twice: SQLite
    /// allows 1,000 levels. Parentheses lower it, but take room on the parser's stack.
    private static let longestChain = 32

    private static func joined(_ conditions: ArraySlice<String>, by word: String) -> String {
        guard conditions.count > longestChain else { return conditions.joined(separator: word) }
        let middle = conditions.startIndex + conditions.count / 2
        return "(\(joined(conditions[..<middle], by: word)))\(word)(\(joined(conditions[middle...], by: word)))"
    }
}

// MARK: - Comparisons

extension PredicateSQLWriter {
    /// The result is in parentheses, or of a form that binds as strongly.
    private mutating func condition(_ comparison: PredicateComparison, _ table: Table) -> String {
        let operand = comparison.operand
        switch comparison.test {
        case .equalsOperand(let other):
            return "(\(scalar(operand, table)) IS \(scalar(other, table))\(collation(operand)))"
        case .isOrderedAgainst(let order, let other):
            let comparison = "\(scalar(operand, table)) \(order.rawValue) \(scalar(other, table))\(collation(operand))"
            return "coalesce(\(comparison), 0)"
        default: break
        }
        if case .count(let relationship) = operand.column {
            return condition(comparison.test, operand, countOf: relationship, table)
        }
        guard !operand.hops.isEmpty else { return condition(comparison.test, operand, on: column(operand, of: table)) }
        // A missing link counts as nil, so the condition searches for the opposite.
        if comparison.test == .isNil {
            return "(NOT \(throughLinks(operand, table) { _, column in "(\(column) IS NOT NULL)" }))"
        }
        return throughLinks(operand, table) { writer, column in writer.condition(comparison.test, operand, on: column) }
    }

    mutating func condition(_ test: PredicateTest, _ operand: PredicateOperand, on column: String) -> String {
        switch test {
        case .isNil: return "(\(column) IS NULL)"
        case .equals(let value): return "(\(column) IS \(parameter(.value(value)))\(collation(operand)))"
        case .isOrdered(let order, let value):
            let test = "\(column) \(order.rawValue) \(parameter(.value(value)))\(collation(operand))"
            return "(\(test) AND \(column) IS NOT NULL)"
        case .isOneOf(let values):
            guard operand.type != .decimal, let list = Self.list(values) else { return matches(test, operand, column) }
            let values = "SELECT value FROM json_each(\(parameter(.value(.text(list)))))"
            return "(\(column) IN (\(values)) AND \(column) IS NOT NULL)"
        case .text(let text):
            guard let range = text.prefixRange else { return matches(test, operand, column) }
            let least = parameter(.value(.text(range.least)))
            let end = parameter(.value(.text(range.end)))
            return "(\(column) >= \(least) AND \(column) < \(end) AND \(column) IS NOT NULL)"
        case .equalsOperand, .isOrderedAgainst: preconditionFailure("two values are compared elsewhere")
        }
    }

    private mutating func matches(_ test: PredicateTest, _ operand: PredicateOperand, _ column: String) -> String {
        guard let test = ValueTest(test, of: operand.type) else {
            preconditionFailure("a test of one value can be compiled")
        }
        return "\(PredicateFunctions.matches)(\(column), \(parameter(.test(test))))"
    }

    mutating func parameter(_ parameter: PredicateSQL.Parameter) -> String {
        parameters.append(parameter)
        return "?"
    }

    /// Decimals are text and compared by value; a collation on one side counts for both.
    private func collation(_ operand: PredicateOperand) -> String {
        operand.type == .decimal ? " COLLATE \(PredicateFunctions.decimalOrder)" : ""
    }

    /// A JSON array from which `json_each` returns equal values; nil when there is none. (`json_each` ends texts at a
    /// zero, and reads numbers with a fraction less exactly than they are written.)
    static func list(_ values: [PredicateValue]) -> [UInt8]? {
        var writer = JSONWriter()
        var isFaithful = true
        writer.array { writer in
            for value in values {
                switch value {
                case .integer(let integer): writer.integer(integer)
                case .text(let bytes):
                    isFaithful = isFaithful && !bytes.contains(0)
                    bytes.withUnsafeBufferPointer { writer.string($0) }
                case .real, .blob: isFaithful = false
                }
            }
        }
        return isFaithful ? writer.bytes : nil
    }
}

// MARK: - Work

extension PredicateSQLWriter {
    /// Opening a cursor iterates over all open cursors: so many of them for a unit.
    static let cursorsPerUnit = 8

    /// Charges a row of the predicate's own table, with the values that the predicate reads from it.
    func work(for predicate: Predicate, _ table: Table) -> String {
        guard let longColumns else { return "" }
        var (read, compared): ([String], [String]) = ([], [])
        var units = 1
        func readLink(_ hop: Int) { read += naming.linkColumns(model.entities[table.entity].relationships[hop]) }
        for leaf in predicate.leaves {
            if case .exists(let collection, _) = leaf {
                if let hop = collection.hops.first { readLink(hop) } else { read += keyNames(of: table) }
            }
            guard case .comparison(let comparison) = leaf else { continue }
            for operand in comparison.operands {
                if let hop = operand.hops.first {
                    readLink(hop)
                } else if case .count = operand.column {
                    read += keyNames(of: table)
                    units += Self.countUnits(links)
                } else {
                    read.append(name(of: operand, table))
                    if operand.type.mayBeLong { compared.append(read.last!) }
                }
            }
        }
        let distinct = Set(compared)
        let times = max(1, compared.count / max(1, distinct.count))
        let others = longColumns[table.entity].names(through: read).filter { !distinct.contains($0) }
        func work(_ units: Int, _ times: Int, _ names: [String]) -> String {
            PredicateFunctions.work(units, times: times, for: names.map { column($0, of: table) }) + " AND "
        }
        return work(units, times, distinct.sorted()) + (others.isEmpty ? "" : work(0, 1, others))
    }

    /// Charges a row at the end of links, with its value and those before it. Empty when work is not counted.
    func work(for operand: PredicateOperand, atEnd table: Table) -> String {
        guard let longColumns else { return "" }
        let value = name(of: operand, table)
        let others = longColumns[table.entity].names(through: [value]).filter { $0 != value }
        let units = 1 + operand.hops.count * links / Self.cursorsPerUnit
        return PredicateFunctions.work(units, for: ([value] + others).map { column($0, of: table) }) + " AND "
    }
}

// MARK: - Columns

extension PredicateSQLWriter {
    private func name(of operand: PredicateOperand, _ table: Table) -> String {
        let entity = model.entities[table.entity]
        return switch operand.column {
        case .attribute(let index): entity.attributes[index].column
        case .key(let relationship, let part): naming.linkColumns(entity.relationships[relationship])[part]
        case .rowKey: rowKeyName
        case .count: preconditionFailure("a count is not stored")
        }
    }

    private func column(_ operand: PredicateOperand, of table: Table) -> String {
        column(name(of: operand, table), of: table)
    }

    private func column(_ name: String, of table: Table) -> String { "\(quoted(table.alias)).\(quoted(name))" }

    /// The condition on a value of another object: the first link leads to one of the objects for which it is true.
    private mutating func throughLinks(
        _ operand: PredicateOperand, _ table: Table, _ condition: (inout Self, String) -> String
    ) -> String {
        let links = linkColumns(operand.hops[0], of: table)
        let chain = chain(operand.hops, from: table)
        let keys = keyColumns(of: chain.first).joined(separator: ", ")
        let value = column(operand, of: chain.last)
        let inner = work(for: operand, atEnd: chain.last) + condition(&self, value)
        let left = links.count == 1 ? links[0] : "(\(links.joined(separator: ", ")))"
        let isLinked = links.map { " AND \($0) IS NOT NULL" }.joined()
        return "(\(left) IN (SELECT \(keys) FROM \(chain.sql) WHERE \(inner))\(isLinked))"
    }

    /// The value itself, even at the end of links; NULL where a link is missing.
    private mutating func scalar(_ operand: PredicateOperand, _ table: Table) -> String {
        // Only of the object itself: the check refuses others.
        if case .count(let relationship) = operand.column { return count(relationship, of: table) }
        guard !operand.hops.isEmpty else { return column(operand, of: table) }
        let links = linkColumns(operand.hops[0], of: table)
        let chain = chain(operand.hops, from: table)
        let isLinked = zip(keyColumns(of: chain.first), links).map { "\($0) = \($1)" }.joined(separator: " AND ")
        let value = column(operand, of: chain.last)
        let work = work(for: operand, atEnd: chain.last)
        return "(SELECT \(value) FROM \(chain.sql) WHERE \(work)\(isLinked))"
    }

    /// The tables to which the relationships lead, joined from the first to the last.
    mutating func chain(_ hops: [Int], from table: Table) -> (sql: String, first: Table, last: Table) {
        var tables: [Table] = []
        var sql = ""
        for hop in hops {
            let before = tables.last ?? table
            let destination = model.entities[before.entity].relationships[hop].destination
            let next = Table(entity: destination, alias: newAlias())
            if !tables.isEmpty { sql += " JOIN " }
            sql += "\(quoted(model.table(of: destination))) AS \(quoted(next.alias))"
            if !tables.isEmpty {
                let pairs = zip(keyColumns(of: next), linkColumns(hop, of: before)).map { "\($0) = \($1)" }
                sql += " ON \(pairs.joined(separator: " AND "))"
            }
            tables.append(next)
        }
        return (sql, tables[0], tables[tables.count - 1])
    }

    func linkColumns(_ relationship: Int, of table: Table) -> [String] {
        naming.linkColumns(model.entities[table.entity].relationships[relationship])
            .map { "\(quoted(table.alias)).\(quoted($0))" }
    }

    func keyColumns(of table: Table) -> [String] {
        keyNames(of: table).map { "\(quoted(table.alias)).\(quoted($0))" }
    }

    private func keyNames(of table: Table) -> [String] { naming.keyColumns(table.entity).map(\.name) }
}

extension PredicateTextTest {
    /// The range of a plain BEGINSWITH, from `least` to before `end`: no byte of UTF-8 is 255, so there is always an end.
    fileprivate var prefixRange: (least: [UInt8], end: [UInt8])? {
        guard relation == .beginsWith, !ignoresCase, !ignoresDiacritics, let prefix = texts.first,
            let last = prefix.last
        else { return nil }
        return (prefix, prefix.dropLast() + [last + 1])
    }
}

extension AttributeType {
    /// Values may have many bytes, which SQLite reads in one instruction.
    fileprivate var mayBeLong: Bool {
        switch self {
        case .string, .uri, .decimal, .binary, .transformable: true
        default: false
        }
    }
}

/// Conditions on the objects of a to-many relationship.
///
/// The search begins at those objects, and its result is the set of keys that lead to one of them. SQLite makes the set
/// once for a statement, so its time is linear in the links, and an index on a compared column is used. A subquery for
/// each object would examine the same links again for all objects that share a link before the relationship.
extension PredicateSQLWriter {
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
        case .isOrdered(let order, let value): return "(\(count) \(order.rawValue) \(parameter(.value(value))))"
        case .isOneOf(let values):
            guard let list = Self.list(values) else { preconditionFailure("counts are compared with integers") }
            return "(\(count) IN (SELECT value FROM json_each(\(parameter(.value(.text(list)))))))"
        case .text, .equalsOperand, .isOrderedAgainst: preconditionFailure("a count is compared with a number")
        }
    }

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
    fileprivate var isMetByNone: Bool {
        switch self {
        case .equals(.integer(let value)): value == 0
        case .isOneOf(let values): values.contains(.integer(0))
        case .isOrdered(let order, .integer(let value)): order.holds(-Int(value.signum()))
        default: false
        }
    }
}
