import BrokerModel
import BrokerStaging
import Testing

@testable import BrokerStore

/// Syncs in parts that are not complete are bounded in number, and forgetting them costs other clients little.
@Suite(.timeLimit(.minutes(5))) struct OpenSyncTests {
    private static let model = """
        {"entities": {"Employee": {"identity": "id", "attributes": {"id": "integer64"}}}}
        """
    private static let retention = 1_000

    private func store() throws -> TestStore {
        var options = StoreOptions()
        options.retention.seconds = Self.retention
        return try TestStore(Self.model, options: options)
    }

    /// Begins a part.
    ///
    /// - Parameter seconds: the time of its job.
    /// - Returns: `code path` of its fault; nil when there is none.
    private func begin(
        _ test: TestStore, _ id: String, at seconds: Int = 0, definition: [UInt8] = []
    ) throws -> String? {
        try test.store.begin()
        do {
            _ = try test.store.syncParts.begin(
                SyncPart(id: id, isLast: false, definition: definition), at: "/operations/0",
                now: Int64(seconds) * 1_000)
            try test.store.commit()
            return nil
        } catch {
            test.store.rollback()
            guard case .fault(let fault) = error as? MergeFailure else { throw error }
            return "\(fault.code.rawValue) \(fault.path ?? "")"
        }
    }

    @Test func `one sync more than the limit is refused, and one that is open goes on`() throws {
        let test = try store()
        #expect(test.store.syncParts.maximum == 10_000)
        test.store.syncParts.maximum = 3
        for id in ["a", "b", "c"] { #expect(try begin(test, id) == nil) }
        #expect(try begin(test, "d") == "busy /operations/0/part")
        #expect(try begin(test, "b") == nil)
        try test.reopen()
        test.store.syncParts.maximum = 3
        #expect(try begin(test, "d") == "busy /operations/0/part")
        try test.store.begin()
        try OpenSyncPart(parts: test.store.syncParts, number: 1, isLast: true, now: 0).end()
        try test.store.commit()
        #expect(try begin(test, "d") == nil)
    }

    @Test func `old syncs do not count, and one part deletes few of their keys`() throws {
        let test = try store()
        test.store.syncParts.maximum = 2
        for id in ["a", "b"] { #expect(try begin(test, id) == nil) }
        let keys = SyncParts.keysDeletedAtOnce * 5 / 2
        try test.execute(
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(keys))
            INSERT INTO _broker_open_sync_keys SELECT s.number, CAST(i AS BLOB) FROM n, _broker_open_syncs s
            """)
        func left() throws -> [String] {
            try test.rows("SELECT sync, count(*) FROM _broker_open_sync_keys GROUP BY sync")
        }
        #expect(try begin(test, "c", at: Self.retention) == "busy /operations/0/part", "none is old yet")
        #expect(try begin(test, "c", at: Self.retention + 1) == nil)
        #expect(try left() == ["1|\(keys - SyncParts.keysDeletedAtOnce)", "2|\(keys)"])
        // A new sync with the same id does not know the objects that the earlier one named.
        #expect(try begin(test, "b", at: Self.retention + 1, definition: [1]) == nil)
        #expect(try left() == ["1|\(keys - 2 * SyncParts.keysDeletedAtOnce)"])
        #expect(try begin(test, "c", at: Self.retention + 1) == nil)
        #expect(try left() == [])
        #expect(try test.rows("SELECT id FROM _broker_open_syncs ORDER BY id") == ["b", "c"])
    }

    @Test func `a part finds old syncs by an index`() throws {
        let test = try store()
        #expect(try begin(test, "a") == nil)
        for sql in ["SELECT number", "SELECT count(*)"] {
            let plan = try test.rows("EXPLAIN QUERY PLAN \(sql) FROM _broker_open_syncs WHERE changed < 5")
            #expect(plan.contains { $0.contains("SEARCH _broker_open_syncs USING") }, "\(plan)")
        }
    }
}
