import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

/// Syncs in parts that are not complete are bounded in number, and forgetting them costs other clients little.
@Suite(.timeLimit(.minutes(5))) struct OpenSyncTests {
    private static let model = Models.of(["Employee": "id integer64"])
    private static let retention = 1_000

    private func store() throws -> TestStore {
        try TestStore(Self.model) { $0.retention.seconds = Self.retention }
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

/// The keys that the store gives to objects without an identity of theirs: they rise, whatever is deleted.
@Suite(.timeLimit(.minutes(5))) struct RowKeyTests {
    private static let model = """
        {"entities": {
          "Note": {"attributes": {"text": "string"}, "relationships": {"book": {"entity": "Book", "inverse": "notes"}}},
          "Card": {"identity": "code", "identityOptional": true, "attributes": {"code": "string"}},
          "Book": {"identity": "id", "attributes": {"id": "integer64", "isbn": {"type": "string", "unique": true}},
            "relationships": {"notes": {"entity": "Note", "toMany": true, "inverse": "book", "deleteRule": "cascade"}}}}}
        """

    enum Between: CaseIterable {
        case aStart, anUndoneTransaction, nothing

        func happen(to store: TestStore) throws {
            switch self {
            case .aStart: try store.reopen()
            case .anUndoneTransaction:
                try store.store.begin()
                store.store.rollback()
            case .nothing: break
            }
        }
    }

    private let store: TestStore

    init() throws { store = try TestStore(Self.model) }

    private func delete(_ entity: String, _ keys: String) throws {
        try store.run(#"{"op": "delete", "entity": "\#(entity)", "objects": \#(keys)}"#)
    }

    private func sync(_ entity: String, _ json: String, isLast: Bool) throws {
        try store.run(
            #"{"op": "sync", "entity": "\#(entity)", "json": \#(json), "part": {"id": "s", "last": \#(isLast)}}"#)
    }

    @Test(arguments: Between.allCases)
    func `the number of the object deleted last is not assigned to another object`(between: Between) throws {
        try store.apply(#"{"Note": [{"text": "a"}, {"text": "b"}], "Card": [{"code": "x"}]}"#)
        try delete("Note", "[2]")
        try delete("Card", "[1]")
        try between.happen(to: store)
        try store.apply(#"{"Note": [{"text": "c"}], "Card": [{"code": "y"}]}"#)
        #expect(try store.rows("SELECT text FROM Note WHERE _pk = 1 OR _pk > 2 ORDER BY _pk") == ["a", "c"])
        #expect(try store.rows("SELECT code FROM Card WHERE _pk > 1") == ["y"])
    }

    @Test func `an undone transaction, and merging again without skipped records, leave no gap in the keys`() throws {
        try store.store.begin()
        _ = try store.store.apply(store.job(#"{"Note": [{"text": "a"}, {"text": "b"}]}"#))
        store.store.rollback()
        try store.apply(#"{"Note": [{"text": "c"}]}"#)
        let books = #"{"Note": [{"text": "d"}], "Book": [{"id": 1, "isbn": "x"}, {"id": 2, "isbn": "x"}]}"#
        #expect(try store.outcome(books, .skip).rejections.count == 1)
        #expect(try store.rows("SELECT _pk, text FROM Note ORDER BY _pk") == ["1|c", "2|d"])
    }

    @Test func `an entity that is renamed gives no key again that it gave under its name before`() throws {
        try store.apply(#"{"Note": [{"text": "a"}, {"text": "b"}]}"#)
        try delete("Note", "[2]")
        let renamed = Self.model.replacing(#""Note": {"#, with: #""Memo": {"renamedFrom": "Note", "#)
            .replacing(#""entity": "Note""#, with: #""entity": "Memo""#)
        try store.reopen(renamed)
        try store.apply(#"{"Memo": [{"text": "c"}]}"#)
        #expect(try store.rows("SELECT text FROM Memo WHERE _pk > 2") == ["c"])
    }

    @Test func `a store that has the mark of an earlier version gives no key again`() throws {
        try store.apply(#"{"Note": [{"text": "a"}, {"text": "b"}]}"#)
        try delete("Note", "[2]")
        try store.execute(
            "DELETE FROM _broker_meta WHERE key LIKE 'rowKeys %'; "
                + "INSERT INTO _broker_meta (key, value) VALUES ('rowKeys', '7')")
        try store.reopen()
        try store.apply(#"{"Note": [{"text": "c"}], "Card": [{"code": "x"}]}"#)
        #expect(try store.rows("SELECT _pk FROM Note UNION ALL SELECT _pk FROM Card") == ["1", "8", "8"])
    }

    @Test(arguments: Between.allCases)
    func `the number of an object deleted by a cascade is not assigned to another object`(between: Between) throws {
        try store.apply(#"{"Book": [{"id": 1, "notes": [{"text": "a"}, {"text": "b"}]}]}"#)
        try delete("Book", "[1]")
        try between.happen(to: store)
        try store.apply(#"{"Note": [{"text": "c"}]}"#)
        #expect(try store.rows("SELECT text FROM Note WHERE _pk > 2") == ["c"])
    }

    @Test(arguments: Between.allCases)
    func `a sync in parts deletes objects inserted after its parts, though these named objects deleted since`(
        between: Between
    ) throws {
        try sync("Note", #"[{"text": "a"}]"#, isLast: false)
        try delete("Note", "[1]")
        try between.happen(to: store)
        try store.apply(#"{"Note": [{"text": "b"}]}"#)
        try sync("Note", "[]", isLast: true)
        #expect(try store.rows("SELECT text FROM Note").isEmpty)
    }
}
