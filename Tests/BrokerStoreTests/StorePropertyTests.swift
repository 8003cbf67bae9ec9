import BrokerModel
import Testing
import TestSupport

@testable import BrokerStore

/// Random jobs, one after the other: what must hold after each of them.
@Suite(.timeLimit(.minutes(5))) struct StorePropertyTests {
    private static let tables = ["Employee", "Department", "Project", "Desk", "Skill"]

    /// Links that are not true on both sides.
    private static let untrue = [
        "SELECT e.id FROM Employee AS e JOIN Desk AS d ON d.id = e.desk WHERE d.owner IS NOT e.id",
        "SELECT d.id FROM Desk AS d JOIN Employee AS e ON e.id = d.owner WHERE e.desk IS NOT d.id",
        "SELECT a.id FROM Employee AS a JOIN Employee AS b ON b.id = a.spouse WHERE b.spouse IS NOT a.id",
        "SELECT source FROM Employee_friends EXCEPT SELECT destination FROM Employee_friends",
    ]

    @Test func `links hold and are true on both sides, and a job sent again changes nothing`() throws {
        var payload = CompanyPayload(generator: SeededGenerator(for: "jobs in a store"))
        let store = try TestStore(company)
        for _ in 0..<150 {
            let job = payload.collections(count: 3)
            try store.apply(job, .skip)
            #expect(try store.isSound(), "\(job)")
            for sql in Self.untrue { #expect(try store.rows(sql) == [], "\(sql) after \(job)") }
            let again = try store.outcome(job, .skip)
            for (entity, counts) in again.changes {
                #expect(counts.inserted == 0 && counts.updated == 0, "\(entity) after \(job)")
            }
        }
    }

    @Test func `a job counts exactly the rows that are new and those that differ`() throws {
        var payload = CompanyPayload(generator: SeededGenerator(for: "counted jobs"), hasLinkTables: false)
        let store = try TestStore(company)
        for _ in 0..<150 {
            let job = payload.collections(count: 3)
            let before = try snapshot(store)
            let outcome = try store.outcome(job, .skip)
            let after = try snapshot(store)
            for table in Self.tables {
                let counts = outcome.changes.first { $0.entity == table }?.counts ?? ChangeCounts()
                let known = Set(before[table]!.keys)
                let different = after[table]!.filter { known.contains($0.key) && before[table]![$0.key] != $0.value }
                #expect(counts.inserted == Set(after[table]!.keys).subtracting(known).count, "\(table) after \(job)")
                #expect(counts.updated == different.count, "\(table) after \(job)")
            }
        }
    }

    /// By table, its rows by key.
    private func snapshot(_ store: TestStore) throws -> [String: [String: String]] {
        var tables: [String: [String: String]] = [:]
        for table in Self.tables {
            let rows = try store.rows("SELECT * FROM \(table)")
            tables[table] = Dictionary(uniqueKeysWithValues: rows.map { (String($0.prefix { $0 != "|" }), $0) })
        }
        return tables
    }
}
