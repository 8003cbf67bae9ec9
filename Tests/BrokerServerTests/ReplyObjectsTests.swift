import TestSupport
import Testing

/// `reply: objects`: what a job's own records are after it.
@Suite(.timeLimit(.minutes(5)), .session) struct ReplyObjectsTests {
    private let session = OperationSession.current

    // MARK: - The order of objects

    @Test func `objects are in payload order, as fetch gives them`() throws {
        try session.process("Employee", #"{"id": 2, "name": "two", "age": 2, "boss": {"id": 1}}"#)
        let objects = try session.objects(
            #"{"entity": "Employee", "json": [{"id": 3, "name": "c"}, {"id": 2, "department": {"id": 7}}, "#
                + #"{"id": 1, "age": 5}, {"id": 3, "name": "later"}]}"#)
        func fetched(_ key: Int) throws -> String { try session.fetched("Employee", "\(key)") }
        let expected = try [3, 2, 1, 3].map(fetched).joined(separator: ",")
        #expect(objects == "[[\(expected)]]")
        #expect(try fetched(2) == #"{"id":2,"name":"two","age":2,"department":7,"boss":1}"#)
        #expect(try fetched(3).contains("later"), "the same record twice is the same object twice")
    }

    @Test func `each operation has its own array`() throws {
        #expect(
            try session.objects(
                #"{"entity": "Tag", "json": [{"word": "b"}, {"word": "a"}]}, {"entity": "Safe", "json": []}, "#
                    + #"{"entity": "Safe", "json": {"id": 4}}, {"entity": "Tag", "json": {"word": "c"}}"#)
                == #"[[{"word":"b"},{"word":"a"}],[],[{"id":4,"owner":null}],[{"word":"c"}]]"#)
        let collections = try session.client.ask(
            #"{"reply": "objects", "collections": {"Safe": [{"id": 1}], "Tag": {"word": "t"}}}"#)
        #expect(collections["objects"] == #"[[{"id":1,"owner":null}],[{"word":"t"}]]"#)
        let alone = try session.client.ask(#"{"reply": "objects", "entity": "Tag", "json": {"word": "t"}}"#)
        #expect(alone["objects"] == #"[[{"word":"t"}]]"#)
        #expect(alone["changes.Tag.unchanged"] == "1", "the summary is there, too")
        #expect(alone["keys"] == nil)
    }

    @Test func `a delete has none`() throws {
        try session.process("Tag", #"[{"word": "a"}, {"word": "b"}, {"word": "c"}]"#)
        #expect(
            try session.objects(
                #"{"op": "delete", "entity": "Tag", "objects": ["a", "x"]}, "#
                    + #"{"op": "delete", "entity": "Tag", "where": "word == 'b'"}, "#
                    + #"{"op": "sync", "entity": "Tag", "json": [{"word": "d"}, {"word": "c"}]}"#)
                == #"[[],[],[{"word":"d"},{"word":"c"}]]"#)
    }

    @Test func `process with object has the one object, under its new name`() throws {
        try session.process("Employee", #"{"id": 1, "name": "a"}"#)
        let objects = try session.objects(#"{"entity": "Employee", "object": 1, "json": {"id": 9, "age": 3}}"#)
        let fetched = try session.fetched("Employee", "9")
        #expect(objects == "[[\(fetched)]]")
        try session.process("Note", #"[{"text": "a"}, {"text": "b"}]"#)
        #expect(try session.objects(#"{"entity": "Note", "object": 2, "json": {"text": "c"}}"#) == #"[[{"text":"c"}]]"#)
    }

    @Test func `relate has what its json names, and not what is nested in that`() throws {
        try session.process("Employee", #"[{"id": 1}, {"id": 2}]"#)
        func related(_ relationship: String, _ json: String) throws -> String {
            try session.objects(
                #"{"op": "relate", "entity": "Employee", "object": 1, "relationship": "\#(relationship)", "#
                    + #""json": \#(json)}"#)
        }
        let department = try related("department", #"{"id": 7, "rooms": [{"floor": 1, "number": "a"}]}"#)
        let fetched = try session.fetched("Department", "7")
        #expect(department == "[[\(fetched)]]")
        #expect(try related("department", "7") == department)
        #expect(try related("department", "null") == "[[]]")
        #expect(try related("tags", #"["x", {"word": "y"}, "x"]"#) == #"[[{"word":"x"},{"word":"y"},{"word":"x"}]]"#)
        #expect(try related("tags", #""z""#) == #"[[{"word":"z"}]]"#)
        #expect(try related("tags", "null") == "[[]]")
        #expect(try related("tags", "[]") == "[[]]")
    }

    @Test func `objects without identity, or with an optional one, have the positions of their records`() throws {
        try session.process("Card", #"[{"code": "x"}, {"text": "old"}]"#)
        #expect(
            try session.objects(
                #"{"entity": "Note", "json": [{"text": "b"}, {"text": "a"}, {"text": "b"}]}, "#
                    + #"{"entity": "Card", "json": [{"text": "new"}, {"code": "x", "text": "t"}, {"code": "y"}]}"#)
                == #"[[{"text":"b"},{"text":"a"},{"text":"b"}],"#
                + #"[{"code":null,"text":"new"},{"code":"x","text":"t"},{"code":"y","text":null}]]"#)
    }

    @Test func `records inside a root, of many entities, in a job that several workers stage`() throws {
        // Larger than what one worker stages by itself, and with objects that several collections name.
        let words = (0..<9_000).map {
            #"{"tag": {"word": "word-\#($0 % 5_000)-\#(String(repeating: "x", count: 20))"}}"#
        }
        let employees = (0..<3_000).map {
            #"{"id": \#($0), "tags": ["word-\#($0)-\#(String(repeating: "x", count: 20))"]}"#
        }
        let all =
            #"{"entity": "Tag", "json": [\#(words.joined(separator: ","))]}, "#
            + #"{"entity": "Employee", "json": [\#(employees.reversed().joined(separator: ","))]}, "#
            + #"{"entity": "Tag", "json": [\#(words.reversed().joined(separator: ","))]}"#
        let answer = try session.client.ask(#"{"reply": "objects", "operations": [\#(all)]}"#)
        for number in [0, 1, 4_999, 5_000, 8_999] {
            let word = "word-\(number % 5_000)-\(String(repeating: "x", count: 20))"
            #expect(answer["objects.0.\(number).word"] == word)
            #expect(answer["objects.2.\(8_999 - number).word"] == word)
        }
        #expect(answer["objects.1.0.id"] == "2999")
        #expect(answer["objects.1.2999.id"] == "0")
        #expect(answer["objects.0.9000"] == nil)
    }

    // MARK: - null

    @Test func `null replaces rejected records`() throws {
        try session.process("Employee", #"{"id": 1}"#)
        let objects = try session.objects(
            #"{"entity": "Tag", "json": [{"word": "a"}, {"word": []}, 5, {"word": "b"}]}, "#
                + #"{"entity": "Employee", "object": 8, "json": {"age": 1}}, "#
                + #"{"entity": "Employee", "object": "x", "json": {"age": 1}}, "#
                + #"{"entity": "Employee", "object": 1, "json": []}, "#
                + #"{"op": "relate", "entity": "Employee", "object": 8, "relationship": "tags", "json": ["p", "q"]}, "#
                + #"{"op": "relate", "entity": "Employee", "object": 1, "relationship": "tags", "json": [[], "q", null]}"#,
            #", "onInvalid": "skip""#)
        #expect(
            objects
                == #"[[{"word":"a"},null,null,{"word":"b"}],[null],[null],[null],[null,null],[null,{"word":"q"},null]]"#
        )
    }

    private static let unique = """
        {"entities": {"Person": {
          "identity": "id", "unique": [["email"]],
          "attributes": {"id": "integer64", "email": "string", "name": {"type": "string", "optional": false}}}}}
        """

    @Test(.session(unique)) func `a record that the store refuses is null, wherever the fault is found`() throws {
        let client = session.client
        let answer = try client.ask(
            #"{"reply": "objects", "onInvalid": "skip", "entity": "Person", "json": [{"id": 1}, "#
                + #"{"id": 2, "name": "b", "email": "e"}, {"id": 3, "name": "c", "email": "e"}, {"id": 4, "name": "d"}]}"#
        )
        #expect(answer["changes.Person.rejected"] == "2")
        #expect(answer["objects"] == #"[[null,{"id":2,"email":"e","name":"b"},null,{"id":4,"email":null,"name":"d"}]]"#)
    }

    @Test func `null replaces records that a sync ignores`() throws {
        try session.process("Tag", #"{"word": "old"}"#)
        func synced(_ actions: String) throws -> String {
            try session.objects(
                #"{"op": "sync", "entity": "Tag", "actions": [\#(actions)], "json": [{"word": "new"}, {"word": "old"}]}"#
            )
        }
        #expect(try synced(#""update""#) == #"[[null,{"word":"old"}]]"#)
        #expect(try synced(#""insert""#) == #"[[{"word":"new"},null]]"#)
        #expect(try synced("") == "[[null,null]]")
    }

    private static let tombstone = """
        {"entities": {"Item": {
          "identity": "id", "tombstone": "gone == TRUE", "attributes": {"id": "integer64", "gone": "boolean"}}}}
        """

    @Test(.session(tombstone)) func `a tombstone is null, and so are the objects that it deletes`() throws {
        let client = session.client
        #expect(try client.ask(#"{"entity": "Item", "json": {"id": 1}}"#).type == "completed")
        let answer = try client.ask(
            #"{"reply": "objects", "entity": "Item", "json": [{"id": 1, "gone": true}, {"id": 2}, {"id": 3}, "#
                + #"{"id": 2, "gone": true}, {"id": 1}, {"id": 9, "gone": 1}]}"#)
        #expect(answer["objects"] == #"[[null,null,{"id":3,"gone":null},null,{"id":1,"gone":null},null]]"#)
    }

    private static let modified = """
        {"entities": {"Item": {
          "identity": "id", "modified": "at", "attributes": {"id": "integer64", "at": "integer64", "name": "string"}}}}
        """

    @Test(.session(modified)) func `a record that is not newer than its object still returns the object`() throws {
        let client = session.client
        #expect(try client.ask(#"{"entity": "Item", "json": {"id": 1, "at": 5, "name": "a"}}"#).type == "completed")
        let answer = try client.ask(
            #"{"reply": "objects", "entity": "Item", "json": [{"id": 1, "at": 4, "name": "b"}, {"id": 2, "at": 1}]}"#
        )
        #expect(answer["changes.Item.unchanged"] == "1")
        #expect(answer["objects"] == #"[[{"id":1,"at":5,"name":"a"},{"id":2,"at":1,"name":null}]]"#)
    }

    // MARK: - What later operations do

    @Test func `an object that a later operation changes, deletes or inserts again is returned in its final state`()
        async throws
    {
        let objects = try session.objects(
            #"{"entity": "Paper", "json": [{"id": 1}, {"id": 2}, {"id": 3}]}, "#
                + #"{"entity": "Paper", "object": 1, "json": {"follows": 3}}, "#
                + #"{"op": "delete", "entity": "Paper", "objects": [2, 1]}, {"entity": "Paper", "json": {"id": 2}}"#
        )
        #expect(
            objects == #"[[null,{"id":2,"follows":null},null],[null],[],[{"id":2,"follows":null}]]"#,
            "3 goes with 1, on which it hangs by cascade")
    }

    @Test func `an object is returned by its final name, and no other is returned for it`() throws {
        func rename(_ old: Int, _ new: Int) -> String {
            #"{"entity": "Safe", "object": \#(old), "json": {"id": \#(new)}}"#
        }
        func safe(_ id: Int) -> String { #"{"id":\#(id),"owner":null}"# }
        let objects = try session.objects(
            #"{"entity": "Safe", "json": [{"id": 1}, {"id": 2}, {"id": 3}]}, "#
                + [rename(1, 9), rename(2, 1), rename(9, 2)].joined(separator: ", ")
                + #", {"op": "delete", "entity": "Safe", "objects": [3]}, \#(rename(1, 3)), "#
                + #"{"entity": "Safe", "json": [{"id": 1}, {"id": 3}]}"#)
        #expect(
            objects
                == "[[\(safe(2)),\(safe(3)),null],[\(safe(2))],[\(safe(3))],[\(safe(2))],[],[\(safe(3))],[\(safe(1)),\(safe(3))]]"
        )
    }

    // MARK: - Which answers have them

    @Test func `a duplicate and an await have none, and a failed job has none`() async throws {
        let job = #"{"id": "j", "reply": "objects", "entity": "Tag", "json": [{"word": "a"}]}"#
        #expect(try session.client.ask(job)["objects"] == #"[[{"word":"a"}]]"#)
        let duplicate = try session.client.ask(job)
        #expect(duplicate["duplicate"] == "true")
        #expect(duplicate["objects"] == nil)
        #expect(duplicate["warnings"] == "[]")
        let awaited = try session.client.ask(#"{"type": "await", "id": "j"}"#)
        #expect(awaited["changes.Tag.inserted"] == "1")
        #expect(awaited["objects"] == nil)
        let failed = try session.client.ask(
            #"{"reply": "objects", "entity": "Tag", "json": [{"word": "b"}, {"word": []}]}"#)
        #expect(failed.type == "failed")
        #expect(failed["objects"] == nil)
        let summary = try session.client.ask(#"{"entity": "Tag", "json": [{"word": "a"}]}"#)
        #expect(summary["objects"] == nil)
    }

    @Test func `objects are those of right after their job, whatever the next ones do`() throws {
        let count = 200
        for number in 0..<count {
            try session.client.send(
                #"{"reply": "objects", "entity": "Employee", "json": {"id": 1, "age": \#(number)}}"#)
        }
        for number in 0..<count {
            let answer = try session.client.next()
            #expect(answer["objects.0.0.age"] == "\(number)")
        }
        let stats = try session.client.ask(#"{"type": "stats"}"#)
        #expect(try #require(stats["commits"].flatMap { Int($0) }) < count, "several jobs share a commit")
    }
}

extension OperationSession {
    /// The `objects` of the answer; or its code and path.
    func objects(_ operations: String, _ more: String = "") throws -> String {
        let answer = try client.ask(#"{"operations": [\#(operations)], "reply": "objects"\#(more)}"#)
        return answer["objects"] ?? "\(answer.code) \(answer["error.path"] ?? "")"
    }

    /// One object as a fetch gives it.
    func fetched(_ entity: String, _ key: String) throws -> String {
        let answer = try client.ask(
            #"{"type": "fetch", "entity": "\#(entity)", "object": \#(key), "result": "object"}"#)
        return answer["objects"] ?? answer.code
    }
}
