import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

/// `tombstone`: a record that matches it deletes its object.
@Suite(.timeLimit(.minutes(5))) struct TombstoneTests {
    private static let model = """
        {"entities": {
            "Person": {"identity": "id", "tombstone": "deleted == YES AND name != \\"saved\\"", "unique": [["email"]],
                "attributes": {"id": "integer64", "name": "string", "email": "string", "deleted": "boolean", "age": "integer16"},
                "relationships": {"boss": {"entity": "Person"},
                    "tasks": {"entity": "Task", "toMany": true, "inverse": "owner", "deleteRule": "cascade"}}},
            "Task": {"identity": "id", "identityOptional": true, "tombstone": "state == \\"gone\\"",
                "attributes": {"id": "integer64", "state": "string"},
                "relationships": {"owner": {"entity": "Person", "inverse": "tasks"}}}}}
        """
    private static let people = """
        {"Person": [{"id": 1, "name": "a", "email": "a@x"}, {"id": 2, "name": "b", "boss": 1, "email": "b@x"},
            {"id": 3, "name": "c", "tasks": [{"id": 7}, {"id": 8}]}]}
        """

    @Test(
        arguments: Claim.list(
            #"""
            # a matching record deletes its object by the delete rules
            {"Person": [{"id": 1, "deleted": true}, {"id": 3, "deleted": true, "name": "x"}]} => Person ~1 -2, Task -2
            people :: 2|b|NULL
            tasks ::
            # an object that does not exist is not deleted, and nothing is reported
            {"Person": [{"id": 9, "deleted": true}]} => nothing
            people :: 1|a|NULL, 2|b|1, 3|c|NULL
            # other attributes and nested records of a tombstone are ignored
            {"Person": [{"id": 2, "deleted": true, "age": "old", "boss": {"id": 5}, "tasks": [{"id": 9}, "x"]}]} => Person -1
            people :: 1|a|NULL, 3|c|NULL
            {"Person": [{"id": 1, "deleted": 7}]} => invalidValue /Person/0/deleted
            {"Person": [{"id": "x", "deleted": true}]} => invalidValue /Person/0/id
            {"Person": [{"age": "old", "boss": {}, "id": "x", "deleted": true}]} => invalidValue /Person/0/id
            {"Person": [{"deleted": true}]} => missingIdentity /Person/0
            {"Person": [{"age": "old", "deleted": true}]} => missingIdentity /Person/0
            # a record that matches in part is a record
            {"Person": [{"id": 1, "deleted": true, "name": "saved"}, {"id": 2, "deleted": false}]} => Person ~2
            # records take effect in their order around a tombstone: named afterwards is a new object
            {"Person": [{"id": 2, "deleted": true}, {"id": 2, "age": 3}]} => Person ~1
            people :: 1|a|NULL, 2|NULL|NULL, 3|c|NULL
            # named before is gone, with what was linked to it nullified
            {"Person": [{"id": 3, "boss": 4}, {"id": 4, "name": "d"}, {"id": 4, "deleted": true}]} => Person =1
            people :: 1|a|NULL, 2|b|1, 3|c|NULL
            # named before and after, what it had before the tombstone is gone
            {"Person": [{"id": 1, "name": "z", "age": 1}, {"id": 1, "deleted": true}, {"id": 1, "age": 2}]}
            SELECT name, age, email FROM Person WHERE id = 1 :: NULL|2|NULL
            # a bare key after a tombstone is a stub
            {"Person": [{"id": 1, "deleted": true}, {"id": 2, "boss": 1}]}
            people :: 1|NULL|NULL, 2|b|1, 3|c|NULL
            # a unique value that a tombstone frees may be taken in the same job
            {"Person": [{"id": 1, "deleted": true}, {"id": 4, "email": "a@x"}]}
            SELECT id FROM Person WHERE email = 'a@x' :: 4
            # a nested tombstone deletes its object and leaves no link
            {"Person": [{"id": 3, "tasks": [{"id": 7, "state": "gone"}, {"id": 9}]}]}
            tasks :: 8|3, 9|3
            # tombstones of several collections meet
            {"Person": [{"id": 5}], "Task": [{"id": 7, "state": "gone"}], "Person": [{"id": 5, "deleted": true}]} => Task -1
            people :: 1|a|NULL, 2|b|1, 3|c|NULL
            tasks :: 8|3
            # a rejected record does not keep a tombstone from taking effect, and a job that fails deletes nothing
            skip {"Person": [{"id": 1, "deleted": true}, {"id": 4, "email": "b@x"}, {"id": 5}]}
              => Person +1 ~1 -1 !1; constraintViolation /Person/1
            people :: 2|b|NULL, 3|c|NULL, 5|NULL|NULL
            {"Person": [{"id": 2, "deleted": true}, {"id": 6, "age": "x"}]} => invalidValue /Person/1/age
            people :: 2|b|NULL, 3|c|NULL, 5|NULL|NULL
            # a tombstone inside a rejected record deletes nothing
            skip {"Person": [{"id": 4, "email": "b@x", "boss": {"id": 1, "deleted": true}}, {"id": 5}]}
              => Person +1 !1; constraintViolation /Person/0
            people :: 1|a|NULL, 2|b|1, 3|c|NULL, 5|NULL|NULL
            """#))
    func tombstones(claim: Claim) throws {
        let queries = [
            "people": "SELECT id, name, boss FROM Person ORDER BY id",
            "tasks": "SELECT id, owner FROM Task ORDER BY id",
        ]
        try claim.check(TestStore(Self.model, having: Self.people), queries)
    }

    @Test(arguments: [
        // Links of the object in a table of their own, from either side.
        (#"{"E": [{"id": 1, "tags": [5]}, {"id": 1, "gone": true}, {"id": 1, "tags": [6]}]}"#, ["E_tags 1|6"]),
        (#"{"T": {"id": 5, "on": [1]}, "E": [{"id": 1, "gone": true}, {"id": 1}]}"#, []),
        (#"{"E": [{"id": 1, "gone": true}, {"id": 1}], "T": {"id": 5, "on": [1]}}"#, ["E_tags 1|5"]),
        // Links to it: the last word counts, and the deletion is one.
        (#"{"D": [{"id": 1, "e": 1}], "E": [{"id": 1, "gone": true}, {"id": 1}], "D": {"id": 2, "e": 1}}"#, ["D 2|1"]),
        (#"{"D": [{"id": 1, "e": 3}, {"id": 1, "e": 1}], "E": [{"id": 1, "gone": true}, {"id": 1}]}"#, []),
        // One to one.
        (#"{"E": [{"id": 1, "mate": 2}, {"id": 1, "gone": true}, {"id": 1}]}"#, []),
        (#"{"E": [{"id": 2, "mate": 1}, {"id": 1, "gone": true}, {"id": 1, "mate": 3}]}"#, ["E 1|3", "E 3|1"]),
    ])
    func `assertions about links before a tombstone do not apply to the new object`(payload: String, links: [String])
        throws
    {
        let test = try TestStore(
            """
            {"entities": {
                "E": {"identity": "id", "tombstone": "gone == YES", "attributes": {"id": "integer64", "gone": "boolean"},
                    "relationships": {"mate": {"entity": "E", "inverse": "mate"},
                        "tags": {"entity": "T", "toMany": true, "inverse": "on"}}},
                "T": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
                    "on": {"entity": "E", "toMany": true, "inverse": "tags"}}},
                "D": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {"e": {"entity": "E"}}}}}
            """)
        // The same in an empty store, and in one where all of it is there.
        for _ in 0..<2 {
            try test.apply(payload)
            let found =
                try test.rows("SELECT 'D ' || id, e FROM D WHERE e IS NOT NULL ORDER BY id")
                + test.rows("SELECT 'E ' || id, mate FROM E WHERE mate IS NOT NULL ORDER BY id")
                + test.rows("SELECT 'E_tags ' || source, destination FROM E_tags ORDER BY 1, 2")
            #expect(found == links)
            #expect(try test.isSound())
        }
    }

    @Test(
        arguments: Claim.list(
            #"""
            # a tombstone that is not newer than its object is skipped
            {"Note": {"id": 1, "gone": true, "version": 5}} => Note =1
            notes :: 1|a|5|NULL, 2|b|NULL|NULL
            # a tombstone that is newer, or has no age, or finds none, deletes
            {"Note": {"id": 1, "gone": true, "version": 6}} => Note -1
            {"Note": {"id": 2, "gone": true, "version": 1}} => Note -1
            {"Note": {"id": 3, "version": 9}}
            {"Note": {"id": 3, "gone": true}} => Note -1
            notes ::
            # a record after a tombstone makes a new object, however old it is
            {"Note": [{"id": 1, "gone": true, "version": 6}, {"id": 1, "version": 2}]} => Note ~1
            notes :: 1|NULL|2|NULL, 2|b|NULL|NULL
            # a record after a skipped tombstone is compared with the object
            {"Note": [{"id": 1, "gone": true, "version": 4}, {"id": 1, "version": 3, "text": "c"}]} => Note =1
            notes :: 1|a|5|NULL, 2|b|NULL|NULL
            # a tombstone is compared with a record before it
            {"Note": [{"id": 1, "version": 8, "text": "c"}, {"id": 1, "gone": true, "version": 7}]} => Note ~1
            notes :: 1|c|8|NULL, 2|b|NULL|NULL
            {"Note": [{"id": 3, "version": 8}, {"id": 3, "gone": true, "version": 9}, {"id": 3, "version": 1}]} => Note +1
            notes :: 1|c|8|NULL, 2|b|NULL|NULL, 3|NULL|1|NULL
            # tombstones are compared over several collections
            {"Book": {"id": 1, "note": {"id": 1, "version": 8}}, "Note": {"id": 1, "gone": true, "version": 7}} => Book +1, Note ~1
            notes :: 1|a|8|NULL, 2|b|NULL|NULL
            # a skipped nested tombstone still links to its object
            {"Book": {"id": 1, "note": {"id": 1, "gone": true, "version": 3}}} => Book +1, Note =1
            notes :: 1|a|5|NULL, 2|b|NULL|NULL
            SELECT note FROM Book :: 1
            """#))
    func `tombstones beside modified`(claim: Claim) throws {
        let test = try TestStore(
            """
            {"entities": {
                "Note": {"identity": "id", "tombstone": "gone == YES", "modified": "version",
                    "attributes": {"id": "integer64", "text": "string", "version": "integer64", "gone": "boolean"},
                    "relationships": {"about": {"entity": "Note"}}},
                "Book": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {"note": {"entity": "Note"}}}}}
            """, having: #"{"Note": [{"id": 1, "version": 5, "text": "a"}, {"id": 2, "text": "b"}]}"#)
        try claim.check(test, ["notes": "SELECT id, text, version, gone FROM Note ORDER BY id"])
    }

    @Test func `an invalid tombstone is reported with the model`() throws {
        for (text, words) in [
            ("delted == YES", "did you mean \"deleted\"?"), ("boss.id == 1", "its own attributes alone"),
            ("deleted == %@", "asks for an argument"),
        ] {
            let model = Self.model.replacing("state == \\\"gone\\\"", with: "state == 1")
                .replacing("deleted == YES AND name != \\\"saved\\\"", with: text)
            let error = #expect(throws: ModelError.self) { try stagingPlan(model) }
            #expect(error?.description.contains(words) == true, "\(error!)")
        }
        let unidentified = #"{"entities": {"A": {"attributes": {"a": "string"}, "tombstone": "a == 1"}}}"#
        #expect(throws: ModelError.self) { try stagingPlan(unidentified) }
    }
}

/// Records and tombstones of one operation take effect in their order, also where a tombstone deletes other objects by
/// cascade, or is held back by `deny`.
@Suite(.timeLimit(.minutes(5))) struct TombstoneOrderTests {
    private static let model = """
        {"entities": {
            "Node": {"identity": "no", "tombstone": "gone == YES",
                "attributes": {"no": "integer64", "text": "string", "gone": "boolean"},
                "relationships": {"to": {"entity": "Node", "deleteRule": "cascade"},
                    "parent": {"entity": "Node", "inverse": "children"},
                    "children": {"entity": "Node", "toMany": true, "inverse": "parent", "deleteRule": "cascade"},
                    "lock": {"entity": "Lock", "inverse": "nodes"}}},
            "Mark": {"identity": "no", "tombstone": "gone == YES", "attributes": {"no": "integer64", "gone": "boolean"},
                "relationships": {"of": {"entity": "Node", "toMany": true, "deleteRule": "cascade"}}},
            "Lock": {"identity": "no", "tombstone": "gone == YES", "attributes": {"no": "integer64", "gone": "boolean"},
                "relationships": {"nodes": {"entity": "Node", "toMany": true, "inverse": "lock", "deleteRule": "deny"}}}}}
        """
    private static let stored = #"{"Node": [{"no": 1, "text": "a", "to": {"no": 3, "text": "b"}}, {"no": 9}]}"#

    @Test(
        arguments: Claim.list(
            #"""
            # a record before a tombstone goes with what it hangs on
            {"Node": [{"no": 3, "text": "y"}, {"no": 1, "gone": true}]}
            nodes :: 9|NULL|NULL|NULL
            # a record after a tombstone is a new object
            {"Node": [{"no": 1, "gone": true}, {"no": 3, "text": "y"}]}
            nodes :: 3|y|NULL|NULL, 9|NULL|NULL|NULL
            # a record before and one after a tombstone make a new object of the later one
            {"Node": [{"no": 3, "text": "y"}, {"no": 1, "gone": true}, {"no": 3}]}
            nodes :: 3|NULL|NULL|NULL, 9|NULL|NULL|NULL
            # an object that is linked before its holder's tombstone goes with it
            {"Node": [{"no": 1, "to": 9}, {"no": 1, "gone": true}, {"no": 8}]}
            nodes :: 3|b|NULL|NULL, 8|NULL|NULL|NULL
            # an object that is not linked any more stays
            {"Node": [{"no": 1, "to": null}, {"no": 1, "gone": true}]}
            nodes :: 3|b|NULL|NULL, 9|NULL|NULL|NULL
            # an object that is named after the tombstone is a new one without its links
            {"Node": [{"no": 9, "children": [{"no": 7}]}, {"no": 9, "gone": true}, {"no": 7, "text": "x"}, {"no": 9, "text": "x"}]}
            nodes :: 1|a|3|NULL, 3|b|NULL|NULL, 7|x|NULL|NULL, 9|x|NULL|NULL
            # a tombstone inside a record comes after that record
            {"Node": [{"no": 3, "text": "y", "children": [{"no": 1, "gone": true}]}, {"no": 9, "text": "z"}]}
            nodes :: 9|z|NULL|NULL
            # several collections, and rejected records, do not change the order
            {"Mark": [{"no": 1, "of": [9]}]}
            skip {"Node": [{"no": 3, "text": "y"}, {"no": "x"}, {"no": 4}, {"no": 9, "text": "z"}], "Mark": [{"no": 1, "gone": true}],
              "Node": [{"no": 1, "gone": true}, {"no": "y"}, {"no": 9}]}
              => Mark -1, Node +1 =1 -2 !2; invalidValue /Node/1/no, invalidValue /Node/1/no
            nodes :: 4|NULL|NULL|NULL, 9|NULL|NULL|NULL
            # a tombstone in an element does not see the links that are made after the last element
            {"Lock": {"no": 5, "nodes": [{"no": 7}, {"no": 8, "lock": {"no": 5, "gone": true}}]}} => Node +2
            nodes :: 1|a|3|NULL, 3|b|NULL|NULL, 7|NULL|NULL|NULL, 8|NULL|NULL|NULL, 9|NULL|NULL|NULL
            # deny is judged at each tombstone: those before the last of the objects that it protects fail
            {"Node": [{"no": 1, "lock": 5}, {"no": 2, "lock": 5}]}
            {"Lock": {"no": 5, "gone": true}, "Node": [{"no": 1, "gone": true}, {"no": 2, "gone": true}]} => constraintViolation /Lock
            {"Node": {"no": 1, "gone": true}, "Lock": {"no": 5, "gone": true}, "Node": {"no": 2, "gone": true}} => constraintViolation /Lock
            {"Node": [{"no": 2, "gone": true}, {"no": 1, "gone": true}], "Lock": {"no": 5, "gone": true}} => Lock -1, Node -3
            nodes :: 9|NULL|NULL|NULL
            """#))
    func order(claim: Claim) throws {
        let queries = ["nodes": #"SELECT no, text, "to", parent FROM Node ORDER BY no"#]
        try claim.check(TestStore(Self.model, having: Self.stored), queries)
    }

    @Test func `an element that is deleted and named again in one record is linked, in its place`() throws {
        let relationships = ["\"entity\": \"Item\", \"inverse\": \"list\"", "\"entity\": \"Item\""]
        for (isJoinTable, relationship) in relationships.enumerated() {
            let test = try TestStore(
                """
                {"entities": {
                    "List": {"identity": "no", "attributes": {"no": "integer64"}, "relationships": {
                        "items": {"toMany": true, "ordered": true, \(relationship)},
                        "first": {"entity": "Item"}, "last": {"entity": "Item"}}},
                    "Item": {"identity": "no", "tombstone": "gone == YES", "attributes": {"no": "integer64", "gone": "boolean"},
                        "relationships": {"list": {"entity": "List"\(isJoinTable == 0 ? ", \"inverse\": \"items\"" : "")}}}}}
                """)
            let places =
                isJoinTable == 0
                ? "SELECT no, list_position FROM Item WHERE list = 1 ORDER BY 2"
                : "SELECT destination, position FROM List_items ORDER BY 2"
            let record =
                #"{"no": 1, "first": {"no": 4, "gone": true}, "items": [6, {"no": 5, "gone": true}, {"no": 5}, 7], "last": 4}"#
            for _ in 0..<2 {
                try test.apply("{\"List\": \(record)}")
                let found = try test.rows(places)
                #expect(found.map { $0.split(separator: "|")[0] }.sorted() == ["5", "6", "7"])
                #expect(!found.contains { $0.hasSuffix("NULL") }, "\(found)")
                #expect(try test.rows("SELECT first, last FROM List") == ["NULL|4"])
                #expect(try test.isSound())
            }
        }
    }
}

/// A tombstone finds its object in the whole hierarchy, like any other record.
@Suite(.timeLimit(.minutes(5))) struct TombstoneHierarchyTests {
    private static let model = """
        {"entities": {
            "Ant": {"identity": "no", "tombstone": "gone == YES", "modified": "at",
                "attributes": {"no": "integer64", "text": "string", "at": "integer64", "gone": "boolean"},
                "relationships": {"friend": {"entity": "Ant"}, "mate": {"entity": "Cat"}, "queen": {"entity": "Queen"}}},
            "Bee": {"parent": "Ant", "attributes": {"sting": "integer16"}}, "Queen": {"parent": "Bee"},
            "Cat": {"parent": "Ant", "attributes": {"claw": "integer16"}},
            "Pause": {"identity": "id", "attributes": {"id": "integer64"}}}}
        """

    /// Each payload with its faults, and the rows with `skip`. Bee 1 and Ant 2 are stored.
    @Test(arguments: [
        (#""Cat": [{"no": 1, "gone": true}]"#, ["/Cat/0"], ["1|Bee|s|5|NULL", "2|Ant|NULL|5|NULL"]),
        // A rejected tombstone does not make older records acceptable, nor records of its own entity,
        (
            #""Cat": [{"no": 1, "at": 9, "gone": true}, {"no": 1}], "Ant": [{"no": 1, "at": 3, "text": "c"}]"#,
            ["/Cat/0", "/Cat/1"], ["1|Bee|s|5|NULL", "2|Ant|NULL|5|NULL"]
        ),
        // and discards nothing that earlier records brought.
        (
            #""Ant": [{"no": 1, "text": "x", "friend": 2}], "Cat": [{"no": 1, "gone": true}], "Ant": [{"no": 1}]"#,
            ["/Cat/0"], ["1|Bee|x|5|2", "2|Ant|NULL|5|NULL"]
        ),
        (
            #""Ant": [{"no": 2, "friend": {"no": 3, "friend": 1}}], "Queen": [{"no": 2}], "Cat": [{"no": 2, "gone": true}]"#,
            ["/Cat/0"], ["1|Bee|s|5|NULL", "2|Queen|NULL|5|3", "3|Ant|NULL|NULL|1"]
        ),
        (
            #""Cat": [{"no": 4, "friend": {"no": 2, "gone": true}}, {"no": 1, "at": 5, "gone": true}]"#, ["/Cat/1"],
            ["1|Bee|s|5|NULL", "4|Cat|NULL|NULL|NULL"]
        ),
        // A record inside one that is not newer is applied.
        (
            #""Ant": [{"no": 2, "at": 4, "mate": {"no": 9}}, {"no": 3, "queen": {"no": 9, "gone": true}}]"#,
            ["/Ant/1/queen"],
            ["1|Bee|s|5|NULL", "2|Ant|NULL|5|NULL", "3|Ant|NULL|NULL|NULL", "9|Cat|NULL|NULL|NULL"]
        ),
        // An entity above or below finds the object; nothing stored is no fault.
        (#""Queen": [{"no": 1, "gone": true}, {"no": 2, "gone": true}, {"no": 7, "gone": true}]"#, [], []),
        (
            #""Ant": [{"no": 1, "gone": true}], "Cat": [{"no": 1}, {"no": 1, "gone": true}, {"no": 1, "at": 1}]"#, [],
            ["1|Cat|NULL|1|NULL", "2|Ant|NULL|5|NULL"]
        ),
        (#""Ant": [{"no": 1, "gone": true}], "Cat": [{"no": 1, "gone": true}]"#, [], ["2|Ant|NULL|5|NULL"]),
        (
            #""Ant": [{"no": 1, "gone": true}], "Cat": [{"no": 1}], "Bee": [{"no": 1, "gone": true}]"#, ["/Bee/0"],
            ["1|Cat|NULL|NULL|NULL", "2|Ant|NULL|5|NULL"]
        ),
        (
            #""Bee": [{"no": 3}], "Pause": [{"id": 1}], "Cat": [{"no": 3}, {"no": 3, "gone": true}], "Ant": {"no": 3, "gone": true}, "Cat": {"no": 3}"#,
            ["/Cat/0", "/Cat/1"], ["1|Bee|s|5|NULL", "2|Ant|NULL|5|NULL", "3|Cat|NULL|NULL|NULL"]
        ),
    ])
    func `a tombstone of another branch is a constraint violation, of that record alone`(
        collections: String, faults: [String], rows: [String]
    ) throws {
        let ants = "SELECT no, _entity, text, at, friend FROM Ant ORDER BY no"
        let stored = #"{"Bee": {"no": 1, "text": "s", "at": 5}, "Ant": {"no": 2, "at": 5}}"#
        let (test, skipping) = (try TestStore(Self.model, having: stored), try TestStore(Self.model, having: stored))
        let before = try test.rows(ants)
        let failed = try test.fault("{\(collections)}")
        #expect(failed?.code == (faults.isEmpty ? nil : .constraintViolation))
        #expect(failed?.path == faults.first)
        #expect(try test.rows(ants) == (faults.isEmpty ? rows : before))
        #expect(
            try skipping.outcome("{\(collections)}", .skip).rejections == faults.map { "constraintViolation \($0)" })
        #expect(try skipping.rows(ants) == rows)
        #expect(try skipping.isSound())
    }
}

/// SQLite gives the number of a deleted last row again: what knows an object by the number must not be of another then.
@Suite(.timeLimit(.minutes(5))) struct RowNumberTests {
    @Test(
        arguments: Claim.list(
            #"""
            # a waiting key of a deleted object is of no other object
            {"Song": [{"id": "a", "album": "x"}, {"id": "a", "gone": true}, {"id": "b"}], "Album": {"id": "x", "name": "X"}}
            songs :: b|NULL
            {"Song": [{"id": "a", "other": "z"}, {"id": "a", "gone": true}], "Album": {"id": "z", "name": "Z", "songs": ["c"]}}
            songs :: b|NULL, c|z
            # nothing is rejected for such a key
            skip {"Song": [{"id": "a", "album": "x"}, {"id": "a", "gone": true}, {"id": "b"}]} => Song +1
            {"Song": [{"id": "a", "other": "x"}, {"id": "a", "gone": true}, {"id": "d"}]} => Song +1
            # the other object's own key waits, and so does that of an object that is made again
            {"Song": [{"id": "a", "album": "x"}, {"id": "a", "gone": true}, {"id": "b", "album": "y"}], "Album": {"id": "y", "name": "Y"}}
            songs :: b|y
            {"Song": [{"id": "a", "album": "w"}, {"id": "a", "gone": true}, {"id": "c"}, {"id": "a"}], "Album": {"id": "w", "name": "W"}}
            songs :: a|w, b|y, c|NULL
            # an element that a later element deletes is no other object that comes after it
            {"Song": {"id": "p"}}
            {"Album": {"id": "x", "name": "X", "songs": ["a", {"id": "p", "part": {"id": "a", "gone": true}, "parts": ["b"]}]}}
            songs :: b|NULL, p|x
            {"Album": {"id": "x", "name": "X", "songs": ["c", {"id": "p", "part": {"id": "c", "gone": true}, "parts": ["d", "c"]}]}}
            songs :: b|NULL, c|x, d|NULL, p|x
            """#))
    func `a row number is of one object in a job`(claim: Claim) throws {
        let model = """
            {"entities": {
              "Song": {"identity": "id", "tombstone": "gone == YES",
                "attributes": {"id": "string", "gone": "boolean"}, "relationships": {
                  "album": {"entity": "Album", "inverse": "songs"}, "other": {"entity": "Album", "missing": "fail"},
                  "part": {"entity": "Song"}, "parts": {"entity": "Song", "toMany": true}}},
              "Album": {"identity": "id", "attributes": {"id": "string", "name": {"type": "string", "optional": false}},
                "relationships": {"songs": {"entity": "Song", "toMany": true, "inverse": "album"}}}}}
            """
        try claim.check(TestStore(model), ["songs": "SELECT id, album FROM Song ORDER BY id"])
    }
}

/// An object that is deleted and made again may be of another entity of its hierarchy.
@Suite(.timeLimit(.minutes(5))) struct RemadeEntityTests {
    @Test(
        arguments: Claim.list(
            #"""
            # a waiting key of a subentity's object is of no object of the entity above
            {"Hit": [{"id": "a", "cover": "b"}, {"id": "a", "gone": true}, {"id": "b"}], "Album": {"id": "x", "lead": "a"}}
              => Album +1, Hit +1, Song +1
            songs :: a|Song|NULL, b|Hit|NULL
            # nor is an element that a later element deletes and makes again
            {"Album": {"id": "x", "hits": ["a", {"id": "b", "part": {"id": "a", "gone": true}, "parts": ["a"]}]}}
            songs :: a|Song|NULL, b|Hit|NULL
            SELECT destination FROM Album_hits :: b
            # the object of a record that is not newer is linked as what it is, and as what the records in it make of it
            {"Song": {"id": "a", "at": 3}}
            {"Album": {"id": "x", "hits": [{"id": "a", "at": 1, "part": {"id": "c"}}]}} => Album +1, Song +1 =1
            warnings {"Album": {"id": "x", "hits": [{"id": "a", "at": 1}]}} => ignoredKey Album.hits 1
            SELECT count(*) FROM Album_hits :: 0
            {"Album": {"id": "x", "hits": [{"id": "a", "at": 1, "cover": {"id": "a"}}]}} => Album ~1, Hit ~1
            SELECT destination FROM Album_hits :: a
            """#))
    func `an object is linked as what it is then`(claim: Claim) throws {
        let model = """
            {"entities": {
              "Song": {"identity": "id", "tombstone": "gone == YES", "modified": "at",
                "attributes": {"id": "string", "gone": "boolean", "at": "integer64"}, "relationships": {
                  "part": {"entity": "Song"}, "parts": {"entity": "Song", "toMany": true}}},
              "Hit": {"parent": "Song", "relationships": {"cover": {"entity": "Hit", "missing": "ignore"}}},
              "Album": {"identity": "id", "attributes": {"id": "string"}, "relationships": {
                "lead": {"entity": "Song"}, "hits": {"entity": "Hit", "toMany": true}}}}}
            """
        try claim.check(TestStore(model), ["songs": "SELECT id, _entity, cover FROM Song ORDER BY id"])
    }
}

/// Records before a tombstone have no effect on the object that a later record or key inserts.
@Suite(.timeLimit(.minutes(5))) struct ReinsertedObjectTests {
    private static let model = """
        {"entities": {
            "E": {"identity": "id", "tombstone": "gone == YES",
                "attributes": {"id": "integer64", "name": "string", "age": "integer16", "gone": "boolean"},
                "relationships": {"mate": {"entity": "E", "inverse": "mate"}, "of": {"entity": "E", "inverse": "parts"},
                    "parts": {"entity": "E", "toMany": true, "ordered": true, "inverse": "of"},
                    "tags": {"entity": "Tag", "toMany": true}}},
            "D": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"stub": {"entity": "E"}, "known": {"entity": "E", "missing": "ignore"},
                    "must": {"entity": "E", "missing": "fail"}}},
            "Ant": {"identity": "no", "tombstone": "gone == YES", "modified": "at",
                "attributes": {"no": "integer64", "text": "string", "at": "integer64", "gone": "boolean"}},
            "Bee": {"parent": "Ant", "attributes": {"sting": "integer16"}},
            "Cat": {"parent": "Ant", "attributes": {"claw": {"type": "integer16", "default": 4}}},
            "Tag": {"identity": "id", "attributes": {"id": "integer64"}}}}
        """
    private static let stored = """
        {"E": [{"id": 2, "mate": 3}, {"id": 4, "parts": [{"id": 5}, {"id": 6}]}],
         "Ant": {"no": 1, "at": 5}, "Bee": {"no": 2, "sting": 1}, "Tag": [{"id": 1}, {"id": 2}]}
        """

    private func content(_ test: TestStore) throws -> [String] {
        try test.rows("SELECT 'E', id, name, age, mate, \"of\", iif(\"of\", of_position, NULL) FROM E ORDER BY id")
            + test.rows("SELECT 'tags', source, destination FROM E_tags ORDER BY 2, 3")
            + test.rows("SELECT 'D', id, stub, known, must FROM D ORDER BY id")
            + test.rows("SELECT _entity, no, text, at, sting, claw FROM Ant ORDER BY no")
    }

    @Test(arguments: [
        // The attributes of the old object, again and again.
        [
            #""E": {"id": 1, "name": "z"}"#, #""E": {"id": 1, "gone": true}"#, #""E": {"id": 1, "age": 2}"#,
            #""E": {"id": 1, "gone": true}"#, #""E": {"id": 1, "name": "y"}"#,
        ],
        [
            #""D": {"id": 1, "stub": {"id": 1, "name": "z"}}"#, #""E": {"id": 1, "gone": true}"#,
            #""D": {"id": 2, "stub": 1}"#,
        ],
        // The record of the old object does not insert the new one.
        [#""E": {"id": 1, "name": "z"}"#, #""E": {"id": 1, "gone": true}"#, #""D": {"id": 1, "known": 1}"#],
        // The partner of the old object has lost its own partner.
        [
            #""E": {"id": 1, "mate": 2}"#, #""E": {"id": 1, "gone": true}"#, #""E": {"id": 2, "gone": true}"#,
            #""E": {"id": 1}"#,
            #""E": {"id": 2}"#,
        ],
        [#""E": {"id": 2, "mate": 1}"#, #""E": {"id": 4, "mate": 2}"#, #""E": {"id": 1, "gone": true}"#],
        // Inside one record.
        [#""E": {"id": 9, "parts": [{"id": 1, "mate": 2}, {"id": 1, "gone": true}, {"id": 1, "age": 2}]}"#],
        // Its links.
        [#""E": {"id": 1, "tags": [1], "of": 4}"#, #""E": {"id": 1, "gone": true}"#, #""E": {"id": 1, "tags": [2]}"#],
        [#""E": {"id": 1, "parts": [5, 6]}"#, #""E": {"id": 1, "gone": true}"#, #""E": {"id": 1, "parts": [6]}"#],
        // The concrete entity.
        [#""Bee": {"no": 7, "sting": 1}"#, #""Ant": {"no": 7, "gone": true}"#, #""Cat": {"no": 7, "text": "x"}"#],
        [
            #""Ant": {"no": 2, "gone": true}"#, #""Cat": {"no": 2}"#, #""Cat": {"no": 2, "gone": true}"#,
            #""Bee": {"no": 2}"#,
        ],
        // Values of `modified`.
        [#""Ant": {"no": 1, "at": 9}"#, #""Ant": {"no": 1, "gone": true, "at": 8}"#, #""Ant": {"no": 1, "at": 10}"#],
        [#""Ant": {"no": 7, "at": 9}"#, #""Ant": {"no": 7, "gone": true}"#, #""Cat": {"no": 7, "at": 3, "claw": 1}"#],
    ])
    func `an object that is deleted and inserted again has what its later records bring`(records: [String]) throws {
        let (apart, together) = (
            try TestStore(Self.model, having: Self.stored), try TestStore(Self.model, having: Self.stored)
        )
        for record in records { try apart.apply("{\(record)}") }
        try together.apply("{\(records.joined(separator: ", "))}")
        #expect(try content(together) == content(apart))
        #expect(try together.isSound())
    }

    @Test func `a key of a deleted object names nothing, although a record before the tombstone named it`() throws {
        let test = try TestStore(Self.model, having: Self.stored)
        let job = #"{"E": [{"id": 1}], "Tag": {"id": 1}, "E": [{"id": 1, "gone": true}], "D": [{"id": 1, "must": 1}]}"#
        let fault = try test.fault(job)
        #expect(fault?.code == .objectNotFound && fault?.path == "/D/0/must")
        let before = try content(test)
        #expect(try test.outcome(job, .skip).rejections == ["objectNotFound /D/0/must"])
        #expect(try content(test).filter { $0 != "D|1|NULL|NULL|NULL" } == before)
    }
}

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

/// Objects that reach no others and are reached by links of their own tables, which need not be in the deletion set.
@Suite(.timeLimit(.minutes(5))) struct LeafDeletionTests {
    private static let model = """
        {"entities": {
          "Firm": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "teams": {"entity": "Team", "toMany": true, "inverse": "firm", "deleteRule": "cascade"},
            "guests": {"entity": "Person", "toMany": true, "inverse": "host", "deleteRule": "cascade"}}},
          "Team": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "firm": {"entity": "Firm", "inverse": "teams"},
            "staff": {"entity": "Person", "toMany": true, "inverse": "team", "deleteRule": "cascade"}}},
          "Person": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "team": {"entity": "Team", "inverse": "staff"}, "host": {"entity": "Firm", "inverse": "guests"},
            "friend": {"entity": "Person"}, "tags": {"entity": "Tag", "toMany": true, "inverse": "bearers"}}},
          "Tag": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "bearers": {"entity": "Person", "toMany": true, "inverse": "tags"}}}}}
        """

    private static let objects = """
        {"Firm": [{"id": 1, "teams": [7, 6], "guests": [5, 2]}, {"id": 2, "guests": [8]}],
         "Team": [{"id": 6, "staff": [4, 2]}, {"id": 7, "staff": [3]}],
         "Person": [{"id": 9, "friend": 3}, {"id": 1, "host": 2, "team": 6, "tags": [1]}]}
        """

    @Test(arguments: [true, false])
    func `leaves go once and in the order of their rows, whichever rules reach them`(wantsKeys: Bool) throws {
        let store = try TestStore(Self.model, having: Self.objects)
        let job = try store.job(
            operations: #"{"op": "delete", "entity": "Firm", "objects": [1]}"#, wantsKeys: wantsKeys)
        let outcome = try store.outcome(of: job)
        let counts = outcome.changes.map { "\($0.entity) ~\($0.counts.updated) -\($0.counts.deleted)" }
        #expect(counts == ["Firm ~0 -1", "Person ~1 -5", "Team ~0 -2"])
        if let keys = wantsKeys ? nil : outcome.feedKeys {
            let text = String(decoding: keys, as: UTF8.self)
            #expect(text.contains(#""Person":{"updated":[9],"deleted":[1,2,3,4,5]}"#), "\(text)")
        }
        #expect(try store.rows("SELECT id, friend FROM Person ORDER BY 1") == ["8|NULL", "9|NULL"])
        #expect(try store.isSound())
    }

    @Test func `leaves that an earlier operation deleted do not count again`() throws {
        let store = try TestStore(Self.model, having: Self.objects)
        try store.run(
            #"{"op": "delete", "entity": "Person", "objects": [2]}, {"op": "delete", "entity": "Team", "objects": [6]}"#
        )
        #expect(try store.rows("SELECT id FROM Person ORDER BY 1") == ["3", "5", "8", "9"])
        #expect(try store.isSound())
    }

    @Test func `a rule that denies regards them`() throws {
        let store = try TestStore(
            Self.model.replacing(
                #""inverse": "tags"}}}}}"#, with: #""inverse": "tags", "deleteRule": "deny"}}}}}"#),
            having: Self.objects)
        let (tag, team) = (
            #"{"op": "delete", "entity": "Tag", "objects": [1]}"#,
            #"{"op": "delete", "entity": "Team", "objects": [6]}"#
        )
        #expect(try store.apply(store.job(operations: tag)).fault?.code == .constraintViolation)
        try store.run("\(team), \(tag)")
        #expect(try store.rows("SELECT id FROM Person ORDER BY 1") == ["3", "5", "8", "9"])
    }
}
