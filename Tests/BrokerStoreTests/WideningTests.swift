import BrokerModel
import TestSupport
import Testing

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
            "as": {"entity": "A", "toMany": true, "inverse": "pairs"}}}}}
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
        #expect(try store.changes(Self.links) == "A =3, Pair =2")
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
        #expect(try store.changes(records) == "A =1, Day =1")
    }

    @Test func `a UUID that identifies is refused as a text, which its records would not find`() throws {
        let model = #"{"entities": {"A": {"identity": "id", "attributes": {"id": "uuid", "other": "uuid"}}}}"#
        let store = try TestStore(model)
        let id = "0d3a4e4c-0000-0000-0000-0000000000ff"
        #expect(try store.fault(#"{"A": {"id": "\#(id)", "other": "\#(id)"}}"#) == nil)
        let refusal = try store.refusal(model.replacing(#""id": "uuid""#, with: #""id": "string""#))
        #expect(refusal?.contains("A.id is uuid in the store, and string in the model") == true, "\(refusal ?? "")")
        #expect(refusal?.contains("keep the type") == true)
        #expect(try store.refusal(model.replacing(#""other": "uuid""#, with: #""other": "string""#)) == nil)
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
        #expect(try store.refusal(Self.linked.replacing(#""x": "integer16""#, with: #""x": "string""#)) == nil)
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
        #expect(try store.changes(Self.keylessLinks) == "A =4, Pair =3")
        #expect(try store.rows("SELECT count(*) FROM _broker_feed") == ["0"])
        #expect(try store.changes(#"{"A": {"id": 9, "next": 1}}"#) == "A +1 =1")
        // And not the other way.
        #expect(try store.refusal(Self.keyless)?.contains("A is identified by id in the store, and by nothing") == true)
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
                "x": "string", "y": {"type": "string"}}}}}
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
                .replacing(#""pair": {"#, with: #""pair": {"renamedFrom": "two", "key": "pair", "#))
        #expect(try store.changes(Self.keylessLinks) == "A =4, Pair =3")
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
        #expect(try store.changes(records) == "Head =1, Line =5, Order =3, Part =3")
        // An identity of their own must distinguish the objects of one owner.
        let other = try TestStore(model)
        try other.apply(records)
        let bySKU = after.replacing(#""Line": {"#, with: #""Line": {"identity": "sku", "#)
        #expect(try other.refusal(bySKU)?.contains("2, 'a' in 2 rows") == true)
        try other.execute("INSERT INTO Line (sku) VALUES ('alone')")
        #expect(try other.refusal(after)?.contains("1 row has none") == true)
    }

    @Test(arguments: ["code", "shop, code", "size"])
    func `another identity takes the place of one, and links follow`(identity: String) throws {
        let model = { (identity: String) in
            #"""
            {"entities": {
              "Item": {"identity": \#(identity), "formerIdentity": "name", "attributes": {
                "name": "string", "code": "integer64", "shop": "string", "size": "integer64"},
                "relationships": {"part": {"entity": "Item", "inverse": "whole"},
                  "whole": {"entity": "Item", "toMany": true, "inverse": "part"},
                  "tags": {"entity": "Tag", "toMany": true, "inverse": "items"}}},
              "Tag": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
                "first": {"entity": "Item"}, "items": {"entity": "Item", "toMany": true, "inverse": "tags"}}}}}
            """#
        }
        let keys = identity.split(separator: ", ").map { "\"\($0)\"" }.joined(separator: ", ")
        let (before, after) = (model("\"name\""), model("[\(keys)]"))
        let store = try TestStore(before)
        try store.apply(
            """
            {"Item": [{"name": "a", "code": 1, "shop": "x", "size": 5}, {"name": "b", "code": 2, "shop": "x", "size": 5, "part": "a"},
              {"name": "c", "code": 3, "shop": "y", "part": "b"}], "Tag": [{"id": 1, "first": "c", "items": ["a", "b"]}]}
            """)
        guard identity != "size" else {
            let refusal = try #require(try store.refusal(after))
            #expect(refusal.contains("Item (size) is the identity in the model"), "\(refusal)")
            #expect(refusal.contains("1 row has none, and 5 in 2 rows"), "\(refusal)")
            return
        }
        try store.reopen(after)
        let records = #"""
            {"Item": [{"name": "a", "code": 1, "shop": "x", "size": 5, "tags": [1]},
              {"name": "b", "code": 2, "shop": "x", "size": 5, "part": {"code": 1, "shop": "x"}, "tags": [1]},
              {"name": "c", "code": 3, "shop": "y", "part": {"code": 2, "shop": "x"}}],
             "Tag": [{"id": 1, "first": {"code": 3, "shop": "y"}}]}
            """#
        let fresh = try TestStore(after)
        try fresh.apply(records)
        for table in Schema(store.plan.model).tables {
            let columns = quotedList(table.columns.map(\.name))
            let sql = "SELECT \(columns) FROM \(quoted(table.name)) ORDER BY \(columns)"
            #expect(try store.rows(sql) == fresh.rows(sql), "\(table.name)")
        }
        #expect(try store.isSound())
        #expect(try store.changes(records) == "Item =3, Tag =1")
        let unsaid = try #require(try store.refusal(before))
        #expect(unsaid.contains("keep the identity, or say \"formerIdentity\""), "\(unsaid)")
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
        #expect(try store.changes(records) == "Cat =1, Dog =1")
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
        #expect(try store.changes(#"{"A": {"id": "x", "a": {"id": "y"}}}"#) == "A =2")
        #expect(try store.refusal(required) == nil)
        #expect(try store.rows("SELECT id, a FROM A ORDER BY 1") == ["x|y", "y|NULL"])
        #expect(try store.changes(#"{"A": {"id": "x", "a": "y"}}"#) == "A =2")
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
        #expect(try store.changes(Self.links) == "A =3, Pair =2")
        #expect(try store.changes(#"{"A": {"id": 1, "pair": [{"x": 2, "y": "q"}]}}"#) == "A ~1, Pair =1")
        #expect(try store.rows("SELECT count(*) FROM A_pair") == ["2"])
    }
}

/// A model that widens: a part without values changes freely, and types hold more.
@Suite(.timeLimit(.minutes(5))) struct WideningTests {
    // MARK: - Without values

    private static let sparse = """
        {"entities": {
          "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string", "none": "string"},
            "relationships": {"home": {"entity": "Place"}, "empty": {"entity": "Place"},
              "many": {"entity": "Place", "toMany": true}, "boss": {"entity": "Person", "inverse": "staff"},
              "staff": {"entity": "Person", "toMany": true, "inverse": "boss"}}},
          "Place": {"identity": "code", "attributes": {"code": "string"}}}}
        """

    private func sparseStore() throws -> TestStore {
        let store = try TestStore(Self.sparse)
        try store.apply(#"{"Person": [{"id": 1, "name": "a", "home": "x"}, {"id": 2}]}"#)
        return store
    }

    @Test(arguments: [
        (#", "none": "string"}"#, "}"),
        (#""none": "string""#, #""none": "boolean""#),
        (#""none": "string""#, #""other": {"type": "date", "renamedFrom": "none"}"#),
        (#", "none": "string"},"#, #"},"#),
        (#", "none": "string"},\#n    "relationships": {"#, #"}, "relationships": {"none": {"entity": "Place"}, "#),
        (#""empty": {"entity": "Place"},"#, ""),
        (#""empty": {"entity": "Place"}"#, #""empty": {"entity": "Person"}"#),
        (#""empty": {"entity": "Place"}"#, #""empty": {"entity": "Person", "toMany": true}"#),
        (#""many": {"entity": "Place", "toMany": true}"#, #""many": {"entity": "Person", "toMany": true}"#),
        (#""many": {"entity": "Place", "toMany": true}"#, #""many": {"entity": "Place"}"#),
        (
            #""many": {"entity": "Place", "toMany": true}"#,
            #""many": {"entity": "Place", "toMany": true, "ordered": true}"#
        ),
        (#""boss": {"entity": "Person", "inverse": "staff"}"#, #""boss": {"entity": "Person"}"#),
        (#"{"entity": "Person", "toMany": true, "inverse": "boss"}"#, #"{"entity": "Person", "inverse": "boss"}"#),
    ])
    func `a part without values changes freely`(part: String, new: String) throws {
        var after = Self.sparse.replacing(part, with: new)
        if new == #""boss": {"entity": "Person"}"# { after = after.replacing(#", "inverse": "boss""#, with: "") }
        #expect(after != Self.sparse)
        for removal in [RemovalPolicy.refuse, .keep] {
            let store = try sparseStore()
            #expect(try store.refusal(after, removal) == nil)
            #expect(try store.rows("SELECT id, name, home FROM Person ORDER BY id") == ["1|a|x", "2|NULL|NULL"])
            #expect(try store.isSound())
            #expect(!store.store.migration.changes.isEmpty)
            try store.reopen()
            #expect(store.store.migration.changes.isEmpty)
            #expect(try store.changes(#"{"Person": {"id": 1, "name": "a", "home": "x"}}"#) == "Person =1, Place =1")
        }
    }

    @Test func `each migration is recorded with its changes, after the job before it`() throws {
        let store = try sparseStore()
        #expect(try store.rows("SELECT count(*) FROM _broker_migrations") == ["0"])
        try store.reopen(Self.sparse.replacing(#""none": "string""#, with: #""none": "boolean", "more": "string""#))
        try store.apply(#"{"Person": [{"id": 3}]}"#)
        try store.reopen(Self.sparse.replacing(#", "none": "string"}"#, with: #", "more": "string"}"#))
        try store.reopen(Self.sparse.replacing(#", "none": "string"}"#, with: #", "more": "string"}"#))
        let rows = try store.rows(
            "SELECT \"after\", json_array_length(changes), changes FROM _broker_migrations ORDER BY number")
        #expect(rows.count == 2 && rows[0].hasPrefix("1|3|") && rows[1].hasPrefix("2|1|"), "\(rows)")
        #expect(rows[0].contains("migrated: Person.more is new"), "\(rows)")
        #expect(
            try store.rows("SELECT count(*) FROM _broker_migrations WHERE time LIKE '20__-__-__T__:__:__.___Z'") == [
                "2"
            ])
    }

    @Test func `one value is enough for a refusal`() throws {
        for record in [
            #"{"id": 2, "none": "y"}"#, #"{"id": 2, "empty": "x"}"#, #"{"id": 2, "many": ["x"]}"#,
            #"{"id": 2, "boss": 1}"#,
        ] {
            let store = try sparseStore()
            try store.apply(#"{"Person": \#(record)}"#)
            let after = """
                {"entities": {
                  "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string", "none": "boolean"},
                    "relationships": {"home": {"entity": "Place"}}},
                  "Place": {"identity": "code", "attributes": {"code": "string"}}}}
                """
            let message = try #require(try store.refusal(after))
            // A pair has one set of links.
            #expect(message.split(separator: "; ").count == (record.contains("boss") ? 3 : 2), "\(message)")
        }
    }

    @Test func `a retained part without values does not obstruct a new one of its name`() throws {
        let store = try sparseStore()
        let without = Self.sparse.replacing(#", "none": "string"}"#, with: "}")
        try store.reopen(without, removal: .keep)
        #expect(try store.rows("SELECT \"none\" FROM Person") == ["NULL", "NULL"])
        #expect(try store.refusal(Self.sparse.replacing(#""none": "string""#, with: #""none": "date""#)) == nil)
        #expect(try store.isSound())
    }

    @Test func `a part of a hierarchy is without values when no relative's row has one`() throws {
        let model = """
            {"entities": {
              "Animal": {"identity": "id", "attributes": {"id": "integer64", "size": "string"}},
              "Dog": {"parent": "Animal", "attributes": {"breed": "string"}},
              "Cat": {"parent": "Animal", "attributes": {"breed": "integer16"}}}}
            """
        let store = try TestStore(model)
        try store.apply(#"{"Cat": {"id": 1, "breed": 3}}"#)
        let after = model.replacing(#""size": "string""#, with: #""size": "date""#)
            .replacing(#""breed": "string""#, with: #""breed": "boolean""#)
        #expect(try store.refusal(after) == nil)
        #expect(try store.changes(#"{"Dog": {"id": 2, "breed": true, "size": "2012-09-24"}}"#) == "Dog +1")
        #expect(try store.changes(#"{"Cat": {"id": 1, "breed": 3}}"#) == "Cat =1")
        #expect(try store.refusal(after.replacing(#""breed": "integer16""#, with: #""breed": "date""#)) != nil)
    }

    // MARK: - Types

    @Test(arguments: [
        ("integer16", "decimal", "[5, -3]", ["5", "-3"]),
        (
            "integer64", "decimal", "[9223372036854775807, -9223372036854775808]",
            ["9223372036854775807", "-9223372036854775808"]
        ),
        ("integer64", "double", "[9007199254740992, 1]", ["9007199254740992.0", "1.0"]),
        ("float", "double", "[0.1, 1.5]", ["0.1", "1.5"]),
        ("double", "decimal", "[0.1, 1e-7, 1.5e300]", ["0.1", "0.0000001", "15" + String(repeating: "0", count: 299)]),
        ("integer32", "string", "[1, 0]", ["1", "0"]),
        ("decimal", "string", "[1.50, -7]", ["1.50", "-7"]),
        ("double", "string", "[1.5, 0.1]", ["1.5", "0.1"]),
        ("boolean", "string", "[true, false]", ["true", "false"]),
        ("calendarDate", "string", #"["1985-12-10"]"#, ["1985-12-10"]),
        (
            "date", "string", #"["2012-09-24T03:35:21.000Z", "1969-12-31T23:59:59.999Z"]"#,
            ["2012-09-24T03:35:21.000Z", "1969-12-31T23:59:59.999Z"]
        ),
        (
            "uuid", "string", #"["0D3A4E4C-0000-0000-0000-0000000000FF", null]"#,
            ["0D3A4E4C-0000-0000-0000-0000000000FF", "NULL"]
        ),
        ("uri", "string", #"["http://x.y/é", "urn:z"]"#, ["http://x.y/é", "urn:z"]),
        ("string", "transformable", #"["a\"\\\n", ""]"#, [#""a\"\\\n""#, #""""#]),
        ("integer16", "transformable", "[5]", ["5"]),
        ("decimal", "transformable", "[1.50]", ["1.50"]),
        ("boolean", "transformable", "[true, null]", ["true", "NULL"]),
        ("binary", "transformable", #"["aGk="]"#, [#""aGk=""#]),
        ("date", "transformable", #"["2012-09-24T03:35:21.000Z"]"#, [#""2012-09-24T03:35:21.000Z""#]),
    ])
    func `a wider type takes the values, and the same records change nothing`(
        old: String, new: String, values: String, stored: [String]
    ) throws {
        func model(_ type: String) -> String {
            #"{"entities": {"A": {"identity": "id", "modified": "m", "attributes": {"id": "integer64", "#
                + #""v": "\#(type)", "m": "integer32"}}}}"#
        }
        let store = try TestStore(model(old))
        let list = elements(of: values)
        let records = list.enumerated().map { #"{"id": \#($0), "v": \#($1), "m": 1}"# }.joined(separator: ", ")
        #expect(try store.fault(#"{"A": [\#(records)]}"#) == nil)
        try store.reopen(model(new).replacing(#""m": "integer32""#, with: #""m": "decimal""#))
        #expect(try store.rows("SELECT v FROM A ORDER BY id") == stored)
        #expect(
            store.store.migration.changes.map(\.text) == [
                "A.v is \(old) in the store, and \(new) in the model",
                "A.m is integer32 in the store, and decimal in the model",
            ])
        #expect(
            try store.changes(#"{"A": [\#(records.replacing(#""m": 1"#, with: #""m": 2"#))]}"#) == "A ~\(list.count)")
        #expect(try store.rows("SELECT v FROM A ORDER BY id") == stored)
        let again = try store.changes(#"{"A": [\#(records.replacing(#""m": 1"#, with: #""m": 2"#))]}"#)
        #expect(again == "A =\(list.count)")
        #expect(try store.isSound())
    }

    @Test func `a day becomes the instant at which it begins in the time zone`() throws {
        func model(_ type: String) -> String {
            #"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64", "v": {"type": \#(type)}}}}}"#
        }
        for storage in ["iso8601", "unix", "coreData"] {
            let store = try TestStore(model(#""calendarDate""#))
            try store.apply(#"{"A": [{"id": 1, "v": "1985-12-10"}, {"id": 2}]}"#)
            try store.reopen(model(#""date", "timeZone": "Europe/Berlin", "storage": "\#(storage)""#))
            #expect(
                try store.changes(#"{"A": [{"id": 1, "v": "1985-12-09T23:00:00Z"}, {"id": 2}]}"#)
                    == "A =2")
        }
    }

    @Test func `a date becomes the text of its format`() throws {
        let model =
            #"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64", "#
            + #""v": {"type": "date", "format": "yyyy/MM/dd", "storage": "unix"}}}}}"#
        let store = try TestStore(model)
        try store.apply(#"{"A": {"id": 1, "v": "2012/09/24"}}"#)
        try store.reopen(#"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64", "v": "string"}}}}"#)
        #expect(try store.changes(#"{"A": {"id": 1, "v": "2012/09/24"}}"#) == "A =1")
    }

    @Test func `a whole number that no double holds is refused`() throws {
        for number in [Int64.max, Int64.min + 1, 1 << 53 + 1, -(1 << 53) - 1] {
            let model = #"{"entities": {"A": {"attributes": {"v": "integer64"}}}}"#
            let store = try TestStore(model)
            try store.apply(#"{"A": [{"v": 1}, {"v": \#(number)}]}"#)
            let message = try #require(try store.refusal(model.replacing("integer64", with: "double")))
            #expect(message.contains("which does not hold \(number) (make it decimal)"))
            #expect(try store.refusal(model.replacing("integer64", with: "decimal")) == nil)
            #expect(try store.rows("SELECT v FROM A") == ["1", "\(number)"])
        }
    }
}

/// The elements of a JSON array, as they are written.
private func elements(of text: String) -> [String] {
    // No test value has a comma.
    text.dropFirst().dropLast().split(separator: ", ").map(String.init)
}
