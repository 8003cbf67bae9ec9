import BrokerSchema
import BrokerJSON
import BrokerModel
import BrokerStaging

@testable import BrokerStore

extension TestStore {
    func predicate(_ text: String, _ arguments: String? = nil, of entity: String) throws -> Predicate {
        let index = plan.model.index(ofEntity: entity)!
        guard let arguments else { return try plan.model.predicate(text, arguments: nil, ofEntity: index) }
        let document = try JSONDocument(parsing: JSONText(copying: Array(arguments.utf8)))
        return try withExtendedLifetime(document) {
            try plan.model.predicate(text, arguments: document.root, ofEntity: index)
        }
    }

    func sql(_ text: String, _ arguments: String? = nil, of entity: String) throws -> PredicateSQL {
        PredicateSQL(
            try predicate(text, arguments, of: entity), entity: plan.model.index(ofEntity: entity)!, plan: plan,
            alias: "object")
    }

    /// The `id` of the rows that match, in their order.
    func matching(_ text: String, _ arguments: String? = nil, of entity: String = "Employee") throws -> [Int64] {
        try matching(try sql(text, arguments, of: entity), of: entity)
    }

    func matching(_ sql: PredicateSQL, of entity: String) throws -> [Int64] {
        let connection = try Connection(store: path, .read)
        let table = plan.model.entities[plan.model.index(ofEntity: entity)!].table
        let statement = try connection.prepare(
            "SELECT id FROM \(quoted(table)) AS object WHERE \(sql.condition) ORDER BY id")
        _ = sql.bind(to: statement, from: 1)
        var matching: [Int64] = []
        while try statement.step() { matching.append(statement.integer(0)) }
        return matching
    }

    /// How SQLite would find the rows.
    func queryPlan(_ text: String, _ arguments: String? = nil, of entity: String = "Employee") throws -> String {
        let sql = try sql(text, arguments, of: entity)
        let connection = try Connection(store: path, .read)
        let table = plan.model.entities[plan.model.index(ofEntity: entity)!].table
        let statement = try connection.prepare(
            "EXPLAIN QUERY PLAN SELECT id FROM \(quoted(table)) AS object WHERE \(sql.condition)")
        _ = sql.bind(to: statement, from: 1)
        var lines: [String] = []
        while try statement.step() { lines.append(statement.text(3)) }
        return lines.joined(separator: "\n")
    }
}
