import BrokerModel
import Testing

@testable import BrokerStore

/// Rows that the store itself refuses: unique constraints, and stubs that cannot be made.
@Suite(.timeLimit(.minutes(5))) struct StoreRejectionTests {
    private let store: TestStore

    init() throws {
        store = try TestStore(
            """
            {"entities": {
              "User": {"identity": "id", "unique": [["email"], ["first", "last"]], "attributes": {
                "id": "integer64", "email": "string", "first": "string", "last": "string",
                "name": {"type": "string", "optional": false}},
                "relationships": {"team": {"entity": "Team", "inverse": "users"}}},
              "Team": {"identity": "id", "attributes": {"id": "integer64", "name": "string",
                "code": {"type": "string", "unique": true}},
                "relationships": {"users": {"entity": "User", "toMany": true, "inverse": "team"}}}
            }}
            """)
        try store.apply(#"{"User": [{"id": 1, "email": "a", "name": "A"}, {"id": 2, "email": "b", "name": "B"}]}"#)
    }

    @Test func `a unique value that another row has fails the job at its record`() throws {
        let fault = try #require(
            try store.fault(
                """
                {"User": [{"id": 9, "email": "z", "name": "Z"}, {"id": 4, "email": "a", "name": "C"},
                  {"id": 3, "email": "c", "name": "C"}]}
                """
            ))
        #expect(fault.code == .constraintViolation)
        #expect(fault.path == "/User/1")
        #expect(fault.entity == "User")
        #expect(try store.rows("SELECT id FROM User ORDER BY 1") == ["1", "2"])
    }

    @Test func `a partial record that breaks a unique constraint fails the job at its record`() throws {
        let fault = try #require(try store.fault(#"{"User": [{"id": 2, "email": "z"}, {"id": 1, "email": "z"}]}"#))
        #expect(fault.code == .constraintViolation)
        #expect(fault.path == "/User/1", "the later of the two claims it in vain, whatever their identities are")
        #expect(try store.rows("SELECT id, email, last FROM User ORDER BY 1, 2") == ["1|a|NULL", "2|b|NULL"])
    }

    @Test func `with skip only the rows that break the constraint are rejected`() throws {
        let outcome = try store.outcome(
            """
            {"User": [{"id": 3, "email": "c", "name": "C"}, {"id": 4, "email": "a", "name": "D"},
              {"id": 5, "email": "c", "name": "E"}, {"id": 6, "email": "f", "name": "F"}]}
            """, .skip)
        #expect(outcome.described == ["User +2 ~0 =0 !2"])
        #expect(outcome.rejections == ["constraintViolation /User/1", "constraintViolation /User/2"])
        #expect(try store.rows("SELECT id FROM User ORDER BY 1") == ["1", "2", "3", "6"])
    }

    @Test func `unique values pass between the objects of one job in any order, and are exchanged`() throws {
        try store.apply(#"{"User": {"id": 3, "email": "c", "name": "C"}}"#)
        #expect(
            try store.changes(
                #"{"User": [{"id": 1, "email": "x"}, {"id": 2, "email": "c"}, {"id": 3, "email": "b"}]}"#)
                == ["User +0 ~3 =0 !0"])
        #expect(try store.rows("SELECT id, email FROM User ORDER BY 1") == ["1|x", "2|c", "3|b"])
        #expect(
            try store.changes(
                #"{"User": [{"id": 3, "email": "x"}, {"id": 2}, {"id": 1, "email": "b"}, {"id": 4, "email": "c2", "name": "D"}]}"#
            )
                == ["User +1 ~2 =1 !0"])
        #expect(try store.rows("SELECT id, email FROM User ORDER BY 1") == ["1|b", "2|c", "3|x", "4|c2"])
    }

    @Test func `a rejected object retains its unique value, and an object that claims it is rejected, too`() throws {
        try store.apply(#"{"User": {"id": 3, "email": "c", "name": "C"}}"#)
        let outcome = try store.outcome(
            #"{"User": [{"id": 1, "email": "b"}, {"id": 2, "email": "c"}, {"id": 4, "email": "a", "name": "D"}]}"#,
            .skip)
        #expect(outcome.described == ["User +0 ~0 =0 !3"])
        #expect(
            outcome.rejections == [
                "constraintViolation /User/0", "constraintViolation /User/1", "constraintViolation /User/2",
            ])
        #expect(try store.rows("SELECT id, email FROM User ORDER BY 1") == ["1|a", "2|b", "3|c"])
    }

    @Test func `a unique value that is given up for null passes, too`() throws {
        #expect(
            try store.changes(
                #"{"User": [{"id": 3, "email": "a", "name": "C"}, {"id": 1, "email": null, "last": "x"}]}"#)
                == ["User +1 ~1 =0 !0"])
        #expect(try store.rows("SELECT id, email FROM User ORDER BY 1") == ["1|NULL", "2|b", "3|a"])
    }

    @Test(arguments: [#"], "Team": {"id": 1, "users": [8]}}"#, #", {"id": 8, "first": "x"}], "Team": {"id": 1}}"#])
    func `the object with the later claim is rejected, whatever is named again after it`(rest: String) throws {
        let outcome = try store.outcome(
            #"{"User": [{"id": 8, "email": "z", "name": "H"}, {"id": 9, "email": "z", "name": "I"}"# + rest, .skip)
        #expect(outcome.rejections == ["constraintViolation /User/1"])
        #expect(try store.rows("SELECT id FROM User WHERE id > 2") == ["8"])
    }

    @Test func `objects nested in a rejected record are not listed, and those elsewhere are listed there`() throws {
        try store.apply(#"{"Team": {"id": 1, "code": "one"}}"#)
        let claim = try store.outcome(#"{"Team": {"id": 2, "code": "one", "users": [77]}}"#, .skip)
        #expect(claim.described == ["Team +0 ~0 =0 !1"])
        #expect(claim.rejections == ["constraintViolation /Team"])
        let outcome = try store.outcome(
            #"{"User": [{"id": 8, "team": {"id": 1, "users": [9]}}, {"id": 7, "name": "G"}, {"id": 9}]}"#, .skip)
        #expect(outcome.described == ["User +1 ~0 =0 !2"])
        #expect(outcome.rejections == ["missingValue /User/0", "missingValue /User/2"])
    }

    @Test func `a nested row that breaks a constraint is rejected, and its parent retains everything but the link`()
        throws
    {
        try store.apply(#"{"Team": {"id": 1, "code": "one"}}"#)
        let outcome = try store.outcome(
            #"{"User": [{"id": 3, "name": "C", "team": {"id": 2, "code": "one"}}, {"id": 4, "name": "D", "team": 1}]}"#,
            .skip)
        #expect(outcome.described == ["Team +0 ~0 =1 !1", "User +2 ~0 =0 !0"])
        #expect(outcome.rejections == ["constraintViolation /User/0/team"])
        #expect(try store.rows("SELECT id, team FROM User WHERE id > 2 ORDER BY 1, 2") == ["3|NULL", "4|1"])
    }

    @Test func `a unique value may stay with its row, and NULL is never taken`() throws {
        #expect(
            try store.changes(#"{"User": [{"id": 1, "email": "a", "name": "new"}, {"id": 2, "email": "b"}]}"#)
                == ["User +0 ~1 =1 !0"])
        #expect(
            try store.changes(#"{"User": [{"id": 7, "email": null, "name": "x"}, {"id": 8, "name": "x"}]}"#)
                == ["User +2 ~0 =0 !0"])
    }

    @Test func `a stub that lacks a required value is a missing value at its bare key`() throws {
        let fault = try #require(try store.fault(#"{"Team": {"id": 1, "users": [1, 77]}}"#))
        #expect(fault.code == .missingValue)
        #expect(fault.path == "/Team/users/1")
        #expect(fault.attribute == "name")
        let outcome = try store.outcome(#"{"Team": {"id": 1, "users": [1, 77]}}"#, .skip)
        #expect(outcome.described == ["Team +1 ~0 =0 !0", "User +0 ~1 =0 !1"])
        #expect(try store.rows("SELECT id, team FROM User ORDER BY 1, 2") == ["1|1", "2|NULL"])
    }

    @Test func `rejections of staging and of the store are listed together in payload order`() throws {
        let outcome = try store.outcome(
            #"{"User": [{"id": 3, "email": "a", "name": "C"}, {"id": "x"}, {"id": 4}], "Team": [{"name": "t"}]}"#, .skip
        )
        #expect(outcome.described == ["Team +0 ~0 =0 !1", "User +0 ~0 =0 !3"])
        #expect(
            outcome.rejections == [
                "constraintViolation /User/0", "invalidValue /User/1/id", "missingValue /User/2",
                "missingIdentity /Team/0",
            ])
    }

    @Test func `at most ten thousand rejections are listed, the rest is counted`() throws {
        let outcome = try store.outcome("{\"User\": [\((0..<10_005).map { _ in "1" }.joined(separator: ","))]}", .skip)
        #expect(outcome.rejected.count == 10_000)
        #expect(outcome.described == ["User +0 ~0 =0 !10005"])
        #expect(outcome.warnings.map { "\($0.code.rawValue) \($0.count)" } == ["rejectedNotListed 5"])
    }
}
