import BrokerModel
import Foundation
import TestSupport
import Testing

@testable import BrokerStore

/// Rows of records: what is written, what is left alone, and how it is counted.
@Suite(.timeLimit(.minutes(5))) struct StoreRecordTests {
    private static let model = """
        {"entities": {
          "Person": {"identity": "id", "table": "people", "attributes": {"id": "integer64",
            "name": {"type": "string", "optional": false}, "age": "integer16", "level": {"type": "integer16", "default": 1},
            "mood": {"type": "string", "default": "calm", "optional": false}}},
          "Country": {"identity": "code", "attributes": {"code": "string", "name": "string"}},
          "Seat": {"identity": ["row", "number"], "attributes": {"row": "string", "number": "integer64", "taken": "boolean"}},
          "Note": {"attributes": {"text": "string", "data": "binary"}},
          "Guest": {"identity": "email", "identityOptional": true, "attributes": {"email": "string", "name": "string"}},
          "Lamp": {"identity": "id", "attributes": {"id": "integer64", "plain": {"type": "string", "default": "p"},
            "reset": {"type": "string", "default": "r", "defaultWhenMissing": true}}, "relationships": {"next": {"entity": "Lamp"}}}}}
        """

    private let store: TestStore

    init() throws { store = try TestStore(Self.model) }

    @Test(
        arguments: Claim.list(
            #"""
            # new rows are inserted with defaults, changed ones updated, the same left alone
            {"Person": [{"id": 1, "name": "a"}, {"id": 2, "name": "b", "age": 30, "level": 5}]} => Person +2
            people :: 1|a|NULL|1|calm, 2|b|30|5|calm
            {"Person": [{"id": 1, "name": "A"}, {"id": 2, "age": 30}, {"id": 3, "name": "c", "mood": "wild"}]} => Person +1 ~1 =1
            people :: 1|A|NULL|1|calm, 2|b|30|5|calm, 3|c|NULL|1|wild
            # a partial record leaves the other columns as they are, null clears, defaults stay away
            {"Person": {"id": 1, "name": "a", "age": 30, "level": 7, "mood": "wild"}}
            {"Person": {"id": 1, "age": null}} => Person ~1
            {"Person": {"id": 1, "name": "b"}} => Person ~1
            {"Person": {"id": 1, "level": null}} => Person ~1
            {"Person": {"id": 1}} => Person =1
            people :: 1|b|NULL|NULL|wild
            {"Person": {"id": 1, "mood": ""}} => Person ~1
            people :: 1|b|NULL|NULL|
            # a new object without a required value fails the job, and nothing of it is there; with skip it is rejected
            {"Country": [{"code": "de"}], "Person": [{"id": 1, "name": "a"}, {"id": 2, "age": 3}]} => missingValue /Person/1
            people ::
            SELECT * FROM Country ::
            skip {"Person": [{"id": 2, "age": 3}, {"id": 1, "name": "a"}, {"id": 3}, {"id": "x"}]}
                => Person +1 !3; missingValue /Person/0, missingValue /Person/2, invalidValue /Person/3/id
            people :: 1|a|NULL|1|calm
            # each object counts once per job, however often the job names it
            {"Country": {"code": "de"}}
            {"Country": [{"code": "de", "name": "a"}, {"code": "de"}, {"code": "fr"}, {"code": "fr", "name": "b"}],
              "Person": {"id": 1, "name": "x"}, "Country": {"code": "de", "name": "c"}} => Country +1 ~1, Person +1
            SELECT * FROM Country ORDER BY code :: de|c, fr|b
            # identities of text, of several attributes, optional and none find or create
            {"Country": [{"code": "de", "name": "x"}], "Seat": [{"row": "A", "number": 1, "taken": true}, {"row": "A", "number": 2}],
              "Guest": [{"email": "a@b", "name": "x"}, {"name": "y"}, {"name": "y"}], "Note": [{"text": "n"}, {"text": "n"}]}
              => Country +1, Guest +3, Note +2, Seat +2
            {"Country": [{"code": "de", "name": "x"}], "Seat": [{"row": "A", "number": 1, "taken": true}, {"row": "A", "number": 2}],
              "Guest": [{"email": "a@b", "name": "x"}, {"name": "y"}, {"name": "y"}], "Note": [{"text": "n"}, {"text": "n"}]}
              => Country =1, Guest +2 =1, Note +2, Seat =2
            {"Seat": {"row": "A", "number": 1, "taken": 0}} => Seat ~1
            {"Guest": {"email": "a@b", "name": "z"}} => Guest ~1
            SELECT * FROM Seat ORDER BY 1, 2 :: A|1|0, A|2|NULL
            SELECT * FROM Guest ORDER BY _pk :: 1|a@b|z, 2|NULL|y, 3|NULL|y, 4|NULL|y, 5|NULL|y
            SELECT _pk, text FROM Note :: 1|n, 2|n, 3|n, 4|n
            # 64-bit identities keep every digit
            {"Person": [{"id": 9007199254740993, "name": "x"}, {"id": -9223372036854775808, "name": "x"}, {"id": 0, "name": "x"},
              {"id": 9223372036854775807, "name": "x"}, {"id": -1, "name": "x"}]}
            SELECT id FROM people ORDER BY 1 :: -9223372036854775808, -1, 0, 9007199254740993, 9223372036854775807
            # empty texts, texts with a NUL and empty blobs are not NULL
            {"Note": [{"text": "", "data": ""}, {"text": "a\u0000b", "data": "AAE="}, {"text": null, "data": null}]}
            SELECT typeof(text), length(CAST(text AS BLOB)), typeof(data), length(data) FROM Note :: text|0|blob|0, text|3|blob|2, null|NULL|null|NULL
            SELECT hex(text) FROM Note WHERE _pk = 2 :: 610062
            {"Country": [{"code": "", "name": ""}, {"code": "a\u0000"}, {"code": "a"}]}
            {"Country": [{"code": ""}, {"code": "a\u0000"}]} => Country =2
            SELECT count(*) FROM Country :: 3
            # a job without records completes
            {} => nothing
            {"Person": []} => nothing
            # a missing key sets the attribute's default, where the model says so, and a bare key is no record
            {"Lamp": [{"id": 1, "plain": "x", "reset": "y"}, {"id": 2, "reset": null}]}
            SELECT id, plain, reset FROM Lamp ORDER BY id :: 1|x|y, 2|p|NULL
            {"Lamp": [{"id": 1}, {"id": 3, "next": 2}]} => Lamp +1 ~1 =1
            SELECT id, plain, reset FROM Lamp ORDER BY id :: 1|x|r, 2|p|NULL, 3|p|r
            """#))
    func records(claim: Claim) throws { try claim.check(store, ["people": "SELECT * FROM people ORDER BY 1"]) }

    @Test func `the fault of a missing value names the entity and the attribute`() throws {
        let fault = try store.fault(#"{"Person": [{"id": 1, "name": "a"}, {"id": 2, "age": 3}]}"#)
        #expect(fault?.entity == "Person" && fault?.attribute == "name")
    }

    @Test func `resubmitting everything writes no row at all`() throws {
        let people = (1...500).map { #"{"id": \#($0), "name": "n\#($0)", "age": \#($0 % 3 == 0 ? "null" : "7")}"# }
        let seats = (1...500).map { #"{"row": "r\#($0 % 9)", "number": \#($0)}"# }
        let payload = "{\"Person\": [\(people.joined(separator: ","))], \"Seat\": [\(seats.joined(separator: ","))]}"
        #expect(try store.changes(payload) == "Person +500, Seat +500")
        #expect(try store.changes(payload) == "Person =500, Seat =500")
        #expect(try store.changes(#"{"Person": [{"id": 1}, {"id": 2, "age": 7}]}"#) == "Person =2")
        let nothing = try store.logGrowth("{}")
        #expect(try store.logGrowth(payload) == nothing)
        #expect(try store.logGrowth(payload.replacing("n500", with: "n501")) > nothing)
    }

    @Test func `triggers of other programs in the file do not run`() throws {
        try store.execute("CREATE TRIGGER t AFTER INSERT ON people BEGIN SELECT RAISE(ABORT, 'no'); END")
        let payload = #"{"Person": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]}"#
        #expect(try [store.changes(payload), store.changes(payload)] == ["Person +2", "Person =2"])
    }

    @Test func `readers see a job after commit, and nothing of one that is rolled back`() throws {
        let count = "SELECT count(*) FROM Country"
        try store.store.begin()
        _ = try store.store.apply(store.job(#"{"Country": {"code": "de"}}"#, id: "a"))
        #expect(try store.rows(count) == ["0"])
        store.store.rollback()
        #expect(try store.rows(count) == ["0"] && store.store.outcome(ofJob: "a") == nil)
        try store.apply(#"{"Country": {"code": "de"}}"#, id: "a")
        #expect(try store.rows(count) == ["1"])
    }

    @Test func `a job that fails between others in a transaction leaves theirs alone`() throws {
        try store.applyTogether([
            store.job(#"{"Note": {"text": "a"}}"#), store.job(#"{"Note": {"text": "b"}, "Person": {"id": 1}}"#),
            store.job(#"{"Note": {"text": "c"}}"#),
        ])
        #expect(try store.rows("SELECT text FROM Note ORDER BY _pk") == ["a", "c"])
    }
}

/// How records are read: their keys, identities, nested records and faults.
@Suite(.timeLimit(.minutes(5))) struct RecordReadingTests {
    private static let model = """
        {"entities": {
          "Person": {"identity": "id", "root": "human", "attributes": {
            "id": "integer64", "name": "string", "age": "integer16",
            "email": {"type": "string", "key": ["email", "contact.email", "contact.e/~mail"]},
            "level": {"type": "integer16", "onInvalid": "skip"}, "score": {"type": "integer16", "onInvalid": "null"},
            "rank": {"type": "integer16", "optional": false, "default": 1, "onInvalid": "null"}}},
          "Country": {"identity": "code", "attributes": {"code": {"type": "string", "transform": ["uppercase"]}, "name": "string"}},
          "Seat": {"identity": ["row", "number"], "attributes": {"row": "string", "number": "integer16", "taken": "boolean"}},
          "Note": {"attributes": {"text": "string"}},
          "Memo": {"identity": "number", "attributes": {"number": {"type": "integer64", "key": "memo.number"}}},
          "Guest": {"identity": ["house", "room"], "identityOptional": true, "attributes": {
            "house": "string", "room": "integer16", "name": "string"}},
          "Shelf": {"identity": "shelfId", "attributes": {"shelfId": "integer64"}, "relationships": {"label": {"entity": "Label"}}},
          "Label": {"identity": "code", "attributes": {"code": "string", "number": {"type": "integer64", "key": "id"}}},
          "Mark": {"identity": "at", "attributes": {"at": "double"}},
          "Place": {"identity": ["x", "y"], "attributes": {"x": "double", "y": "double"}},
          "Order": {"identity": "id", "attributes": {"id": {"type": "integer64", "key": "head.id"}, "note": "string"},
            "relationships": {"lines": {"entity": "Line", "toMany": true, "key": "body.lines"}, "best": {"entity": "Line"}}},
          "Offer": {"identity": "id", "attributes": {"id": "integer64"},
            "relationships": {"lines": {"entity": "Line", "toMany": true, "mapping": "lines"}}},
          "Line": {"identity": ["order", "place"], "attributes": {"order": {"type": "integer64", "key": "@parent.id"},
            "place": {"type": "integer64", "key": ["at", "@parent.@index"]}, "sku": "string"}}},
         "mappings": {"lines": {"entity": "Line", "nestingKey": "sku", "collection": true}}}
        """

    private static let queries = [
        "people": "SELECT id, age, email, level, score FROM Person ORDER BY id",
        "emails": "SELECT id, email FROM Person ORDER BY id", "ids": "SELECT id FROM Person ORDER BY id",
        "guests": "SELECT house, room, name FROM Guest ORDER BY _pk",
        "shelves": "SELECT shelfId, label FROM Shelf ORDER BY shelfId",
        "lines": #"SELECT "order", place, sku FROM Line ORDER BY 1, 2"#,
    ]

    @Test(
        arguments: Claim.list(
            #"""
            # a text identity is compared as it is stored, byte by byte
            {"Country": [{"code": "de", "name": "A"}, {"code": "DE", "name": "B"}, {"code": "d\u0065"}, {"code": ""}]} => Country +2
            SELECT * FROM Country ORDER BY code :: |NULL, DE|B
            # a compound identity is all of its attributes
            {"Seat": [{"row": "A", "number": 1}, {"row": "A", "number": 2, "taken": true}, {"number": 1, "row": "A", "taken": false},
              {"row": "A1", "number": 1}]} => Seat +3
            SELECT * FROM Seat ORDER BY 1, 2 :: A|1|0, A|2|1, A1|1|NULL
            # an incomplete optional identity inserts a new object with the values it has
            {"Guest": [{"house": "H", "name": "a"}, {"house": "H", "room": null, "name": "b"}, {"name": "c"},
              {"house": "H", "room": 1}, {"house": "H", "room": 1, "name": "d"}]} => Guest +4
            guests :: H|NULL|a, H|NULL|b, NULL|NULL|c, H|1|d
            # a record without identity is reported with its path
            {"Person": [{"id": 1}, {"name": "x"}]} => missingIdentity /Person/1
            {"Person": {"id": null, "name": "x"}} => missingIdentity /Person
            {"Seat": [{"row": "A"}]} => missingIdentity /Seat/0
            {"Person": [{"human": {"name": "x"}}]} => missingIdentity /Person/0/human
            # null for a required attribute is a missing value, and so is an invalid one that would become null
            {"Person": [{"id": 1, "rank": null}]} => missingValue /Person/0/rank
            {"Person": [{"id": 1, "rank": "x"}]} => missingValue /Person/0/rank
            # the first of several key paths whose value is not null counts
            {"Person": [{"id": 1, "email": "a", "contact": {"email": "b"}}, {"id": 2, "email": null, "contact": {"email": "b"}},
              {"id": 3, "contact": {"e/~mail": "c"}}, {"id": 4, "contact": {"email": null}}, {"id": 5, "contact": {}}, {"id": 6, "contact": null}]}
            emails :: 1|a, 2|b, 3|c, 4|NULL, 5|NULL, 6|NULL
            {"Person": [{"id": 1, "contact": {}}, {"id": 2, "contact": null}, {"id": 3, "contact": {"email": null}}]} => Person ~2 =1
            emails :: 1|a, 2|NULL, 3|NULL, 4|NULL, 5|NULL, 6|NULL
            # a path into the message is escaped as RFC 6901 says
            {"Person": [{"id": 1, "contact": {"e/~mail": []}}]} => invalidValue /Person/0/contact/e~1~0mail
            # a key id that no attribute claims is the identity's, after its own key
            {"Shelf": [{"id": 1}, {"shelfId": 2, "id": 9}, {"shelfId": null, "id": 3, "label": {"code": "x", "id": 7}}]}
            shelves :: 1|NULL, 2|NULL, 3|x
            SELECT * FROM Label :: x|7
            # the last of duplicate keys wins at any depth
            {"Person": [{"id": 9, "age": 1, "age": 2, "contact": {"email": "a"}, "contact": {"email": "b", "email": "c"}, "id": 1}]}
            people :: 1|2|c|NULL|NULL
            # a wrapped record is unwrapped by its root or its entity's name, and a key of the entity is no wrapper
            warnings {"Person": [{"human": {"id": 1}}, {"person": {"id": 2}}, {"id": 3, "human": {"id": 4}}], "Note": {"note": {"text": "a"}},
              "Memo": [{"memo": {"number": 1}}]} => unknownKey Person.human 1
            ids :: 1, 2, 3
            SELECT (SELECT text FROM Note), (SELECT number FROM Memo) :: a|1
            # a value that cannot be converted is skipped or null where the attribute says so
            {"Person": [{"id": 1, "level": 5, "score": 5}]}
            {"Person": [{"id": 1, "level": "x", "score": "x"}]} => Person ~1
            people :: 1|NULL|NULL|5|NULL
            # a value that is no record is an invalid value
            {"Person": [{"id": 1}, 7]} => invalidValue /Person/1
            {"Person": [[]]} => invalidValue /Person/0
            {"Person": ["x"]} => invalidValue /Person/0
            {"Person": "x"} => invalidValue /Person
            {"Person": null} => invalidValue /Person
            # invalid records are rejected and listed in payload order with skip, over all collections
            skip {"Person": [{"id": "x"}, {"id": 1}, {"age": 1}, 5, {"id": 2, "age": 99999, "name": "a"}, {"id": 3}], "Seat": [{}],
              "Person": [{"id": "y"}]} => Person +2 !5, Seat !1; invalidValue /Person/0/id, missingIdentity /Person/2, invalidValue /Person/3,
              invalidValue /Person/4/age, missingIdentity /Seat/0, invalidValue /Person/0/id
            ids :: 1, 3
            # a key that names another number has a warning, for each of its attributes
            {"Mark": [{"at": 9007199254740992}, {"at": 1}], "Place": [{"x": 9007199254740992, "y": 1}, {"x": 1, "y": 0}]}
            warnings {"op": "delete", "entity": "Mark", "objects": [9007199254740993, 1]} => inexact Mark.at 1
            warnings {"op": "delete", "entity": "Place", "objects": [{"x": 9007199254740993, "y": 1}, {"x": 1, "y": 1e-400}]}
              => inexact Place.x 1, inexact Place.y 1
            # a nested record has its holder's identity and its place
            {"Order": [{"body": {"lines": [{"sku": "a"}, {"sku": "b"}]}, "head": {"id": 7}},
              {"head": {"id": 8}, "body": {"lines": {"sku": "c"}}, "best": {"sku": "d"}}]}
            lines :: 7|0|a, 7|1|b, 8|0|d
            # a key of the record before the holder's counts first
            {"Order": {"head": {"id": 7}, "body": {"lines": [{"at": 5}, {"at": null}, {}]}}}
            lines :: 7|1|NULL, 7|2|NULL, 7|5|NULL
            # the places of a dictionary are those of its members
            {"Offer": {"id": 3, "lines": [{"a": {}, "b": {}}, {"c": {}}]}}
            lines :: 3|0|a, 3|1|b, 3|2|c
            # skipped elements count
            skip {"Order": {"head": {"id": 7}, "body": {"lines": [{"sku": "a"}, {"sku": []}, null, {"sku": "b"}]}}}
              => Line +2 !2, Order +1; invalidValue /Order/body/lines/1/sku, invalidValue /Order/body/lines/2
            lines :: 7|0|a, 7|3|b
            # a record that is not nested has no such value
            {"Line": {"sku": "a"}} => missingIdentity /Line
            # faults of a job that fails are found in the order of the text, and a holder's fault makes no nested record wrong
            {"Order": {"body": {"lines": [{"sku": []}]}, "head": {"id": 7}, "note": {}}} => invalidValue /Order/body/lines/0/sku
            {"Order": {"body": {"lines": [{"sku": 1}]}, "head": {"id": 7}, "note": {}}} => invalidValue /Order/note
            {"Order": {"body": {"lines": [{"sku": 1}]}, "head": {"id": "x"}, "note": {}}} => invalidValue /Order/head/id
            # later collections override nested records of earlier ones
            {"Order": {"head": {"id": 7}, "body": {"lines": [{"sku": "a"}]}}, "Line": [], "Offer": {"id": 7, "lines": {"b": {}}}}
            lines :: 7|0|b
            """#))
    func `records as they are read`(claim: Claim) throws { try claim.check(TestStore(Self.model), Self.queries) }
}

/// Records that bring different keys are merged by one statement, which must do what each of them says and no more.
@Suite(.timeLimit(.minutes(5))) struct RaggedRowsTests {
    private static let model = """
        {"entities": {
          "Thing": {"identity": "id", "unique": [["code"]], "indexes": [["level"], ["note", "level"]], "attributes": {
              "id": "integer64", "name": {"type": "string", "optional": false}, "code": "string",
              "level": {"type": "integer32", "default": 7}, "score": {"type": "double", "optional": false, "default": 0.5},
              "active": "boolean", "note": "string", "price": "decimal", "data": "binary",
              "at": {"type": "date", "storage": "coreData"}},
            "relationships": {"place": {"entity": "Place"}, "owner": {"entity": "Owner"}}},
          "Place": {"identity": ["land", "town"], "attributes": {"land": "string", "town": "integer32", "size": "double"}},
          "Owner": {"attributes": {"name": "string"}},
          "Strict": {"identity": "id", "unique": [["code"]], "attributes": {
            "id": "integer64", "code": {"type": "string", "optional": false}, "n": "integer32"}},
          "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}},
          "Staff": {"parent": "Person", "attributes": {"rank": {"type": "integer32", "default": 3}, "pay": "decimal"}}}}
        """

    private static let sql = """
        SELECT t.id, t.name, t.code, t.level, t.score, typeof(t.score), t.active, t.note, t.price, hex(t.data), t.at,
            t.place_land, t.place_town, (SELECT name FROM Owner WHERE _pk = t.owner) FROM Thing AS t ORDER BY t.id
        """

    @Test(
        arguments: Claim.list(
            #"""
            # a ragged record that lacks what is required changes an object, and makes none
            {"Thing": [{"id": 1, "name": "a"}, {"id": 3, "name": "c", "note": "n"}]}
            {"Thing": [{"id": 1, "note": "x"}, {"id": 2, "level": 1}, {"id": 3}]} => missingValue /Thing/1
            SELECT id, name, note FROM Thing ORDER BY id :: 1|a|NULL, 3|c|n
            skip {"Thing": [{"id": 1, "note": "x"}, {"id": 2, "level": 1}, {"id": 3}]} => Thing ~1 =1 !1; missingValue /Thing/1
            SELECT id, name, note FROM Thing ORDER BY id :: 1|a|x, 3|c|n
            # a unique attribute that a ragged record lacks does not conflict
            {"Strict": [{"id": 1, "code": ""}, {"id": 2, "code": "b"}, {"id": 3, "code": "c"}]}
            {"Strict": [{"id": 2, "n": 1}, {"id": 3, "n": 2, "code": "d"}, {"id": 1}]} => Strict ~2 =1
            SELECT id, code, n FROM Strict ORDER BY id :: 1||NULL, 2|b|1, 3|d|2
            # objects exchange unique values and links also where each record brings other keys
            {"Thing": [{"id": 1, "name": "a", "code": "x"}, {"id": 2, "name": "b", "code": "y", "place": {"land": "l", "town": 1}}]}
            {"Thing": [{"id": 1, "code": "y", "place": {"land": "l", "town": 1}}, {"id": 2, "code": "x", "place": null, "note": "n"}]}
              => Place =1, Thing ~2
            SELECT id, code, place_land, place_town, note FROM Thing ORDER BY id :: 1|y|l|1|NULL, 2|x|NULL|NULL|n
            # ragged records of a hierarchy take the defaults of what they become
            {"Person": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3}]}
            {"Staff": [{"id": 1, "pay": 5}, {"id": 2, "rank": 9}, {"id": 3}, {"id": 4, "name": "d"}]} => Staff +1 ~3
            SELECT id, _entity, name, rank, pay FROM Person ORDER BY id :: 1|Staff|a|3|5, 2|Staff|b|9|NULL, 3|Staff|NULL|3|NULL, 4|Staff|d|3|NULL
            {"Staff": [{"id": 2, "pay": 1}, {"id": 3, "rank": 3}]} => Staff ~1 =1
            SELECT rank FROM Person WHERE id = 2 :: 9
            """#))
    func `ragged records`(claim: Claim) throws { try claim.check(TestStore(Self.model)) }

    @Test func `ragged records may have more columns than a function has arguments`() throws {
        let names = (0..<400).map { "a\($0)" }
        let attributes = names.map { "\"\($0)\": \"integer32\"" }.joined(separator: ", ")
        let test = try TestStore(
            #"{"entities": {"Wide": {"identity": "id", "attributes": {"id": "integer64", \#(attributes)}}}}"#)
        func job(_ value: Int) -> String {
            payload("Wide", names.indices.map { #"{"id": \#($0), "\#(names[$0])": \#(value), "a7": 3}"# })
        }
        // That of number 7 is the same key twice, of which the last counts.
        #expect(try [1, 1, 2].map { try test.changes(job($0)) } == ["Wide +400", "Wide =400", "Wide ~399 =1"])
        #expect(try test.rows("SELECT a399, a7, a0 FROM Wide WHERE id = 399") == ["2|3|NULL"])
    }
}

/// The result is as if the records were applied one after the other in the order in which they begin in the text.
@Suite(.timeLimit(.minutes(5))) struct RecordOrderTests {
    private static let model = """
        {"entities": {
          "E": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
            "mate": {"entity": "E", "inverse": "mate"},
            "boss": {"entity": "E", "inverse": "team"}, "team": {"entity": "E", "toMany": true, "inverse": "boss"},
            "skills": {"entity": "S", "toMany": true, "inverse": "people", "assignment": "replace"},
            "fancies": {"entity": "E", "toMany": true, "inverse": "fans", "ordered": true},
            "fans": {"entity": "E", "toMany": true, "inverse": "fancies", "ordered": true},
            "next": {"entity": "E", "inverse": "last"}, "last": {"entity": "E", "inverse": "next"}}},
          "S": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "people": {"entity": "E", "toMany": true, "inverse": "skills"}}}}}
        """

    private static let queries = [
        "employees": "SELECT id, name, boss, mate FROM E ORDER BY id", "bosses": "SELECT id, boss FROM E ORDER BY id",
        "mates": "SELECT id, mate FROM E ORDER BY id", "skills": "SELECT * FROM E_skills ORDER BY 1, 2",
    ]

    @Test(
        arguments: Claim.list(
            #"""
            # an inner record begins later than the one around it, and its attributes win
            {"E": {"boss": {"id": 1, "name": "inner"}, "id": 1, "name": "outer"}}
            employees :: 1|inner|1|NULL
            # an outer record's link is made after what is nested in it
            {"E": {"id": 1, "team": [{"id": 2, "boss": 3}, {"id": 4}]}}
            employees :: 1|NULL|NULL|NULL, 2|NULL|1|NULL, 3|NULL|NULL|NULL, 4|NULL|1|NULL
            # relationships come in the order of the text, not of the model
            {"E": {"id": 1, "team": [{"id": 5, "name": "first"}], "mate": {"id": 5, "name": "second"}}}
            SELECT name FROM E WHERE id = 5 :: second
            {"E": {"id": 1, "mate": {"id": 5, "name": "first"}, "team": [{"id": 5, "name": "third"}]}}
            SELECT name FROM E WHERE id = 5 :: third
            # a later pair takes the partners of earlier ones, whichever side says so
            {"E": [{"id": 7, "mate": 1}, {"id": 8, "mate": 2}]}
            {"E": [{"id": 1, "mate": {"id": 2, "mate": {"id": 3, "mate": 4}}}]}
            mates :: 1|2, 2|1, 3|NULL, 4|NULL, 7|NULL, 8|NULL
            # null clears what came before it, not what comes after
            {"E": [{"id": 1, "team": [2]}, {"id": 1, "team": null}, {"id": 3, "boss": 1}]}
            bosses :: 1|NULL, 2|NULL, 3|1
            {"E": [{"id": 4, "boss": 1}, {"id": 1, "team": null}]}
            bosses :: 1|NULL, 2|NULL, 3|NULL, 4|NULL
            # a set replaces each time that it is sent
            {"E": [{"id": 1, "skills": [1]}]}
            {"E": [{"id": 1, "skills": [2]}, {"id": 1, "skills": [3]}]}
            skills :: 1|3
            {"E": [{"id": 1, "skills": [4]}], "S": [{"id": 5, "people": [1]}]}
            skills :: 1|4, 1|5
            {"S": [{"id": 6, "people": [1]}], "E": [{"id": 1, "skills": [7]}]}
            skills :: 1|7
            # a link that both ends' records name is a change of both, made or ended
            {"E": {"id": 1}, "S": [{"id": 1}, {"id": 2}]} => E +1, S +2
            {"E": {"id": 1, "skills": [1, 2]}, "S": {"id": 1, "people": [1]}} => E ~1, S ~1 =1
            {"E": {"id": 1, "skills": null}, "S": {"id": 1, "people": null}} => E ~1, S ~1
            skills ::
            # the fault that begins first in the text is reported, in whatever order it is found
            {"E": [{"name": [], "id": "x"}]} => invalidValue /E/0/name
            {"E": [{"boss": {"id": "y"}, "id": "x"}]} => invalidValue /E/0/boss/id
            {"E": [{"team": [{"id": 1, "mate": []}], "name": [], "id": 1}]} => invalidValue /E/0/team/0/mate
            {"E": [{"boss": {"id": "y"}, "name": []}]} => missingIdentity /E/0
            """#))
    func `the order of records`(claim: Claim) throws { try claim.check(TestStore(Self.model), Self.queries) }

    /// Keys of one record about links to itself, and the links.
    @Test(
        arguments: [
            (#""fancies": [1], "fans": null"#, ""), (#""fans": null, "fancies": [1]"#, "fancies 1|1"),
            (#""fancies": [1, 1, 2], "fans": null"#, "fancies 1|2"),
            (#""fans": [1, 2], "fancies": null"#, "fancies 2|1"),
            (#""fancies": null, "fans": [1]"#, "fancies 1|1"),
            (#""fancies": [{"id": 1, "fancies": [1]}], "fans": null"#, ""),
            (#""boss": 1, "team": null"#, ""), (#""team": null, "boss": 1"#, "boss 1|1"),
            (#""team": [1], "boss": null"#, ""),
            (#""boss": null, "team": [1]"#, "boss 1|1"), (#""next": 1, "last": null"#, ""),
            (#""last": null, "next": 1"#, "last 1|1, next 1|1"),
        ], [false, true])
    func `the later of two keys of a record decides a link`(keys: (record: String, links: String), isStored: Bool)
        throws
    {
        let link = [#""fancies": [1]"#, #""boss": 1"#, #""next": 1"#].first { keys.record.contains($0.prefix(6)) }!
        let store = try TestStore(Self.model, having: isStored ? #"{"E": {"id": 1, \#(link)}}"# : #"{"E": {"id": 1}}"#)
        try store.apply(#"{"E": {"id": 1, \#(keys.record)}}"#)
        let links =
            try store.rows("SELECT 'boss ' || id, boss FROM E WHERE boss NOTNULL")
            + store.rows("SELECT 'fancies ' || source, destination FROM E_fancies ORDER BY 1, 2")
            + store.rows("SELECT 'last ' || id, last FROM E WHERE last NOTNULL")
            + store.rows("SELECT 'next ' || id, next FROM E WHERE next NOTNULL")
        #expect(links.joined(separator: ", ") == keys.links)
        #expect(try store.rows("SELECT 1 FROM E_fancies WHERE position IS NULL OR inverse_position IS NULL").isEmpty)
    }
}

/// What a sync names, and decimals in predicates.
@Suite(.timeLimit(.minutes(5))) struct RecordRuleTests {
    private static let tree = """
        {"entities": {
          "C": {"identity": "id", "modified": "at", "tombstone": "gone == YES",
            "attributes": {"id": "integer64", "at": "integer64", "gone": "boolean"}, "relationships": {
              "replies": {"entity": "C", "toMany": true, "inverse": "to"}, "to": {"entity": "C", "inverse": "replies"},
              "by": {"entity": "U"}}},
          "U": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {"said": {"entity": "C", "toMany": true}}},
          "K": {"identity": "name", "identityOptional": true, "modified": "at",
            "attributes": {"name": "string", "at": "integer64"}, "relationships": {"under": {"entity": "K", "toMany": true}}}}}
        """

    @Test(
        arguments: Claim.list(
            #"""
            # a sync that is sent twice deletes nothing of what it names, at any depth
            {"C": [{"id": 6}, {"id": 7}]}
            {"entity": "C", "json": {"id": 1, "at": 5, "replies": [{"id": 2, "at": 5, "replies": [3, {"id": 4}]}]}}
            {"entity": "C", "json": {"id": 5}}
            {"op": "sync", "entity": "C", "json": [{"id": 1, "at": 5, "replies": [
              {"id": 2, "at": 5, "replies": [3, {"id": 4}], "by": {"id": 1, "said": [5, {"id": 6}]}}]}]} => C =5 -1, U +1
            SELECT id FROM C ORDER BY 1 :: 1, 2, 3, 4, 5, 6
            # a sync does not name what its tombstones hold
            {"C": [{"id": 1, "at": 1, "replies": [{"id": 2}, {"id": 3}]}, {"id": 4, "at": 9}, {"id": 5}]}
            {"op": "sync", "entity": "C", "json": [{"id": 1, "at": 2, "gone": true, "replies": [2, {"id": 3}]},
              {"id": 4, "at": 8, "gone": true}]}
            SELECT id FROM C ORDER BY 1 :: 4
            # a sync names by an optional identity, too
            {"K": [{"name": "a", "at": 1, "under": [{"name": "b"}]}, {"name": "c"}]}
            {"op": "sync", "entity": "K", "json": [{"name": "a", "at": 1, "under": ["b"]}]}
            SELECT name FROM K ORDER BY 1 :: a, b
            # a sync of which a record is rejected deletes nothing
            {"C": [{"id": 1}, {"id": 2}]}
            skip warnings {"op": "sync", "entity": "C", "json": [{"id": 3, "at": "?", "replies": [1]}]} => deletionSkipped C. 1
            SELECT id FROM C ORDER BY 1 :: 1, 2
            """#))
    func syncs(claim: Claim) throws { try claim.check(TestStore(Self.tree)) }

    @Test(arguments: [
        "price == 1.50", "price = '1.5'", "price IN {7, 1.500}", "price BETWEEN {1.50, 1.5}", "price <= 1.50",
        "NOT (price != 1.500)", "price == other", "price >= other AND price <= other", "of == 2.0", "of IN {2.00, 9}",
        "of.no == 2.00", "of.price == price",
    ])
    func `decimals are compared by value`(predicate: String) throws {
        let store = try TestStore(
            """
            {"entities": {
              "P": {"identity": "id", "attributes": {"id": "integer64", "price": "decimal", "other": "decimal"},
                "relationships": {"of": {"entity": "D"}}},
              "D": {"identity": "no", "attributes": {"no": "decimal", "price": "decimal"}}}}
            """)
        try store.apply(
            #"""
            {"D": {"no": 2, "price": "001.500"},
             "P": [{"id": 1, "price": 1.5, "other": "1.50", "of": 2}, {"id": 2, "price": 1.51, "other": 1.5}]}
            """#)
        #expect(try store.run(#"{"op": "delete", "entity": "P", "where": "\#(predicate)"}"#) == "P -1")
        #expect(try store.rows("SELECT id FROM P") == ["2"])
    }

    @Test(arguments: ["price == 1.50", "price IN {1.500}"])
    func `a tombstone compares decimals by value`(predicate: String) throws {
        let attributes = #""attributes": {"id": "integer64", "price": "decimal"}"#
        let store = try TestStore(
            #"{"entities": {"P": {"identity": "id", "tombstone": "\#(predicate)", \#(attributes)}}}"#)
        try store.apply(#"{"P": [{"id": 1, "price": 2}, {"id": 2, "price": 2}]}"#)
        try store.apply(#"{"P": [{"id": 1, "price": "01.5000"}, {"id": 2, "price": 1.51}]}"#)
        #expect(try store.rows("SELECT id FROM P") == ["2"])
    }

    @Test func `the model's schema says of tombstone and modified what the server takes`() throws {
        _ = try TestStore(Self.tree)
        let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../protocol")
        let schema = try String(contentsOf: folder.appending(path: "model.schema.json"), encoding: .utf8)
        let line = try #require(
            schema.split(separator: "\n").first { $0.contains("A predicate on the record's own attributes") })
        #expect(line.contains("with modified only if it is newer") && !line.contains("without modified"))
    }
}

/// A record that is not newer than its object is ignored, and the records nested in it are applied (`modified`).
@Suite(.timeLimit(.minutes(5))) struct ModifiedTests {
    private static let model = """
        {"entities": {
          "Post": {"identity": "id", "modified": "at", "attributes": {
            "id": "integer64", "at": "date", "title": {"type": "string", "optional": false}}, "relationships": {
            "author": {"entity": "Person", "inverse": "posts"},
            "tags": {"entity": "Tag", "toMany": true, "assignment": "replace"}}},
          "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
            "posts": {"entity": "Post", "toMany": true, "inverse": "author"}}},
          "Tag": {"identity": "word", "modified": "version", "attributes": {"word": "string", "version": "decimal",
            "note": {"type": "string", "maxLength": 5}}},
          "T": {"identity": "id", "modified": "at", "attributes": {"id": "integer64", "at": "integer64",
            "code": {"type": "string", "unique": true}}},
          "N": {"identity": "id", "identityOptional": true, "modified": "at",
            "attributes": {"id": "string", "at": {"type": "date", "storage": "unix"}, "text": "string"}},
          "Ant": {"identity": "no", "modified": "at", "attributes": {"no": "integer64", "at": "integer64",
            "text": {"type": "string", "default": "-"}}},
          "Bee": {"parent": "Ant"}, "Cat": {"parent": "Ant"}}}
        """
    private static let first =
        #"{"Post": {"id": 1, "at": "2020-01-02", "title": "one", "author": {"id": 9, "name": "Ann"}, "tags": ["a", "b"]}}"#
    private static let faulty =
        #"{"Post": [{"id": 1, "at": "2019-01-01", "title": "x", "author": {"id": "x"}, "#
        + #""tags": [{"word": "c", "note": "too long"}, {}]}, {"id": 2, "title": "two"}]}"#

    private static let queries = [
        "posts": "SELECT id, title, author FROM Post ORDER BY id",
        "tags": "SELECT word, version, note FROM Tag ORDER BY word",
        "links": "SELECT source, destination FROM Post_tags ORDER BY 1, 2",
    ]

    @Test(
        arguments: Claim.list(
            #"""
            # an older record and one of the same age are skipped, a newer one is accepted
            {"Post": {"id": 1, "at": "2020-01-01", "title": "x"}} => Post =1
            {"Post": {"id": 1, "at": "2020-01-02T01:00:00+01:00", "title": "x"}} => Post =1
            posts :: 1|one|9
            {"Post": {"id": 1, "at": "2020-01-02T00:00:00.001Z", "title": "x"}} => Post ~1
            posts :: 1|x|9
            # records nested in a record that is not newer are applied, without links to it
            {"Post": {"id": 1, "at": "2019-01-01", "title": "x", "author": {"id": 9, "name": "Bob"}, "tags": [{"word": "c"}]}}
              => Person ~1, Post =1, Tag +1
            SELECT * FROM Person :: 9|Bob
            links :: 1|a, 1|b
            \#(faulty) => invalidValue /Post/0/author/id
            skip \#(faulty) => Person !1, Post +1 =1, Tag !2; invalidValue /Post/0/author/id,
                validationFailed /Post/0/tags/0/note, missingIdentity /Post/0/tags/1
            # a record is not newer, also when a later operation names its object by a bare key
            {"Tag": {"word": "a", "version": 5, "note": "new"}}
            {"entity": "Tag", "json": {"word": "a", "version": 4, "note": "old"}}, {"entity": "Post", "json": {"id": 1, "tags": ["a"]}}
              => Post ~1, Tag =1
            SELECT note FROM Tag WHERE word = 'a' :: new
            # the first fault in the text of a newer record is reported
            {"Post": [{"id": 1, "at": "2021-01-01", "tags": [{"word": "c", "note": "too long"}]}, {"id": 2, "title": []}]}
              => validationFailed /Post/0/tags/0/note
            posts :: 1|one|9
            # a parent links to a child that is not newer
            {"Person": {"id": 8, "posts": [{"id": 1, "at": "2019-01-01", "title": "x", "tags": [{"word": "c"}]}]}}
              => Person +1, Post ~1, Tag +1
            posts :: 1|one|8
            {"Tag": {"word": "z", "version": 10, "note": "new"}}
            {"Post": {"id": 1, "tags": [{"word": "z", "version": 9.5, "note": "old"}, {"word": "a"}]}} => Post ~1, Tag =2
            links :: 1|a, 1|z
            tags :: a|NULL|NULL, b|NULL|NULL, c|NULL|NULL, z|10|new
            # a record or a row without a value is taken
            {"Post": {"id": 1, "title": "no date"}} => Post ~1
            posts :: 1|no date|9
            {"Post": {"id": 1, "at": null, "title": "null"}} => Post ~1
            {"Post": {"id": 1, "at": "1999-01-01", "title": "old"}} => Post ~1
            SELECT at FROM Post :: 1999-01-01T00:00:00.000Z
            {"Tag": {"word": "a", "version": -1}} => Tag ~1
            # numbers are compared by value
            {"Tag": {"word": "n", "version": 9.5, "note": "a"}}
            {"Tag": {"word": "n", "version": 9.50, "note": "9.50"}} => Tag =1
            {"Tag": {"word": "n", "version": -10, "note": "-10"}} => Tag =1
            {"Tag": {"word": "n", "version": 10, "note": "10"}} => Tag ~1
            {"Tag": {"word": "n", "version": 10.0, "note": "10.0"}} => Tag =1
            {"Tag": {"word": "n", "version": 100.1, "note": "100.1"}} => Tag ~1
            # records of one job are compared with each other, each in its turn, and null makes room for any
            {"Tag": [{"word": "a", "version": 2, "note": "two"}, {"word": "a", "version": 1, "note": "one"}]} => Tag ~1
            tags :: a|2|two, b|NULL|NULL
            {"Tag": [{"word": "a", "version": 1, "note": "one"}, {"word": "a", "version": 3}]} => Tag ~1
            tags :: a|3|two, b|NULL|NULL
            {"Tag": [{"word": "a", "version": 2, "note": "x"}, {"word": "a", "version": null}, {"word": "a", "version": 1, "note": "y"}]}
            tags :: a|1|y, b|NULL|NULL
            # records of one job are compared over its operations, too
            {"Tag": {"word": "a", "version": 5, "note": "five"}, "Person": {"id": 3}, "Post": {"id": 2, "title": "t",
              "tags": [{"word": "a", "version": 4, "note": "four"}, {"word": "a", "version": 6}]}} => Person +1, Post +1, Tag ~1
            tags :: a|6|five, b|NULL|NULL
            links :: 1|a, 1|b, 2|a
            # a record nested in one that is not newer counts against a later one
            {"Post": [{"id": 1, "at": "2019-01-01", "title": "x", "tags": [{"word": "a", "version": 7}]},
              {"id": 5, "title": "five", "tags": [{"word": "a", "version": 3, "note": "three"}]}]} => Post +1 =1, Tag ~1
            tags :: a|7|NULL, b|NULL|NULL
            # an object that only a skipped record names is not inserted
            {"Post": [{"id": 1, "at": "2019-01-01", "title": "x"}, {"id": 4, "at": "2019-01-01"}]} => missingValue /Post/1
            # a record that is rejected does not count against a later one
            {"T": [{"id": 1, "code": "a", "at": 1}, {"id": 2, "at": 1}]}
            skip {"T": [{"id": 2, "code": "a", "at": 2}, {"id": 1, "at": 1, "code": "x"}, {"id": 3, "at": 1}]}
              => T +1 =1 !1; constraintViolation /T/0
            SELECT id, code, at FROM T ORDER BY 1 :: 1|a|1, 2|NULL|1, 3|NULL|1
            {"Bee": [{"no": 1, "at": 1, "text": "a"}]}
            skip {"Cat": [{"no": 1, "at": 9, "text": "b"}], "Ant": [{"no": 1, "at": 5, "text": "c"}]}
              => Bee ~1, Cat !1; constraintViolation /Cat/0
            SELECT no, at, text, _entity FROM Ant :: 1|5|c|Bee
            # keys list the records that were taken
            keys {"Post": [{"id": 1, "at": "2019-01-01", "title": "x"}, {"id": 2, "title": "two", "at": "2019-01-01"}]}
              => {"Post":{"inserted":[2],"updated":[],"deleted":[]}}
            keys {"Post": [{"id": 1, "at": "2022-01-01", "title": "x"}, {"id": 2, "title": "two", "at": "2018-01-01"}]}
              => {"Post":{"inserted":[],"updated":[1],"deleted":[]}}
            # objects with an optional identity are compared where they have one
            {"N": [{"id": "a", "at": 100, "text": "x"}, {"at": 100, "text": "new"}]}
            {"N": [{"id": "a", "at": 99, "text": "y"}, {"at": 99, "text": "newer"}]} => N +1 =1
            SELECT id, text FROM N ORDER BY _pk :: a|x, NULL|new, NULL|newer
            """#))
    func ages(claim: Claim) throws { try claim.check(TestStore(Self.model, having: Self.first), Self.queries) }
}
