import TestSupport
import Testing

/// Operations besides `process`, over the socket. Their effect on objects is tested on the store.
@Suite(.timeLimit(.minutes(5)), .session) struct OperationTests {
    private let session = OperationSession.current

    @Test(.session(jobWork: 3_000_000))
    func `a job of many searches through many objects fails alone, and the next job is applied`() throws {
        // The budget of users' jobs allows a hundred times as much.
        let records = (1...2_000).map { "{\"id\": \($0), \"name\": \"n\", \"age\": 1}" }
        try session.process("Employee", "[\(records.joined(separator: ", "))]")
        let search = #"{"op": "delete", "entity": "Employee", "where": "age == 7"}"#
        let answer = try session.client.ask(
            "{\"operations\": [\(Array(repeating: search, count: 100).joined(separator: ", "))]}")
        #expect(answer["error.code"] == "busy")
        #expect(answer["error.path"]?.hasPrefix("/operations/") == true)
        #expect(answer["error.retryAfterMilliseconds"] == "1000")
        #expect(try session.job("\(search), \(search)") == "")
        #expect(try session.rows("SELECT count(*) FROM Employee") == ["2000"])
    }

    @Test func `keys that name nothing are counted in one warning`() throws {
        try session.process("Tag", #"[{"word": "a"}, {"word": "b"}]"#)
        let answer = try session.answer(#"{"op": "delete", "entity": "Tag", "objects": ["a", "x", "y", "a"]}"#)
        #expect(answer["changes.Tag.deleted"] == "1")
        #expect(answer["keys.Tag.deleted"] == #"["a"]"#)
        #expect(answer["warnings.0.code"] == "objectNotFound")
        #expect(answer["warnings.0.entity"] == "Tag")
        #expect(answer["warnings.0.count"] == "2")
    }

    @Test func `a rejected record stops the deletion, with a warning`() throws {
        try session.process("Employee", #"[{"id": 1}, {"id": 2}]"#)
        let answer = try session.answer(
            #"{"op": "sync", "entity": "Employee", "json": [{"id": 1, "age": 5}, {"id": "x"}]}"#,
            #", "onInvalid": "skip""#)
        #expect(answer["changes.Employee.deleted"] == "0")
        #expect(answer["changes.Employee.updated"] == "1")
        #expect(answer["changes.Employee.rejected"] == "1")
        #expect(answer["warnings.0.code"] == "deletionSkipped")
        #expect(answer["warnings.0.entity"] == "Employee")
        #expect(try session.rows("SELECT count(*) FROM Employee") == ["2"])
    }

    @Test func `a text that is too long for a pattern fails its job alone, and changes nothing`() throws {
        let long = String(repeating: "a", count: 300_000) + "!"
        let records = (0..<3).map { "{\"id\": \($0), \"name\": \"\(long)\"}" }.joined(separator: ",")
        try session.process("Employee", "[\(records)]")
        let delete = #"{"op": "delete", "entity": "Employee", "where": "name MATCHES '(a|b)*a(a|b){900}c'"}"#
        #expect(try session.job(delete) == "invalidPredicate /operations/0/where")
        #expect(try session.rows("SELECT count(*) FROM Employee") == ["3"])
        #expect(try session.job(#"{"entity": "Tag", "json": {"word": "after"}}"#) == "Tag +1")
    }

    @Test func `an object inserted after a deletion is new, also where the server has inserted none before`()
        async throws
    {
        let other = try Locker(session.storePath)
        try other.execute("INSERT INTO Note (text) VALUES ('a'), ('b')")
        try other.execute("COMMIT")
        let all = #"{"op": "delete", "entity": "Note", "where": "TRUEPREDICATE"}"#
        #expect(try session.job(all + #", {"entity": "Note", "json": {"text": "c"}}"#) == "Note +1 -2")
        #expect(try session.rows("SELECT text FROM Note") == ["c"])
    }

    @Test func `an operation that the model does not allow is refused with its place`() throws {
        for (operation, fault) in [
            (#"{"op": "delete", "entity": "Employee", "where": "agee > 99"}"#, "invalidPredicate /operations/0/where"),
            (#"{"entity": "Tag", "json": 1}, {"entity": "Nobody", "json": []}"#, "unknownEntity /operations/1/entity"),
        ] { #expect(try session.job(operation) == fault) }
    }

    private static let peopleModel = """
        {"entities": {
          "Person": {"identity": "id", "attributes": {"id": "integer64", "rev": "integer64", "name": "string"}},
          "Employee": {"parent": "Person", "attributes": {"salary": {"type": "integer64", "optional": false}},
            "relationships": {"boss": {"entity": "Person"}}},
          "Manager": {"parent": "Employee"}, "Guest": {"parent": "Person"}}}
        """

    @Test(.session(peopleModel)) func `a fetch of an entity is about it and what inherits from it`() throws {
        _ = try session.counts(
            #"{"collections": {"Person": [{"id": 1}], "Guest": [{"id": 2}], "Manager": [{"id": 3, "salary": 1}], "Employee": [{"id": 4, "salary": 9}]}}"#
        )
        let fetched = try session.client.ask(
            #"{"type": "fetch", "entity": "Employee", "names": "local", "where": "salary > 0", "sort": ["-id"]}"#)
        #expect(
            fetched["objects"]
                == #"[{"id":4,"rev":null,"name":null,"salary":9,"boss":null,"entity":"Employee"},{"id":3,"rev":null,"name":null,"salary":1,"boss":null,"entity":"Manager"}]"#
        )
        let guests = try session.client.ask(#"{"type": "fetch", "entity": "Guest", "names": "local"}"#)
        #expect(guests["objects"] == #"[{"id":2,"rev":null,"name":null,"entity":"Guest"}]"#)
        let another = try session.client.ask(#"{"type": "fetch", "entity": "Guest", "object": 3}"#)
        #expect(another["objects"] == "[]")
    }

    private static let animalsModel = """
        {"entities": {
          "Animal": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {"home": {"entity": "House"}}},
          "Cat": {"parent": "Animal"},
          "Dog": {"parent": "Animal", "relationships": {"walker": {"entity": "Person", "inverse": "dogs"},
            "pups": {"entity": "Dog", "toMany": true, "deleteRule": "deny"}}},
          "Horse": {"parent": "Animal", "relationships": {"walker": {"entity": "House"}}},
          "House": {"identity": "id", "attributes": {"id": "integer64"}},
          "Person": {"identity": "id", "attributes": {"id": "integer64"},
            "relationships": {"dogs": {"entity": "Dog", "toMany": true, "inverse": "walker"}}}}}
        """

    @Test(.session(animalsModel)) func `relate refuses a relationship that the named entity does not have`() throws {
        _ = try session.client.ask(#"{"collections": {"Cat": [{"id": 1}], "Dog": [{"id": 2}], "Horse": [{"id": 3}]}}"#)
        func relate(_ entity: String, _ object: Int, _ name: String) throws -> String {
            let answer = try session.client.ask(
                #"{"op": "relate", "entity": "\#(entity)", "object": \#(object), "relationship": "\#(name)", "json": 8}"#
            )
            return "\(answer.type) \(answer.code) \(answer["error.path"] ?? "")"
        }
        for object in 1...3 {
            #expect(try relate("Animal", object, "walker") == "failed unknownRelationship /relationship")
            #expect(try relate("Cat", object, "walker") == "failed unknownRelationship /relationship")
        }
        #expect(try relate("Dog", 1, "walker") == "failed objectNotFound /object")
        #expect(try relate("Animal", 1, "home") == "completed  ")
        #expect(try relate("Horse", 3, "walker") == "completed  ")
        #expect(try relate("Dog", 2, "walker") == "completed  ")
        #expect(
            try session.rows("SELECT id, home, Dog_walker, Horse_walker FROM Animal ORDER BY id")
                == ["1|8|NULL|NULL", "2|NULL|8|NULL", "3|NULL|NULL|8"])
    }
}

/// The messages of a dry run.
@Suite(.timeLimit(.minutes(5)), .session) struct DryRunTests {
    private let session = OperationSession.current

    @Test func `a dry run is answered as one, and its id stays unknown`() async throws {
        try session.process("Employee", #"[{"id": 1}, {"id": 2}]"#)
        let delete = #"{"op": "delete", "entity": "Employee", "where": "TRUEPREDICATE"}"#
        let answer = try session.answer(delete, #", "id": "a", "dryRun": true, "maximumDeletions": 2"#)
        #expect(answer.type == "completed" && answer["dryRun"] == "true" && answer["duplicate"] == "false")
        #expect(answer["changes.Employee.deleted"] == "2")
        #expect(answer["examples.Employee.deleted"] == "[1,2]")
        #expect(try session.client.ask(#"{"type": "await", "id": "a"}"#).code == "unknownJob")
        let brief = try session.client.ask(
            #"{"entity": "Tag", "json": {"word": "x"}, "dryRun": true, "reply": "none"}"#)
        #expect(brief["dryRun"] == "true" && brief["changes"] == nil)
        let failed = try session.answer(delete, #", "id": "a", "maximumDeletions": "50%""#)
        #expect(failed.type == "failed" && failed.code == "tooManyDeletions")
        #expect(try session.rows("SELECT count(*) FROM Employee") == ["2"])
        #expect(try session.rows("SELECT count(*) FROM Tag") == ["0"])
        #expect(try session.answer(delete, #", "id": "a""#)["changes.Employee.deleted"] == "2")
    }

    @Test func `the last part of a sync can be tried when the others are committed`() throws {
        try session.process("Employee", #"[{"id": 1}, {"id": 2}, {"id": 3}]"#)
        func part(_ json: String, last: Bool) -> String {
            #"{"op": "sync", "entity": "Employee", "json": \#(json), "part": {"id": "p", "last": \#(last)}}"#
        }
        #expect(try session.job(part(#"[{"id": 1}]"#, last: false)) == "Employee =1")
        let tried = try session.answer(part(#"[{"id": 2}]"#, last: true), #", "dryRun": true"#)
        #expect(tried["examples.Employee.deleted"] == "[3]")
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
