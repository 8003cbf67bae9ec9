import Testing

@testable import BrokerSchema
@testable import BrokerStore

/// A new attribute with a default: SQLite has the default in the table's declaration, and the rows do not have it.
@Suite(.timeLimit(.minutes(5))) struct AddedColumnTests {
    private static let before = """
        {"entities": {"Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}}}}
        """

    private static func model(_ attributes: String) -> String {
        before.replacing(#""name": "string""#, with: #""name": "string", "# + attributes)
    }

    private static let defaults = """
        "tag": {"type": "string", "default": "old"}, "rank": {"type": "integer16", "default": 5, "optional": false},
        "rate": {"type": "double", "default": 2}
        """

    /// One with rows that end before the new columns.
    private func store(interpretsAll: Bool = false) throws -> TestStore {
        let store = try TestStore(Self.before) { $0.interpretsAll = interpretsAll }
        try store.apply(#"{"Person": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]}"#)
        try store.reopen(Self.model(Self.defaults))
        return store
    }

    @Test func `rows get the default of a new attribute, required or not, without being written`() throws {
        let store = try TestStore(Self.before)
        try store.apply(#"{"Person": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]}"#)
        let bytes = "SELECT sum(payload) FROM dbstat WHERE name = 'Person'"
        let before = try store.rows(bytes)
        try store.reopen(Self.model(Self.defaults))
        #expect(try store.rows("SELECT * FROM Person") == ["1|a|old|5|2.0", "2|b|old|5|2.0"])
        #expect(try store.rows(bytes) == before)
        #expect(try store.isSound())
        try store.reopen()
        #expect(store.store.migration.changes.isEmpty)
    }

    @Test(arguments: [false, true])
    func `new objects have the default of the model, and not that of earlier rows`(interpretsAll: Bool) throws {
        let store = try store(interpretsAll: interpretsAll)
        let read = "SELECT id, tag, rank, rate FROM Person ORDER BY id"
        try store.reopen(
            Self.model(
                #""tag": "string", "rank": {"type": "integer16", "default": 6, "optional": false}, "rate": "double""#))
        #expect(try store.changes(#"{"Person": {"id": 3}}"#) == "Person +1")
        #expect(try store.rows(read) == ["1|old|5|2.0", "2|old|5|2.0", "3|NULL|6|NULL"])
        // Columns that the model no longer has.
        try store.reopen(Self.model(#""rank": {"type": "integer16", "default": 6, "optional": false}"#), removal: .keep)
        #expect(try store.changes(#"{"Person": {"id": 4}}"#) == "Person +1")
        #expect(try store.rows(read).last == "4|NULL|6|NULL")
        // The rows are copied, with all their values.
        try store.reopen(Self.model(#""rank": {"type": "integer32", "optional": true}"#), removal: .drop)
        #expect(try store.changes(#"{"Person": {"id": 5}}"#) == "Person +1")
        #expect(try store.rows("SELECT id, rank FROM Person ORDER BY id") == ["1|5", "2|5", "3|6", "4|6", "5|NULL"])
    }

    @Test(arguments: [false, true])
    func `an entity of a hierarchy without the attribute does not get its default`(interpretsAll: Bool) throws {
        let model = { (dog: String) in
            """
            {"entities": {"Animal": {"identity": "id", "attributes": {"id": "integer64"}},
              "Dog": {"parent": "Animal", "attributes": {\(dog)}},
              "Cat": {"parent": "Animal", "attributes": {"lives": "integer16"}}}}
            """
        }
        let store = try TestStore(model("")) { $0.interpretsAll = interpretsAll }
        try store.apply(#"{"Dog": {"id": 1}, "Cat": {"id": 2}, "Animal": {"id": 3}}"#)
        try store.reopen(model(#""sound": {"type": "string", "default": "woof"}"#))
        try store.apply(#"{"Dog": {"id": 4}, "Cat": {"id": 5}, "Animal": {"id": 6}}"#)
        #expect(
            try store.rows("SELECT id, sound FROM Animal ORDER BY id")
                == ["1|woof", "2|NULL", "3|NULL", "4|woof", "5|NULL", "6|NULL"])
    }

    /// SQLite's hook gives NULL where a row ends before the column.
    @Test(arguments: [false, true])
    func `a row that a job changes and puts back is no change`(interpretsAll: Bool) throws {
        let store = try store(interpretsAll: interpretsAll)
        let there = #"{"entity": "Person", "json": {"id": 1, "name": "z"}}"#
        let back = #"{"entity": "Person", "json": {"id": 1, "name": "a"}}"#
        let delete = #"{"op": "delete", "entity": "Person", "objects": [2]}"#
        let again =
            #"{"entity": "Person", "json": {"id": 2, "name": "b", "tag": "old", "rank": 5, "rate": 2}}"#
        #expect(try store.run("\(there), \(delete), \(back), \(again)") == "Person =2")
        #expect(try store.rows("SELECT * FROM Person") == ["1|a|old|5|2.0", "2|b|old|5|2.0"])
    }

    @Test func `servers agree on rows that end before the column and on written ones`() throws {
        func digits(_ store: TestStore) throws -> String {
            store.nextSequence = 101
            try store.store.beginLog("log", after: 100)
            let job = #"{"op": "delete", "entity": "Person", "objects": [1]}"#
            try store.apply(store.job(operations: job, wantsKeys: false).with(hash: [1]))
            return try #require(store.store.history).digits
        }
        let written = try TestStore(Self.model(Self.defaults))
        try written.apply(#"{"Person": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]}"#)
        #expect(try digits(store()) == digits(written))
    }
}
