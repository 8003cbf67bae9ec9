import BrokerModel
import TestSupport
import Testing

@testable import BrokerStore

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
            "staff": {"entity": "E", "toMany": true, "inverse": "dept", "assignment": "replace"},
            "head": {"entity": "E"}}},
          "T": {"identity": "id", "attributes": {"id": "integer64", "word": {"type": "string", "maxLength": 3}}}
        }}
        """

    private let store: TestStore

    init() throws { store = try TestStore(Self.model) }

    private func employees() throws -> [String] { try store.rows("SELECT id, mate, dept FROM E ORDER BY id") }

    @Test func `an ignored bare key leaves the existing pair unchanged`() throws {
        try store.apply(#"{"E": [{"id": 1, "mate": {"id": 2}}, {"id": 3}]}"#)
        #expect(
            try store.changes(#"{"E": [{"id": 1, "mate": 2}, {"id": 1, "mate": 99}]}"#) == ["E +0 ~0 =2 !0"])
        #expect(try employees() == ["1|2|NULL", "2|1|NULL", "3|NULL|NULL"])
        try store.apply(#"{"E": [{"id": 3, "mate": {"id": 4}}, {"id": 3, "mate": 99}]}"#)
        #expect(try employees() == ["1|2|NULL", "2|1|NULL", "3|4|NULL", "4|3|NULL"])
    }

    @Test func `an object that the merge rejects leaves the link of an earlier record unchanged`() throws {
        try store.apply(#"{"D": {"id": 5, "title": "five"}, "E": {"id": 1, "dept": 5}}"#)
        let outcome = try store.outcome(#"{"E": [{"id": 1, "dept": 5}, {"id": 1, "dept": {"id": 6}}]}"#, .skip)
        #expect(outcome.rejections == ["missingValue /E/1/dept"])
        #expect(outcome.described == ["D +0 ~0 =1 !1", "E +0 ~0 =1 !0"])
        #expect(try employees() == ["1|NULL|5"])
    }

    @Test func `records nested in a record that the merge rejects are rejected with it`() throws {
        let outcome = try store.outcome(
            #"{"D": [{"id": 6, "staff": [{"id": 8, "mate": {"id": 9, "name": 5}}], "head": {"id": "x"}}], "E": {"id": 1}}"#,
            .skip)
        #expect(outcome.rejections == ["missingValue /D/0"], "none is listed for what is nested in it")
        #expect(try employees() == ["1|NULL|NULL"], "no orphan is inserted")
    }

    @Test func `a stub that only a rejected record would have completed is rejected, too`() throws {
        try store.apply(#"{"D": {"id": 1, "title": "one", "code": "a"}}"#)
        let outcome = try store.outcome(
            #"{"E": {"id": 3, "dept": 7}, "D": {"id": 2, "title": "two", "code": "a", "head": {"id": 4, "dept": {"id": 7, "title": "seven"}}}}"#,
            .skip)
        #expect(outcome.rejections == ["missingValue /E/dept", "constraintViolation /D"])
        #expect(try employees() == ["3|NULL|NULL"])
    }

    @Test func `a replacing set retains the links to rejected elements`() throws {
        try store.apply(
            #"{"D": [{"id": 1, "title": "one"}], "E": [{"id": 1, "dept": 1, "tags": [{"id": 1}, {"id": 2}, {"id": 3}]}, {"id": 2, "dept": 1}]}"#
        )
        // While staging: a bad value, with the identity known.
        #expect(
            try store.outcome(#"{"E": {"id": 1, "tags": [{"id": 1, "word": "long"}, 3]}}"#, .skip).rejections
                == ["validationFailed /E/tags/0/word"])
        #expect(try store.rows("SELECT destination FROM E_tags ORDER BY 1") == ["1", "3"])
        // Bad bare keys, and elements that never were linked, spare nothing and are not linked.
        try store.apply(
            #"{"E": {"id": 1, "tags": ["x", {"id": 3, "word": "long"}, {"id": 9, "word": "long"}, 77]}}"#, .skip)
        #expect(try store.rows("SELECT destination FROM E_tags ORDER BY 1") == ["3"])
        // To-one columns at the other side.
        #expect(
            try store.outcome(#"{"D": {"id": 1, "staff": [{"id": 1, "name": []}]}}"#, .skip).described
                == ["D +0 ~0 =1 !0", "E +0 ~1 =0 !1"])
        #expect(try employees() == ["1|NULL|1", "2|NULL|NULL"])
    }

    @Test func `a set that replaces keeps the links that were there when it was said, by earlier operations too`()
        throws
    {
        try store.apply(
            #"{"E": {"id": 1, "tags": [{"id": 1}, {"id": 2}]}, "E": {"id": 1, "tags": {"id": 1, "word": "long"}}}"#,
            .skip)
        #expect(try store.rows("SELECT destination FROM E_tags ORDER BY 1") == ["1"])
        try store.apply(#"{"E": [{"id": 1, "tags": null}, {"id": 1, "tags": [{"id": 1, "word": "long"}, 2]}]}"#, .skip)
        #expect(try store.rows("SELECT destination FROM E_tags ORDER BY 1") == ["2"])
        try store.apply(
            #"{"E": {"id": 1, "tags": {"id": 3}}, "E": {"id": 1, "tags": {"id": 2, "word": "long"}}}"#, .skip)
        #expect(try store.rows("SELECT destination FROM E_tags ORDER BY 1") == [])
        try store.apply(
            #"{"D": {"id": 1, "title": "one", "staff": [4, 5]}, "D": {"id": 1, "staff": {"id": 4, "name": []}}}"#, .skip
        )
        #expect(try store.rows("SELECT id FROM E WHERE dept = 1") == ["4"])
    }

    @Test func `rejected records use no row keys`() throws {
        let store = try TestStore(
            """
            {"entities": {"Note": {"attributes": {"text": {"type": "string", "optional": false},
              "code": {"type": "integer64", "unique": true}}}}}
            """)
        try store.apply(#"{"Note": [{"text": "a", "code": 1}, {"code": 2}, {"text": "b", "code": 1}]}"#, .skip)
        try store.apply(#"{"Note": [{"code": 2}]}"#)
        try store.apply(#"{"Note": {"text": "c"}}"#)
        #expect(try store.rows("SELECT _pk, text FROM Note ORDER BY 1") == ["1|a", "2|c"])
    }

    @Test func `a job in which each rejection causes further ones ends in bounded time`() throws {
        // Each department's title is brought by a record that is nested in the one before it.
        let links = (0..<Cases.count(300, of: 1_000)).map {
            #"{"id": \#($0), "head": {"id": \#($0), "dept": {"id": \#($0 + 1), "title": "t"}}}"#
        }
        let end = try store.apply("{\"D\": [\(links.joined(separator: ","))]}", .skip)
        #expect(try store.isSound())
        guard case .failed(let fault) = end else { return }
        #expect(fault.code == .constraintViolation)
        #expect(try store.rows("SELECT count(*) FROM D") == ["0"])
    }

    @Test func `a bare key that cannot become an object takes no valid record along`() throws {
        let store = try TestStore(
            """
            {"entities": {
              "Kind0": {"identity": "no", "attributes": {"no": "integer64", "text": "string"},
                "relationships": {"friend": {"entity": "Kind1"}, "other": {"entity": "Kind0"}}},
              "Kind1": {"parent": "Kind0", "attributes": {"more": {"type": "string", "optional": false}}}}}
            """)
        let outcome = try store.outcome(
            #"{"Kind0": [{"no": 3, "text": "a", "friend": 1, "other": 1}, {"no": 1, "text": "b"}]}"#, .skip)
        #expect(outcome.rejections == ["missingValue /Kind0/0/friend"])
        let rows = #"SELECT no, text, friend, other, _entity FROM Kind0 ORDER BY no"#
        #expect(try store.rows(rows) == ["1|b|NULL|NULL|Kind0", "3|a|NULL|1|Kind0"])
        // Nor an object that is there already.
        let again = try store.outcome(
            #"{"Kind0": [{"no": 3, "friend": 1}, {"no": 1, "text": "c"}, {"no": 4, "friend": 5}, {"no": 5, "friend": 6}]}"#,
            .skip)
        #expect(
            again.rejections == [
                "missingValue /Kind0/0/friend", "missingValue /Kind0/2/friend", "missingValue /Kind0/3/friend",
            ])
        #expect(
            try store.rows(rows) == [
                "1|c|NULL|NULL|Kind0", "3|a|NULL|1|Kind0", "4|NULL|NULL|NULL|Kind0", "5|NULL|NULL|NULL|Kind0",
            ])
        let both = try store.outcome(
            #"{"Kind0": {"no": 7, "friend": 8}, "Kind1": [{"no": 8, "text": "x"}, {"no": 9, "more": "m"}]}"#, .skip)
        #expect(both.rejections == ["missingValue /Kind0/friend", "missingValue /Kind1/0"])
    }

    @Test(arguments: [
        // Records with faults of their own, and such that cannot make their object.
        (
            #"{"D": [{"id": 5, "title": 1, "code": []}, {"id": 5}, {"id": 5, "head": {"id": "x"}}, {"id": 5}]}"#,
            ["invalidValue /D/0/code", "missingValue /D/1", "missingValue /D/2", "missingValue /D/3"], 4
        ),
        // Named by keys, nested records and records, in several collections.
        (
            #"{"E": [{"id": 1, "dept": 7}, {"id": 2, "dept": {"id": 7}}], "D": [{"id": 7, "code": "a"}, {"id": 7}]}"#,
            ["missingValue /E/0/dept", "missingValue /E/1/dept", "missingValue /D/0", "missingValue /D/1"], 4
        ),
        // Records nested in a rejected one are not listed; other faults are.
        (
            #"{"D": [{"id": 6, "staff": [{"id": 8, "name": []}, {"id": 9, "dept": 5}]}], "E": {"id": 9, "dept": 5}}"#,
            ["missingValue /D/0", "missingValue /E/dept"], 2
        ),
        // Records with a unique value that another object has.
        (
            #"""
            {"D": [{"id": 1, "title": "t", "code": "a"}, {"id": 2, "title": "t", "code": "a"}, {"id": 2, "code": "a"},
                   {"id": 2, "title": "u"}, {"id": 3, "title": "t", "code": "a"}]}
            """#,
            ["constraintViolation /D/1", "missingValue /D/2", "constraintViolation /D/4"], 3
        ),
    ]) func `each rejected record is listed and counted`(
        payload: String, rejections: [String], count: Int
    ) throws {
        let outcome = try store.outcome(payload, .skip)
        #expect(outcome.rejections == rejections)
        #expect(outcome.changes.reduce(0) { $0 + $1.1.rejected } == count)
    }
}
