import BrokerModel
import Testing

@testable import BrokerStore

/// Rows of records: what is written, what is left alone, and how it is counted.
@Suite(.timeLimit(.minutes(5))) struct StoreRecordTests {
    private let store: TestStore

    init() throws {
        store = try TestStore(
            """
            {"entities": {
              "Person": {"identity": "id", "table": "people", "attributes": {
                "id": "integer64", "name": {"type": "string", "optional": false}, "age": "integer16",
                "level": {"type": "integer16", "default": 1},
                  "mood": {"type": "string", "default": "calm", "optional": false}}},
              "Country": {"identity": "code", "attributes": {"code": "string", "name": "string"}},
              "Seat": {"identity": ["row", "number"], "attributes": {
                "row": "string", "number": "integer64", "taken": "boolean"}},
              "Note": {"attributes": {"text": "string", "data": "binary"}},
              "Guest": {"identity": "email", "identityOptional": true, "attributes": {
                "email": "string", "name": "string"}}
            }}
            """)
    }

    @Test func `new rows are inserted with defaults, changed ones updated, the same left alone`() throws {
        #expect(
            try store.changes(#"{"Person": [{"id": 1, "name": "a"}, {"id": 2, "name": "b", "age": 30, "level": 5}]}"#)
                == ["Person +2 ~0 =0 !0"])
        #expect(try store.rows("SELECT * FROM people ORDER BY 1, 2") == ["1|a|NULL|1|calm", "2|b|30|5|calm"])
        #expect(
            try store.changes(
                #"{"Person": [{"id": 1, "name": "A"}, {"id": 2, "age": 30}, {"id": 3, "name": "c", "mood": "wild"}]}"#)
                == ["Person +1 ~1 =1 !0"])
        #expect(
            try store.rows("SELECT * FROM people ORDER BY 1, 2") == [
                "1|A|NULL|1|calm", "2|b|30|5|calm", "3|c|NULL|1|wild",
            ])
    }

    @Test func `a partial record leaves the other columns as they are, null clears, defaults stay away`() throws {
        try store.apply(#"{"Person": {"id": 1, "name": "a", "age": 30, "level": 7, "mood": "wild"}}"#)
        #expect(try store.changes(#"{"Person": {"id": 1, "age": null}}"#) == ["Person +0 ~1 =0 !0"])
        #expect(try store.changes(#"{"Person": {"id": 1, "name": "b"}}"#) == ["Person +0 ~1 =0 !0"])
        #expect(try store.changes(#"{"Person": {"id": 1, "level": null}}"#) == ["Person +0 ~1 =0 !0"])
        #expect(try store.changes(#"{"Person": {"id": 1}}"#) == ["Person +0 ~0 =1 !0"])
        #expect(try store.rows("SELECT * FROM people ORDER BY 1, 2") == ["1|b|NULL|NULL|wild"])
    }

    @Test func `a new object without a required value fails the job, and nothing of it is there`() throws {
        let fault = try #require(
            try store.fault(
                #"{"Country": [{"code": "de"}], "Person": [{"id": 1, "name": "a"}, {"id": 2, "age": 3}]}"#))
        #expect(fault.code == .missingValue)
        #expect(fault.path == "/Person/1")
        #expect(fault.entity == "Person")
        #expect(fault.attribute == "name")
        #expect(try store.rows("SELECT * FROM people ORDER BY 1, 2") == [])
        #expect(try store.rows("SELECT * FROM Country") == [])
    }

    @Test func `with skip a new object without a required value is rejected, the others are inserted`() throws {
        let outcome = try store.outcome(
            #"{"Person": [{"id": 2, "age": 3}, {"id": 1, "name": "a"}, {"id": 3}, {"id": "x"}]}"#, .skip)
        #expect(outcome.described == ["Person +1 ~0 =0 !3"])
        #expect(
            outcome.rejections == ["missingValue /Person/0", "missingValue /Person/2", "invalidValue /Person/3/id"])
        #expect(try store.rows("SELECT id FROM people ORDER BY 1") == ["1"])
    }

    @Test func `each object counts once per job, however often the job names it`() throws {
        try store.apply(#"{"Country": {"code": "de"}}"#)
        #expect(
            try store.changes(
                """
                {"Country": [{"code": "de", "name": "a"}, {"code": "de"}, {"code": "fr"}, {"code": "fr", "name": "b"}],
                 "Person": {"id": 1, "name": "x"}, "Country": {"code": "de", "name": "c"}}
                """) == ["Country +1 ~1 =0 !0", "Person +1 ~0 =0 !0"])
        #expect(try store.rows("SELECT * FROM Country ORDER BY code") == ["de|c", "fr|b"])
    }

    @Test func `identities of text, of several attributes, optional and none find or create`() throws {
        let payload = """
            {"Country": [{"code": "de", "name": "x"}], "Seat": [{"row": "A", "number": 1, "taken": true},
              {"row": "A", "number": 2}],
             "Guest": [{"email": "a@b", "name": "x"}, {"name": "y"}, {"name": "y"}], "Note": [{"text": "n"},
               {"text": "n"}]}
            """
        #expect(
            try store.changes(payload)
                == ["Country +1 ~0 =0 !0", "Guest +3 ~0 =0 !0", "Note +2 ~0 =0 !0", "Seat +2 ~0 =0 !0"])
        #expect(
            try store.changes(payload)
                == ["Country +0 ~0 =1 !0", "Guest +2 ~0 =1 !0", "Note +2 ~0 =0 !0", "Seat +0 ~0 =2 !0"])
        #expect(try store.changes(#"{"Seat": {"row": "A", "number": 1, "taken": 0}}"#) == ["Seat +0 ~1 =0 !0"])
        #expect(try store.changes(#"{"Guest": {"email": "a@b", "name": "z"}}"#) == ["Guest +0 ~1 =0 !0"])
        #expect(try store.rows("SELECT * FROM Seat ORDER BY 1, 2") == ["A|1|0", "A|2|NULL"])
        #expect(
            try store.rows("SELECT * FROM Guest ORDER BY _pk")
                == ["1|a@b|z", "2|NULL|y", "3|NULL|y", "4|NULL|y", "5|NULL|y"])
        #expect(try store.rows("SELECT _pk, text FROM Note") == ["1|n", "2|n", "3|n", "4|n"])
    }

    @Test func `resubmitting everything writes no row at all`() throws {
        let people = (1...500).map { #"{"id": \#($0), "name": "n\#($0)", "age": \#($0 % 3 == 0 ? "null" : "7")}"# }
        let seats = (1...500).map { #"{"row": "r\#($0 % 9)", "number": \#($0)}"# }
        let payload = "{\"Person\": [\(people.joined(separator: ","))], \"Seat\": [\(seats.joined(separator: ","))]}"
        #expect(try store.changes(payload) == ["Person +500 ~0 =0 !0", "Seat +500 ~0 =0 !0"])
        #expect(try store.changes(payload) == ["Person +0 ~0 =500 !0", "Seat +0 ~0 =500 !0"])
        #expect(try store.changes(#"{"Person": [{"id": 1}, {"id": 2, "age": 7}]}"#) == ["Person +0 ~0 =2 !0"])
        let nothing = try store.logGrowth("{}")
        #expect(try store.logGrowth(payload) == nothing)
        #expect(try store.logGrowth(payload.replacing("n500", with: "n501")) > nothing)
    }

    @Test func `triggers of other programs in the file do not run`() throws {
        try store.execute("CREATE TRIGGER t AFTER INSERT ON people BEGIN SELECT RAISE(ABORT, 'no'); END")
        let payload = #"{"Person": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]}"#
        #expect(try store.changes(payload) == ["Person +2 ~0 =0 !0"])
        #expect(try store.changes(payload) == ["Person +0 ~0 =2 !0"])
    }

    @Test func `64-bit identities keep every digit`() throws {
        let ids = [Int64.min, -1, 0, 9_007_199_254_740_993, .max]
        try store.apply("{\"Person\": [\(ids.map { #"{"id": \#($0), "name": "x"}"# }.joined(separator: ","))]}")
        #expect(try store.rows("SELECT id FROM people ORDER BY 1") == ids.map(String.init))
    }

    @Test func `empty texts, texts with a NUL and empty blobs are not NULL`() throws {
        try store.apply(
            #"{"Note": [{"text": "", "data": ""}, {"text": "a\u0000b", "data": "AAE="}, {"text": null, "data": null}]}"#
        )
        #expect(
            try store.rows("SELECT typeof(text), length(CAST(text AS BLOB)), typeof(data), length(data) FROM Note")
                == ["text|0|blob|0", "text|3|blob|2", "null|NULL|null|NULL"])
        #expect(try store.rows("SELECT text FROM Note WHERE _pk = 2") == ["a\u{0}b"])
        try store.apply(#"{"Country": [{"code": "", "name": ""}, {"code": "a\u0000"}, {"code": "a"}]}"#)
        #expect(try store.changes(#"{"Country": [{"code": ""}, {"code": "a\u0000"}]}"#) == ["Country +0 ~0 =2 !0"])
        #expect(try store.rows("SELECT count(*) FROM Country") == ["3"])
    }

    @Test func `a required attribute may be changed through a partial record to an empty text`() throws {
        try store.apply(#"{"Person": {"id": 1, "name": "a"}}"#)
        #expect(try store.changes(#"{"Person": {"id": 1, "mood": ""}}"#) == ["Person +0 ~1 =0 !0"])
        #expect(try store.rows("SELECT name, mood FROM people ORDER BY 1, 2") == ["a|"])
    }

    @Test func `a job without records completes`() throws {
        #expect(try store.changes("{}") == [])
        #expect(try store.changes(#"{"Person": []}"#) == [])
    }

    @Test func `readers see a job after commit, and nothing of one that is rolled back`() throws {
        try store.store.begin()
        _ = try store.store.apply(store.job(#"{"Country": {"code": "de"}}"#, id: "a"))
        #expect(try store.rows("SELECT count(*) FROM Country") == ["0"])
        store.store.rollback()
        #expect(try store.rows("SELECT count(*) FROM Country") == ["0"])
        #expect(try store.store.outcome(ofJob: "a") == nil)
        try store.apply(#"{"Country": {"code": "de"}}"#, id: "a")
        #expect(try store.rows("SELECT count(*) FROM Country") == ["1"])
    }

    @Test func `a job that fails between others in a transaction leaves theirs alone`() throws {
        try store.store.begin()
        _ = try store.store.apply(store.job(#"{"Note": {"text": "a"}}"#))
        _ = try store.store.apply(store.job(#"{"Note": {"text": "b"}, "Person": {"id": 1}}"#))
        _ = try store.store.apply(store.job(#"{"Note": {"text": "c"}}"#))
        try store.store.commit()
        #expect(try store.rows("SELECT text FROM Note ORDER BY _pk") == ["a", "c"])
    }

    @Test func `a missing key sets the attribute's default, where the model says so`() throws {
        let test = try TestStore(
            """
            {"entities": {"A": {"identity": "id", "attributes": {"id": "integer64", "plain": {"type": "string", "default": "p"},
                "reset": {"type": "string", "default": "r", "defaultWhenMissing": true}},
                "relationships": {"next": {"entity": "A"}}}}}
            """)
        try test.apply(#"{"A": [{"id": 1, "plain": "x", "reset": "y"}, {"id": 2, "reset": null}]}"#)
        #expect(try test.rows("SELECT id, plain, reset FROM A ORDER BY id") == ["1|x|y", "2|p|NULL"])
        #expect(try test.changes(#"{"A": [{"id": 1}, {"id": 3, "next": 2}]}"#) == ["A +1 ~1 =1 !0"])
        // A bare key is no record.
        #expect(try test.rows("SELECT id, plain, reset FROM A ORDER BY id") == ["1|x|r", "2|p|NULL", "3|p|r"])
    }
}
