import TestSupport
import Testing

/// The operations besides `process`, beside each other, and their effect by relationships of every kind and delete rule.
@Suite(.timeLimit(.minutes(5))) struct OperationTests {
    private static let model = """
        {"entities": {
          "Department": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
            "staff": {"entity": "Employee", "toMany": true, "inverse": "department"},
            "rooms": {"entity": "Room", "toMany": true, "inverse": "department", "deleteRule": "cascade"},
            "safe": {"entity": "Safe", "inverse": "owner", "deleteRule": "noAction"}}},
          "Safe": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "owner": {"entity": "Department", "inverse": "safe"}}},
          "Employee": {"identity": "id", "attributes": {"id": "integer64", "name": "string", "age": "integer16"}, "relationships": {
            "department": {"entity": "Department", "inverse": "staff"}, "boss": {"entity": "Employee"},
            "tags": {"entity": "Tag", "toMany": true, "inverse": "bearers"},
            "papers": {"entity": "Paper", "toMany": true, "deleteRule": "cascade"}}},
          "Paper": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "follows": {"entity": "Paper", "deleteRule": "cascade"}}},
          "Tag": {"identity": "word", "attributes": {"word": "string"}, "relationships": {
            "bearers": {"entity": "Employee", "toMany": true, "inverse": "tags"}}},
          "Room": {"identity": ["floor", "number"], "attributes": {"floor": "integer16", "number": "string"}, "relationships": {
            "department": {"entity": "Department", "inverse": "rooms"},
            "desks": {"entity": "Desk", "toMany": true, "inverse": "room", "deleteRule": "deny"}}},
          "Desk": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {"room": {"entity": "Room", "inverse": "desks"}}},
          "Seal": {"identity": "id", "attributes": {"id": "integer64", "sign": {"type": "string", "optional": false}}},
          "Note": {"attributes": {"text": "string"}},
          "Card": {"identity": "code", "identityOptional": true, "attributes": {"code": "string", "text": "string"}},
          "Person": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "first": {"entity": "Hue"}, "second": {"entity": "Hue"}, "third": {"entity": "Hue", "toMany": true}}},
          "Hue": {"identity": "id", "attributes": {"id": "integer64", "colour": "string"}},
          "Mark": {"identity": "at", "attributes": {"at": "double"}, "relationships": {"next": {"entity": "Mark"}}}}}
        """

    private static let queries = [
        "employees": "SELECT id, name, age, department FROM Employee ORDER BY id",
        "links": "SELECT id, department, boss FROM Employee ORDER BY id",
        "ids": "SELECT id FROM Employee ORDER BY id", "bosses": "SELECT id, boss FROM Employee ORDER BY id",
        "tags": "SELECT source, destination FROM Employee_tags ORDER BY 1, 2",
        "cards": "SELECT _pk, code, text FROM Card ORDER BY _pk",
        "open": "SELECT (SELECT count(*) FROM _broker_open_syncs), (SELECT count(*) FROM _broker_open_sync_keys)",
    ]

    private static func relate(_ object: String, _ relationship: String, _ json: String) -> String {
        #"{"op": "relate", "entity": "Employee", "object": \#(object), "relationship": "\#(relationship)", "json": \#(json)}"#
    }
    private static func delete(_ entity: String, _ objects: String) -> String {
        #"{"op": "delete", "entity": "\#(entity)", "objects": \#(objects)}"#
    }
    private static func sync(_ entity: String, _ json: String, _ more: String = "") -> String {
        #"{"op": "sync", "entity": "\#(entity)", "json": \#(json)\#(more)}"#
    }
    private static func part(_ json: String, _ more: String = "", of id: String = "it's", last: Bool = false) -> String
    {
        sync("Employee", json, #", "part": {"id": "\#(id)", "last": \#(last)}\#(more)"#)
    }

    @Test(
        arguments: Claim.list(
            #"""
            # each operation sees what those before it did, and each object counts once
            {"Employee": [{"id": 1, "name": "a", "age": 3}, {"id": 2, "name": "b"}]}
            \#(delete("Employee", "[1, 2]")), {"entity": "Employee", "json": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3}]},
              \#(delete("Employee", "[3]")) => Employee ~1 =1
            employees :: 1|a|NULL|NULL, 2|b|NULL|NULL
            \#(delete("Tag", #"["x"]"#)), {"entity": "Employee", "json": {"id": 2, "name": "other"}}, \#(delete("Tag", #"["y"]"#)),
              {"entity": "Employee", "json": {"id": 2, "name": "b"}} => Employee =1
            # a later operation that fails undoes those before it
            {"entity": "Employee", "json": {"id": 1}}, {"entity": "Employee", "json": {"age": 1}, "object": 7} => objectNotFound /1/object
            employees ::
            # a record without identity changes the object that is named
            {"Employee": {"id": 1, "name": "a"}}
            {"entity": "Employee", "object": 1, "json": {"age": 9, "department": {"id": 5}}} => Department +1, Employee ~1
            {"entity": "Employee", "object": 1, "json": {"id": 1, "age": 9}} => Employee =1
            employees :: 1|a|9|5
            # a record with another identity renames the object, and what refers to it follows
            {"Department": {"id": 1, "staff": [{"id": 1, "tags": ["x"]}, {"id": 2, "boss": 1}]}}
            {"entity": "Department", "object": 1, "json": {"id": 9, "name": "n"}} => Department ~1, Employee ~2
            {"entity": "Employee", "object": 1, "json": {"id": 7}} => Employee ~2
            links :: 2|9|7, 7|9|NULL
            tags :: 7|x
            {"entity": "Employee", "object": 7, "json": {"id": 2}} => constraintViolation /0/object
            # a rejected record for a named object is reported by its own fault, and has no effect
            {"Employee": {"id": 1, "name": "a"}}
            {"entity": "Employee", "object": 1, "json": {"age": "x"}} => invalidValue /0/json/age
            skip {"entity": "Employee", "object": 1, "json": {"age": "x"}} => Employee !1; invalidValue /0/json/age
            {"entity": "Employee", "object": 1, "json": {"id": "x"}} => invalidValue /0/json/id
            skip {"entity": "Employee", "object": 1, "json": {"id": "x"}} => Employee !1; invalidValue /0/json/id
            {"entity": "Employee", "object": 1, "json": {"id": 2, "age": "x", "department": 5}} => invalidValue /0/json/age
            skip {"entity": "Employee", "object": 1, "json": {"id": 2, "age": "x", "department": 5}} => Employee !1; invalidValue /0/json/age
            {"entity": "Employee", "object": 1, "json": {"id": null, "age": "x"}} => invalidValue /0/json/age
            skip {"entity": "Employee", "object": 1, "json": {"id": null, "age": "x"}} => Employee !1; invalidValue /0/json/age
            employees :: 1|a|NULL|NULL
            SELECT count(*) FROM Department :: 0
            # without an identity each record is a new object
            {"entity": "Note", "json": [{"text": "a"}, {"text": "a"}]} => Note +2
            {"entity": "Note", "json": {"text": "a"}} => Note +1
            SELECT count(*) FROM Note :: 3
            # an object without identity, or with an optional one, is named by its _pk
            {"Note": [{"text": "a"}, {"text": "b"}], "Card": [{"code": "x"}, {"text": "none"}]}
            {"entity": "Note", "object": 2, "json": {"text": "c"}} => Note ~1
            {"entity": "Card", "object": 2, "json": {"code": "y"}} => Card ~1
            {"entity": "Card", "object": 2, "json": {"code": "x"}} => constraintViolation /0/object
            {"entity": "Note", "object": "b", "json": {}} => invalidValue /0/object
            \#(delete("Note", "[1, 1]")) => Note -1
            SELECT _pk, text FROM Note :: 2|c
            cards :: 1|x|NULL, 2|y|none
            # a missing object is reported at its key, and rejected alone with skip, with what is nested in it
            {"entity": "Employee", "object": 1, "json": {"age": 1}} => objectNotFound /0/object
            skip {"entity": "Employee", "object": 1, "json": {"department": {"id": 4}}}, {"entity": "Tag", "json": {"word": "t"}}
              => Employee !1, Tag +1; objectNotFound /0/object
            SELECT count(*) FROM Department :: 0
            {"entity": "Employee", "object": 1, "json": [{}]} => invalidValue /0/json
            # relate sets a to-one, and adds to a to-many; null ends the links
            {"Employee": [{"id": 1}, {"id": 2, "tags": ["old"]}]}
            \#(relate("1", "department", #"{"id": 3, "name": "d"}"#)) => Department +1, Employee ~1
            \#(relate("1", "department", "3")) => Department =1, Employee =1
            \#(relate("2", "tags", #"["old", {"word": "new"}]"#)) => Employee ~1, Tag +1 =1
            tags :: 2|new, 2|old
            \#(relate("2", "tags", "null")) => Employee ~1
            \#(relate("1", "department", "null")) => Employee ~1
            tags ::
            links :: 1|NULL|NULL, 2|NULL|NULL
            # a relate links after what is nested in it, as in a record
            {"Employee": [{"id": 1}, {"id": 2}]}
            \#(relate("1", "boss", #"{"id": 1, "boss": null}"#)) => Employee ~1
            \#(relate("2", "department", #"{"id": 5, "staff": null}"#)) => Department +1, Employee ~1
            links :: 1|NULL|1, 2|5|NULL
            # relate says what is wrong, and where
            {"Employee": {"id": 1}}
            \#(relate("9", "boss", "1")) => objectNotFound /0/object
            \#(relate("1", "boss", #""x""#)) => invalidValue /0/json
            \#(relate("null", "boss", "1")) => missingIdentity /0/object
            # nullify ends the links, also without an inverse, and the rows that held them count as updated
            {"Department": {"id": 1, "staff": [{"id": 1}, {"id": 2, "boss": 1}, {"id": 3, "tags": ["t"]}]}}
            \#(delete("Department", "[1]")) => Department -1, Employee ~3
            \#(delete("Employee", "[1]")) => Employee ~1 -1
            \#(delete("Tag", #"["t"]"#)) => Tag -1
            links :: 2|NULL|NULL, 3|NULL|NULL
            tags ::
            # cascade deletes over all levels, and around a circle
            {"Employee": {"id": 1, "papers": [{"id": 1, "follows": {"id": 2, "follows": {"id": 3, "follows": 1}}}, 9]}}
            {"Paper": {"id": 10, "follows": 3}}
            \#(delete("Employee", "[1]")) => Employee -1, Paper ~1 -4
            SELECT id, follows FROM Paper :: 10|NULL
            SELECT count(*) FROM Employee_papers :: 0
            # deny holds back, also what cascades, unless both sides go in the same operation
            {"Room": [{"floor": 1, "number": "a", "desks": [1]}, {"floor": 1, "number": "b"}],
              "Department": {"id": 1, "rooms": [{"floor": 1, "number": "a"}]}}
            \#(delete("Room", #"[{"floor": 1, "number": "a"}]"#)) => constraintViolation /0
            \#(delete("Department", "[1]")) => constraintViolation /0
            SELECT count(*) FROM Room :: 2
            \#(delete("Desk", "[1]")), \#(delete("Department", "[1]")) => Department -1, Desk -1, Room -1
            # noAction leaves the link, so the job must not
            {"Department": {"id": 1, "safe": {"id": 5}}}
            \#(delete("Department", "[1]")) => constraintViolation nowhere
            \#(delete("Department", "[1]")), {"entity": "Safe", "json": {"id": 5, "owner": null}} => Department -1, Safe ~1
            SELECT id, owner FROM Safe :: 5|NULL
            # keys that name nothing are counted in one warning
            {"Tag": [{"word": "a"}, {"word": "b"}]}
            keys \#(delete("Tag", #"["a", "x", "y", "a"]"#)) => {"Tag":{"inserted":[],"updated":[],"deleted":["a"]}}
            warnings \#(delete("Tag", #"["b", "x", "y", "b"]"#)) => objectNotFound Tag. 2
            \#(delete("Employee", #"[1, "x"]"#)) => invalidValue /0/objects/1
            skip \#(delete("Employee", #"[1, "x"]"#)) => Employee !1; invalidValue /0/objects/1
            # a predicate selects what is deleted
            {"Department": [{"id": 1, "name": "R&D", "staff": [{"id": 1, "age": 30}, {"id": 2}]}, {"id": 2, "staff": [{"id": 3}]}]}
            {"op": "delete", "entity": "Employee", "where": "department.name == %@ AND age != 30", "arguments": ["R&D"]} => Employee -1
            {"op": "delete", "entity": "Employee", "where": "age > 99"} => nothing
            {"op": "delete", "entity": "Employee", "where": "TRUEPREDICATE"} => Employee -2
            # an object counts once, whatever happened to it on the way
            {"Department": {"id": 1, "staff": [{"id": 1, "boss": 2, "papers": [1]}, {"id": 2, "boss": 1}, {"id": 3, "boss": 1}]}}
            {"op": "delete", "entity": "Employee", "where": "id < 3"} => Employee ~1 -2, Paper -1
            {"Employee": [{"id": 1, "boss": 3}, {"id": 4}]}
            {"entity": "Employee", "json": [{"id": 5, "boss": 4}, {"id": 4, "age": 1}, {"id": 3, "age": 2}]},
              \#(delete("Employee", "[4, 3]")) => Employee +1 ~1 -2
            bosses :: 1|NULL, 5|NULL
            # an object that the first operation changed and a later one changed back is unchanged
            {"Employee": [{"id": 1, "name": "a"}, {"id": 2}]}
            {"entity": "Employee", "json": [{"id": 1, "name": "b"}, {"id": 2, "department": 7}]}, \#(delete("Department", "[7]")),
              {"entity": "Employee", "json": {"id": 1, "name": "a"}} => Employee =2
            \#(sync("Employee", #"[{"id": 1, "boss": 3}, {"id": 2}]"#, #", "where": "id > 2""#)) => Employee +1 ~1 =1
            {"entity": "Employee", "json": {"id": 2, "boss": {"id": 4}}}, \#(delete("Employee", "[4]")) => Employee =1
            # a one-to-one link that one operation ends and a later one makes again changes nothing
            {"Department": [{"id": 1, "safe": {"id": 5}}, {"id": 2}]}
            {"entity": "Safe", "json": [{"id": 6, "owner": 1}, {"id": 5}]},
              {"op": "relate", "entity": "Safe", "object": 5, "relationship": "owner", "json": 1} => Department =1, Safe +1 =1
            SELECT id, owner FROM Safe ORDER BY id :: 5|1, 6|NULL
            """#), [true, false])
    func operations(claim: Claim, wantsKeys: Bool) throws {
        try claim.check(TestStore(Self.model), Self.queries, wantsKeys: wantsKeys)
    }

    @Test(
        arguments: Claim.list(
            #"""
            # sync deletes what it does not name, at any depth
            {"Employee": [{"id": 1, "name": "a"}, {"id": 2}, {"id": 3}, {"id": 4, "boss": 3}]}
            \#(sync("Employee", #"[{"id": 1, "name": "b", "boss": {"id": 2}}, {"id": 5}]"#)) => Employee +1 ~1 =1 -2
            ids :: 1, 2, 5
            keys \#(sync("Employee", "[]")) => {"Employee":{"inserted":[],"updated":[],"deleted":[1,2,5]}}
            # sync deletes only what its predicate selects, and only if it may
            {"Employee": [{"id": 1, "age": 1}, {"id": 2, "age": 2}, {"id": 3}]}
            \#(sync("Employee", #"[{"id": 4}]"#, #", "where": "age == %@", "arguments": [1]"#)) => Employee +1 -1
            ids :: 2, 3, 4
            \#(sync("Employee", "[]", #", "actions": ["insert", "update"]"#)) => nothing
            # a rejected record stops the deletion, with a warning
            {"Employee": [{"id": 1}, {"id": 2}]}
            skip \#(sync("Employee", #"[{"id": 1, "age": 5}, {"id": "x"}]"#)) => Employee ~1 !1; invalidValue /0/json/1/id
            skip warnings \#(sync("Employee", #"[{"id": 1, "age": 5}, {"id": "x"}]"#)) => deletionSkipped Employee. 1
            # every record of an entity without identity is new, so the old objects are deleted
            {"Note": [{"text": "a"}, {"text": "b"}]}
            \#(sync("Note", #"[{"text": "a"}]"#)) => Note +1 -2
            # objects that a sync inserted or changed may be deleted by a cascade from unnamed ones
            {"Paper": [{"id": 1, "follows": {"id": 2}}, {"id": 3}]}
            \#(sync("Paper", #"[{"id": 2, "follows": {"id": 4}}, {"id": 3}]"#)) => Paper =1 -2
            SELECT id FROM Paper :: 3
            # without insert, records without an object are ignored, and their nested records are not
            {"Employee": [{"id": 1, "name": "a"}, {"id": 2}]}
            \#(sync("Employee", #"[{"id": 1, "name": "b", "boss": 7}, {"id": 8, "department": {"id": 1}, "tags": ["t"]}]"#,
                #", "actions": ["update", "delete"]"#)) => Department +1, Employee ~1 -1, Tag +1
            employees :: 1|b|NULL|NULL
            \#(sync("Note", #"[{"text": "a"}]"#, #", "actions": ["update"]"#)) => nothing
            # without update, objects that exist stay as they are, and are not counted
            {"Employee": [{"id": 1, "name": "a"}, {"id": 2}]}
            \#(sync("Employee", #"[{"id": 1, "name": "b", "department": {"id": 1, "name": "d"}}, {"id": 8, "boss": {"id": 1, "name": "c"}}]"#,
                #", "actions": ["insert", "delete"]"#)) => Department +1, Employee +1 -1
            employees :: 1|a|NULL|NULL, 8|NULL|NULL|NULL
            bosses :: 1|NULL, 8|1
            # the object of an ignored record counts when another record changes its row
            {"Employee": [{"id": 1, "department": 3}]}
            \#(sync("Employee", #"[{"id": 1}, {"id": 2, "department": {"id": 3, "staff": null}}]"#, #", "actions": []"#))
              => Department =1, Employee ~1
            {"Employee": [{"id": 1, "department": 3}]}
            \#(sync("Employee", #"[{"id": 1}, {"id": 2, "department": {"id": 3, "staff": null}}]"#, #", "actions": []"#)),
              \#(delete("Tag", "[]")) => Department =1, Employee ~1
            links :: 1|NULL|NULL
            # delete alone deletes what is not named
            {"Employee": [{"id": 1, "name": "a"}, {"id": 2}]}
            \#(sync("Employee", #"[{"id": 1, "name": "b"}, {"id": 3}]"#, #", "actions": ["delete"]"#)) => Employee -1
            employees :: 1|a|NULL|NULL
            # records nested in an ignored record count in the order of the text
            \#(sync("Person", #"[{"id": 1, "third": {"id": 5, "colour": "c"}, "second": {"id": 5, "colour": "b"}, "first": {"id": 5, "colour": "a"}}]"#,
                #", "actions": ["update"]"#)) => Hue +1
            SELECT colour FROM Hue :: a
            \#(sync("Person", #"[{"id": 1, "first": {"id": 5, "colour": "a"}, "third": {"id": 5, "colour": "c"}, "second": {"id": 5, "colour": "b"}}]"#,
                #", "actions": ["update"]"#)) => Hue ~1
            SELECT colour FROM Hue :: b
            {"Person": {"id": 1}}
            \#(sync("Person", #"[{"id": 1, "second": {"id": 5, "colour": "b"}, "first": {"id": 5, "colour": "a"}, "third": {"id": 5, "colour": "c"}}]"#,
                #", "actions": ["insert"]"#)) => Hue ~1
            SELECT colour FROM Hue :: c
            # a sync in parts deletes with the last one, over what all of them named
            {"Employee": [{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}]}
            \#(part(#"[{"id": 1, "boss": 2}]"#)) => Employee ~1 =1
            \#(part(#"[{"id": 5}]"#)) => Employee +1
            \#(part("[]", last: true)) => Employee -2
            ids :: 1, 2, 5
            open :: 0|0
            \#(part("[]", #", "where": "id == 1""#, last: true)) => Employee -1
            # objects named by the parts of one sync do not count for another, and are forgotten at its end
            {"Employee": [{"id": 1}, {"id": 2}, {"id": 3}]}
            \#(part(#"[{"id": 1}, {"id": 2}]"#, of: "a")) => Employee =2
            \#(part(#"[{"id": 1}]"#, of: "b")) => Employee =1
            \#(part(#"[{"id": 3}]"#, of: "b", last: true)) => Employee =1 -1
            ids :: 1, 3
            open :: 1|2
            {"Employee": [{"id": 2}]}
            \#(part("[]", of: "a", last: true)) => Employee -1
            ids :: 1, 2
            # the keys may be of several attributes, texts, or real numbers
            {"Room": [{"floor": 1, "number": "a"}, {"floor": 2, "number": "a"}, {"floor": 2, "number": "é"}, {"floor": 3, "number": ""}]}
            \#(sync("Room", #"[{"floor": 2, "number": "é"}, {"floor": 1, "number": "a"}]"#, #", "part": {"id": "x", "last": false}"#))
            \#(sync("Room", #"[{"floor": 3, "number": ""}]"#, #", "part": {"id": "x", "last": true}"#)) => Room =1 -1
            SELECT floor, number FROM Room ORDER BY 1 :: 1|a, 2|é, 3|
            {"Mark": [{"at": 0}, {"at": 1}, {"at": 2.5}, {"at": -7}]}
            \#(sync("Mark", #"[{"at": 2.5}, {"at": -0.0}]"#, #", "part": {"id": "x", "last": false}"#))
            \#(sync("Mark", #"[{"at": 1.0}]"#, #", "part": {"id": "x", "last": true}"#)) => Mark =1 -1
            SELECT at FROM Mark ORDER BY 1 :: 0.0, 1.0, 2.5
            # parts that disagree are refused, and a reject in any part stops the deletion
            {"Employee": [{"id": 1}, {"id": 2}]}
            skip \#(part(#"[{"id": "x"}]"#))
            \#(part("[]", #", "where": "id == 1""#)) => idConflict /0/part
            warnings \#(part("[]", last: true)) => deletionSkipped Employee. 1
            ids :: 1, 2
            open :: 0|0
            # a record that is rejected at the merge stops the deletion of a later part
            {"Seal": [{"id": 1, "sign": "a"}, {"id": 2, "sign": "b"}]}
            skip \#(sync("Seal", #"[{"id": 1}, {"id": 3}]"#, #", "part": {"id": "x", "last": false}"#)) => Seal =1 !1; missingValue /0/json/1
            warnings \#(sync("Seal", #"[{"id": 1}]"#, #", "part": {"id": "x", "last": true}"#)) => deletionSkipped Seal. 1
            SELECT id FROM Seal :: 1, 2
            # a bare key that a sync ignores has no warning that its number became another one
            {"Mark": [{"at": 1}, {"at": 9007199254740993}]}
            warnings \#(sync("Mark", #"[{"at": 1, "next": 9007199254740995}]"#, #", "actions": ["update"]"#)) => none
            warnings \#(sync("Mark", #"[{"at": 1, "next": 9007199254740993}]"#, #", "actions": ["update"]"#)) => inexact Mark.at 1
            # a part that fails has named nothing
            {"Employee": [{"id": 1}, {"id": 2}]}
            \#(part(#"[{"id": 1}, {"id": "x"}]"#)) => invalidValue /0/json/1/id
            \#(part(#"[{"id": 2}]"#, last: true)) => Employee =1 -1
            # for an entity with row keys a part names by identity, too, and by nothing an object without one
            {"Card": [{"code": "a"}, {"code": "b"}, {"text": "none"}]}
            \#(sync("Card", #"[{"code": "a"}, {"code": "b"}]"#, #", "part": {"id": "x", "last": false}"#))
            \#(delete("Card", "[2]"))
            {"Card": [{"code": "c"}, {"code": "b"}]}
            \#(sync("Card", "[]", #", "part": {"id": "x", "last": true}"#)) => Card -2
            SELECT code FROM Card ORDER BY 1 :: a, b
            """#))
    func syncs(claim: Claim) throws { try claim.check(TestStore(Self.model), Self.queries) }

    /// Names without a row: an ignored record, or a bare key that may be missing.
    @Test(
        arguments: [
            #"[{"id": 7}]"#, #"[{"id": 1, "boss": 7}]"#, #"[{"id": 8, "boss": {"id": 7}}]"#,
            #"[{"id": 1, "friend": 7}]"#,
        ], [false, true])
    func `an object that a part named is not deleted though it is inserted only before the last part`(
        named: String, isOptional: Bool
    ) throws {
        let store = try TestStore(
            """
            {"entities": {"Employee": {"identity": "id", "identityOptional": \(isOptional), "attributes": {"id": "integer64"},
              "relationships": {"boss": {"entity": "Employee"}, "friend": {"entity": "Employee", "missing": "ignore"}}}}}
            """, having: #"{"Employee": [{"id": 1}, {"id": 2}]}"#)
        try store.run(Self.part(named, #", "actions": ["update", "delete"]"#))
        try store.apply(#"{"Employee": [{"id": 7}, {"id": 9}]}"#)
        #expect(try store.run(Self.part(#"[{"id": 1}]"#, last: true)) == "Employee =1 -2")
        #expect(try store.rows(Self.queries["ids"]!) == ["1", "7"])
    }
}

/// The effect of `modified`, `ordered` and hierarchies of a model on operations besides `process`.
@Suite(.timeLimit(.minutes(5))) struct OrderedOperationTests {
    private static let model = """
        {"entities": {
          "Employee": {"identity": "id", "modified": "at", "attributes": {
            "id": "integer64", "at": "integer64", "name": "string"}, "relationships": {"boss": {"entity": "Employee"},
            "tags": {"entity": "Tag", "toMany": true, "ordered": true, "inverse": "bearers"}}},
          "Tag": {"identity": "word", "attributes": {"word": "string"}, "relationships": {
            "bearers": {"entity": "Employee", "toMany": true, "ordered": true}}},
          "Card": {"identity": "code", "identityOptional": true, "modified": "at", "attributes": {
            "code": "string", "at": "integer64", "text": "string"}},
          "Department": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "rooms": {"entity": "Room", "toMany": true, "ordered": true, "assignment": "replace", "inverse": "department"}}},
          "Room": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {"department": {"entity": "Department"}}},
          "Human": {"identity": "id", "modified": "rev", "attributes": {"id": "integer64", "rev": "integer64", "name": "string"}},
          "Staff": {"parent": "Human", "attributes": {"salary": {"type": "integer64", "optional": false}},
            "relationships": {"boss": {"entity": "Human"}}},
          "Manager": {"parent": "Staff"}, "Guest": {"parent": "Human"},
          "Thing": {"abstract": true, "identity": "id", "attributes": {"id": "integer64", "name": "string"}}, "Car": {"parent": "Thing"},
          "Record": {"abstract": true},
          "User": {"parent": "Record", "identity": "login", "attributes": {"login": "string", "age": "integer16"}},
          "Animal": {"identity": "id", "attributes": {"id": "integer64"}},
          "Dog": {"parent": "Animal", "relationships": {"pups": {"entity": "Dog", "toMany": true, "deleteRule": "deny"}}}}}
        """

    private static let queries = [
        "employees": "SELECT id, at, name, boss FROM Employee ORDER BY id",
        "cards": "SELECT _pk, code, at, text FROM Card ORDER BY 1",
        "tags": "SELECT position, destination, inverse_position FROM Employee_tags ORDER BY 1",
        "rooms": "SELECT department, department_position, id FROM Room ORDER BY 1, 2, 3",
        "humans": "SELECT id, rev, salary, _entity FROM Human ORDER BY id",
    ]

    private static func relate(_ entity: String, _ object: Int, _ relationship: String, _ json: String) -> String {
        #"{"op": "relate", "entity": "\#(entity)", "object": \#(object), "relationship": "\#(relationship)", "json": \#(json)}"#
    }
    private static func delete(_ entity: String, _ objects: String) -> String {
        #"{"op": "delete", "entity": "\#(entity)", "objects": \#(objects)}"#
    }

    @Test(
        arguments: Claim.list(
            #"""
            # a record of a named object is compared with that object, whatever identity it brings
            {"Employee": [{"id": 1, "at": 5, "name": "a"}, {"id": 2, "boss": 1}]}
            {"entity": "Employee", "object": 1, "json": {"id": 9, "at": 5, "name": "b", "boss": {"id": 3}}} => Employee +1 =1
            {"entity": "Employee", "object": 1, "json": {"at": 4, "name": "b"}} => Employee =1
            employees :: 1|5|a|NULL, 2|NULL|NULL|1, 3|NULL|NULL|NULL
            {"entity": "Employee", "object": 1, "json": {"id": 9, "at": 6, "name": "b"}} => Employee ~2
            employees :: 2|NULL|NULL|9, 3|NULL|NULL|NULL, 9|6|b|NULL
            {"entity": "Employee", "object": 1, "json": {"id": 9, "at": 6, "name": "b"}} => objectNotFound /0/object
            # objects that are named by the server's key are compared, too
            {"Card": [{"at": 5, "text": "a"}, {"code": "x", "at": 5, "text": "b"}]}
            {"entity": "Card", "object": 1, "json": {"at": 5, "text": "c"}} => Card =1
            {"entity": "Card", "object": 2, "json": {"code": "y", "at": 4, "text": "c"}} => Card =1
            cards :: 1|NULL|5|a, 2|x|5|b
            {"entity": "Card", "object": 1, "json": {"at": 6, "text": "c"}} => Card ~1
            {"entity": "Card", "object": 2, "json": {"code": "y", "at": 6, "text": "c"}} => Card ~1
            cards :: 1|NULL|6|c, 2|y|6|c
            # a record is compared with what the operations before it left
            {"Employee": {"id": 1, "at": 5, "name": "a"}}
            \#(delete("Employee", "[1]")), {"entity": "Employee", "json": {"id": 1, "at": 3, "name": "b"}} => Employee ~1
            {"entity": "Employee", "json": {"id": 1, "at": 8, "name": "c"}}, \#(delete("Tag", #"["x"]"#)),
              {"entity": "Employee", "json": {"id": 1, "at": 7, "name": "d", "boss": {"id": 4}}} => Employee +1 ~1
            employees :: 1|8|c|NULL, 4|NULL|NULL|NULL
            # a sync does not delete an object whose record is not newer
            {"Employee": [{"id": 1, "at": 5, "name": "a"}, {"id": 2, "at": 5}]}
            {"op": "sync", "entity": "Employee", "json": [{"id": 1, "at": 5, "name": "x"}]} => Employee =1 -1
            employees :: 1|5|a|NULL
            # relate appends to an ordered relationship or replaces it
            {"Employee": {"id": 1, "tags": ["b", "a"]}}
            \#(relate("Employee", 1, "tags", #"["d", "a", "c"]"#)) => Employee ~1, Tag +2 =1
            \#(relate("Employee", 1, "tags", #"["d", "a", "c"]"#)) => Employee =1, Tag =3
            tags :: 0|b|0, 1|a|0, 2|d|0, 3|c|0
            {"Department": {"id": 5, "rooms": [1, 2, 3]}}
            \#(relate("Department", 5, "rooms", "[3, 1]")) => Department =1, Room ~3
            rooms :: NULL|NULL|2, 5|0|3, 5|1|1
            \#(relate("Department", 5, "rooms", "[1, 2, 3]")), \#(relate("Department", 5, "rooms", "[3, 1]")) => Department =1, Room =3
            # a deleted object leaves a gap, and objects of a deleted list join another one at its end
            {"Department": [{"id": 5, "rooms": [1, 2, 3]}, {"id": 6, "rooms": [4]}]}
            \#(delete("Room", "[2]")) => Room -1
            rooms :: 5|0|1, 5|2|3, 6|0|4
            \#(delete("Department", "[5]")), {"entity": "Room", "json": [{"id": 3, "department": 6}, {"id": 1, "department": 6}]}
              => Department =1 -1, Room ~2
            rooms :: 6|0|4, 6|1|3, 6|2|1
            # a record that is not newer does not say what its object is
            {"Human": {"id": 1, "rev": 5}}
            {"Staff": [{"id": 1, "rev": 4, "salary": 1, "boss": {"id": 8}}]} => Human +1 =1
            {"Staff": [{"id": 1, "rev": 6, "salary": 1}]} => Staff ~1
            {"Human": [{"id": 2, "rev": 9}], "Manager": [{"id": 2, "rev": 8, "salary": 1}]} => Human +1
            humans :: 1|6|1|Staff, 2|9|NULL|Human, 8|NULL|NULL|Human
            # an object that is named by its key keeps what it is, and takes a new identity
            {"Car": [{"id": 7}]}
            {"entity": "Thing", "object": 7, "json": {"id": 70, "name": "n"}} => Car ~1
            {"entity": "Thing", "object": 7, "json": {"name": "x"}} => objectNotFound /0/object
            SELECT id, name, _entity FROM Thing :: 70|n|Car
            {"User": [{"login": "a", "age": 1}]}
            {"entity": "User", "object": "a", "json": {"age": 2}} => User ~1
            SELECT login, age FROM User :: a|2
            # object, relate and delete need an object of the entity
            {"Human": [{"id": 1}], "Guest": [{"id": 2}], "Manager": [{"id": 3, "salary": 1}]}
            {"entity": "Staff", "object": 1, "json": {"salary": 5}} => Staff ~1
            {"entity": "Staff", "object": 2, "json": {"salary": 5}} => objectNotFound /0/object
            {"entity": "Staff", "object": 3, "json": {"salary": 6}} => Manager ~1
            \#(relate("Staff", 2, "boss", "1")) => objectNotFound /0/object
            warnings \#(delete("Staff", "[1, 2, 3]")) => objectNotFound Staff. 1
            humans :: 2|NULL|NULL|Guest
            # sync of an entity is about it and what inherits from it
            {"Human": [{"id": 1}], "Guest": [{"id": 2}], "Manager": [{"id": 3, "salary": 1}], "Staff": [{"id": 4, "salary": 9}]}
            {"op": "sync", "entity": "Staff", "json": [{"id": 4, "salary": 9}]} => Manager -1, Staff =1
            {"op": "sync", "entity": "Human", "json": [{"id": 2}]} => Guest =1, Human -1, Staff -1
            # a deny of a subentity holds its objects back by any name of theirs
            {"Dog": [{"id": 1, "pups": [{"id": 2}]}]}
            \#(delete("Animal", "[1]")) => constraintViolation /0
            \#(delete("Dog", "[1]")) => constraintViolation /0
            {"op": "delete", "entity": "Animal", "where": "id == 1"} => constraintViolation /0
            {"op": "delete", "entity": "Dog", "where": "id == 1"} => constraintViolation /0
            {"op": "sync", "entity": "Animal", "json": [{"id": 2}]} => constraintViolation /0
            {"op": "sync", "entity": "Dog", "json": [{"id": 2}]} => constraintViolation /0
            \#(delete("Animal", "[1, 2]")) => Dog -2
            {"Dog": [{"id": 1, "pups": [{"id": 2}]}]}
            \#(delete("Dog", "[1, 2]")) => Dog -2
            # a deleted object counts under the entity that it had before the job, and an absent key once
            {"Human": [{"id": 1}, {"id": 2}]}
            keys {"entity": "Manager", "json": [{"id": 1, "salary": 5}, {"id": 3, "salary": 1}]}, \#(delete("Human", "[1, 3, 4, 4]"))
              => {"Human":{"inserted":[],"updated":[],"deleted":[1]}}
            warnings \#(delete("Human", "[4, 4]")) => objectNotFound Human. 1
            {"entity": "Manager", "json": [{"id": 2, "salary": 5}]}, \#(delete("Human", "[2]")) => Human -1
            """#))
    func `operations by the rules of the model`(claim: Claim) throws {
        try claim.check(TestStore(Self.model), Self.queries)
    }

    // MARK: - Identities below a topmost entity that has none

    private static let files = """
        {"entities": {
          "Item": {"abstract": true, "attributes": {"note": "string"}, "relationships": {"other": {"entity": "Item"}}},
          "File": {"parent": "Item", "identity": "path", "attributes": {"path": "string", "size": "integer64"},
            "relationships": {"links": {"entity": "Link", "toMany": true, "inverse": "target"}}},
          "Script": {"parent": "File", "attributes": {"language": "string"}},
          "Link": {"parent": "Item", "identity": ["host", "port"], "attributes": {"host": "string", "port": "integer64"},
            "relationships": {"target": {"entity": "File", "inverse": "links"}}},
          "Scrap": {"parent": "Item"}}}
        """
    private static let link = #"{"host": "h", "port": 5}"#
    private static let first = #"""
        {"Scrap": {"note": "s"}, "File": [{"path": "a", "size": 1}, {"path": "b"}], "Script": {"path": "c"}, "Link": \#(link)}
        """#

    @Test(
        arguments: Claim.list(
            #"""
            # keys contain that identity
            keys {"entity": "File", "json": [{"path": "d"}]}, {"entity": "Link", "json": {"host": "i", "port": 5}}, {"entity": "Scrap", "json": {}}
              => {"File":{"inserted":["d"],"updated":[],"deleted":[]},"Link":{"inserted":[{"host":"i","port":5}],"updated":[],"deleted":[]},"Scrap":{"inserted":[8],"updated":[],"deleted":[]}}
            keys {"entity": "File", "json": [{"path": "a", "size": 2}, {"path": "c", "size": 3}]}, \#(delete("Link", "[\(link)]")), \#(delete("File", #"["b", "b", "x"]"#))
              => {"File":{"inserted":[],"updated":["a"],"deleted":["b"]},"Link":{"inserted":[],"updated":[],"deleted":[{"host":"h","port":5}]},"Script":{"inserted":[],"updated":["c"],"deleted":[]}}
            warnings \#(delete("File", #"["b", "b"]"#)) => objectNotFound File. 1
            # object and relate take that identity, and the row key for the topmost entity
            keys {"entity": "File", "object": "a", "json": {"size": 7}} => {"File":{"inserted":[],"updated":["a"],"deleted":[]}}
            keys {"entity": "File", "object": "a", "json": {"path": "z"}} => {"File":{"inserted":[],"updated":["z"],"deleted":[]}}
            {"entity": "File", "object": "a", "json": {"size": 9}} => objectNotFound /0/object
            {"entity": "File", "object": "z", "json": {"path": "b"}} => constraintViolation /0/object
            {"entity": "File", "object": 2, "json": {"size": 9}} => objectNotFound /0/object
            {"entity": "Script", "object": "z", "json": {"language": "sh"}} => Script ~1
            SELECT path, size, language, _entity FROM Item WHERE path = 'z' :: z|7|sh|Script
            {"op": "relate", "entity": "Link", "object": \#(link), "relationship": "target", "json": "b"}
            SELECT path FROM Item JOIN Link ON Link.target = Item._pk :: b
            {"op": "relate", "entity": "File", "object": "z", "relationship": "links", "json": [\#(link)]}
            SELECT path FROM Item JOIN Link ON Link.target = Item._pk :: z
            {"op": "relate", "entity": "File", "object": "q", "relationship": "links", "json": []} => objectNotFound /0/object
            {"entity": "Item", "object": 1, "json": {"note": "t"}} => Scrap ~1
            SELECT note FROM Item WHERE _pk = 1 :: t
            """#))
    func `identities of branches`(claim: Claim) throws {
        try claim.check(TestStore(Self.files, having: Self.first))
    }

    @Test func `a fetch names an object by the identity of its branch`() throws {
        let store = try TestStore(Self.files, having: Self.first)
        #expect(try store.fetch("File", object: #""b""#) { $0.names = .local }.contains(#""path":"b""#))
        let keyed = try store.fetch("File") { $0.result = .dictionary }
        #expect(keyed.hasPrefix(#"{"a":{"#) && keyed.contains(#""b":{"#) && keyed.contains(#""c":{"#), "\(keyed)")
    }
}

private let cascadeModel = """
    {"entities": {
      "Node": {
        "identity": "no", "tombstone": "gone == YES", "attributes": {"no": "integer64", "gone": "boolean"},
        "relationships": {
          "parent": {"entity": "Node", "inverse": "children"},
          "children": {"entity": "Node", "toMany": true, "inverse": "parent", "deleteRule": "cascade"},
          "follower": {"entity": "Node", "deleteRule": "cascade"},
          "seen": {"entity": "Node"}}},
      "Pair": {
        "identity": "no", "attributes": {"no": "integer64"},
        "relationships": {
          "next": {"entity": "Pair", "inverse": "last", "deleteRule": "cascade"},
          "last": {"entity": "Pair", "inverse": "next", "deleteRule": "cascade"}}},
      "Cell": {
        "identity": ["x", "y"], "attributes": {"x": "integer64", "y": "string"},
        "relationships": {
          "above": {"entity": "Cell", "inverse": "below"},
          "below": {"entity": "Cell", "toMany": true, "inverse": "above", "deleteRule": "cascade"}}},
      "Branch": {
        "identity": "no", "attributes": {"no": "integer64"},
        "relationships": {
          "twig": {"entity": "Twig", "inverse": "branches"},
          "twigs": {"entity": "Twig", "toMany": true, "inverse": "branch", "deleteRule": "cascade"}}},
      "Twig": {
        "identity": "name", "identityOptional": true, "attributes": {"name": "string"},
        "relationships": {
          "branch": {"entity": "Branch", "inverse": "twigs"},
          "branches": {"entity": "Branch", "toMany": true, "inverse": "twig", "deleteRule": "cascade"}}},
      "Person": {
        "identity": "no", "attributes": {"no": "integer64"},
        "relationships": {"boss": {"entity": "Chief", "inverse": "staff"}}},
      "Chief": {
        "parent": "Person",
        "relationships": {"staff": {"entity": "Person", "toMany": true, "inverse": "boss", "deleteRule": "cascade"}}}
    }}
    """

/// Deletions that cascade over more levels than SQLite runs one trigger inside the other (1,000).
@Suite(.timeLimit(.minutes(5))) struct DeepCascadeTests {
    private static let count = 1_200

    /// Objects that hang one on the other, and how the first one is named.
    struct Chain: CustomTestStringConvertible {
        let testDescription: String
        let collections: String
        let entity: String
        let first: String
        let deleted: [String: Int]

        static func records(_ record: (Int) -> String) -> String {
            "[" + (0..<DeepCascadeTests.count).map(record).joined(separator: ",") + "]"
        }
    }

    private static let chains: [Chain] = {
        func node(_ link: String, _ loop: Int?) -> String {
            Chain.records { number in
                let linked = number == 0 ? loop : number - 1
                return "{\"no\":\(number)" + (linked.map { ",\"\(link)\":\($0)" } ?? "") + "}"
            }
        }
        let last = count - 1
        return [
            Chain(
                testDescription: "children", collections: "\"Node\": \(node("parent", nil))", entity: "Node",
                first: "0", deleted: ["Node": count]),
            Chain(
                testDescription: "a circle of children", collections: "\"Node\": \(node("parent", last))",
                entity: "Node", first: "7", deleted: ["Node": count]),
            Chain(
                testDescription: "links without inverses", collections: "\"Node\": \(node("follower", last))",
                entity: "Node", first: "7", deleted: ["Node": count]),
            Chain(
                testDescription: "one-to-one pairs in a circle", collections: "\"Pair\": \(node("last", last))",
                entity: "Pair", first: "9", deleted: ["Pair": count]),
            Chain(
                testDescription: "compound identities",
                collections: "\"Cell\": "
                    + Chain.records { number in
                        "{\"x\":\(number),\"y\":\"a\""
                            + (number == 0 ? "}" : ",\"above\":{\"x\":\(number - 1),\"y\":\"a\"}}")
                    }, entity: "Cell", first: #"{"x": 0, "y": "a"}"#, deleted: ["Cell": count]),
            Chain(
                testDescription: "two entities in turns, in a circle",
                collections: "\"Branch\": "
                    + Chain.records { "{\"no\":\($0),\"twig\":\"\(($0 + last) % count)\"}" } + ", \"Twig\": "
                    + Chain.records { "{\"name\":\"\($0)\",\"branch\":\($0)}" }, entity: "Branch", first: "3",
                deleted: ["Branch": count, "Twig": count]),
            Chain(
                testDescription: "a hierarchy", collections: "\"Chief\": \(node("boss", last))", entity: "Chief",
                first: "0", deleted: ["Chief": count]),
        ]
    }()

    /// How many objects of each entity an operation deletes.
    private func deleted(_ operation: String, _ store: TestStore, wantsKeys: Bool = true) throws -> [String: Int] {
        let outcome = try store.outcome(of: store.job(operations: operation, wantsKeys: wantsKeys))
        let counts = outcome.changes.filter { $0.counts.deleted > 0 }.map { ($0.entity, Int($0.counts.deleted)) }
        return Dictionary(uniqueKeysWithValues: counts)
    }

    @Test(arguments: chains, [true, false])
    func `a cascade goes over any number of levels`(chain: Chain, wantsKeys: Bool) throws {
        let store = try TestStore(cascadeModel, having: "{\(chain.collections)}")
        try store.apply(#"{"Node": {"no": 1000000, "seen": 5}}"#)
        let delete = #"{"op": "delete", "entity": "\#(chain.entity)""#
        #expect(
            try deleted(#"\#(delete), "objects": [\#(chain.first)]}"#, store, wantsKeys: wantsKeys) == chain.deleted)
        for entity in chain.deleted.keys {
            let table = entity == "Chief" ? "Person" : entity
            #expect(try store.rows("SELECT * FROM \(table) WHERE rowid <> 1000000 LIMIT 1") == [])
        }
        // All of them are named, so that none is found by another.
        try store.apply("{\(chain.collections)}")
        let all = chain.deleted.merging(chain.entity == "Node" ? ["Node": Self.count + 1] : [:]) { $1 }
        #expect(try deleted(#"\#(delete), "where": "TRUEPREDICATE"}"#, store, wantsKeys: wantsKeys) == all)
        #expect(try store.isSound())
    }

    @Test func `a tombstone, a sync and nested records that make a chain cascade as deep`() throws {
        let chain = "{\(Self.chains[0].collections)}"
        let store = try TestStore(cascadeModel, having: chain)
        #expect(try deleted(#"{"entity": "Node", "json": [{"no": 0, "gone": true}]}"#, store) == ["Node": Self.count])
        try store.apply(chain)
        let sync = #"{"op": "sync", "entity": "Node", "json": [{"no": 0}, {"no": 9, "parent": null}]}"#
        #expect(try deleted(sync, store) == ["Node": Self.count - 2])
        #expect(try store.rows("SELECT no FROM Node ORDER BY 1") == ["0", "9"])
        // 250 levels in each job.
        for start in stride(from: 0, to: 1_250, by: 250) {
            let opening = (start..<start + 250).map { "{\"no\":\($0),\"children\":[" }.joined()
            try store.apply("{\"Node\": \(opening)\(start + 250)\(String(repeating: "]}", count: 250))}")
        }
        #expect(try deleted(#"{"op": "delete", "entity": "Node", "objects": [0]}"#, store) == ["Node": 1_251])
    }

    private static let lockModel = """
        {"entities": {"Node": {"identity": "no", "attributes": {"no": "integer64"}, "relationships": {
          "parent": {"entity": "Node", "inverse": "children"},
          "children": {"entity": "Node", "toMany": true, "inverse": "parent", "deleteRule": "cascade"},
          "lock": {"entity": "Lock", "deleteRule": "deny"}}},
         "Lock": {"identity": "no", "attributes": {"no": "integer64"}}}}
        """

    @Test func `a deny at the end of a long chain holds back all of it`() throws {
        let records = Chain.records {
            "{\"no\":\($0)" + ($0 == 0 ? "" : ",\"parent\":\($0 - 1)")
                + ($0 == Self.count - 1 ? ",\"lock\":1}" : "}")
        }
        let store = try TestStore(Self.lockModel, having: "{\"Node\": \(records)}")
        let (node, lock) = (
            #"{"op": "delete", "entity": "Node", "objects": [0]}"#,
            #"{"op": "delete", "entity": "Lock", "objects": [1]}"#
        )
        #expect(try store.apply(store.job(operations: node)).fault?.code == .constraintViolation)
        #expect(try store.rows("SELECT count(parent) FROM Node") == ["\(Self.count - 1)"])
        #expect(try deleted("\(lock), \(node)", store) == ["Node": Self.count, "Lock": 1])
    }

    @Test func `a sync regards all records where they take effect one after the other`() throws {
        let store = try TestStore(
            cascadeModel, having: #"{"Node": [{"no": 1, "follower": {"no": 3}}, {"no": 5}, {"no": 6}]}"#)
        let records = #"[{"no": 3, "seen": 5}, {"no": 1, "gone": true}, {"no": 5}, {"no": 7}, {"no": 3}]"#
        #expect(try deleted(#"{"op": "sync", "entity": "Node", "json": \#(records)}"#, store) == ["Node": 2])
        #expect(try store.rows("SELECT no, seen FROM Node ORDER BY 1") == ["3|NULL", "5|NULL", "7|NULL"])
    }
}
