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

private let mapModel = """
    {"entities": {
      "Article": {
        "identity": "articleID", "attributes": {"articleID": "integer64", "title": "string", "body": "string"},
        "relationships": {
          "author": {"entity": "User", "inverse": "articles"},
          "tags": {"entity": "Tag", "toMany": true, "assignment": "replace"}}},
      "User": {
        "identity": "username", "attributes": {"username": "string", "email": "string", "age": "integer16"},
        "relationships": {"articles": {"entity": "Article", "toMany": true, "inverse": "author"}}},
      "Tag": {"identity": "word", "attributes": {"word": "string"}},
      "Child": {"abstract": true, "identity": "name", "attributes": {"name": "string", "age": "integer16"},
        "relationships": {"friends": {"entity": "Child", "toMany": true, "mapping": "child"}}},
      "Boy": {"parent": "Child", "attributes": {"ball": "string"}},
      "Girl": {"parent": "Child", "attributes": {"doll": "string"}},
      "Comment": {"attributes": {"articleID": "integer64", "text": "string"}},
      "Remark": {"attributes": {"text": "string"},
        "relationships": {"author": {"entity": "User"}, "tags": {"entity": "Tag", "toMany": true}}}
    },
    "mappings": {
      "article": {"entity": "Article", "attributes": {"headline.text": "title", "headline": "title"},
        "relationships": {"writer": {"relationship": "author", "mapping": "person"}, "tag_list": "tags"}},
      "person": {"entity": "User", "attributes": {"login": "username", "contact.mail": "email"}},
      "users": {"entity": "User", "nestingKey": "username", "collection": true,
        "attributes": {"(username).mail": "email"},
        "relationships": {"(username).wrote": {"relationship": "articles", "mapping": "article"}}},
      "user": {"entity": "User", "nestingKey": "username", "attributes": {"years": "age"}},
      "child": {"select": {"key": "type", "cases": {"Boy": "boy", "Girl": "girl", "1": "boy", "true": "girl"}}},
      "children": {"select": {"key": "meta.type", "cases": {"any": "child"}, "otherwise": null}},
      "boy": {"entity": "Boy"}, "girl": {"entity": "Girl"},
      "comment": {"entity": "Comment"}, "remark": {"entity": "Remark"}
    },
    "routes": [
      {"path": "/articles/:articleID/comments", "keyPath": "comments", "mapping": "comment"},
      {"path": "/articles/:articleID", "mapping": "article"},
      {"keyPath": "articles", "mapping": "article"},
      {"keyPath": "data.people", "mapping": "person"},
      {"keyPath": "error", "error": true}, {"keyPath": "errors", "error": true},
      {"path": "/users/:author/tags/:tags/remarks", "mapping": "remark"}
    ]}
    """

/// `map`: whole payloads by mappings and routes, as RestKit reads them.
@Suite(.timeLimit(.minutes(5)), .session(mapModel)) struct MapTests {
    private let session = OperationSession.current

    /// The objects of the job's payloads; or the code, the path and the message of what went wrong.
    private func map(_ json: String, _ more: String = "", job: String = "") throws -> String {
        let answer = try session.client.ask(#"{"op": "map", "json": \#(json), "reply": "objects"\#(more)\#(job)}"#)
        guard answer.type == "completed" else {
            return "\(answer.code) \(answer["error.path"] ?? "") \(answer["error.message"] ?? "")"
        }
        return answer["objects"] ?? ""
    }

    // MARK: - Parameters

    @Test func `a parameter named like a relationship links the records that bring no value for it`() throws {
        let path = #", "path": "/users/ann/tags/red/remarks""#
        _ = try map(
            #"[{"text": "a"}, {"text": "b", "author": "bob", "tags": ["blue"]}, {"text": "c", "author": null}]"#,
            path)
        try #expect(session.rows("SELECT text, author FROM Remark ORDER BY 1") == ["a|ann", "b|bob", "c|NULL"])
        try #expect(
            session.rows("SELECT r.text, destination FROM Remark_tags JOIN Remark r ON r._pk = source ORDER BY 1")
                == ["a|red", "b|blue", "c|red"])
    }

    @Test func `records of which no key is known are refused, whatever the path's parameters bring`() throws {
        let failure = try map(#"{"message": "not found"}"#, #", "path": "/articles/5""#)
        #expect(failure.hasPrefix("noKnownKey /json "), "\(failure)")
        let linked = try map(#"[{"status": 404}]"#, #", "path": "/users/ann/tags/red/remarks""#)
        #expect(linked.hasPrefix("noKnownKey /json/0 "), "\(linked)")
        try #expect(session.rows("SELECT count(*) FROM Article") == ["0"])
    }

    // MARK: - Mappings

    @Test func `a mapping has its own key paths, and what it does not name follows the entity`() throws {
        _ = try map(
            #"[{"articleID": 1, "headline": {"text": "T"}, "body": "B", "writer": {"login": "ann", "contact": {"mail": "a@x"}, "age": 9}, "tag_list": ["a", {"word": "b"}]}, {"articleID": 2, "headline": "plain", "writer": null}]"#,
            #", "mapping": "article""#)
        try #expect(
            session.rows("SELECT articleID, title, body, author FROM Article ORDER BY 1")
                == ["1|T|B|ann", "2|plain|NULL|NULL"])
        try #expect(session.rows("SELECT username, email, age FROM User") == ["ann|a@x|9"])
        try #expect(session.rows("SELECT source, destination FROM Article_tags ORDER BY 2") == ["1|a", "1|b"])
    }

    @Test func `a dictionary's key is a value, of one record or of many`() throws {
        _ = try map(
            #"{"blake": {"mail": "b@x", "age": 3, "wrote": [{"articleID": 5, "headline": "h"}]}, "sarah": {"mail": "s@x"}}"#,
            #", "mapping": "users""#)
        _ = try map(#"[{"kim": {"email": "k@x"}, "years": 7}]"#, #", "mapping": "user""#)
        try #expect(
            session.rows("SELECT username, email, age FROM User ORDER BY 1")
                == ["blake|b@x|3", "kim|k@x|7", "sarah|s@x|NULL"])
        try #expect(session.rows("SELECT articleID, title, author FROM Article") == ["5|h|blake"])
        let two = try map(#"{"a": {}, "b": {}}"#, #", "mapping": "user""#)
        #expect(
            two.hasPrefix(#"invalidValue /json Two keys of this record may be its username: "a" and "b""#), "\(two)"
        )
        let none = try map(#"{"years": 7}"#, #", "mapping": "user""#)
        #expect(none.hasPrefix("missingIdentity /json"), "\(none)")
        let bad = try map(#"{"a": {"age": 1}, "b": {"age": "x"}}"#, #", "mapping": "users""#)
        #expect(bad.hasPrefix("invalidValue /json/b/age"), "\(bad)")
    }

    @Test func `each record of a mixed list goes to the mapping that its value chooses`() throws {
        try #expect(
            map(
                #"[{"type": "Boy", "name": "al", "ball": "red"}, {"type": "Girl", "name": "bo", "doll": "d"}, {"type": 1, "name": "cy"}, {"type": true, "name": "di", "friends": [{"type": "Boy", "name": "ed"}, "al"]}]"#,
                #", "mapping": "child""#)
                == #"[[{"name":"al","age":null,"ball":"red"},{"name":"bo","age":null,"doll":"d"},{"name":"cy","age":null,"ball":null},{"name":"di","age":null,"doll":null}]]"#
        )
        try #expect(
            session.rows("SELECT name, _entity FROM Child ORDER BY 1")
                == ["al|Boy", "bo|Girl", "cy|Boy", "di|Girl", "ed|Boy"])
        try #expect(session.rows("SELECT destination FROM Child_friends ORDER BY 1") == ["al", "ed"])
    }

    @Test func `the key by which a select chooses is known, and not warned of`() throws {
        let answer = try session.client.ask(
            #"{"op": "map", "mapping": "children", "json": {"meta": {"type": "any"}, "type": "Boy", "name": "a", "x": 1}}"#
        )
        #expect(answer["warnings"] == #"[{"code":"unknownKey","entity":"Boy","key":"x","count":1}]"#)
    }

    @Test func `a select declines, refuses, or rejects`() throws {
        try #expect(
            map(
                #"[{"meta": {"type": "any"}, "type": "Boy", "name": "a"}, {"meta": 5, "name": "b"}, {"name": "c"}]"#,
                #", "mapping": "children""#) == #"[[{"name":"a","age":null,"ball":null},null,null]]"#)
        let refused = try map(
            #"[{"type": "Boy", "name": "x"}, {"type": "Cat", "name": "y"}]"#, #", "mapping": "child""#)
        #expect(
            refused.hasPrefix(#"unmappable /json/1 "type" is "Cat", by which the mapping "child" chooses"#),
            "\(refused)")
        try #expect(session.rows("SELECT name FROM Child") == ["a"])
        try #expect(
            map(
                #"[{"type": "Boy", "name": "x"}, {"name": "y"}, 7, {"type": {}, "name": "z"}]"#,
                #", "mapping": "child""#,
                job: #", "onInvalid": "skip""#) == #"[[{"name":"x","age":null,"ball":null},null,null,null]]"#)
    }

    @Test func `records that a relationship's select declines are not linked`() throws {
        let answer = try session.client.ask(
            #"{"entity": "Boy", "json": [{"name": "a", "friends": [{"type": "Girl", "name": "g"}, {"type": "Cat", "name": "c"}]}], "onInvalid": "skip"}"#
        )
        #expect(answer["rejected.0.code"] == "unmappable" || answer["rejected"]?.contains("unmappable") == true)
        try #expect(session.rows("SELECT destination FROM Child_friends") == ["g"])
    }

    // MARK: - Routes

    @Test func `routes find the objects by path and by key paths`() throws {
        _ = try map(#"{"headline": "one"}"#, #", "path": "/articles/7?x=1""#)
        _ = try map(#"{"articleID": 8, "headline": "two"}"#, #", "path": "articles/9/""#)
        try #expect(session.rows("SELECT articleID, title FROM Article ORDER BY 1") == ["7|one", "8|two"])
        _ = try map(
            #"{"comments": [{"text": "c"}, {"text": "d", "articleID": 3}]}"#, #", "path": "/articles/7/comments""#)
        try #expect(session.rows("SELECT articleID, text FROM Comment ORDER BY 2") == ["7|c", "3|d"])
        try #expect(
            map(#"{"articles": [{"articleID": 1}], "data": {"people": {"login": "z"}}, "more": 1}"#)
                == #"[[{"articleID":1,"title":null,"body":null,"author":null},{"username":"z","email":null,"age":null}]]"#
        )
    }

    @Test func `a route that takes the payload whole ends the search`() throws {
        let payload = #"{"headline": "x", "articles": [{"articleID": 99}]}"#
        let whole = try map(payload, #", "path": "/articles/7""#)
        #expect(whole == #"[[{"articleID":7,"title":"x","body":null,"author":null}]]"#)
        let part = try map(payload, #", "path": "/elsewhere""#)
        #expect(part == #"[[{"articleID":99,"title":null,"body":null,"author":null}]]"#)
    }

    @Test func `key paths look through arrays`() throws {
        _ = try map(
            #"[{"articles": [{"articleID": 1}, {"articleID": 2}]}, {"data": [{"people": [{"login": "a"}]}, {"people": {"login": "b"}}]}, {"articles": null}, 5]"#
        )
        try #expect(session.rows("SELECT articleID FROM Article ORDER BY 1") == ["1", "2"])
        try #expect(session.rows("SELECT username FROM User ORDER BY 1") == ["a", "b"])
    }

    @Test(arguments: [
        (#"{"error": "no such article"}"#, "remoteError /json/error no such article"),
        (#"{"errors": ["a", {"message": "b"}], "articles": []}"#, "remoteError /json/errors a; b"),
        (#"{"error": {"code": 7, "message": "", "detail": "d"}}"#, "remoteError /json/error d"),
        (#"{"error": 7}"#, "remoteError /json/error 7"), (#"{"error": 1e999}"#, "remoteError /json/error 1e999"),
        (#"{"error": {"x": 1}}"#, #"remoteError /json/error {"x": 1}"#),
        (#"[{"error": "in an array"}]"#, "remoteError /json/0/error in an array"),
        (
            "{\"error\": \"\(String(repeating: "é", count: 600))\"}",
            "remoteError /json/error \(String(repeating: "é", count: 499))…"
        ),
    ])
    func `an error of the remote server fails the job with its own text`(json: String, expected: String) throws {
        try #expect(map(json, #", "path": "/articles/1""#) == expected)
        try #expect(map(json) == expected)
        try #expect(session.rows("SELECT * FROM Article") == [])
    }

    @Test func `an empty error is none`() throws {
        for (id, error) in [
            "null", "[]", "0", "-0.0", "false", "{}", #"{"code": 0, "message": ""}"#, "[null, [0]]",
        ].enumerated() {
            _ = try map(#"{"error": \#(error), "errors": \#(error), "articles": [{"articleID": \#(id)}]}"#)
        }
        try #expect(session.rows("SELECT count(*) FROM Article") == ["8"])
    }

    @Test func `a payload without a route is refused with its keys and the routes`() throws {
        let fault = try map(#"{"articels": [], "page": 2}"#)
        #expect(
            fault.hasPrefix(#"unmappable /json No route fits this payload: it has the keys "articels", "page""#),
            "\(fault)")
        #expect(fault.contains("path /articles/:articleID; key path articles;"), "\(fault)")
        try #expect(map("[]", #", "path": "/nowhere""#).contains(#"with the path "/nowhere": it is an array"#))
        try #expect(map("5").hasPrefix("unmappable /json"))
        let unknown = try map("[]", #", "mapping": "artcle""#)
        #expect(
            unknown.hasPrefix(
                #"unknownMapping /mapping The model has no mapping "artcle"; did you mean "article"? It has: article, boy"#
            ),
            "\(unknown)")
    }

    @Test func `a path parameter that does not fit its attribute is reported at the record`() throws {
        let fault = try map(#"{"headline": "x"}"#, #", "path": "/articles/five""#)
        #expect(fault.hasPrefix("invalidValue /json "), "\(fault)")
        #expect(fault.contains("five"), "\(fault)")
    }

    @Test func `unknown keys are warned of once, however a record is read`() throws {
        let answer = try session.client.ask(
            #"{"operations": [{"op": "map", "mapping": "article", "json": {"articleID": 1, "bunk": 1}}, {"op": "map", "mapping": "users", "json": {"u": {"junk": 1}}}, {"entity": "Article", "json": {"articleID": 1, "bunk": 2}}]}"#
        )
        #expect(
            answer["warnings"]
                == #"[{"code":"unknownKey","entity":"Article","key":"bunk","count":2},{"code":"unknownKey","entity":"User","key":"(username).junk","count":1}]"#
        )
    }
}
