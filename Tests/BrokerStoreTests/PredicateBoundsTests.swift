import BrokerModel
import TestSupport
import Testing

@testable import BrokerStore

/// The possible cost of a hostile predicate.
@Suite(.timeLimit(.minutes(5))) struct PredicateBoundsTests {
    private static let model = """
        {"entities": {"Employee": {"identity": "id",
            "attributes": {"id": "integer64", "name": "string", "salary": "decimal"},
            "relationships": {"boss": {"entity": "Employee"}}}}}
        """

    private func store() throws -> TestStore {
        let test = try TestStore(Self.model)
        try test.apply(#"{"Employee": [{"id": 1, "name": "a"}, {"id": 2, "name": "b", "boss": 1}, {"id": 3}]}"#)
        return test
    }

    private func fault(_ test: TestStore, _ text: String, _ arguments: String? = nil) -> String {
        do {
            _ = try test.matching(text, arguments)
            return "no fault"
        } catch let fault as Fault {
            return "\(fault.code.rawValue): \(fault.message)"
        } catch {
            return "\(error)"
        }
    }

    @Test func `Everything that the check lets pass, SQLite can run`() throws {
        let test = try store()
        var nested = "id == 1"
        for level in 0..<8 {
            nested = level % 2 == 0 ? "id == 1 AND NOT (\(nested))" : "boss.name == \"x\" OR NOT (\(nested))"
        }
        _ = try test.matching(nested)
        let path = String(repeating: "boss.", count: 8)
        _ = try test.matching("\(path)name == \"x\" OR NOT (\(path)salary IN {1, 2}) OR \(path)name LIKE \"*\"")
        let wide = (0..<62).map { "\(path)name == \"\($0)\"" } + (0..<438).map { "name == \"\($0)\"" }
        #expect(try test.matching(wide.joined(separator: " OR ")) == [])
        #expect(
            fault(test, (0..<63).map { "\(path)name == \"\($0)\"" }.joined(separator: " OR "))
                .contains("more than 500 links"))
        #expect(try test.matching((0..<500).map { "id != \($0 + 2)" }.joined(separator: " AND ")) == [1])
        #expect(
            fault(test, (0..<251).map { "id BETWEEN {1, \($0)}" }.joined(separator: " AND ")).contains("more than 500"))
        // As deep as can be, and wide at one level or at all.
        for (wide, narrow) in [(492, 1), (62, 62), (33, 33)] {
            var both = "\(path)salary IN {1, 2}"
            for level in 0..<8 {
                let word = level % 2 == 0 ? " AND " : " OR "
                let more = (0..<(level < 1 ? wide : narrow)).map { "id == \($0 + 7)" }.joined(separator: word)
                both = "\(more)\(word)(\(both))"
            }
            _ = try test.matching(both)
            let sql = try test.sql("NOT (\(both))", of: "Employee")
            // There is room for a statement around it.
            let table = "SELECT id FROM Employee AS object WHERE"
            let statement = "DELETE FROM Employee WHERE id IN (\(table) id IN (\(table) (NOT (\(sql.condition)))))"
            _ = try Connection(store: test.path).prepare(statement)
            let counted = PredicateSQL(
                try test.predicate("NOT (\(both))", of: "Employee"), entity: 0, plan: test.plan, alias: "o",
                charging: test.store.merger.historyTables.longColumns)
            _ = try Connection(store: test.path).prepare("DELETE FROM Employee AS o WHERE (\(counted.condition)) AND 1")
        }
    }

    @Test func `Deep nesting is reported, or removed where it has no meaning`() throws {
        let test = try store()
        func nested(_ depth: Int, _ open: String, _ close: String) -> String {
            String(repeating: open, count: depth) + "id == 1" + String(repeating: close, count: depth)
        }
        #expect(try test.matching(nested(200, "(", ")")) == [1])
        #expect(try test.matching(nested(10_000, "NOT ", "")) == [1])
        #expect(try test.matching(nested(10_001, "!", "")) == [2, 3])
        #expect(fault(test, nested(10_000, "(", ")")).contains("nested more than 200 deep"))
        #expect(fault(test, nested(10_000, "NOT (", ")")).contains("nested more than 200 deep"))
        let alternating = (0..<50).reduce("id == 1") { inner, level in
            level % 2 == 0 ? "(\(inner)) AND id == 1" : "(\(inner)) OR id == 1"
        }
        #expect(fault(test, alternating).contains("AND and OR nested more than 8 deep"))
    }

    @Test func `A predicate of a megabyte is answered or refused`() throws {
        let test = try store()
        let list = (0..<130_000).map { "\($0 + 3)" }.joined(separator: ",")
        #expect(try test.matching("id IN {\(list)}") == [3])
        #expect(try test.matching("salary IN {\(list)} OR id IN {1}") == [1])
        let name = String(repeating: "x", count: 1 << 20)
        #expect(fault(test, name + "y").contains("allowed"))
        #expect(fault(test, "\(name.dropLast(100)) == 1").contains("has no attribute or relationship \"xxx"))
        #expect(try test.matching("name CONTAINS \"\(name.dropLast(100))\"") == [])
        let many = (0..<60_000).map { "id == \($0)" }.joined(separator: " OR ")
        #expect(fault(test, many).contains("at most 500 comparisons"))
    }

    @Test func `A hundred thousand arguments are answered or refused`() throws {
        let test = try store()
        let values = (0..<100_000).map { "\"\($0)\"" }.joined(separator: ",")
        let places = (0..<100_000).map { _ in "%@" }.joined(separator: ",")
        #expect(try test.matching("id IN {\(places)}", "[\(values)]") == [1, 2, 3])
        #expect(try test.matching("NOT (name IN %@)", "[[\(values)]]") == [1, 2, 3])
        #expect(fault(test, "id == %@", "[\(values)]").contains("and 100000 came"))
        let more = (0..<260_000).map { "\($0)" }.joined(separator: ",")
        #expect(fault(test, "id IN %@", "[[\(more)]]").contains("at most 250000 values"))
    }

    @Test func `A text that is too long for a pattern ends the statement with the reason`() throws {
        let test = try store()
        let text = String(repeating: "a", count: 300_000)
        try test.apply("{\"Employee\": [{\"id\": 4, \"name\": \"\(text)\"}]}")
        for pattern in ["MATCHES \"(a|b)*a(a|b){900}c\"", "MATCHES[c] \"(a|b)*a(a|b){900}c\""] {
            let sql = try test.sql("NOT (name \(pattern))", of: "Employee")
            #expect(throws: StoreError.self) { try test.matching(sql, of: "Employee") }
            #expect(sql.fault?.code == .invalidPredicate)
            #expect(sql.fault?.message.contains("too long for the pattern") == true)
        }
        #expect(try test.matching("name MATCHES \"(a+)+b\"") == [])
        let stars = String(repeating: "*a", count: 500)
        #expect(try test.matching("name LIKE \"\(stars)b\"") == [])
    }

    @Test func `Folding and searching take linear time`() throws {
        let test = try store()
        let marks = String(repeating: "\u{301}", count: 1_000_000)
        try test.apply("{\"Employee\": [{\"id\": 4, \"name\": \"e\(marks)\"}]}")
        #expect(try test.matching("name ==[d] \"e\"") == [4])
        let some = String(repeating: "\u{301}", count: 100_000)
        #expect(try test.matching("name CONTAINS \"\(some)e\"") == [])
    }
}
