import BrokerModel
import BrokerStaging
import Testing

@testable import BrokerStore

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
            "note": {"type": "string", "maxLength": 5}}}
        }}
        """

    private let store: TestStore

    init() throws {
        store = try TestStore(Self.model)
        try store.apply(
            #"{"Post": {"id": 1, "at": "2020-01-02", "title": "one", "author": {"id": 9, "name": "Ann"}, "tags": ["a", "b"]}}"#
        )
    }

    private func posts() throws -> [String] { try store.rows("SELECT id, title, author FROM Post ORDER BY id") }
    private func tags() throws -> [String] { try store.rows("SELECT word, version, note FROM Tag ORDER BY word") }

    @Test func `an older record and one of the same age are skipped, a newer one is accepted`() throws {
        #expect(try store.changes(#"{"Post": {"id": 1, "at": "2020-01-01", "title": "x"}}"#) == ["Post +0 ~0 =1 !0"])
        // The same instant, in another time zone.
        #expect(
            try store.changes(#"{"Post": {"id": 1, "at": "2020-01-02T01:00:00+01:00", "title": "x"}}"#)
                == ["Post +0 ~0 =1 !0"])
        #expect(try posts() == ["1|one|9"])
        #expect(
            try store.changes(#"{"Post": {"id": 1, "at": "2020-01-02T00:00:00.001Z", "title": "x"}}"#)
                == ["Post +0 ~1 =0 !0"])
        #expect(try posts() == ["1|x|9"])
    }

    @Test func `records nested in a record that is not newer are applied, without links to it`() throws {
        #expect(
            try store.changes(
                #"{"Post": {"id": 1, "at": "2019-01-01", "title": "x", "author": {"id": 9, "name": "Bob"}, "tags": [{"word": "c"}]}}"#
            ) == ["Person +0 ~1 =0 !0", "Post +0 ~0 =1 !0", "Tag +1 ~0 =0 !0"])
        #expect(try store.rows("SELECT * FROM Person") == ["9|Bob"])
        #expect(try store.rows("SELECT destination FROM Post_tags ORDER BY 1") == ["a", "b"])
        let faulty = #""author": {"id": "x"}, "tags": [{"word": "c", "note": "too long"}, {}]"#
        let payload =
            #"{"Post": [{"id": 1, "at": "2019-01-01", "title": "x", \#(faulty)}, {"id": 2, "title": "two"}]}"#
        #expect(try store.fault(payload)?.path == "/Post/0/author/id")
        let outcome = try store.outcome(payload, .skip)
        #expect(outcome.described.filter { $0.hasPrefix("Post") } == ["Post +1 ~0 =1 !0"])
        #expect(
            outcome.rejections == [
                "invalidValue /Post/0/author/id", "validationFailed /Post/0/tags/0/note",
                "missingIdentity /Post/0/tags/1",
            ])
    }

    @Test func `a record is not newer, also when a later operation names its object by a bare key`() throws {
        try store.apply(#"{"Tag": {"word": "a", "version": 5, "note": "new"}}"#)
        let older = #"{"entity": "Tag", "json": {"word": "a", "version": 4, "note": "old"}}"#
        #expect(try store.run(#"\#(older), {"entity": "Post", "json": {"id": 1, "tags": ["a"]}}"#) == "Post ~1, Tag =1")
        #expect(try tags().first == "a|5|new")
    }

    @Test func `the first fault in the text of a newer record is reported`() throws {
        let fault = try store.fault(
            #"{"Post": [{"id": 1, "at": "2021-01-01", "tags": [{"word": "c", "note": "too long"}]}, {"id": 2, "title": []}]}"#
        )
        #expect(fault?.path == "/Post/0/tags/0/note")
        #expect(fault?.code == .validationFailed)
        #expect(try posts() == ["1|one|9"])
    }

    @Test func `a parent links to a child that is not newer`() throws {
        #expect(
            try store.changes(
                #"{"Person": {"id": 8, "posts": [{"id": 1, "at": "2019-01-01", "title": "x", "tags": [{"word": "c"}]}]}}"#
            )
                == ["Person +1 ~0 =0 !0", "Post +0 ~1 =0 !0", "Tag +1 ~0 =0 !0"])
        #expect(try posts() == ["1|one|8"])
        try store.apply(#"{"Tag": {"word": "z", "version": 10, "note": "new"}}"#)
        #expect(
            try store.changes(
                #"{"Post": {"id": 1, "tags": [{"word": "z", "version": 9.5, "note": "old"}, {"word": "a"}]}}"#)
                == ["Post +0 ~1 =0 !0", "Tag +0 ~0 =2 !0"])
        #expect(try store.rows("SELECT destination FROM Post_tags ORDER BY 1") == ["a", "z"])
        #expect(try tags() == ["a|NULL|NULL", "b|NULL|NULL", "c|NULL|NULL", "z|10|new"])
    }

    @Test func `a record or a row without a value is taken`() throws {
        #expect(try store.changes(#"{"Post": {"id": 1, "title": "no date"}}"#) == ["Post +0 ~1 =0 !0"])
        #expect(try posts() == ["1|no date|9"])
        #expect(try store.changes(#"{"Post": {"id": 1, "at": null, "title": "null"}}"#) == ["Post +0 ~1 =0 !0"])
        #expect(
            try store.changes(#"{"Post": {"id": 1, "at": "1999-01-01", "title": "old"}}"#) == ["Post +0 ~1 =0 !0"])
        #expect(try store.rows("SELECT at FROM Post") == ["1999-01-01T00:00:00.000Z"])
        #expect(try store.changes(#"{"Tag": {"word": "a", "version": -1}}"#) == ["Tag +0 ~1 =0 !0"])
    }

    @Test func `numbers are compared by value`() throws {
        try store.apply(#"{"Tag": {"word": "n", "version": 9.5, "note": "a"}}"#)
        for (version, isNewer) in [("9.50", false), ("-10", false), ("10", true), ("10.0", false), ("100.1", true)] {
            let changes = try store.changes(#"{"Tag": {"word": "n", "version": \#(version), "note": "\#(version)"}}"#)
            #expect(changes == ["Tag +0 ~\(isNewer ? 1 : 0) =\(isNewer ? 0 : 1) !0"], "\(version)")
        }
    }

    @Test func `records of one job are compared with each other, in the order of the text`() throws {
        #expect(
            try store.changes(
                #"{"Tag": [{"word": "n", "version": 2, "note": "two"}, {"word": "n", "version": 1, "note": "one"}]}"#)
                == ["Tag +1 ~0 =0 !0"])
        #expect(try tags().last == "n|2|two")
        // Not the record that wins in the end, but each in its turn: 1 is not newer than 2, 3 is.
        #expect(
            try store.changes(
                #"{"Tag": [{"word": "n", "version": 1, "note": "one"}, {"word": "n", "version": 3}]}"#)
                == ["Tag +0 ~1 =0 !0"])
        #expect(try tags().last == "n|3|two")
        // Null makes room for any.
        try store.apply(
            #"{"Tag": [{"word": "n", "version": 2, "note": "x"}, {"word": "n", "version": null}, {"word": "n", "version": 1, "note": "y"}]}"#
        )
        #expect(try tags().last == "n|1|y")
    }

    @Test func `records of one job are compared over its operations, too`() throws {
        // Two operations on other entities between them, so that they are staged apart.
        let outcome = try store.outcome(
            #"{"Tag": {"word": "n", "version": 5, "note": "five"}, "Person": {"id": 3}, "Post": {"id": 2, "title": "t", "tags": [{"word": "n", "version": 4, "note": "four"}, {"word": "n", "version": 6}]}}"#
        )
        #expect(outcome.described == ["Person +1 ~0 =0 !0", "Post +1 ~0 =0 !0", "Tag +1 ~0 =0 !0"])
        #expect(try tags().last == "n|6|five")
        #expect(try store.rows("SELECT destination FROM Post_tags WHERE source = 2") == ["n"])
    }

    @Test func `a record nested in one that is not newer counts against a later one`() throws {
        let outcome = try store.outcome(
            #"{"Post": [{"id": 1, "at": "2019-01-01", "title": "x", "tags": [{"word": "q", "version": 7}]}, {"id": 5, "title": "five", "tags": [{"word": "q", "version": 3, "note": "three"}]}]}"#
        )
        #expect(outcome.described == ["Post +1 ~0 =1 !0", "Tag +1 ~0 =0 !0"])
        #expect(try tags().last == "q|7|NULL")
    }

    @Test func `an object that only a skipped record names is not inserted`() throws {
        let fault = try store.fault(
            #"{"Post": [{"id": 1, "at": "2019-01-01", "title": "x"}, {"id": 4, "at": "2019-01-01"}]}"#)
        #expect(fault?.code == .missingValue)
        #expect(fault?.path == "/Post/1")
    }

    @Test func `a record that is rejected does not count against a later one`() throws {
        let store = try TestStore(
            """
            {"entities": {"T": {"identity": "id", "modified": "at", "attributes": {"id": "integer64", "at": "integer64",
              "code": {"type": "string", "unique": true}}}}}
            """)
        try store.apply(#"{"T": [{"id": 1, "code": "a", "at": 1}, {"id": 2, "at": 1}]}"#)
        let outcome = try store.outcome(
            #"{"T": [{"id": 2, "code": "a", "at": 2}, {"id": 1, "at": 1, "code": "x"}, {"id": 3, "at": 1}]}"#, .skip)
        #expect(outcome.rejections == ["constraintViolation /T/0"])
        #expect(outcome.described == ["T +1 ~0 =1 !1"])
        #expect(try store.rows("SELECT id, code, at FROM T ORDER BY 1") == ["1|a|1", "2|NULL|1", "3|NULL|1"])
    }

    @Test func `keys list the records that were taken`() throws {
        #expect(
            try store.keys(
                #"{"Post": [{"id": 1, "at": "2019-01-01", "title": "x"}, {"id": 2, "title": "two", "at": "2019-01-01"}]}"#
            )
                == #"{"Post":{"inserted":[2],"updated":[],"deleted":[]}}"#)
        #expect(
            try store.keys(
                #"{"Post": [{"id": 1, "at": "2022-01-01", "title": "x"}, {"id": 2, "title": "two", "at": "2018-01-01"}]}"#
            )
                == #"{"Post":{"inserted":[],"updated":[1],"deleted":[]}}"#)
    }

    @Test func `objects with an optional identity are compared where they have one`() throws {
        let store = try TestStore(
            """
            {"entities": {"N": {"identity": "id", "identityOptional": true, "modified": "at",
              "attributes": {"id": "string", "at": {"type": "date", "storage": "unix"}, "text": "string"}}}}
            """)
        try store.apply(#"{"N": [{"id": "a", "at": 100, "text": "x"}, {"at": 100, "text": "new"}]}"#)
        #expect(
            try store.changes(#"{"N": [{"id": "a", "at": 99, "text": "y"}, {"at": 99, "text": "newer"}]}"#)
                == ["N +1 ~0 =1 !0"])
        #expect(try store.rows("SELECT id, text FROM N ORDER BY _pk") == ["a|x", "NULL|new", "NULL|newer"])
    }

    @Test func `a record that is rejected does not outdate later ones`() throws {
        let store = try TestStore(
            """
            {"entities": {
              "Ant": {"identity": "no", "modified": "at", "attributes": {"no": "integer64", "at": "integer64",
                "text": {"type": "string", "default": "-"}}},
              "Bee": {"parent": "Ant"}, "Cat": {"parent": "Ant"}}}
            """)
        try store.apply(#"{"Bee": [{"no": 1, "at": 1, "text": "a"}]}"#)
        let outcome = try store.outcome(
            #"{"Cat": [{"no": 1, "at": 9, "text": "b"}], "Ant": [{"no": 1, "at": 5, "text": "c"}]}"#, .skip)
        #expect(outcome.rejections == ["constraintViolation /Cat/0"])
        #expect(try store.rows("SELECT no, at, text, _entity FROM Ant") == ["1|5|c|Bee"])
    }
}
