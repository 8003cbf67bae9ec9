import TestSupport
import Testing

/// The objects that `sync` inserts, changes and deletes, at once and in parts.
@Suite(.timeLimit(.minutes(5)), .session) struct SyncTests {
    private let session = OperationSession.current

    private func sync(_ entity: String, _ json: String, _ more: String = "") -> String {
        #"{"op": "sync", "entity": "\#(entity)", "json": \#(json)\#(more)}"#
    }

    @Test func `sync deletes what it does not name, at any depth`() throws {
        try session.process("Employee", #"[{"id": 1, "name": "a"}, {"id": 2}, {"id": 3}, {"id": 4, "boss": 3}]"#)
        let answer = try session.answer(sync("Employee", #"[{"id": 1, "name": "b", "boss": {"id": 2}}, {"id": 5}]"#))
        #expect(answer["changes.Employee.inserted"] == "1")
        #expect(answer["changes.Employee.updated"] == "1")
        #expect(answer["changes.Employee.unchanged"] == "1")
        #expect(answer["changes.Employee.deleted"] == "2")
        #expect(answer["keys.Employee.deleted"] == "[3,4]")
        #expect(try session.rows("SELECT id FROM Employee ORDER BY id") == ["1", "2", "5"])
        #expect(try session.job(sync("Employee", "[]")) == "Employee -3")
    }

    @Test func `sync deletes only what its predicate selects`() throws {
        try session.process("Employee", #"[{"id": 1, "age": 1}, {"id": 2, "age": 2}, {"id": 3}]"#)
        #expect(
            try session.job(sync("Employee", #"[{"id": 4}]"#, #", "where": "age == %@", "arguments": [1]"#))
                == "Employee +1 -1")
        #expect(try session.rows("SELECT id FROM Employee ORDER BY id") == ["2", "3", "4"])
        #expect(
            try session.job(sync("Employee", "[]", #", "actions": ["insert", "update"]"#)) == "",
            "it may not delete")
    }

    @Test func `a rejected record stops the deletion, with a warning`() throws {
        try session.process("Employee", #"[{"id": 1}, {"id": 2}]"#)
        let answer = try session.answer(
            sync("Employee", #"[{"id": 1, "age": 5}, {"id": "x"}]"#), #", "onInvalid": "skip""#)
        #expect(answer["changes.Employee.deleted"] == "0")
        #expect(answer["changes.Employee.updated"] == "1")
        #expect(answer["changes.Employee.rejected"] == "1")
        #expect(answer["warnings.0.code"] == "deletionSkipped")
        #expect(answer["warnings.0.entity"] == "Employee")
        #expect(try session.rows("SELECT count(*) FROM Employee") == ["2"])
    }

    @Test func `every record of an entity without identity is new, so the old objects are deleted`() throws {
        try session.process("Note", #"[{"text": "a"}, {"text": "b"}]"#)
        #expect(try session.job(sync("Note", #"[{"text": "a"}]"#)) == "Note +1 -2")
        #expect(try session.rows("SELECT text FROM Note") == ["a"])
    }

    @Test func `objects that a sync inserted or changed may be deleted by a cascade from unnamed ones`() throws {
        try session.process("Paper", #"[{"id": 1, "follows": {"id": 2}}, {"id": 3}]"#)
        // 1 is not named and goes, and takes 2 with it, which is named.
        #expect(try session.job(sync("Paper", #"[{"id": 2, "follows": {"id": 4}}, {"id": 3}]"#)) == "Paper =1 -2")
        #expect(try session.rows("SELECT id FROM Paper") == ["3"])
    }

    // MARK: - Subsets of actions

    private static let marks = """
        {"entities": {"Mark": {"identity": "at", "attributes": {"at": "double"}, "relationships": {
          "next": {"entity": "Mark"}}}}}
        """

    @Test(.session(marks)) func `a bare key that a sync ignores has no warning that its number became another one`()
        throws
    {
        try session.process("Mark", #"[{"at": 1}, {"at": 9007199254740993}]"#)
        for (next, code) in [("9007199254740995", nil), ("9007199254740993", "inexact")] {
            let answer = try session.answer(
                sync("Mark", #"[{"at": 1, "next": \#(next)}]"#, #", "actions": ["update"]"#))
            #expect(answer["warnings.0.code"] == code, "\(answer.text)")
        }
    }

    @Test func `without insert, records without an object are ignored, and their nested records are not`()
        async throws
    {
        try session.process("Employee", #"[{"id": 1, "name": "a"}, {"id": 2}]"#)
        let json = #"[{"id": 1, "name": "b", "boss": 7}, {"id": 8, "department": {"id": 1}, "tags": ["t"]}]"#
        #expect(
            try session.job(sync("Employee", json, #", "actions": ["update", "delete"]"#))
                == "Department +1, Employee ~1 -1, Tag +1")
        #expect(try session.rows("SELECT id, name, boss FROM Employee") == ["1|b|NULL"])
        #expect(try session.job(sync("Note", #"[{"text": "a"}]"#, #", "actions": ["update"]"#)) == "")
    }

    @Test func `without update, objects that exist stay as they are, and are not counted`() throws {
        try session.process("Employee", #"[{"id": 1, "name": "a"}, {"id": 2}]"#)
        let json =
            #"[{"id": 1, "name": "b", "department": {"id": 1, "name": "d"}}, {"id": 8, "boss": {"id": 1, "name": "c"}}]"#
        #expect(
            try session.job(sync("Employee", json, #", "actions": ["insert", "delete"]"#))
                == "Department +1, Employee +1 -1")
        #expect(
            try session.rows("SELECT id, name, department, boss FROM Employee ORDER BY id")
                == ["1|a|NULL|NULL", "8|NULL|NULL|1"])
    }

    @Test(arguments: ["", #", {"op": "delete", "entity": "Tag", "objects": []}"#])
    func `the object of an ignored record counts when another record changes its row`(later: String) throws {
        try session.process("Employee", #"[{"id": 1, "department": 3}]"#)
        let json = #"[{"id": 1}, {"id": 2, "department": {"id": 3, "staff": null}}]"#
        let operation = sync("Employee", json, #", "actions": []"#)
        #expect(try session.job(operation + later) == "Department =1, Employee ~1")
        #expect(try session.rows("SELECT id, department FROM Employee") == ["1|NULL"])
    }

    @Test func `delete alone deletes what is not named`() throws {
        try session.process("Employee", #"[{"id": 1, "name": "a"}, {"id": 2}]"#)
        #expect(
            try session.job(sync("Employee", #"[{"id": 1, "name": "b"}, {"id": 3}]"#, #", "actions": ["delete"]"#))
                == "Employee -1")
        #expect(try session.rows("SELECT id, name FROM Employee") == ["1|a"])
    }

    // MARK: - In parts

    private func part(_ json: String, _ more: String = "", of id: String = "it's", last: Bool = false) -> String {
        sync("Employee", json, #", "part": {"id": "\#(id)", "last": \#(last)}\#(more)"#)
    }

    @Test func `a sync in parts deletes with the last one, over what all of them named`() throws {
        try session.process("Employee", #"[{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}]"#)
        #expect(try session.job(part(#"[{"id": 1, "boss": 2}]"#)) == "Employee ~1 =1")
        #expect(try session.job(part(#"[{"id": 5}]"#)) == "Employee +1")
        #expect(try session.job(part("[]", last: true)) == "Employee -2")
        #expect(try session.rows("SELECT id FROM Employee ORDER BY id") == ["1", "2", "5"])
        #expect(try session.rows("SELECT count(*) FROM _broker_open_sync_keys") == ["0"])
        #expect(try session.job(part("[]", #", "where": "id == 1""#, last: true)) == "Employee -1", "the id is free")
    }

    @Test func `objects named by the parts of one sync do not count for another, and are forgotten at its end`()
        async throws
    {
        try session.process("Employee", #"[{"id": 1}, {"id": 2}, {"id": 3}]"#)
        #expect(try session.job(part(#"[{"id": 1}, {"id": 2}]"#, of: "a")) == "Employee =2")
        #expect(try session.job(part(#"[{"id": 1}]"#, of: "b")) == "Employee =1")
        #expect(try session.job(part(#"[{"id": 3}]"#, of: "b", last: true)) == "Employee =1 -1")
        #expect(try session.rows("SELECT id FROM Employee ORDER BY id") == ["1", "3"])
        #expect(try session.rows("SELECT count(*) FROM _broker_open_sync_keys") == ["2"])
        try session.process("Employee", #"[{"id": 2}]"#)
        #expect(try session.job(part("[]", of: "a", last: true)) == "Employee -1")
        #expect(try session.rows("SELECT id FROM Employee ORDER BY id") == ["1", "2"])
    }

    @Test func `parts that disagree are refused, and a reject in any part stops the deletion`() throws {
        try session.process("Employee", #"[{"id": 1}, {"id": 2}]"#)
        _ = try session.answer(part(#"[{"id": "x"}]"#), #", "onInvalid": "skip""#)
        #expect(try session.job(part("[]", #", "where": "id == 1""#)) == "idConflict /operations/0/part")
        let last = try session.answer(part("[]", last: true))
        #expect(last["warnings.0.code"] == "deletionSkipped")
        #expect(try session.rows("SELECT count(*) FROM Employee") == ["2"])
        #expect(try session.rows("SELECT count(*) FROM _broker_open_syncs") == ["0"])
    }

    @Test func `a record that is rejected at the merge stops the deletion of a later part`() throws {
        func part(_ json: String, last: Bool) -> String {
            sync("Seal", json, #", "part": {"id": "x", "last": \#(last)}"#)
        }
        try session.process("Seal", #"[{"id": 1, "sign": "a"}, {"id": 2, "sign": "b"}]"#)
        // The first part of a store's life is also what makes the tables for parts.
        let first = try session.answer(part(#"[{"id": 1}, {"id": 3}]"#, last: false), #", "onInvalid": "skip""#)
        #expect(first["rejected.0.code"] == "missingValue", "\(first.text)")
        let last = try session.answer(part(#"[{"id": 1}]"#, last: true))
        #expect(last["warnings.0.code"] == "deletionSkipped", "\(last.text)")
        #expect(try session.rows("SELECT id FROM Seal") == ["1", "2"])
    }

    private static let people = """
        {"entities": {
          "Person": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
            "first": {"entity": "Room"}, "second": {"entity": "Room"}, "third": {"entity": "Room", "toMany": true}}},
          "Room": {"identity": "id", "attributes": {"id": "integer64", "colour": "string"}}}}
        """

    @Test(.session(people), arguments: [["update"], ["insert"]])
    func `records nested in an ignored record count in the order of the text`(
        actions: [String]
    ) throws {
        if actions == ["insert"] { try session.process("Person", #"{"id": 1}"#) }
        for last in ["second", "first", "third"] {
            let others = ["third", "second", "first"].filter { $0 != last }
            let words = (others + [last]).map { #""\#($0)": {"id": 5, "colour": "\#($0)"}"# }
            _ = try session.answer(
                sync("Person", #"[{"id": 1, \#(words.joined(separator: ", "))}]"#, #", "actions": \#(actions)"#))
            #expect(try session.rows("SELECT colour FROM Room") == [last])
        }
    }

    /// Names without a row: an ignored record, or a bare key that may be missing.
    @Test(arguments: [
        #"[{"id": 7}]"#, #"[{"id": 1, "boss": 7}]"#, #"[{"id": 8, "boss": {"id": 7}}]"#, #"[{"id": 1, "friend": 7}]"#,
    ])
    func `an object that a part named is not deleted though it is inserted only before the last part`(named: String)
        async throws
    {
        for isOptional in [false, true] {
            let model = """
                {"entities": {"Employee": {
                  "identity": "id", "identityOptional": \(isOptional), "attributes": {"id": "integer64", "name": "string"},
                  "relationships": {
                    "boss": {"entity": "Employee"}, "friend": {"entity": "Employee", "missing": "ignore"}}}}}
                """
            try await RunningServer.run(model: model) { running in
                let session = try OperationSession(client: running.connect(), storePath: running.storePath)
                try session.process("Employee", #"[{"id": 1}, {"id": 2}]"#)
                _ = try session.answer(part(named, #", "actions": ["update", "delete"]"#))
                try session.process("Employee", #"[{"id": 7}, {"id": 9}]"#)
                #expect(try session.job(part(#"[{"id": 1}]"#, last: true)) == "Employee =1 -2", "\(isOptional)")
                #expect(try session.rows("SELECT id FROM Employee ORDER BY id") == ["1", "7"], "\(isOptional)")
            }
        }
    }

    private static let rowKeys = #"""
        {"entities": {"Employee": {
          "identity": "id", "identityOptional": true, "attributes": {"id": "integer64", "name": "string"}}}}
        """#

    @Test(.session(rowKeys)) func `for an entity with row keys a part names by identity, too`() throws {
        try session.process("Employee", #"[{"id": 1}, {"id": 2}, {"name": "none"}]"#)
        _ = try session.answer(part(#"[{"id": 1}, {"id": 2}]"#))
        // 2 becomes an object of another `_pk`, and the one without identity is named by nothing.
        _ = try session.answer(#"{"op": "delete", "entity": "Employee", "objects": [2]}"#)
        try session.process("Employee", #"[{"id": 3}, {"id": 2}]"#)
        #expect(try session.job(part("[]", last: true)) == "Employee -2")
        #expect(try session.rows("SELECT id FROM Employee ORDER BY id") == ["1", "2"])
    }

    @Test func `a part that fails has named nothing`() throws {
        try session.process("Employee", #"[{"id": 1}, {"id": 2}]"#)
        #expect(try session.job(part(#"[{"id": 1}, {"id": "x"}]"#)) == "invalidValue /operations/0/json/1/id")
        #expect(try session.job(part(#"[{"id": 2}]"#, last: true)) == "Employee =1 -1")
    }
}

/// The messages about bookmarks.
@Suite(.timeLimit(.minutes(5)), .session) struct BookmarkTests {
    private let session = OperationSession.current

    private static let job = #""entity": "Tag", "json": {"word": "x"}"#

    private func ask(_ session: OperationSession, _ name: String) throws -> String {
        let answer = try session.client.ask(#"{"type": "bookmark", "name": "\#(name)", "tag": 7}"#)
        #expect(answer.type == "bookmark" && answer["name"] == name && answer["tag"] == "7")
        return "\(answer["value"] ?? "missing") \(answer["sequence"] ?? "missing")"
    }

    @Test func `a bookmark is returned with the job that wrote it, to a client that has sent the job before`()
        async throws
    {
        #expect(try session.client.ask(#"{"type": "hello"}"#)["features.2"] == "bookmark")
        #expect(try ask(session, "feed") == "null missing")
        try session.client.send(#"{\#(Self.job), "notify": [], "bookmark": {"name": "feed", "value": "W/\"1\""}}"#)
        #expect(try ask(session, "feed") == #"W/"1" 1"#)
        let deletion = #"{\#(Self.job), "bookmark": {"name": "feed", "value": null}}"#
        #expect(try session.client.ask(deletion)["changes.Tag.unchanged"] == "1")
        #expect(try ask(session, "feed") == "null missing")
    }

    @Test func `another bookmark under a committed id is a conflict, and the same one a duplicate`() throws {
        func send(_ bookmark: String) throws -> String {
            let answer = try session.client.ask(#"{"id": "a", \#(Self.job)\#(bookmark)}"#)
            return answer.type == "completed" ? "duplicate \(answer["duplicate"] ?? "")" : answer.code
        }
        let one = #", "bookmark": {"name": "feed", "value": ""}"#
        let ends = try [send(one), send(one)]
        #expect(ends == ["duplicate false", "duplicate true"])
        for other in [
            "", #", "bookmark": {"name": "feed", "value": null}"#, #", "bookmark": {"name": "feed", "value": "2"}"#,
            #", "bookmark": {"name": "food", "value": ""}"#,
        ] { #expect(try send(other) == "idConflict") }
        #expect(try ask(session, "feed") == " 1")
    }
}
