import BrokerModel
import Testing

@testable import BrokerStore

/// The result is as if the records were applied one after the other in the order in which they begin in the text.
@Suite(.timeLimit(.minutes(5))) struct RecordOrderTests {
    private let store: TestStore

    init() throws {
        store = try TestStore(
            """
            {"entities": {
              "E": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
                "mate": {"entity": "E", "inverse": "mate"},
                "boss": {"entity": "E", "inverse": "team"},
                "team": {"entity": "E", "toMany": true, "inverse": "boss"},
                "skills": {"entity": "S", "toMany": true, "inverse": "people", "assignment": "replace"}}},
              "S": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
                "people": {"entity": "E", "toMany": true, "inverse": "skills"}}}
            }}
            """)
    }

    private func employees() throws -> [String] { try store.rows("SELECT id, name, boss, mate FROM E ORDER BY id") }

    private func skills() throws -> [String] { try store.rows("SELECT * FROM E_skills ORDER BY 1, 2") }

    @Test func `an inner record begins later than the one around it, and its attributes win`() throws {
        try store.apply(#"{"E": {"boss": {"id": 1, "name": "inner"}, "id": 1, "name": "outer"}}"#)
        #expect(try employees() == ["1|inner|1|NULL"])
    }

    @Test func `an outer record's link is made after what is nested in it`() throws {
        try store.apply(#"{"E": {"id": 1, "team": [{"id": 2, "boss": 3}, {"id": 4}]}}"#)
        #expect(try employees() == ["1|NULL|NULL|NULL", "2|NULL|1|NULL", "3|NULL|NULL|NULL", "4|NULL|1|NULL"])
    }

    @Test(arguments: [
        (#"{"E": {"id": 1, "team": [{"id": 5, "name": "first"}], "mate": {"id": 5, "name": "second"}}}"#),
        (#"{"E": {"id": 1, "mate": {"id": 5, "name": "first"}, "team": [{"id": 5, "name": "second"}]}}"#),
    ])
    func `relationships come in the order of the text, not of the model`(job: String) throws {
        try store.apply(job)
        #expect(try store.rows("SELECT name FROM E WHERE id = 5") == ["second"])
    }

    @Test func `a later pair takes the partners of earlier ones, whichever side says so`() throws {
        try store.apply(#"{"E": [{"id": 7, "mate": 1}, {"id": 8, "mate": 2}]}"#)
        try store.apply(#"{"E": [{"id": 1, "mate": {"id": 2, "mate": {"id": 3, "mate": 4}}}]}"#)
        #expect(
            try store.rows("SELECT id, mate FROM E ORDER BY id") == [
                "1|2", "2|1", "3|NULL", "4|NULL", "7|NULL", "8|NULL",
            ])
    }

    @Test func `null clears what came before it, not what comes after`() throws {
        try store.apply(#"{"E": [{"id": 1, "team": [2]}, {"id": 1, "team": null}, {"id": 3, "boss": 1}]}"#)
        #expect(try store.rows("SELECT id, boss FROM E ORDER BY id") == ["1|NULL", "2|NULL", "3|1"])
        try store.apply(#"{"E": [{"id": 4, "boss": 1}, {"id": 1, "team": null}]}"#)
        #expect(try store.rows("SELECT id, boss FROM E WHERE boss NOTNULL") == [])
    }

    @Test func `a set replaces each time that it is sent`() throws {
        try store.apply(#"{"E": [{"id": 1, "skills": [1]}]}"#)
        try store.apply(#"{"E": [{"id": 1, "skills": [2]}, {"id": 1, "skills": [3]}]}"#)
        #expect(try skills() == ["1|3"])
        try store.apply(#"{"E": [{"id": 1, "skills": [4]}], "S": [{"id": 5, "people": [1]}]}"#)
        #expect(try skills() == ["1|4", "1|5"])
        try store.apply(#"{"S": [{"id": 6, "people": [1]}], "E": [{"id": 1, "skills": [7]}]}"#)
        #expect(try skills() == ["1|7"])
    }

    @Test func `a link that both ends' records name is a change of both, made or ended`() throws {
        #expect(
            try store.changes(#"{"E": {"id": 1}, "S": [{"id": 1}, {"id": 2}]}"#) == ["E +1 ~0 =0 !0", "S +2 ~0 =0 !0"])
        #expect(
            try store.changes(#"{"E": {"id": 1, "skills": [1, 2]}, "S": {"id": 1, "people": [1]}}"#)
                == ["E +0 ~1 =0 !0", "S +0 ~1 =1 !0"])
        #expect(
            try store.changes(#"{"E": {"id": 1, "skills": null}, "S": {"id": 1, "people": null}}"#)
                == ["E +0 ~1 =0 !0", "S +0 ~1 =0 !0"])
        #expect(try skills() == [])
    }

    @Test func `the fault that begins first in the text is reported, in whatever order it is found`() throws {
        for (job, path) in [
            (#"{"E": [{"name": [], "id": "x"}]}"#, "/E/0/name"),
            (#"{"E": [{"boss": {"id": "y"}, "id": "x"}]}"#, "/E/0/boss/id"),
            (#"{"E": [{"team": [{"id": 1, "mate": []}], "name": [], "id": 1}]}"#, "/E/0/team/0/mate"),
            (#"{"E": [{"boss": {"id": "y"}, "name": []}]}"#, "/E/0"),
        ] {
            #expect(try store.fault(job)?.path == path, "\(job)")
        }
    }
}
