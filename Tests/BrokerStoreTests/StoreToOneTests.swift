import BrokerModel
import Testing
import TestSupport

@testable import BrokerStore

/// Links in columns: to-one, one-to-many, one-to-one.
@Suite(.timeLimit(.minutes(5))) struct StoreToOneTests {
    private let store: TestStore

    init() throws { store = try TestStore(company) }

    @Test func `nested records are found or created and linked`() throws {
        let payload =
            #"{"Employee": [{"id": 1, "department": {"id": 10, "name": "R&D"}}, {"id": 2, "department": 10}]}"#
        #expect(try store.changes(payload) == ["Department +1 ~0 =0 !0", "Employee +2 ~0 =0 !0"])
        #expect(try store.rows("SELECT id, department FROM Employee ORDER BY 1, 2") == ["1|10", "2|10"])
        #expect(try store.changes(payload) == ["Department +0 ~0 =1 !0", "Employee +0 ~0 =2 !0"])
        #expect(try store.isSound())
    }

    @Test func `a one-to-many link changes the child's row, not the parent's`() throws {
        try store.apply(
            #"{"Department": [{"id": 10}, {"id": 11}], "Employee": [{"id": 1}, {"id": 2, "department": 11}]}"#)
        #expect(
            try store.changes(#"{"Department": {"id": 10, "employees": [1, {"id": 2}, 3]}}"#)
                == ["Department +0 ~0 =1 !0", "Employee +1 ~2 =0 !0"])
        #expect(try store.rows("SELECT id, department FROM Employee ORDER BY 1, 2") == ["1|10", "2|10", "3|10"])
    }

    @Test func `null unlinks a to-one, and clears a to-many`() throws {
        try store.apply(#"{"Department": {"id": 10, "employees": [1, 2, 3]}, "Employee": {"id": 4, "department": 11}}"#)
        #expect(try store.changes(#"{"Employee": {"id": 1, "department": null}}"#) == ["Employee +0 ~1 =0 !0"])
        // Employees 2 and 3 are not in the payload, and still their rows change.
        #expect(
            try store.changes(#"{"Department": {"id": 10, "employees": null}}"#)
                == ["Department +0 ~0 =1 !0", "Employee +0 ~2 =0 !0"])
        #expect(
            try store.changes(#"{"Department": {"id": 10, "employees": null}}"#) == ["Department +0 ~0 =1 !0"])
        #expect(
            try store.rows("SELECT id, department FROM Employee ORDER BY 1, 2") == [
                "1|NULL", "2|NULL", "3|NULL", "4|11",
            ])
    }

    @Test func `rows may refer to each other in any order, in circles too`() throws {
        try store.apply(#"{"Employee": [{"id": 1, "manager": {"id": 2, "manager": {"id": 3, "manager": 1}}}]}"#)
        #expect(try store.rows("SELECT id, manager FROM Employee ORDER BY 1, 2") == ["1|2", "2|3", "3|1"])
        try store.apply(#"{"Employee": {"id": 4, "manager": 4, "reports": [1]}}"#)
        #expect(try store.rows("SELECT id, manager FROM Employee ORDER BY 1, 2") == ["1|4", "2|3", "3|1", "4|4"])
        #expect(try store.isSound())
    }

    @Test func `links to compound identities and to row keys have columns of their own`() throws {
        try store.apply(
            """
            {"Employee": [{"id": 1, "seat": {"row": "A", "number": 4}}, {"id": 2, "seat": null}],
             "Note": [{"text": "x", "about": {"text": "y"}}]}
            """)
        #expect(
            try store.rows("SELECT id, seat_row, seat_number FROM Employee ORDER BY 1, 2") == ["1|A|4", "2|NULL|NULL"])
        #expect(
            try store.rows("SELECT n.text, a.text FROM Note AS n LEFT JOIN Note AS a ON n.about = a._pk ORDER BY 1")
                == ["x|y", "y|NULL"])
        try store.apply(#"{"Employee": {"id": 1, "seat": null}}"#)
        #expect(try store.rows("SELECT seat_row, seat_number FROM Employee WHERE id = 1") == ["NULL|NULL"])
        #expect(try store.isSound())
    }

    // MARK: - One to one

    @Test func `a one-to-one pair is true on both sides`() throws {
        try store.apply(#"{"Employee": {"id": 1, "desk": {"id": 50}}, "Desk": {"id": 51, "owner": {"id": 2}}}"#)
        #expect(try store.rows("SELECT id, desk FROM Employee ORDER BY 1, 2") == ["1|50", "2|51"])
        #expect(try store.rows("SELECT id, owner FROM Desk ORDER BY 1, 2") == ["50|1", "51|2"])
    }

    @Test func `a new pair frees the partners that only the store knows`() throws {
        try store.apply(#"{"Employee": [{"id": 1, "desk": 50}, {"id": 2, "desk": 51}, {"id": 3, "desk": 52}]}"#)
        #expect(
            try store.changes(#"{"Employee": {"id": 1, "desk": 51}}"#)
                == ["Desk +0 ~2 =0 !0", "Employee +0 ~2 =0 !0"])
        #expect(try store.rows("SELECT id, desk FROM Employee ORDER BY 1, 2") == ["1|51", "2|NULL", "3|52"])
        #expect(try store.rows("SELECT id, owner FROM Desk ORDER BY 1, 2") == ["50|NULL", "51|1", "52|3"])
    }

    @Test func `null frees the partner in the store`() throws {
        try store.apply(#"{"Employee": [{"id": 1, "desk": 50}, {"id": 2, "desk": 51}]}"#)
        #expect(
            try store.changes(#"{"Desk": {"id": 50, "owner": null}}"#)
                == ["Desk +0 ~1 =0 !0", "Employee +0 ~1 =0 !0"])
        #expect(try store.rows("SELECT id, desk FROM Employee ORDER BY 1, 2") == ["1|NULL", "2|51"])
    }

    @Test func `a pair inside of one entity changes partners`() throws {
        try store.apply(#"{"Employee": [{"id": 1, "spouse": 2}, {"id": 3, "spouse": 4}]}"#)
        #expect(try store.changes(#"{"Employee": {"id": 1, "spouse": 3}}"#) == ["Employee +0 ~4 =0 !0"])
        #expect(try store.rows("SELECT id, spouse FROM Employee ORDER BY 1, 2") == ["1|3", "2|NULL", "3|1", "4|NULL"])
        #expect(try store.changes(#"{"Employee": {"id": 3, "spouse": 1}}"#) == ["Employee +0 ~0 =2 !0"])
    }

    // MARK: - Bare keys

    @Test func `a bare key whose object is missing makes a stub that a later record fills in`() throws {
        #expect(
            try store.changes(#"{"Employee": {"id": 1, "department": 10}}"#)
                == ["Department +1 ~0 =0 !0", "Employee +1 ~0 =0 !0"])
        #expect(try store.changes(#"{"Department": {"id": 10, "name": "x"}}"#) == ["Department +0 ~1 =0 !0"])
        #expect(
            try store.changes(#"{"Employee": {"id": 1, "department": 10}}"#) == [
                "Department +0 ~0 =1 !0", "Employee +0 ~0 =1 !0",
            ])
        #expect(try store.rows("SELECT * FROM Department") == ["10|x"])
    }

    @Test func `a bare key that may be missing is ignored without a warning`() throws {
        try store.apply(#"{"Item": {"code": "there"}}"#)
        let outcome = try store.outcome(#"{"Employee": [{"id": 1, "locker": "gone"}, {"id": 2, "locker": "there"}]}"#)
        #expect(outcome.described == ["Employee +2 ~0 =0 !0", "Item +0 ~0 =1 !0"])
        #expect(outcome.rejections == [])
        #expect(try store.rows("SELECT id, locker FROM Employee ORDER BY 1, 2") == ["1|NULL", "2|there"])
        #expect(try store.rows("SELECT code FROM Item") == ["there"])
    }

    @Test func `a bare key that must exist fails the job at its position, or is rejected`() throws {
        let payload = #"{"Employee": [{"id": 1, "name": "a", "badge": "gone"}]}"#
        let fault = try #require(try store.fault(payload))
        #expect(fault.code == .objectNotFound)
        #expect(fault.path == "/Employee/0/badge")
        #expect(fault.entity == "Item")
        #expect(try store.rows("SELECT id FROM Employee ORDER BY 1") == [])
        let outcome = try store.outcome(payload, .skip)
        #expect(outcome.described == ["Employee +1 ~0 =0 !0", "Item +0 ~0 =0 !1"])
        #expect(outcome.rejections == ["objectNotFound /Employee/0/badge"])
        #expect(try store.rows("SELECT id, name, badge FROM Employee ORDER BY 1, 2") == ["1|a|NULL"])
    }

    @Test func `an object of the same job exists for a bare key before or after it`() throws {
        #expect(
            try store.changes(
                #"{"Employee": {"id": 1, "badge": "b", "locker": "l"}, "Item": [{"code": "b"}, {"code": "l"}]}"#)
                == ["Employee +1 ~0 =0 !0", "Item +2 ~0 =0 !0"])
        #expect(try store.rows("SELECT badge, locker FROM Employee ORDER BY 1, 2") == ["b|l"])
    }

    @Test func `a rejected link leaves the existing one`() throws {
        try store.apply(#"{"Item": {"code": "there"}, "Employee": {"id": 1, "locker": "there"}}"#)
        #expect(try store.changes(#"{"Employee": {"id": 1, "locker": "gone"}}"#) == ["Employee +0 ~0 =1 !0"])
        #expect(try store.rows("SELECT locker FROM Employee") == ["there"])
    }
}
