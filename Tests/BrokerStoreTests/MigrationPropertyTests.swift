@testable import BrokerSchema
import Foundation
import Testing
import TestSupport

@testable import BrokerStore

/// A store that is migrated to a changed model is the store that the changed model would have made of the same records.
@Suite(.timeLimit(.minutes(5))) struct MigrationPropertyTests {
    @Test func `a migrated store is like one that was made by the changed model`() throws {
        var generator = SeededGenerator()
        for _ in 0..<Cases.count(40, of: 120) { try Self.check(&generator) }
    }

    private static func check(_ generator: inout SeededGenerator) throws {
        let seed = generator.next()
        var random = SeededGenerator(seed: seed)
        let before = ChangingModel(using: &random)
        var after = before
        for _ in 0..<Int.random(in: 1...8, using: &random) { after.change(using: &random) }
        let records = ChangingRecords(of: before, using: &random)

        let migrated = try TestStore(before.json(since: nil))
        #expect(try migrated.fault(records.json(in: before)) == nil, "seed \(seed), \(before.json(since: nil))")
        let description = "seed \(seed)\n\(before.json(since: nil))\n\(after.json(since: before))"
        do {
            try migrated.reopen(after.json(since: before))
        } catch {
            Issue.record("\(error)\n\(description)")
            return
        }
        let fresh = try TestStore(after.json(since: nil))
        #expect(try fresh.fault(records.json(in: after)) == nil, "\(description)\n\(records.json(in: after))")

        #expect(try schema(of: migrated) == schema(of: fresh), "\(description)")
        #expect(try checks(of: migrated) == checks(of: fresh), "\(description)")
        try compareRows(migrated, fresh, description)
        #expect(try migrated.isSound())
        // And again: nothing is left to do.
        try migrated.reopen()
        #expect(
            migrated.store.migration.changes.isEmpty, "\(migrated.store.migration.changes.map(\.text)) \(description)")
        // The next job has the same effect in both. Without an identity every record would make a new object.
        guard !records.hasRowKeys(in: after) else { return }
        let again = try (migrated.changes(records.json(in: after)), fresh.changes(records.json(in: after)))
        #expect(again.0 == again.1, "\(description)")
        try compareRows(migrated, fresh, description)
    }

    private static func compareRows(_ migrated: TestStore, _ fresh: TestStore, _ description: String) throws {
        for table in Schema(migrated.plan.model).tables {
            let columns = quotedList(table.columns.map(\.name))
            let sql = "SELECT \(columns) FROM \(quoted(table.name)) ORDER BY \(columns)"
            #expect(try migrated.rows(sql) == fresh.rows(sql), "\(table.name), \(description)")
        }
    }

    /// The requirements of rows of some entities: each a line of its table.
    private static func checks(of store: TestStore) throws -> [String] {
        try store.rows("SELECT sql || char(10) || name FROM sqlite_schema WHERE type = 'table' ORDER BY name").flatMap {
            sql in
            let lines = sql.split(separator: "\n").map { $0.trimmingCharacters(in: [" ", ","]) }
            return lines.filter { $0.hasPrefix("CHECK") }.sorted() + lines.suffix(1)
        }
    }

    /// Tables, columns, constraints, indexes and views, whatever the order and the text in which they were made. A
    /// column keeps its declared type when only the meaning of its values changes.
    private static func schema(of store: TestStore) throws -> [String] {
        try store.rows(
            """
            SELECT 'column', t.name, c.name, substr(c.type, instr(c.type, '_') + 1), c."notnull", c.dflt_value, c.pk
            FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%'
            UNION ALL
            SELECT 'index', t.name, iif(i.origin = 'c', i.name, i.origin), i."unique",
                (SELECT group_concat(x.name, '|') FROM pragma_index_info(i.name) x), 0, 0
            FROM sqlite_schema t, pragma_index_list(t.name) i WHERE t.type = 'table'
            UNION ALL
            SELECT type, name, sql, 0, 0, 0, 0 FROM sqlite_schema
            WHERE type = 'view' OR sql LIKE 'CREATE UNIQUE INDEX%'
            UNION ALL
            SELECT 'key', t.name, f."from", f."table", f."to", f.on_delete, f.on_update
            FROM sqlite_schema t, pragma_foreign_key_list(t.name) f WHERE t.type = 'table'
            ORDER BY 1, 2, 3, 4, 5, 6, 7
            """)
    }
}
