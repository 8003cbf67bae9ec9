import BrokerModel
import Testing
import TestSupport

@testable import BrokerSchema
@testable import BrokerStore

/// The keys of objects change: they become values of another type, or an entity gets an identity. Links follow.
@Suite(.timeLimit(.minutes(5))) struct ChangedKeyTests {
    private static let linked = """
        {"entities": {
          "A": {"identity": "id", "attributes": {"id": "integer64", "n": "string"}, "relationships": {
            "next": {"entity": "A", "inverse": "previous"},
            "previous": {"entity": "A", "toMany": true, "inverse": "next", "ordered": true},
            "friends": {"entity": "A", "toMany": true, "ordered": true}, "pair": {"entity": "Pair"},
            "pairs": {"entity": "Pair", "toMany": true, "inverse": "as"}}},
          "Pair": {"identity": ["x", "y"], "attributes": {"x": "integer16", "y": "string"}, "relationships": {
            "as": {"entity": "A", "toMany": true, "inverse": "pairs"}}}
        }}
        """
    private static let links = """
        {"A": [{"id": 1, "n": "a", "next": 2, "friends": [3, 2], "pair": {"x": 1, "y": "p"},
                 "pairs": [{"x": 1, "y": "p"}, {"x": 2, "y": "q"}]},
                {"id": 2, "previous": [3, 1]}, {"id": 3, "friends": [1]}]}
        """

    @Test(arguments: ["decimal", "string"])
    func `links follow a key of another type`(type: String) throws {
        let store = try TestStore(Self.linked)
        #expect(try store.fault(Self.links) == nil)
        let after = Self.linked.replacing(#""id": "integer64""#, with: #""id": "\#(type)""#)
            .replacing(#""x": "integer16""#, with: #""x": "\#(type)""#)
        try store.reopen(after)
        try compare(store, with: after)
        #expect(try store.changes(Self.links) == ["A +0 ~0 =3 !0", "Pair +0 ~0 =2 !0"])
    }

    /// Compares a migrated store with a fresh one that has the same records.
    private func compare(_ store: TestStore, with model: String) throws {
        let fresh = try TestStore(model)
        #expect(try fresh.fault(Self.links) == nil)
        for table in Schema(store.plan.model).tables {
            let columns = quotedList(table.columns.filter { !$0.name.hasSuffix("osition") }.map(\.name))
            let sql = "SELECT \(columns) FROM \(quoted(table.name)) ORDER BY \(columns)"
            #expect(try store.rows(sql) == fresh.rows(sql), "\(table.name)")
        }
        #expect(try store.isSound())
    }

    /// Here SQLite's own conversion to the type of the column would give another text.
    @Test(arguments: ["string", "date"])
    func `links to a day or an instant follow it`(type: String) throws {
        let old = type == "date" ? #""calendarDate""# : #"{"type": "date", "storage": "unix"}"#
        let model = """
            {"entities": {
              "Day": {"identity": "at", "attributes": {"at": \(old), "n": "string"}},
              "A": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
                "day": {"entity": "Day"}, "days": {"entity": "Day", "toMany": true}}}}}
            """
        let day = type == "date" ? "2012-09-24" : "2012-09-24T03:35:21.000Z"
        let records = #"{"A": {"id": 1, "day": "\#(day)", "days": [{"at": "\#(day)", "n": "x"}]}}"#
        let store = try TestStore(model)
        #expect(try store.fault(records) == nil)
        #expect(try store.refusal(model.replacing(old, with: "\"\(type)\"")) == nil)
        let stored = type == "date" ? "2012-09-24T00:00:00.000Z" : day
        #expect(try store.rows("SELECT at, day, destination FROM Day, A, A_days") == ["\(stored)|\(stored)|\(stored)"])
        #expect(try store.isSound())
        #expect(try store.changes(records) == ["A +0 ~0 =1 !0", "Day +0 ~0 =1 !0"])
    }

    @Test func `an open sync in parts keeps the keys as they are`() throws {
        let store = try TestStore(Self.linked)
        try store.apply(Self.links)
        try store.execute(
            """
            CREATE TABLE IF NOT EXISTS _broker_open_syncs (number INTEGER PRIMARY KEY, id TEXT, definition BLOB,
              rejected INTEGER, changed INTEGER);
            INSERT INTO _broker_open_syncs (id, definition, rejected, changed) VALUES ('s', '["A",null]', 0, 0)
            """)
        let after = Self.linked.replacing(#""id": "integer64""#, with: #""id": "string""#)
        #expect(try store.refusal(after)?.contains("a sync in parts of it is open") == true)
        #expect(
            try store.refusal(Self.linked.replacing(#""x": "integer16""#, with: #""x": "string""#)) == nil)
        let optional = Self.linked.replacing(
            #""identity": "id", "#, with: #""identity": "id", "identityOptional": true, "#)
        let other = try TestStore(optional)
        try other.execute(
            """
            CREATE TABLE _broker_open_syncs (number INTEGER PRIMARY KEY, id TEXT, definition BLOB, rejected INTEGER,
              changed INTEGER);
            INSERT INTO _broker_open_syncs (id, definition, rejected, changed) VALUES ('s', '["A",null]', 0, 0)
            """)
        let wider = optional.replacing(#""id": "integer64""#, with: #""id": "string""#)
        #expect(try other.refusal(wider)?.contains("a sync in parts of it is open") == true)
    }

    // MARK: - Identity

    private static let keyless = linked.replacing(#""identity": "id", "#, with: "")
        .replacing(#""identity": ["x", "y"], "#, with: "")
    private static let keylessLinks = """
        {"A": [{"id": 1, "n": "a", "next": {"id": 2, "n": "b"}, "friends": [{"id": 3}, {"id": 4}],
                 "pair": {"x": 1, "y": "p"}, "pairs": [{"x": 1, "y": "q"}, {"x": 2, "y": "p"}]}]}
        """

    @Test(arguments: ["integer64", "string"])
    func `an entity gets an identity, and its links lead to it`(type: String) throws {
        let store = try TestStore(Self.keyless)
        #expect(try store.fault(Self.keylessLinks) == nil)
        let after = Self.linked.replacing(#""id": "integer64""#, with: #""id": "\#(type)""#)
        #expect(try store.refusal(after) == nil)
        #expect(
            try store.rows("SELECT id, n, next, pair_x, pair_y FROM A ORDER BY id")
                == ["1|a|2|1|p", "2|b|NULL|NULL|NULL", "3|NULL|NULL|NULL|NULL", "4|NULL|NULL|NULL|NULL"])
        #expect(try store.rows("SELECT source, destination FROM A_friends ORDER BY position") == ["1|3", "1|4"])
        #expect(try store.rows("SELECT * FROM A_pairs ORDER BY 1, 2, 3") == ["1|1|q", "1|2|p"])
        #expect(try store.isSound())
        #expect(try store.changes(Self.keylessLinks) == ["A +0 ~0 =4 !0", "Pair +0 ~0 =3 !0"])
        #expect(try store.rows("SELECT count(*) FROM _broker_feed") == ["0"])
        #expect(try store.changes(#"{"A": {"id": 9, "next": 1}}"#) == ["A +1 ~0 =1 !0"])
        // And not the other way.
        #expect(
            try store.refusal(Self.keyless)?.contains("A is identified by id in the store, and by nothing") == true
        )
    }

    @Test func `renamed and retained links lead to an identity, too`() throws {
        let store = try TestStore(Self.keyless)
        #expect(try store.fault(Self.keylessLinks) == nil)
        let after = """
            {"entities": {
              "B": {"renamedFrom": "A", "identity": "key", "attributes": {
                  "key": {"type": "decimal", "renamedFrom": "id", "key": "id"}, "other": "string"},
                "relationships": {"two": {"entity": "Couple", "renamedFrom": "pair"}}},
              "Couple": {"renamedFrom": "Pair", "identity": ["y", "x"], "attributes": {
                "x": "string", "y": {"type": "string"}}}
            }}
            """
        #expect(try store.refusal(after, .keep) == nil)
        #expect(try store.rows("SELECT key, other, two_y, two_x FROM B ORDER BY key").first == "1|NULL|p|1")
        #expect(try store.rows("SELECT next FROM B WHERE key = '1'") == ["2"])
        #expect(
            try store.rows(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\' ORDER BY 1")
                == ["B", "B_friends", "B_pairs", "Couple"])
        #expect(try store.rows("SELECT * FROM B_friends ORDER BY position").map { $0.prefix(3) } == ["1|3", "1|4"])
        #expect(try store.isSound())
        // And back, as far as that goes: the retained parts are used again.
        try store.reopen(
            Self.linked.replacing(#""A": {"#, with: #""A": {"renamedFrom": "B", "#)
                .replacing(#""id": "integer64""#, with: #""id": {"type": "decimal", "renamedFrom": "key"}"#)
                .replacing(#""x": "integer16""#, with: #""x": "string""#)
                .replacing(#""identity": ["x", "y"]"#, with: #""renamedFrom": "Couple", "identity": ["y", "x"]"#)
                .replacing(#""pair": {"#, with: #""pair": {"renamedFrom": "two", "#))
        #expect(try store.changes(Self.keylessLinks) == ["A +0 ~0 =4 !0", "Pair +0 ~0 =3 !0"])
    }

    @Test(arguments: ["integer64", "string"])
    func `owned objects get the identity of their owner, and so do theirs`(type: String) throws {
        let model = """
            {"entities": {
              "Order": {"attributes": {"no": "integer64", "n": "string"}, "relationships": {
                "lines": {"entity": "Line", "toMany": true, "owned": true}, "head": {"entity": "Head", "owned": true}}},
              "Line": {"attributes": {"sku": "string"}, "relationships": {
                "parts": {"entity": "Part", "toMany": true, "owned": true}}},
              "Head": {"attributes": {"t": "string"}}, "Part": {"attributes": {"p": "string"}}}}
            """
        let records = """
            {"Order": [
              {"no": 7, "head": {"t": "x"}, "lines": [{"sku": "a", "parts": [{"p": "1"}, {"p": "2"}]}, {"sku": "b"}]},
              {"no": 8, "lines": [{"sku": "a", "parts": [{"p": "3"}]}, {"sku": "a"}, {"sku": "c"}]}, {"no": 9}]}
            """
        let store = try TestStore(model)
        #expect(try store.fault(records) == nil)
        let after = model.replacing(#""Order": {"#, with: #""Order": {"identity": "no", "#)
            .replacing(#""no": "integer64""#, with: #""no": "\#(type)""#)
        #expect(try store.refusal(after) == nil)
        let fresh = try TestStore(after)
        #expect(try fresh.fault(records) == nil)
        for table in Schema(store.plan.model).tables {
            let columns = quotedList(table.columns.map(\.name))
            let sql = "SELECT \(columns) FROM \(quoted(table.name)) ORDER BY \(columns)"
            #expect(try store.rows(sql) == fresh.rows(sql), "\(table.name)")
        }
        #expect(try store.isSound())
        #expect(
            try store.changes(records)
                == ["Head +0 ~0 =1 !0", "Line +0 ~0 =5 !0", "Order +0 ~0 =3 !0", "Part +0 ~0 =3 !0"])
        // An identity of their own must distinguish the objects of one owner.
        let other = try TestStore(model)
        try other.apply(records)
        let bySKU = after.replacing(#""Line": {"#, with: #""Line": {"identity": "sku", "#)
        #expect(try other.refusal(bySKU)?.contains("2, 'a' in 2 rows") == true)
        try other.execute("INSERT INTO Line (sku) VALUES ('alone')")
        #expect(try other.refusal(after)?.contains("1 row has none") == true)
    }

    @Test func `values that do not identify rows are reported`() throws {
        let store = try TestStore(Self.keyless)
        try store.apply(#"{"A": [{"id": 1}, {"id": 1}, {"n": "x"}], "Pair": [{"x": 1, "y": "p"}, {"x": 1, "y": "q"}]}"#)
        let message = try #require(try store.refusal(Self.linked))
        #expect(
            message.contains(
                "A (id) is the identity in the model, but not in the store, where 1 row has none, and 1 in 2 rows "
                    + "(change these rows, or choose another identity)"))
        #expect(!message.contains("Pair"))
        #expect(try store.rows("SELECT count(*) FROM A") == ["3"])
    }

    @Test func `a hierarchy gets an identity at its topmost entity`() throws {
        let model = """
            {"entities": {
              "Animal": {"attributes": {"id": "integer64"}, "relationships": {"friend": {"entity": "Cat"}}},
              "Dog": {"parent": "Animal", "attributes": {"breed": "string"}},
              "Cat": {"parent": "Animal", "attributes": {"breed": "integer16"}},
              "House": {"relationships": {"dog": {"entity": "Dog"}, "all": {"entity": "Animal", "toMany": true}}}}}
            """
        let store = try TestStore(model)
        let records = #"{"Dog": {"id": 7, "breed": "x", "friend": {"id": 8, "breed": 1}}}"#
        try store.apply(records)
        try store.apply(#"{"House": {"dog": {"id": 9}, "all": []}}"#)
        let after = model.replacing(#""Animal": {"#, with: #""Animal": {"identity": "id", "#)
        #expect(try store.refusal(after) == nil)
        #expect(
            try store.rows("SELECT id, friend, _entity FROM Animal ORDER BY id") == [
                "7|8|Dog", "8|NULL|Cat", "9|NULL|Dog",
            ])
        #expect(try store.rows("SELECT dog FROM House") == ["9"])
        #expect(try store.changes(records) == ["Cat +0 ~0 =1 !0", "Dog +0 ~0 =1 !0"])
        // Below the topmost entity it is refused.
        let other = try TestStore(model)
        #expect(try other.refusal(model.replacing(#""Dog": {"#, with: #""Dog": {"identity": "breed", "#)) != nil)
    }

    @Test func `an optional identity may be given later, and become required`() throws {
        let model = #"{"entities": {"A": {"attributes": {"id": "string"}, "relationships": {"a": {"entity": "A"}}}}}"#
        let optional = model.replacing(
            #""A": {"attr"#, with: #""A": {"identity": "id", "identityOptional": true, "attr"#)
        let required = model.replacing(#""A": {"attr"#, with: #""A": {"identity": "id", "attr"#)
        let store = try TestStore(model)
        try store.apply(#"{"A": [{"id": "x", "a": {"id": "y"}}]}"#)
        #expect(try store.refusal(optional) == nil)
        #expect(try store.changes(#"{"A": {"id": "x", "a": {"id": "y"}}}"#) == ["A +0 ~0 =2 !0"])
        #expect(try store.refusal(required) == nil)
        #expect(try store.rows("SELECT id, a FROM A ORDER BY 1") == ["x|y", "y|NULL"])
        #expect(try store.changes(#"{"A": {"id": "x", "a": "y"}}"#) == ["A +0 ~0 =2 !0"])
        #expect(try store.refusal(optional) != nil)
    }

    // MARK: - To-many

    @Test(arguments: ["", #", "ordered": true"#])
    func `a to-one relationship without inverse becomes to-many, with its links`(ordered: String) throws {
        let store = try TestStore(Self.linked)
        try store.apply(Self.links)
        let pair = #""pair": {"entity": "Pair""#
        let after = Self.linked.replacing(pair, with: pair + #", "toMany": true"# + ordered)
            .replacing(#""id": "integer64""#, with: #""id": "string""#)
        #expect(try store.refusal(after) == nil)
        if !ordered.isEmpty { #expect(try store.rows("SELECT position FROM A_pair") == ["0"]) }
        try compare(store, with: after)
        #expect(try store.changes(Self.links) == ["A +0 ~0 =3 !0", "Pair +0 ~0 =2 !0"])
        #expect(
            try store.changes(#"{"A": {"id": 1, "pair": [{"x": 2, "y": "q"}]}}"#) == [
                "A +0 ~1 =0 !0", "Pair +0 ~0 =1 !0",
            ])
        #expect(try store.rows("SELECT count(*) FROM A_pair") == ["2"])
    }
}
