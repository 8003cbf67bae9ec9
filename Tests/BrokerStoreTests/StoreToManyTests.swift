import BrokerModel
import Testing
import TestSupport

@testable import BrokerStore

/// Links in tables of their own: many-to-many, without an inverse, and symmetric.
@Suite(.timeLimit(.minutes(5))) struct StoreToManyTests {
    private let store: TestStore

    init() throws { store = try TestStore(company) }

    private func projects() throws -> [String] { try store.rows("SELECT * FROM Employee_projects ORDER BY 1, 2") }
    private func skills() throws -> [String] { try store.rows("SELECT * FROM Employee_skills ORDER BY 1, 2") }
    private func friends() throws -> [String] { try store.rows("SELECT * FROM Employee_friends ORDER BY 1, 2") }

    @Test func `a many-to-many pair has one table, whichever side names the link`() throws {
        try store.apply(
            #"{"Employee": {"id": 1, "projects": [7, {"id": 8}]}, "Project": {"id": 7, "members": [2, 1]}}"#)
        #expect(try projects() == ["1|7", "1|8", "2|7"])
        #expect(try store.isSound())
    }

    @Test func `a new link counts as an update of the object whose record names it`() throws {
        try store.apply(#"{"Employee": [{"id": 1}, {"id": 2}], "Project": [{"id": 7}, {"id": 8}]}"#)
        #expect(
            try store.changes(#"{"Employee": {"id": 1, "projects": [7, 8]}}"#)
                == ["Employee +0 ~1 =0 !0", "Project +0 ~0 =2 !0"])
        #expect(
            try store.changes(#"{"Project": {"id": 7, "members": [1, 2]}}"#)
                == ["Employee +0 ~0 =2 !0", "Project +0 ~1 =0 !0"])
        #expect(
            try store.changes(#"{"Project": {"id": 7, "members": [1, 2]}}"#)
                == ["Employee +0 ~0 =2 !0", "Project +0 ~0 =1 !0"])
        #expect(
            try store.changes(#"{"Employee": {"id": 3, "name": "new", "projects": [8]}}"#)
                == ["Employee +1 ~0 =0 !0", "Project +0 ~0 =1 !0"])
    }

    @Test func `a link that two records name counts for both, though one of them replaced what the other had said`()
        throws
    {
        let store = try TestStore(
            company.replacing(#""inverse": "projects""#, with: #""inverse": "projects", "assignment": "replace""#))
        try store.apply(#"{"Employee": {"id": 1}}"#)
        #expect(
            try store.changes(#"{"Employee": {"id": 1, "projects": [7]}, "Project": {"id": 7, "members": [1]}}"#)
                == ["Employee +0 ~1 =0 !0", "Project +1 ~0 =0 !0"])
    }

    @Test func `a union keeps the links that are there, null clears them`() throws {
        try store.apply(#"{"Employee": [{"id": 1, "projects": [7]}, {"id": 2, "projects": [7, 8]}]}"#)
        #expect(try store.changes(#"{"Employee": {"id": 1, "projects": []}}"#) == ["Employee +0 ~0 =1 !0"])
        try store.apply(#"{"Employee": {"id": 1, "projects": 8}}"#)
        #expect(try projects() == ["1|7", "1|8", "2|7", "2|8"])
        #expect(try store.changes(#"{"Employee": {"id": 1, "projects": null}}"#) == ["Employee +0 ~1 =0 !0"])
        #expect(try store.changes(#"{"Employee": {"id": 1, "projects": null}}"#) == ["Employee +0 ~0 =1 !0"])
        #expect(try store.changes(#"{"Project": {"id": 7, "members": null}}"#) == ["Project +0 ~1 =0 !0"])
        #expect(try projects() == ["2|8"])
    }

    @Test func `an assignment of replace ends the links that the record does not name`() throws {
        try store.apply(#"{"Employee": [{"id": 1, "skills": ["a", "b", "c"]}, {"id": 2, "skills": ["a"]}]}"#)
        #expect(
            try store.changes(#"{"Employee": {"id": 1, "skills": ["b", "d"]}}"#)
                == ["Employee +0 ~1 =0 !0", "Skill +1 ~0 =1 !0"])
        #expect(try skills() == ["1|b", "1|d", "2|a"])
        #expect(
            try store.changes(#"{"Employee": {"id": 1, "skills": ["d", "b"]}}"#)
                == ["Employee +0 ~0 =1 !0", "Skill +0 ~0 =2 !0"])
        #expect(try store.changes(#"{"Employee": {"id": 1, "name": "x"}}"#) == ["Employee +0 ~1 =0 !0"])
        #expect(try skills() == ["1|b", "1|d", "2|a"])
        #expect(try store.changes(#"{"Employee": {"id": 1, "skills": []}}"#) == ["Employee +0 ~1 =0 !0"])
        #expect(try skills() == ["2|a"])
    }

    @Test func `replacing a one-to-many keeps the children that the record names`() throws {
        let replacing = company.replacing(
            #""toMany": true, "inverse": "department""#,
            with: #""toMany": true, "inverse": "department", "assignment": "replace""#)
        let store = try TestStore(replacing)
        try store.apply(#"{"Department": {"id": 10, "employees": [1, 2, 3]}}"#)
        #expect(
            try store.changes(#"{"Department": {"id": 10, "employees": [2, 4]}}"#)
                == ["Department +0 ~0 =1 !0", "Employee +1 ~2 =1 !0"])
        #expect(
            try store.rows("SELECT id, department FROM Employee ORDER BY 1, 2") == ["1|NULL", "2|10", "3|NULL", "4|10"])
    }

    @Test func `a symmetric relationship links both ways and ends both ways`() throws {
        try store.apply(#"{"Employee": [{"id": 1, "friends": [2, 3]}, {"id": 4, "friends": [1, 4]}]}"#)
        #expect(try friends() == ["1|2", "1|3", "1|4", "2|1", "3|1", "4|1", "4|4"])
        #expect(try store.changes(#"{"Employee": {"id": 2, "friends": [1]}}"#) == ["Employee +0 ~0 =2 !0"])
        #expect(try store.changes(#"{"Employee": {"id": 1, "friends": null}}"#) == ["Employee +0 ~1 =0 !0"])
        #expect(try friends() == ["4|4"])
    }

    @Test func `links to objects without identity join by row key`() throws {
        try store.apply(#"{"Employee": {"id": 1, "notes": [{"text": "x"}, {"text": "x"}]}}"#)
        try store.apply(#"{"Employee": {"id": 1, "notes": {"text": "y"}}}"#)
        #expect(try store.rows("SELECT * FROM Employee_notes ORDER BY 1, 2") == ["1|1", "1|2", "1|3"])
        #expect(try store.isSound())
    }

    @Test func `a link named twice in a job is one link`() throws {
        try store.apply(#"{"Employee": {"id": 1, "projects": [7, 7, {"id": 7, "members": 1}]}}"#)
        #expect(try projects() == ["1|7"])
    }
}
