import CSQLite
import TestSupport
import Testing

@testable import BrokerStore

/// Rows of which most were equal the last time are compared before any is written.
@Suite(.timeLimit(.minutes(5))) struct ComparedRowsTests {
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
        #expect(try test.changes(Self.job(type, values)) == ["Thing +\(count) ~0 =0 !0"])
        #expect(try test.changes(Self.job(type, values)) == ["Thing +0 ~0 =\(count) !0"])
        #expect(try Self.plans(test).isEmpty, "most rows were new the last time but one")
        #expect(try test.changes(Self.job(type, values)) == ["Thing +0 ~0 =\(count) !0"])
        let plans = try Self.plans(test)
        #expect(plans.count == 1)
        #expect(plans.allSatisfy { $0.count == 2 && $0[0].contains("SCAN staged") }, "\(plans)")
        #expect(plans.allSatisfy { $0[1].contains("SEARCH _broker_old") && !$0[1].contains("AUTOMATIC") }, "\(plans)")
        #expect(try test.changes(Self.job(type, changed)) == ["Thing +0 ~1 =\(count - 1) !0"])
        #expect(try test.rows("SELECT sum(value) FROM Thing") == ["\(changed.reduce(0, +))"])
    }

    @Test func `a new object among equal ones is inserted`() throws {
        let test = try TestStore(
            #"{"entities": {"Thing": {"identity": "id", "attributes": {"id": "integer64", "value": "integer64"}}}}"#)
        let equal = (0..<9).map { #"{"id": \#($0), "value": null}"# }.joined(separator: ",")
        for _ in 0..<3 { try test.apply("{\"Thing\": [\(equal)]}") }
        #expect(try test.changes("{\"Thing\": [\(equal), {\"id\": 10, \"value\": null}]}") == ["Thing +1 ~0 =9 !0"])
        #expect(try test.rows("SELECT count(*) FROM Thing") == ["10"])
    }

    @Test func `an object becomes one of a subentity by a record with equal values, also among equal ones`() throws {
        let test = try TestStore(
            """
            {"entities": {"Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}},
                "Employee": {"parent": "Person", "attributes": {"grade": "integer64"}}}}
            """)
        let equal = (0..<5).map { #"{"id": \#($0), "name": "n"}"# }.joined(separator: ",")
        for _ in 0..<3 { try test.apply("{\"Employee\": [\(equal)]}") }
        try test.apply(#"{"Person": [{"id": 9, "name": "n"}]}"#)
        #expect(
            try test.changes("{\"Employee\": [\(equal), {\"id\": 9, \"name\": \"n\"}]}") == ["Employee +0 ~1 =5 !0"])
        #expect(try test.rows("SELECT _entity FROM Person WHERE id = 9") == ["Employee"])
    }
}
