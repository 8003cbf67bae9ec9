import TestSupport
import Testing

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
