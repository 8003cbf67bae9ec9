import TestSupport
import Testing

/// What `delete` and `sync` delete, by the relationships' rules, and what is told of it.
@Suite(.timeLimit(.minutes(5))) struct DeletionTests {
    private func delete(_ entity: String, _ keys: String) -> String {
        #"{"op": "delete", "entity": "\#(entity)", "objects": [\#(keys)]}"#
    }

    // MARK: - Rules

    @Test func `nullify ends the links, and the rows that held them count as updated`() async throws {
        try await OperationSession.run { session in
            try session.process(
                "Department", #"{"id": 1, "staff": [{"id": 1}, {"id": 2, "boss": 1}, {"id": 3, "tags": ["t"]}]}"#)
            #expect(try session.job(delete("Department", "1")) == "Department -1, Employee ~3")
            #expect(try session.job(delete("Employee", "1")) == "Employee ~1 -1", "also where there is no inverse")
            #expect(try session.job(delete("Tag", #""t""#)) == "Tag -1", "the other side of a link table has no column")
            #expect(try session.rows("SELECT id, department, boss FROM Employee") == ["2|NULL|NULL", "3|NULL|NULL"])
            #expect(try session.rows("SELECT * FROM Employee_tags") == [])
        }
    }

    @Test func `cascade deletes over all levels, and around a circle`() async throws {
        try await OperationSession.run { session in
            try session.process(
                "Employee",
                #"{"id": 1, "papers": [{"id": 1, "follows": {"id": 2, "follows": {"id": 3, "follows": 1}}}, 9]}"#)
            try session.process("Paper", #"{"id": 10, "follows": 3}"#)
            #expect(try session.job(delete("Employee", "1")) == "Employee -1, Paper ~1 -4")
            #expect(try session.rows("SELECT id, follows FROM Paper") == ["10|NULL"])
            #expect(try session.rows("SELECT count(*) FROM Employee_papers") == ["0"])
        }
    }

    @Test func `deny holds back, unless both sides go in the same operation`() async throws {
        try await OperationSession.run { session in
            try session.process("Room", #"[{"floor": 1, "number": "a", "desks": [1]}, {"floor": 1, "number": "b"}]"#)
            try session.process("Department", #"{"id": 1, "rooms": [{"floor": 1, "number": "a"}]}"#)
            let room = #"{"floor": 1, "number": "a"}"#
            let refused = try session.answer(delete("Room", room))
            #expect(refused.code == "constraintViolation")
            #expect(refused["error.path"] == "/operations/0")
            #expect(refused["error.message"]?.contains("desks") == true)
            #expect(
                try session.job(delete("Department", "1")) == "constraintViolation /operations/0", "also what cascades")
            #expect(try session.rows("SELECT count(*) FROM Room") == ["2"])
            #expect(
                try session.job(delete("Desk", "1") + ", " + delete("Department", "1"))
                    == "Department -1, Desk -1, Room -1")
        }
    }

    @Test func `noAction leaves the link, so the job must not`() async throws {
        try await OperationSession.run { session in
            try session.process("Department", #"{"id": 1, "safe": {"id": 5}}"#)
            #expect(try session.job(delete("Department", "1")) == "constraintViolation ")
            #expect(
                try session.job(delete("Department", "1") + #", {"entity": "Safe", "json": {"id": 5, "owner": null}}"#)
                    == "Department -1, Safe ~1")
            #expect(try session.rows("SELECT id, owner FROM Safe") == ["5|NULL"])
        }
    }

    @Test func `what is made behind a deletion is new, also where the server has made none before`() async throws {
        try await OperationSession.run { session in
            let other = try Locker(session.storePath)
            try other.execute("INSERT INTO Note (text) VALUES ('a'), ('b')")
            try other.execute("COMMIT")
            let all = #"{"op": "delete", "entity": "Note", "where": "TRUEPREDICATE"}"#
            #expect(try session.job(all + #", {"entity": "Note", "json": {"text": "c"}}"#) == "Note +1 -2")
            #expect(try session.rows("SELECT text FROM Note") == ["c"])
        }
    }

    // MARK: - Which objects

    @Test func `keys that name nothing are counted in one warning`() async throws {
        try await OperationSession.run { session in
            try session.process("Tag", #"[{"word": "a"}, {"word": "b"}]"#)
            let answer = try session.answer(delete("Tag", #""a", "x", "y", "a""#))
            #expect(answer["changes.Tag.deleted"] == "1")
            #expect(answer["keys.Tag.deleted"] == #"["a"]"#)
            #expect(answer["warnings.0.code"] == "objectNotFound")
            #expect(answer["warnings.0.entity"] == "Tag")
            #expect(answer["warnings.0.count"] == "2")
            #expect(try session.job(delete("Employee", #"1, "x""#)) == "invalidValue /operations/0/objects/1")
            let skipped = try session.answer(delete("Employee", #"1, "x""#), #", "onInvalid": "skip""#)
            #expect(skipped["rejected.0.path"] == "/operations/0/objects/1")
        }
    }

    @Test func `a predicate selects what is deleted`() async throws {
        try await OperationSession.run { session in
            try session.process(
                "Department",
                #"[{"id": 1, "name": "R&D", "staff": [{"id": 1, "age": 30}, {"id": 2}]}, {"id": 2, "staff": [{"id": 3}]}]"#
            )
            let delete = #""op": "delete", "entity": "Employee", "where""#
            #expect(
                try session.job("{\(delete): \"department.name == %@ AND age != 30\", \"arguments\": [\"R&D\"]}")
                    == "Employee -1")
            #expect(try session.job("{\(delete): \"age > 99\"}") == "")
            #expect(try session.job("{\(delete): \"agee > 99\"}") == "invalidPredicate /operations/0/where")
            #expect(try session.job("{\(delete): \"TRUEPREDICATE\"}") == "Employee -2")
        }
    }

    @Test func `a pattern that takes too long fails its job alone, and changes nothing`() async throws {
        try await OperationSession.run { session in
            let long = String(repeating: "a", count: 4_000) + "!"
            let records = (0..<200).map { "{\"id\": \($0), \"name\": \"\(long)\"}" }.joined(separator: ",")
            try session.process("Employee", "[\(records)]")
            let delete = #"{"op": "delete", "entity": "Employee", "where": "name MATCHES '(a+)+b'"}"#
            #expect(try session.job(delete) == "invalidPredicate /operations/0/where")
            #expect(try session.rows("SELECT count(*) FROM Employee") == ["200"])
            #expect(try session.job(#"{"entity": "Tag", "json": {"word": "after"}}"#) == "Tag +1")
        }
    }

    // MARK: - sync

    private func sync(_ entity: String, _ json: String, _ more: String = "") -> String {
        #"{"op": "sync", "entity": "\#(entity)", "json": \#(json)\#(more)}"#
    }

    @Test func `sync deletes what it does not name, at any depth`() async throws {
        try await OperationSession.run { session in
            try session.process("Employee", #"[{"id": 1, "name": "a"}, {"id": 2}, {"id": 3}, {"id": 4, "boss": 3}]"#)
            let answer = try session.answer(
                sync("Employee", #"[{"id": 1, "name": "b", "boss": {"id": 2}}, {"id": 5}]"#))
            #expect(answer["changes.Employee.inserted"] == "1")
            #expect(answer["changes.Employee.updated"] == "1")
            #expect(answer["changes.Employee.unchanged"] == "1")
            #expect(answer["changes.Employee.deleted"] == "2")
            #expect(answer["keys.Employee.deleted"] == "[3,4]")
            #expect(try session.rows("SELECT id FROM Employee ORDER BY id") == ["1", "2", "5"])
            #expect(try session.job(sync("Employee", "[]")) == "Employee -3")
        }
    }

    @Test func `sync keeps to its predicate`() async throws {
        try await OperationSession.run { session in
            try session.process("Employee", #"[{"id": 1, "age": 1}, {"id": 2, "age": 2}, {"id": 3}]"#)
            #expect(
                try session.job(sync("Employee", #"[{"id": 4}]"#, #", "where": "age == %@", "arguments": [1]"#))
                    == "Employee +1 -1")
            #expect(try session.rows("SELECT id FROM Employee ORDER BY id") == ["2", "3", "4"])
            #expect(
                try session.job(sync("Employee", "[]", #", "actions": ["insert", "update"]"#)) == "",
                "it may not delete")
        }
    }

    @Test func `a rejected record stops the deletion, with a warning`() async throws {
        try await OperationSession.run { session in
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
    }

    @Test func `of an entity without identity every record is new, so the old objects go`() async throws {
        try await OperationSession.run { session in
            try session.process("Note", #"[{"text": "a"}, {"text": "b"}]"#)
            #expect(try session.job(sync("Note", #"[{"text": "a"}]"#)) == "Note +1 -2")
            #expect(try session.rows("SELECT text FROM Note") == ["a"])
        }
    }

    @Test func `what sync made or changed may go by a cascade from what it did not name`() async throws {
        try await OperationSession.run { session in
            try session.process("Paper", #"[{"id": 1, "follows": {"id": 2}}, {"id": 3}]"#)
            // 1 is not named and goes, and takes 2 with it, which is named.
            #expect(try session.job(sync("Paper", #"[{"id": 2, "follows": {"id": 4}}, {"id": 3}]"#)) == "Paper =1 -2")
            #expect(try session.rows("SELECT id FROM Paper") == ["3"])
        }
    }

    // MARK: - Subsets of actions

    @Test func `without insert, records that find nothing are passed over, and what is nested in them is not`()
        async throws
    {
        try await OperationSession.run { session in
            try session.process("Employee", #"[{"id": 1, "name": "a"}, {"id": 2}]"#)
            let json = #"[{"id": 1, "name": "b", "boss": 7}, {"id": 8, "department": {"id": 1}, "tags": ["t"]}]"#
            #expect(
                try session.job(sync("Employee", json, #", "actions": ["update", "delete"]"#))
                    == "Department +1, Employee ~1 -1, Tag +1")
            #expect(try session.rows("SELECT id, name, boss FROM Employee") == ["1|b|NULL"])
            #expect(try session.job(sync("Note", #"[{"text": "a"}]"#, #", "actions": ["update"]"#)) == "")
        }
    }

    @Test func `without update, objects that exist stay as they are, and are not counted`() async throws {
        try await OperationSession.run { session in
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
    }

    @Test func `delete alone deletes what is not named`() async throws {
        try await OperationSession.run { session in
            try session.process("Employee", #"[{"id": 1, "name": "a"}, {"id": 2}]"#)
            #expect(
                try session.job(sync("Employee", #"[{"id": 1, "name": "b"}, {"id": 3}]"#, #", "actions": ["delete"]"#))
                    == "Employee -1")
            #expect(try session.rows("SELECT id, name FROM Employee") == ["1|a"])
        }
    }

    // MARK: - In parts

    private func part(_ json: String, _ more: String = "", last: Bool = false) -> String {
        sync("Employee", json, #", "part": {"id": "it's", "last": \#(last)}\#(more)"#)
    }

    @Test func `a sync in parts deletes with the last one, over what all of them named`() async throws {
        try await OperationSession.run { session in
            try session.process("Employee", #"[{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}]"#)
            #expect(try session.job(part(#"[{"id": 1, "boss": 2}]"#)) == "Employee ~1 =1")
            #expect(try session.job(part(#"[{"id": 5}]"#)) == "Employee +1")
            #expect(try session.job(part("[]", last: true)) == "Employee -2")
            #expect(try session.rows("SELECT id FROM Employee ORDER BY id") == ["1", "2", "5"])
            #expect(try session.rows("SELECT count(*) FROM _broker_open_sync_keys") == ["0"])
            #expect(
                try session.job(part("[]", #", "where": "id == 1""#, last: true)) == "Employee -1", "the id is free")
        }
    }

    @Test func `parts that disagree are refused, and a reject in any part stops the deletion`() async throws {
        try await OperationSession.run { session in
            try session.process("Employee", #"[{"id": 1}, {"id": 2}]"#)
            _ = try session.answer(part(#"[{"id": "x"}]"#), #", "onInvalid": "skip""#)
            #expect(try session.job(part("[]", #", "where": "id == 1""#)) == "idConflict /operations/0/part")
            let last = try session.answer(part("[]", last: true))
            #expect(last["warnings.0.code"] == "deletionSkipped")
            #expect(try session.rows("SELECT count(*) FROM Employee") == ["2"])
            #expect(try session.rows("SELECT count(*) FROM _broker_open_syncs") == ["0"])
        }
    }

    @Test func `a record that is left out beside the store stops the deletion of a later part`() async throws {
        try await OperationSession.run { session in
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
    }

    @Test(arguments: [["update"], ["insert"]])
    func `what is nested in a record that is passed over counts in the order of the text`(
        actions: [String]
    ) async throws {
        let model = """
            {"entities": {
              "Person": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {
                "first": {"entity": "Room"}, "second": {"entity": "Room"}, "third": {"entity": "Room", "toMany": true}}},
              "Room": {"identity": "id", "attributes": {"id": "integer64", "colour": "string"}}}}
            """
        try await OperationSession.run(model) { session in
            if actions == ["insert"] { try session.process("Person", #"{"id": 1}"#) }
            for last in ["second", "first", "third"] {
                let others = ["third", "second", "first"].filter { $0 != last }
                let words = (others + [last]).map { #""\#($0)": {"id": 5, "colour": "\#($0)"}"# }
                _ = try session.answer(
                    sync("Person", #"[{"id": 1, \#(words.joined(separator: ", "))}]"#, #", "actions": \#(actions)"#))
                #expect(try session.rows("SELECT colour FROM Room") == [last])
            }
        }
    }

    /// Where naming leaves no row behind: passed over, or a bare key that need not lead anywhere.
    @Test(arguments: [
        #"[{"id": 7}]"#, #"[{"id": 1, "boss": 7}]"#, #"[{"id": 8, "boss": {"id": 7}}]"#, #"[{"id": 1, "friend": 7}]"#,
    ])
    func `what a part named is kept though it is made only before the last part`(named: String) async throws {
        for isOptional in [false, true] {
            let model = """
                {"entities": {"Employee": {
                  "identity": "id", "identityOptional": \(isOptional), "attributes": {"id": "integer64", "name": "string"},
                  "relationships": {
                    "boss": {"entity": "Employee"}, "friend": {"entity": "Employee", "missing": "ignore"}}}}}
                """
            try await OperationSession.run(model) { session in
                try session.process("Employee", #"[{"id": 1}, {"id": 2}]"#)
                _ = try session.answer(part(named, #", "actions": ["update", "delete"]"#))
                try session.process("Employee", #"[{"id": 7}, {"id": 9}]"#)
                #expect(try session.job(part(#"[{"id": 1}]"#, last: true)) == "Employee =1 -2", "\(isOptional)")
                #expect(try session.rows("SELECT id FROM Employee ORDER BY id") == ["1", "7"], "\(isOptional)")
            }
        }
    }

    @Test func `of an entity with a key of the store's own a part names by identity, too`() async throws {
        let model = #"""
            {"entities": {"Employee": {
              "identity": "id", "identityOptional": true, "attributes": {"id": "integer64", "name": "string"}}}}
            """#
        try await OperationSession.run(model) { session in
            try session.process("Employee", #"[{"id": 1}, {"id": 2}, {"name": "none"}]"#)
            _ = try session.answer(part(#"[{"id": 1}, {"id": 2}]"#))
            // 2 becomes an object of another `_pk`, and the one without identity is named by nothing.
            _ = try session.answer(#"{"op": "delete", "entity": "Employee", "objects": [2]}"#)
            try session.process("Employee", #"[{"id": 3}, {"id": 2}]"#)
            #expect(try session.job(part("[]", last: true)) == "Employee -2")
            #expect(try session.rows("SELECT id FROM Employee ORDER BY id") == ["1", "2"])
        }
    }

    @Test func `a part that fails has named nothing`() async throws {
        try await OperationSession.run { session in
            try session.process("Employee", #"[{"id": 1}, {"id": 2}]"#)
            #expect(try session.job(part(#"[{"id": 1}, {"id": "x"}]"#)) == "invalidValue /operations/0/json/1/id")
            #expect(try session.job(part(#"[{"id": 2}]"#, last: true)) == "Employee =1 -1")
        }
    }

    // MARK: - Counting

    @Test(arguments: ["keys", "summary"])
    func `an object counts once, whatever happened to it on the way`(reply: String) async throws {
        try await OperationSession.run { session in
            try session.process(
                "Department",
                #"{"id": 1, "staff": [{"id": 1, "boss": 2, "papers": [1]}, {"id": 2, "boss": 1}, {"id": 3, "boss": 1}]}"#
            )
            let all = #"{"op": "delete", "entity": "Employee", "where": "id < 3"}"#
            // 1 and 2 lose their bosses before they go themselves; 3 loses one and stays.
            #expect(try session.job(all, reply: reply) == "Employee ~1 -2, Paper -1")
            try session.process("Employee", #"[{"id": 1, "boss": 3}, {"id": 4}]"#)
            let made =
                #"{"entity": "Employee", "json": [{"id": 5, "boss": 4}, {"id": 4, "age": 1}, {"id": 3, "age": 2}]}"#
            let gone = #"{"op": "delete", "entity": "Employee", "objects": [4, 3]}"#
            // 5 is new and loses its boss again; 4 and 3 were changed and go; 1 loses its boss.
            #expect(try session.job(made + ", " + gone, reply: reply) == "Employee +1 ~1 -2")
            #expect(try session.rows("SELECT id, boss FROM Employee ORDER BY id") == ["1|NULL", "5|NULL"])
        }
    }

    @Test(arguments: ["keys", "summary"])
    func `what the first operation changed and a later one changed back is unchanged`(reply: String) async throws {
        try await OperationSession.run { session in
            try session.process("Employee", #"[{"id": 1, "name": "a"}, {"id": 2}]"#)
            let back = try session.job(
                #"{"entity": "Employee", "json": [{"id": 1, "name": "b"}, {"id": 2, "department": 7}]}, "#
                    + #"{"op": "delete", "entity": "Department", "objects": [7]}, "#
                    + #"{"entity": "Employee", "json": {"id": 1, "name": "a"}}"#, reply: reply)
            #expect(back == "Employee =2")
            let unnamed = try session.job(
                sync("Employee", #"[{"id": 1, "boss": 3}, {"id": 2}]"#, #", "where": "id > 2""#), reply: reply)
            #expect(unnamed == "Employee +1 ~1 =1", "3 is named")
            let gone = try session.job(
                #"{"entity": "Employee", "json": {"id": 2, "boss": {"id": 4}}}, "# + delete("Employee", "4"),
                reply: reply)
            #expect(gone == "Employee =1")
        }
    }

    @Test func `a one-to-one link that one operation ends and a later one makes again changes nothing`() async throws {
        try await OperationSession.run { session in
            try session.process("Department", #"[{"id": 1, "safe": {"id": 5}}, {"id": 2}]"#)
            let back = try session.job(
                #"{"entity": "Safe", "json": [{"id": 6, "owner": 1}, {"id": 5}]}, "#
                    + #"{"op": "relate", "entity": "Safe", "object": 5, "relationship": "owner", "json": 1}"#)
            #expect(back == "Department =1, Safe +1 =1")
            #expect(try session.rows("SELECT id, owner FROM Safe") == ["5|1", "6|NULL"])
        }
    }
}
