import TestSupport
import Testing

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
