import BrokerModel
import TestSupport
import Testing

@testable import BrokerStore

/// Rows that the store itself refuses: unique constraints, and stubs that cannot be made.
@Suite(.timeLimit(.minutes(5))) struct StoreRejectionTests {
    private static let model = """
        {"entities": {
          "User": {"identity": "id", "unique": [["email"], ["first", "last"]], "attributes": {
            "id": "integer64", "email": "string", "first": "string", "last": "string", "name": {"type": "string", "optional": false}},
            "relationships": {"team": {"entity": "Team", "inverse": "users"}}},
          "Team": {"identity": "id", "attributes": {"id": "integer64", "name": "string", "code": {"type": "string", "unique": true}},
            "relationships": {"users": {"entity": "User", "toMany": true, "inverse": "team"}}}}}
        """

    private let store: TestStore

    init() throws {
        let users = #"{"User": [{"id": 1, "email": "a", "name": "A"}, {"id": 2, "email": "b", "name": "B"}]}"#
        store = try TestStore(Self.model, having: users)
    }

    private static let queries = [
        "ids": "SELECT id FROM User ORDER BY 1", "emails": "SELECT id, email FROM User ORDER BY 1",
        "teams": "SELECT id, team FROM User ORDER BY 1",
    ]

    @Test(
        arguments: Claim.list(
            #"""
            # a unique value that another row has fails the job at its record
            {"User": [{"id": 9, "email": "z", "name": "Z"}, {"id": 4, "email": "a", "name": "C"}, {"id": 3, "email": "c", "name": "C"}]}
              => constraintViolation /User/1
            ids :: 1, 2
            # the later of two records that break a unique constraint fails the job, whatever their identities are
            {"User": [{"id": 2, "email": "z"}, {"id": 1, "email": "z"}]} => constraintViolation /User/1
            emails :: 1|a, 2|b
            # with skip only the rows that break the constraint are rejected
            skip {"User": [{"id": 3, "email": "c", "name": "C"}, {"id": 4, "email": "a", "name": "D"},
              {"id": 5, "email": "c", "name": "E"}, {"id": 6, "email": "f", "name": "F"}]}
              => User +2 !2; constraintViolation /User/1, constraintViolation /User/2
            ids :: 1, 2, 3, 6
            # unique values pass between the objects of one job in any order, and are exchanged
            {"User": {"id": 3, "email": "c", "name": "C"}}
            {"User": [{"id": 1, "email": "x"}, {"id": 2, "email": "c"}, {"id": 3, "email": "b"}]} => User ~3
            emails :: 1|x, 2|c, 3|b
            {"User": [{"id": 3, "email": "x"}, {"id": 2}, {"id": 1, "email": "b"}, {"id": 4, "email": "c2", "name": "D"}]}
              => User +1 ~2 =1
            emails :: 1|b, 2|c, 3|x, 4|c2
            # a rejected object retains its unique value, and an object that claims it is rejected, too
            {"User": {"id": 3, "email": "c", "name": "C"}}
            skip {"User": [{"id": 1, "email": "b"}, {"id": 2, "email": "c"}, {"id": 4, "email": "a", "name": "D"}]}
              => User !3; constraintViolation /User/0, constraintViolation /User/1, constraintViolation /User/2
            emails :: 1|a, 2|b, 3|c
            # a unique value that is given up for null passes, too
            {"User": [{"id": 3, "email": "a", "name": "C"}, {"id": 1, "email": null, "last": "x"}]} => User +1 ~1
            emails :: 1|NULL, 2|b, 3|a
            # the object with the later claim is rejected, whatever is named again after it
            skip {"User": [{"id": 8, "email": "z", "name": "H"}, {"id": 9, "email": "z", "name": "I"}], "Team": {"id": 1, "users": [8]}}
              => Team +1, User +1 !1; constraintViolation /User/1
            skip {"User": [{"id": 7, "email": "y", "name": "H"}, {"id": 9, "email": "y", "name": "I"}, {"id": 7, "first": "x"}],
              "Team": {"id": 1}} => Team =1, User +1 !1; constraintViolation /User/1
            ids :: 1, 2, 7, 8
            # objects nested in a rejected record are not listed, and those elsewhere are listed there
            {"Team": {"id": 1, "code": "one"}}
            skip {"Team": {"id": 2, "code": "one", "users": [77]}} => Team !1; constraintViolation /Team
            skip {"User": [{"id": 8, "team": {"id": 1, "users": [9]}}, {"id": 7, "name": "G"}, {"id": 9}]}
              => User +1 !2; missingValue /User/0, missingValue /User/2
            # a nested row that breaks a constraint is rejected, and its parent retains everything but the link
            {"Team": {"id": 1, "code": "one"}}
            skip {"User": [{"id": 3, "name": "C", "team": {"id": 2, "code": "one"}}, {"id": 4, "name": "D", "team": 1}]}
              => Team =1 !1, User +2; constraintViolation /User/0/team
            teams :: 1|NULL, 2|NULL, 3|NULL, 4|1
            # a unique value may stay with its row, and NULL is never taken
            {"User": [{"id": 1, "email": "a", "name": "new"}, {"id": 2, "email": "b"}]} => User ~1 =1
            {"User": [{"id": 7, "email": null, "name": "x"}, {"id": 8, "name": "x"}]} => User +2
            # a stub that lacks a required value is a missing value at its bare key
            {"Team": {"id": 1, "users": [1, 77]}} => missingValue /Team/users/1
            skip {"Team": {"id": 1, "users": [1, 77]}} => Team +1, User ~1 !1; missingValue /Team/users/1
            teams :: 1|1, 2|NULL
            # rejections of staging and of the store are listed together in payload order
            skip {"User": [{"id": 3, "email": "a", "name": "C"}, {"id": "x"}, {"id": 4}], "Team": [{"name": "t"}]}
              => Team !1, User !3; constraintViolation /User/0, invalidValue /User/1/id, missingValue /User/2, missingIdentity /Team/0
            """#))
    func rejections(claim: Claim) throws { try claim.check(store, Self.queries) }

    @Test func `the fault names the entity and the attribute`() throws {
        #expect(try store.fault(#"{"User": {"id": 4, "email": "a", "name": "C"}}"#)?.entity == "User")
        #expect(try store.fault(#"{"Team": {"id": 1, "users": [1, 77]}}"#)?.attribute == "name")
    }

    @Test func `at most ten thousand rejections are listed, the rest is counted`() throws {
        let outcome = try store.outcome(payload("User", (0..<10_005).map { _ in "1" }), .skip)
        #expect(outcome.rejected.count == 10_000 && outcome.summary == "User !10005")
        #expect(outcome.warnings.map { "\($0.code.rawValue) \($0.count)" } == ["rejectedNotListed 5"])
    }
}

/// A rejected record or bare key has no effect at all, whenever its fault is found.
@Suite(.timeLimit(.minutes(5))) struct RejectedRecordTests {
    private static let model = """
        {"entities": {
          "E": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
            "mate": {"entity": "E", "inverse": "mate", "missing": "ignore"},
            "dept": {"entity": "D", "inverse": "staff"},
            "tags": {"entity": "T", "toMany": true, "assignment": "replace", "missing": "ignore"}}},
          "D": {"identity": "id", "attributes": {"id": "integer64", "code": {"type": "string", "unique": true},
            "title": {"type": "string", "optional": false}}, "relationships": {
            "staff": {"entity": "E", "toMany": true, "inverse": "dept", "assignment": "replace"}, "head": {"entity": "E"}}},
          "T": {"identity": "id", "attributes": {"id": "integer64", "word": {"type": "string", "maxLength": 3}}},
          "Note": {"attributes": {"text": {"type": "string", "optional": false}, "code": {"type": "integer64", "unique": true}}},
          "Kind0": {"identity": "no", "attributes": {"no": "integer64", "text": "string"},
            "relationships": {"friend": {"entity": "Kind1"}, "other": {"entity": "Kind0"}}},
          "Kind1": {"parent": "Kind0", "attributes": {"more": {"type": "string", "optional": false}}}}}
        """

    private static let queries = [
        "employees": "SELECT id, mate, dept FROM E ORDER BY id", "tags": "SELECT destination FROM E_tags ORDER BY 1",
        "kinds": "SELECT no, text, friend, other, _entity FROM Kind0 ORDER BY no",
    ]

    @Test(
        arguments: Claim.list(
            #"""
            # an ignored bare key leaves the existing pair unchanged
            {"E": [{"id": 1, "mate": {"id": 2}}, {"id": 3}]}
            {"E": [{"id": 1, "mate": 2}, {"id": 1, "mate": 99}]} => E =2
            employees :: 1|2|NULL, 2|1|NULL, 3|NULL|NULL
            {"E": [{"id": 3, "mate": {"id": 4}}, {"id": 3, "mate": 99}]}
            employees :: 1|2|NULL, 2|1|NULL, 3|4|NULL, 4|3|NULL
            # an object that the merge rejects leaves the link of an earlier record unchanged
            {"D": {"id": 5, "title": "five"}, "E": {"id": 1, "dept": 5}}
            skip {"E": [{"id": 1, "dept": 5}, {"id": 1, "dept": {"id": 6}}]} => D =1 !1, E =1; missingValue /E/1/dept
            employees :: 1|NULL|5
            # records nested in a record that the merge rejects are rejected with it, not listed, and no orphan is inserted
            skip {"D": [{"id": 6, "staff": [{"id": 8, "mate": {"id": 9, "name": 5}}], "head": {"id": "x"}}], "E": {"id": 1}}
              => D !1, E +1; missingValue /D/0
            employees :: 1|NULL|NULL
            # a stub that only a rejected record would have completed is rejected, too
            {"D": {"id": 1, "title": "one", "code": "a"}}
            skip {"E": {"id": 3, "dept": 7}, "D": {"id": 2, "title": "two", "code": "a",
              "head": {"id": 4, "dept": {"id": 7, "title": "seven"}}}} => D !2, E +1; missingValue /E/dept, constraintViolation /D
            employees :: 3|NULL|NULL
            # a replacing set retains the links to rejected elements whose identity is known, and to no others
            {"D": [{"id": 1, "title": "one"}],
              "E": [{"id": 1, "dept": 1, "tags": [{"id": 1}, {"id": 2}, {"id": 3}]}, {"id": 2, "dept": 1}]}
            skip {"E": {"id": 1, "tags": [{"id": 1, "word": "long"}, 3]}} => E ~1, T =1 !1; validationFailed /E/tags/0/word
            tags :: 1, 3
            skip {"E": {"id": 1, "tags": ["x", {"id": 3, "word": "long"}, {"id": 9, "word": "long"}, 77]}}
            tags :: 3
            skip {"D": {"id": 1, "staff": [{"id": 1, "name": []}]}} => D =1, E ~1 !1; invalidValue /D/staff/0/name
            employees :: 1|NULL|1, 2|NULL|NULL
            # a set that replaces keeps the links that were there when it was said, by earlier operations too
            skip {"E": {"id": 1, "tags": [{"id": 1}, {"id": 2}]}, "E": {"id": 1, "tags": {"id": 1, "word": "long"}}}
            tags :: 1
            skip {"E": [{"id": 1, "tags": null}, {"id": 1, "tags": [{"id": 1, "word": "long"}, 2]}]}
            tags :: 2
            skip {"E": {"id": 1, "tags": {"id": 3}}, "E": {"id": 1, "tags": {"id": 2, "word": "long"}}}
            tags ::
            skip {"D": {"id": 1, "title": "one", "staff": [4, 5]}, "D": {"id": 1, "staff": {"id": 4, "name": []}}}
            SELECT id FROM E WHERE dept = 1 :: 4
            # rejected records use no row keys
            skip {"Note": [{"text": "a", "code": 1}, {"code": 2}, {"text": "b", "code": 1}]}
            {"Note": [{"code": 2}]} => missingValue /Note/0
            {"Note": {"text": "c"}}
            SELECT _pk, text FROM Note ORDER BY 1 :: 1|a, 2|c
            # a bare key that cannot become an object takes no valid record along, nor an object that is there already
            skip {"Kind0": [{"no": 3, "text": "a", "friend": 1, "other": 1}, {"no": 1, "text": "b"}]}
              => Kind0 +2, Kind1 !1; missingValue /Kind0/0/friend
            kinds :: 1|b|NULL|NULL|Kind0, 3|a|NULL|1|Kind0
            skip {"Kind0": [{"no": 3, "friend": 1}, {"no": 1, "text": "c"}, {"no": 4, "friend": 5}, {"no": 5, "friend": 6}]}
              => Kind0 +2 ~1 =1, Kind1 !3; missingValue /Kind0/0/friend, missingValue /Kind0/2/friend, missingValue /Kind0/3/friend
            kinds :: 1|c|NULL|NULL|Kind0, 3|a|NULL|1|Kind0, 4|NULL|NULL|NULL|Kind0, 5|NULL|NULL|NULL|Kind0
            skip {"Kind0": {"no": 7, "friend": 8}, "Kind1": [{"no": 8, "text": "x"}, {"no": 9, "more": "m"}]}
              => Kind0 +1, Kind1 +1 !2; missingValue /Kind0/friend, missingValue /Kind1/0
            # each rejected record is listed and counted: with faults of its own, and such that cannot make its object
            skip {"D": [{"id": 5, "title": 1, "code": []}, {"id": 5}, {"id": 5, "head": {"id": "x"}}, {"id": 5}]}
              => D !4; invalidValue /D/0/code, missingValue /D/1, missingValue /D/2, missingValue /D/3
            # each rejected record is listed and counted: named by keys, nested records and records, in several collections
            skip {"E": [{"id": 1, "dept": 7}, {"id": 2, "dept": {"id": 7}}], "D": [{"id": 7, "code": "a"}, {"id": 7}]}
              => D !4, E +2; missingValue /E/0/dept, missingValue /E/1/dept, missingValue /D/0, missingValue /D/1
            # records nested in a rejected one are not listed; other faults are
            skip {"D": [{"id": 6, "staff": [{"id": 8, "name": []}, {"id": 9, "dept": 5}]}], "E": {"id": 9, "dept": 5}}
              => D !2, E +1; missingValue /D/0, missingValue /E/dept
            # records with a unique value that another object has are each listed
            skip {"D": [{"id": 1, "title": "t", "code": "a"}, {"id": 2, "title": "t", "code": "a"}, {"id": 2, "code": "a"},
              {"id": 2, "title": "u"}, {"id": 3, "title": "t", "code": "a"}]}
              => D +2 !3; constraintViolation /D/1, missingValue /D/2, constraintViolation /D/4
            """#))
    func `rejected records`(claim: Claim) throws { try claim.check(TestStore(Self.model), Self.queries) }

    @Test func `a job in which each rejection causes further ones ends in bounded time`() throws {
        let store = try TestStore(Self.model)
        // Each department's title is brought by a record that is nested in the one before it.
        let links = (0..<Cases.count(300, of: 1_000)).map {
            #"{"id": \#($0), "head": {"id": \#($0), "dept": {"id": \#($0 + 1), "title": "t"}}}"#
        }
        let end = try store.apply(payload("D", links), .skip)
        #expect(try store.isSound())
        guard let fault = end.fault else { return }
        #expect(fault.code == .constraintViolation)
        #expect(try store.rows("SELECT count(*) FROM D") == ["0"])
    }
}

/// Unique values that an operation claims, and that a later one frees: only the rows at the end of a job must be unique,
/// whichever attributes a list has.
@Suite(.timeLimit(.minutes(5))) struct ParkedValuesTests {
    private static let model = """
        {"entities": {
          "Seat": {"identity": ["floor", "no"], "modified": "at",
            "unique": [["floor", "seat"], ["at", "desk", "chair"], ["no", "floor"]],
            "attributes": {"floor": "integer64", "no": "integer64", "at": "integer64", "seat": "string", "desk": "string",
              "chair": "string", "text": "string"}},
          "Room": {"identity": "no", "modified": "at", "unique": [["at", "door"]],
            "attributes": {"no": "integer64", "at": "integer64", "door": "string"}},
          "Guest": {"identity": "id", "tombstone": "gone == YES", "attributes": {
            "id": "integer64", "mail": {"type": "string", "unique": true}, "name": "string", "gone": "boolean"}}}}
        """
    private static let first = #"""
        {"Seat": [{"floor": 1, "no": 1, "seat": "a", "at": 1, "desk": "d", "chair": "c"}], "Room": [{"no": 1, "at": 1, "door": "d"}]}
        """#
    private static let claim = #"{"op": "process", "entity": "Seat", "json": [{"floor": 1, "no": 2, "seat": "a"}]}"#
    private static let free = #"{"op": "delete", "entity": "Seat", "objects": [{"floor": 1, "no": 1}]}"#
    private static let nothing = #"{"op": "delete", "entity": "Seat", "objects": [{"floor": 2, "no": 9}]}"#

    @Test(
        arguments: Claim.list(
            #"""
            # a value is claimed before a deletion frees it, whichever attribute is first in its list
            {"op": "process", "entity": "Seat", "json": {"floor": 1, "no": 2, "seat": "a", "at": 2}}, \#(free) => Seat +1 -1
            seats :: 1|2|a
            # the last attribute of the list may be the one that is claimed
            {"op": "process", "entity": "Seat", "json": {"floor": 2, "no": 2, "at": 1, "desk": "d", "chair": "c"}}, \#(free) => Seat +1 -1
            # the operation that claims a value names the holder, too, and leaves its value alone
            {"op": "process", "entity": "Seat", "json": [{"floor": 1, "no": 1, "text": "t"}, {"floor": 1, "no": 2, "seat": "a", "at": 2}]},
              \#(free) => Seat +1 -1
            seats :: 1|2|a
            # a sync gives a value to a new object
            {"op": "sync", "entity": "Seat", "json": [{"floor": 1, "no": 2, "seat": "a"}]} => Seat +1 -1
            seats :: 1|2|a
            # with skip, a value that another object has at that moment is not taken
            skip \#(claim), \#(free) => Seat -1 !1; constraintViolation /0/json/0
            {"Seat": {"floor": 1, "no": 1, "seat": "a"}}
            skip \#(free), \#(claim) => Seat +1 -1
            # a value that is not freed comes back to its object, and the claim fails at its record
            {"op": "process", "entity": "Seat", "json": [{"floor": 2, "no": 2}, {"floor": 1, "no": 2, "text": "t"},
              {"floor": 1, "no": 2, "seat": "a"}]}, \#(nothing) => constraintViolation /0/json/2
            skip {"op": "process", "entity": "Seat", "json": [{"floor": 2, "no": 2}, {"floor": 1, "no": 2, "text": "t"},
              {"floor": 1, "no": 2, "seat": "a"}]}, \#(nothing) => Seat +2 !1; constraintViolation /0/json/2
            seats :: 1|1|a, 1|2|NULL, 2|2|NULL
            # a value that changes hands and back stays where it was
            \#(claim), \#(nothing), {"op": "process", "entity": "Seat", "json": [{"floor": 1, "no": 2, "seat": "b"}]} => Seat +1
            seats :: 1|1|a, 1|2|b
            # a parked value follows the renaming of its object, whose row number changes
            {"entity": "Room", "json": [{"no": 2, "at": 1, "door": "d"}]}, {"op": "delete", "entity": "Room", "objects": [9]},
              {"entity": "Room", "object": 1, "json": {"no": 3, "at": 4}} => Room +1 ~1
            SELECT no, at, door FROM Room ORDER BY 1 :: 2|1|d, 3|4|d
            # a record that deletes the holder frees the value
            {"Guest": [{"id": 1, "mail": "x"}, {"id": 9, "mail": "y"}]}
            {"Guest": [{"id": 2, "mail": "x"}, {"id": 1, "gone": true}]} => Guest +1 -1
            guests :: 2|x, 9|y
            # a sync that leaves the holder alone fails at the record that claims its value
            {"Guest": [{"id": 1, "mail": "x"}, {"id": 9, "mail": "y"}]}
            {"op": "sync", "entity": "Guest", "json": [{"id": 2, "mail": "x"}], "where": "id == 9"} => constraintViolation /0/json/0
            guests :: 1|x, 9|y
            # an object whose value waits keeps it when the claiming object goes, and counts as it is
            {"Guest": [{"id": 1, "mail": "x", "name": "n"}]}
            {"entity": "Guest", "json": {"id": 2, "mail": "x"}}, {"entity": "Guest", "json": {"id": 1, "name": "n"}},
              {"op": "delete", "entity": "Guest", "objects": [2]} => Guest =1
            {"entity": "Guest", "json": {"id": 2, "mail": "x"}}, {"entity": "Guest", "object": 1, "json": {"id": 5}},
              {"op": "delete", "entity": "Guest", "objects": [2]} => Guest ~1
            guests :: 5|x
            # a value may pass through several objects of one job
            {"Guest": [{"id": 1, "mail": "x"}]}
            {"entity": "Guest", "json": {"id": 2, "mail": "x"}}, {"op": "delete", "entity": "Guest", "objects": []},
              {"entity": "Guest", "json": {"id": 3, "mail": "x"}}, {"op": "delete", "entity": "Guest", "objects": [1, 2]} => Guest +1 -1
            guests :: 3|x
            {"entity": "Guest", "json": {"id": 4, "mail": "x"}}, {"op": "delete", "entity": "Guest", "objects": []},
              {"entity": "Guest", "json": {"id": 5, "mail": "x"}}, {"op": "delete", "entity": "Guest", "objects": [3]} => constraintViolation /2/json
            # a where that asks for a parked attribute finds its value
            \#(claim), {"op": "delete", "entity": "Seat", "where": "seat == 'a' AND #no == 1"} => constraintViolation /0/json/0
            \#(claim), {"op": "delete", "entity": "Seat", "where": "floor == 1 AND #no == 1"} => Seat +1 -1
            """#))
    func `values that change hands`(claim: Claim) throws {
        let store = try TestStore(Self.model, having: Self.first)
        try claim.check(
            store,
            [
                "seats": "SELECT floor, no, seat FROM Seat ORDER BY 1, 2",
                "guests": "SELECT id, mail FROM Guest ORDER BY id",
            ])
    }
}
