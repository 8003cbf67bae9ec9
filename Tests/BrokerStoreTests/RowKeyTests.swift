import BrokerJSON
import BrokerModel
import BrokerStaging
import Testing

@testable import BrokerStore

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
        let index = try #require(store.plan.model.index(ofEntity: entity))
        try run(.delete(entity: index), .name, index, keys)
    }

    private func sync(_ entity: String, _ json: String, isLast: Bool) throws {
        let index = try #require(store.plan.model.index(ofEntity: entity))
        let part = SyncPart(id: "s", isLast: isLast, definition: [])
        try run(.sync(StagedSync(StagedSelection(entity: index, nil), part: part)), .process, index, json)
    }

    private func run(
        _ action: StepAction, _ operation: StagingOperation.Action, _ entity: Int, _ json: String
    ) throws {
        let document = try JSONDocument(parsing: JSONText(copying: Array(json.utf8)))
        let rows = try withExtendedLifetime(document) {
            let operations = [StagingOperation(entity: entity, json: document.root, operation)]
            let parts = try JobCollection.collections(of: ShortList(operations), in: document).map {
                try $0.stage(store.plan, .fail)
            }
            return StagedJobRows.unite(parts, store.plan)
        }
        let job = StoreJob(
            id: "step-\(store.nextSequence)", contentHash: nil, sequence: store.nextSequence, policy: .fail,
            wantsKeys: false,
            work: .steps([StagedStep(action: action, rows: rows)]), now: 0)
        store.nextSequence += 1
        guard case .completed = try store.apply(job) else { throw Fault(.invalidValue, "the step failed") }
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
