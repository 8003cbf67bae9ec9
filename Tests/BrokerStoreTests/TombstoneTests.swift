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
                "attributes": {"id": "integer64", "name": "string", "email": "string", "deleted": "boolean",
                    "age": "integer16"},
                "relationships": {"boss": {"entity": "Person"},
                    "tasks": {"entity": "Task", "toMany": true, "inverse": "owner", "deleteRule": "cascade"}}},
            "Task": {"identity": "id", "identityOptional": true, "tombstone": "state == \\"gone\\"",
                "attributes": {"id": "integer64", "state": "string"},
                "relationships": {"owner": {"entity": "Person", "inverse": "tasks"}}}}}
        """

    private func store() throws -> TestStore {
        let test = try TestStore(Self.model)
        try test.apply(
            """
            {"Person": [{"id": 1, "name": "a", "email": "a@x"}, {"id": 2, "name": "b", "boss": 1, "email": "b@x"},
                {"id": 3, "name": "c", "tasks": [{"id": 7}, {"id": 8}]}]}
            """)
        return test
    }

    private func people(_ test: TestStore) throws -> [String] {
        try test.rows("SELECT id, name, boss FROM Person ORDER BY id")
    }

    private func changes(_ test: TestStore, _ payload: String, _ policy: InvalidRecordPolicy = .fail) throws -> [String]
    {
        try test.outcome(payload, policy).changes.map {
            "\($0) +\($1.inserted) ~\($1.updated) =\($1.unchanged) -\($1.deleted) !\($1.rejected)"
        }
    }

    @Test func `A matching record deletes its object by the delete rules`() throws {
        let test = try store()
        #expect(
            try changes(test, #"{"Person": [{"id": 1, "deleted": true}, {"id": 3, "deleted": true, "name": "x"}]}"#)
                == ["Person +0 ~1 =0 -2 !0", "Task +0 ~0 =0 -2 !0"])
        #expect(try people(test) == ["2|b|NULL"])
        #expect(try test.rows("SELECT count(*) FROM Task") == ["0"])
    }

    @Test func `An object that does not exist is not deleted, and nothing is reported`() throws {
        let test = try store()
        #expect(try changes(test, #"{"Person": [{"id": 9, "deleted": true}]}"#) == [])
        #expect(try people(test).count == 3)
    }

    @Test func `Other attributes and nested records of a tombstone are ignored`() throws {
        let test = try store()
        let tombstone = #"{"id": 2, "deleted": true, "age": "old", "boss": {"id": 5}, "tasks": [{"id": 9}, "x"]}"#
        #expect(try changes(test, "{\"Person\": [\(tombstone)]}") == ["Person +0 ~0 =0 -1 !0"])
        #expect(try people(test) == ["1|a|NULL", "3|c|NULL"])
        #expect(try test.fault(#"{"Person": [{"id": 1, "deleted": 7}]}"#)?.code == .invalidValue)
        #expect(try test.fault(#"{"Person": [{"id": "x", "deleted": true}]}"#)?.code == .invalidValue)
        #expect(try test.fault(#"{"Person": [{"deleted": true}]}"#)?.code == .missingIdentity)
    }

    @Test func `A record that matches in part is a record`() throws {
        let test = try store()
        try test.apply(#"{"Person": [{"id": 1, "deleted": true, "name": "saved"}, {"id": 2, "deleted": false}]}"#)
        #expect(try people(test).count == 3)
    }

    @Test func `Records take effect in their order around a tombstone`() throws {
        let test = try store()
        // Named afterwards: a new object.
        #expect(
            try changes(test, #"{"Person": [{"id": 2, "deleted": true}, {"id": 2, "age": 3}]}"#)
                == ["Person +0 ~1 =0 -0 !0"])
        #expect(try people(test) == ["1|a|NULL", "2|NULL|NULL", "3|c|NULL"])
        // Named before: gone, with what was linked to it nullified.
        #expect(
            try changes(
                test, #"{"Person": [{"id": 3, "boss": 4}, {"id": 4, "name": "d"}, {"id": 4, "deleted": true}]}"#
            ).first?.hasPrefix("Person +0") == true)
        #expect(try people(test) == ["1|a|NULL", "2|NULL|NULL", "3|c|NULL"])
        // Both: what it had before the tombstone is gone.
        try test.apply(
            #"{"Person": [{"id": 1, "name": "z", "age": 1}, {"id": 1, "deleted": true}, {"id": 1, "age": 2}]}"#)
        #expect(try test.rows("SELECT name, age, email FROM Person WHERE id = 1") == ["NULL|2|NULL"])
        // A bare key afterwards: a stub.
        try test.apply(#"{"Person": [{"id": 1, "deleted": true}, {"id": 2, "boss": 1}]}"#)
        #expect(try people(test) == ["1|NULL|NULL", "2|NULL|1", "3|c|NULL"])
    }

    @Test func `A unique value that a tombstone frees may be taken in the same job`() throws {
        let test = try store()
        try test.apply(#"{"Person": [{"id": 1, "deleted": true}, {"id": 4, "email": "a@x"}]}"#)
        #expect(try test.rows("SELECT id FROM Person WHERE email = 'a@x'") == ["4"])
    }

    @Test func `A nested tombstone deletes its object and leaves no link`() throws {
        let test = try store()
        try test.apply(#"{"Person": [{"id": 3, "tasks": [{"id": 7, "state": "gone"}, {"id": 9}]}]}"#)
        #expect(try test.rows("SELECT id, owner FROM Task ORDER BY id") == ["8|3", "9|3"])
        #expect(try test.isSound())
    }

    @Test func `Tombstones of several collections meet`() throws {
        let test = try store()
        try test.apply(
            #"{"Person": [{"id": 5}], "Task": [{"id": 7, "state": "gone"}], "Person": [{"id": 5, "deleted": true}]}"#)
        #expect(try people(test).count == 3 && test.rows("SELECT id FROM Task") == ["8"])
    }

    @Test func `A rejected record does not keep a tombstone from taking effect`() throws {
        let test = try store()
        let payload = #"{"Person": [{"id": 1, "deleted": true}, {"id": 4, "email": "b@x"}, {"id": 5}]}"#
        #expect(try changes(test, payload, .skip) == ["Person +1 ~1 =0 -1 !1"])
        #expect(try people(test) == ["2|b|NULL", "3|c|NULL", "5|NULL|NULL"])
        #expect(try test.fault(#"{"Person": [{"id": 2, "deleted": true}, {"id": 6, "age": "x"}]}"#) != nil)
        #expect(try people(test).count == 3, "a job that fails deletes nothing")
    }

    @Test func `A tombstone inside a rejected record deletes nothing`() throws {
        let test = try store()
        let payload = #"{"Person": [{"id": 4, "email": "b@x", "boss": {"id": 1, "deleted": true}}, {"id": 5}]}"#
        #expect(try changes(test, payload, .skip) == ["Person +1 ~0 =0 -0 !1"])
        #expect(try people(test) == ["1|a|NULL", "2|b|1", "3|c|NULL", "5|NULL|NULL"])
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
    ]) func `Assertions about links before a tombstone do not apply to the new object`(
        payload: String, links: [String]
    ) throws {
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

    // MARK: - Beside modified

    private func versions() throws -> TestStore {
        let test = try TestStore(
            """
            {"entities": {
                "Note": {"identity": "id", "tombstone": "gone == YES", "modified": "version",
                    "attributes": {"id": "integer64", "text": "string", "version": "integer64", "gone": "boolean"},
                    "relationships": {"about": {"entity": "Note"}}},
                "Book": {"identity": "id", "attributes": {"id": "integer64"},
                    "relationships": {"note": {"entity": "Note"}}}}}
            """)
        try test.apply(#"{"Note": [{"id": 1, "version": 5, "text": "a"}, {"id": 2, "text": "b"}]}"#)
        return test
    }

    private func notes(_ test: TestStore) throws -> [String] {
        try test.rows("SELECT id, text, version, gone FROM Note ORDER BY id")
    }

    @Test(arguments: [
        (
            #"{"Note": {"id": 1, "gone": true, "version": 5}}"#, ["Note +0 ~0 =1 -0 !0"],
            ["1|a|5|NULL", "2|b|NULL|NULL"]
        ),
        (#"{"Note": {"id": 1, "gone": true, "version": 6}}"#, ["Note +0 ~0 =0 -1 !0"], ["2|b|NULL|NULL"]),
        (#"{"Note": {"id": 1, "gone": true}}"#, ["Note +0 ~0 =0 -1 !0"], ["2|b|NULL|NULL"]),
        (#"{"Note": {"id": 2, "gone": true, "version": 1}}"#, ["Note +0 ~0 =0 -1 !0"], ["1|a|5|NULL"]),
        // A record after it makes a new object, however old it is; a record before it is compared.
        (
            #"{"Note": [{"id": 1, "gone": true, "version": 6}, {"id": 1, "version": 2}]}"#, ["Note +0 ~1 =0 -0 !0"],
            ["1|NULL|2|NULL", "2|b|NULL|NULL"]
        ),
        (
            #"{"Note": [{"id": 1, "gone": true, "version": 4}, {"id": 1, "version": 3, "text": "c"}]}"#,
            ["Note +0 ~0 =1 -0 !0"], ["1|a|5|NULL", "2|b|NULL|NULL"]
        ),
        (
            #"{"Note": [{"id": 1, "version": 8, "text": "c"}, {"id": 1, "gone": true, "version": 7}]}"#,
            ["Note +0 ~1 =0 -0 !0"], ["1|c|8|NULL", "2|b|NULL|NULL"]
        ),
        (
            #"{"Note": [{"id": 3, "version": 8}, {"id": 3, "gone": true, "version": 9}, {"id": 3, "version": 1}]}"#,
            ["Note +1 ~0 =0 -0 !0"], ["1|a|5|NULL", "2|b|NULL|NULL", "3|NULL|1|NULL"]
        ),
        // Over several collections, and nested.
        (
            #"{"Book": {"id": 1, "note": {"id": 1, "version": 8}}, "Note": {"id": 1, "gone": true, "version": 7}}"#,
            ["Book +1 ~0 =0 -0 !0", "Note +0 ~1 =0 -0 !0"], ["1|a|8|NULL", "2|b|NULL|NULL"]
        ),
        (
            #"{"Book": {"id": 1, "note": {"id": 1, "gone": true, "version": 3}}}"#,
            ["Book +1 ~0 =0 -0 !0", "Note +0 ~0 =1 -0 !0"], ["1|a|5|NULL", "2|b|NULL|NULL"]
        ),
    ]) func `A tombstone that is not newer than its object is skipped`(
        payload: String, counts: [String], rows: [String]
    ) throws {
        let test = try versions()
        #expect(try changes(test, payload) == counts)
        #expect(try notes(test) == rows)
        #expect(try test.isSound())
    }

    @Test func `A skipped tombstone still links to its object`() throws {
        let test = try versions()
        try test.apply(#"{"Book": {"id": 1, "note": {"id": 1, "gone": true, "version": 3}}}"#)
        #expect(try test.rows("SELECT note FROM Book") == ["1"])
    }

    @Test func `An invalid tombstone is reported with the model`() throws {
        for (text, words) in [
            ("delted == YES", "did you mean \\\"deleted\\\"?"), ("boss.id == 1", "its own attributes alone"),
            ("deleted == %@", "asks for an argument"),
        ] {
            let model = Self.model.replacing("state == \\\"gone\\\"", with: "state == 1")
                .replacing("deleted == YES AND name != \\\"saved\\\"", with: text)
            let error = #expect(throws: ModelError.self) { try stagingPlan(model) }
            #expect(error?.description.contains(words.replacing("\\", with: "")) == true, "\(error!)")
        }
        let unidentified = #"{"entities": {"A": {"attributes": {"a": "string"}, "tombstone": "a == 1"}}}"#
        #expect(throws: ModelError.self) { try stagingPlan(unidentified) }
    }
}
