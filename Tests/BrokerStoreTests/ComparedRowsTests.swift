import CSQLite
import TestSupport
import Testing

@testable import BrokerStore

/// Where most rows were equal the last time, the rows of jobs that are merged together are compared before any is
/// written.
@Suite(.mergesSets, .timeLimit(.minutes(5))) struct ComparedRowsTests {
    private static let types = [
        "integer64", "string", "uuid", "double", "decimal", "date", "binary", "boolean",
    ]

    private static func value(_ type: String, _ number: Int) -> String {
        switch type {
        case "integer64", "double", "decimal": "\(number)"
        case "boolean": number == 0 ? "false" : "true"
        case "date": "\"2020-01-0\(number + 1)T00:00:00Z\""
        case "uuid": "\"00000000-0000-4000-8000-00000000000\(number)\""
        case "binary": "\"AAA\("ABC".map(String.init)[number])\""
        default: "\"\(number)\""
        }
    }

    private static func job(_ type: String, _ values: [Int]) -> String {
        let records = values.enumerated().map { number, value in
            #"{"key": \#(self.value(type, number)), "part": 1, "value": \#(value)}"#
        }
        return "{\"Thing\": [\(records.joined(separator: ","))]}"
    }

    /// The effect of a job that is merged as jobs together are: `Thing +1 ~2 =3 !0`.
    private static func changes(_ test: TestStore, _ payload: String) throws -> [String] {
        guard case .completed(let outcome)? = try test.applyBatch([test.job(payload)])?.first else { return [] }
        return outcome.described
    }

    /// The plans of the statements that compare rows and were compiled.
    private static func plans(_ test: TestStore) throws -> [[String]] {
        var plans: [[String]] = []
        var statement = sqlite3_next_stmt(test.store.connection.handle, nil)
        while let found = statement {
            let sql = String(cString: sqlite3_sql(found))
            if sql.hasPrefix("SELECT 1 FROM"), sql.contains("LEFT JOIN") {
                plans.append(try test.ownRows("EXPLAIN QUERY PLAN \(sql)"))
            }
            statement = sqlite3_next_stmt(test.store.connection.handle, found)
        }
        return plans
    }

    @Test(arguments: types, ["\"key\"", #"["key", "part"]"#, #"["part", "key"]"#])
    func `the stored rows are found by their identity, of whatever type it is`(type: String, identity: String) throws {
        let test = try TestStore(
            """
            {"entities": {"Thing": {"identity": \(identity),
                "attributes": {"key": "\(type)", "part": "integer64", "value": "integer64"}}}}
            """)
        let values = type == "boolean" ? [7, 8] : [7, 8, 9]
        let (count, changed) = (values.count, [values[0], 0] + values.dropFirst(2))
        #expect(try Self.changes(test, Self.job(type, values)) == ["Thing +\(count) ~0 =0 !0"])
        #expect(try Self.changes(test, Self.job(type, values)) == ["Thing +0 ~0 =\(count) !0"])
        #expect(try Self.plans(test).isEmpty, "most rows were new the last time but one")
        #expect(try Self.changes(test, Self.job(type, values)) == ["Thing +0 ~0 =\(count) !0"])
        let plans = try Self.plans(test)
        #expect(plans.count == 1)
        #expect(plans.allSatisfy { $0.count == 2 && $0[0].contains("SCAN staged") }, "\(plans)")
        #expect(plans.allSatisfy { $0[1].contains("SEARCH _broker_old") && !$0[1].contains("AUTOMATIC") }, "\(plans)")
        #expect(try Self.changes(test, Self.job(type, changed)) == ["Thing +0 ~1 =\(count - 1) !0"])
        #expect(try test.rows("SELECT sum(value) FROM Thing") == ["\(changed.reduce(0, +))"])
    }

    @Test func `a new object among equal ones is inserted`() throws {
        let test = try TestStore(
            #"{"entities": {"Thing": {"identity": "id", "attributes": {"id": "integer64", "value": "integer64"}}}}"#)
        let equal = (0..<9).map { #"{"id": \#($0), "value": null}"# }.joined(separator: ",")
        for _ in 0..<3 { _ = try Self.changes(test, "{\"Thing\": [\(equal)]}") }
        let more = #"{"id": 10, "value": null}"#
        #expect(try Self.changes(test, "{\"Thing\": [\(equal), \(more)]}") == ["Thing +1 ~0 =9 !0"])
        #expect(try test.rows("SELECT count(*) FROM Thing") == ["10"])
    }

    @Test func `the work of a job that is merged alone does not depend on the jobs before it`() throws {
        let test = try TestStore(
            #"{"entities": {"Thing": {"identity": "id", "attributes": {"id": "integer64", "value": "integer64"}}}}"#)
        let payload = "{\"Thing\": [\((0..<9).map { #"{"id": \#($0), "value": null}"# }.joined(separator: ","))]}"
        var work: [Int] = []
        for _ in 0..<4 {
            for _ in 0..<3 { _ = try Self.changes(test, payload) }
            try test.apply(payload)
            work.append(test.store.connection.work.newest)
            try test.reopen()
            try test.apply(payload)
            work.append(test.store.connection.work.newest)
        }
        #expect(work[0] > 0 && Set(work).count == 1, "\(work)")
    }
}
