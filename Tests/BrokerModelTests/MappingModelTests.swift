import BrokerJSON
import Testing

@testable import BrokerModel

/// A model with the entities `User` and `Post`, and these fields beside them.
private func model(_ fields: String) -> String {
    """
    {"entities": {
      "User": {"identity": "name", "attributes": {"name": "string", "email": "string"},
               "relationships": {"posts": {"entity": "Post", "toMany": true, "inverse": "author"}}},
      "Post": {"identity": "id", "attributes": {"id": "integer64", "title": "string"},
               "relationships": {"author": {"entity": "User"}}}}, \(fields)}
    """
}

private func mapping(_ fields: String) -> String { model(#""mappings": {"m": {"# + fields + "}}") }

private func route(_ fields: String) -> String {
    model(#""mappings": {"m": {"entity": "User"}}, "routes": [{"# + fields + "}]")
}

@Suite(.timeLimit(.minutes(5))) struct MappingModelTests {
    private static let whole = model(
        """
        "mappings": {
          "post": {"entity": "Post", "attributes": {"headline.text": "title", "headline": "title"},
                   "relationships": {"writer": {"relationship": "author", "mapping": "user"}, "by": "author"}},
          "user": {"entity": "User", "nestingKey": "name", "collection": true, "attributes": {"(name).mail.main": "email"}},
          "any": {"select": {"key": "meta.kind", "cases": {"post": "post", "1": "user"}, "otherwise": "post"}},
          "some": {"select": {"key": "kind", "cases": {"x": "any"}, "otherwise": null}},
          "strict": {"select": {"key": "kind", "cases": {"x": "any"}}}
        },
        "routes": [{"path": "/posts/:id", "keyPath": "data.posts", "mapping": "any"}, {"keyPath": "error", "error": true}]
        """)

    @Test func `mappings and routes are read`() throws {
        let model = try read(Self.whole)
        #expect(model.mappings.map(\.name) == ["post", "user", "any", "some", "strict"])
        guard case .record(let post) = model.mappings[0].form, case .record(let user) = model.mappings[1].form,
            case .select(let any) = model.mappings[2].form, case .select(let some) = model.mappings[3].form,
            case .select(let strict) = model.mappings[4].form
        else {
            Issue.record("the forms are others: \(model.mappings)")
            return
        }
        #expect(post.attributes == [1: [MappedPath(keys: ["headline", "text"]), MappedPath(keys: ["headline"])]])
        #expect(post.relationships[0]?.paths.map(\.keys) == [["writer"], ["by"]])
        #expect(post.relationships[0]?.mapping == 1)
        #expect(user.nesting?.attribute == 0)
        #expect(user.nesting?.isCollection == true)
        #expect(user.attributes == [1: [MappedPath(isBelowKey: true, keys: ["mail", "main"])]])
        #expect(any.key == ["meta", "kind"])
        #expect(any.cases.map(\.value) == ["post", "1"])
        #expect([any.otherwise, some.otherwise, strict.otherwise] == [.mapping(0), .decline, .refuse])
        #expect(model.routes.map(\.summary) == ["path /posts/:id and key path data.posts", "key path error"])
        #expect(model.routes.map(\.isError) == [false, true])
        #expect(model.entities(ofMapping: 3) == [0, 1])
    }

    @Test func `written mappings and routes read as the same`() throws {
        let model = try read(Self.whole)
        let again = try read(written(model))
        #expect(content(of: again) == content(of: model))
        #expect(written(again) == written(model))
    }

    @Test(arguments: [
        FaultCase(mapping(""), "/mappings/m", #"needs an "entity""#),
        FaultCase(mapping(#""entity": "Usr""#), "/mappings/m/entity", #"did you mean "User"?"#),
        FaultCase(
            mapping(#""entity": "User", "attributes": {"x": "emial"}"#), "/mappings/m/attributes/x",
            #"did you mean "email"?"#),
        FaultCase(
            mapping(#""entity": "User", "attributes": {"x": "posts"}"#), "/mappings/m/attributes/x",
            "it is a relationship"),
        FaultCase(
            mapping(#""entity": "User", "attributes": {"x..y": "email"}"#), "/mappings/m/attributes/x..y", "empty key"),
        FaultCase(
            mapping(#""entity": "User", "attributes": {"(name).x": "email"}"#), "/mappings/m/attributes/(name).x",
            #"add "nestingKey""#),
        FaultCase(
            mapping(#""entity": "User", "nestingKey": "name", "attributes": {"(nam).x": "email"}"#),
            "/mappings/m/attributes/(nam).x", "write (name)"),
        FaultCase(mapping(#""entity": "User", "collection": true"#), "/mappings/m/collection", "nestingKey"),
        FaultCase(
            mapping(#""entity": "User", "nestingKey": "name", "attributes": {"(name).(year)": "email"}"#),
            "/mappings/m/attributes/(name).(year)",
            #"one level of keys as values, and "(name).(year)" has "(name)" and "(year)""#),
        FaultCase(
            mapping(#""entity": "User", "nestingKey": "name", "attributes": {"(name).x.(year).y": "email"}"#),
            "/mappings/m/attributes/(name).x.(year).y", "one level of keys"),
        FaultCase(
            mapping(#""entity": "User", "nestingKey": "name", "attributes": {"x.(name).y": "email"}"#),
            "/mappings/m/attributes/x.(name).y", "begin with it"),
        FaultCase(
            mapping(#""entity": "User", "relationships": {"x": "post"}"#), "/mappings/m/relationships/x",
            #"did you mean "posts"?"#),
        FaultCase(
            mapping(#""entity": "User", "relationships": {"x": {"relationship": "posts", "mapping": "n"}}"#),
            "/mappings/m/relationships/x/mapping", #"no mapping "n""#),
        FaultCase(
            mapping(#""entity": "User", "relationships": {"x": {"relationship": "posts", "mapping": "m"}}"#),
            "/mappings/m",
            #""posts" leads to Post"#),
        FaultCase(mapping(#""select": {"cases": {"x": "m"}}"#), "/mappings/m", "leads back to itself"),
        FaultCase(mapping(#""select": {"key": "k"}"#), "/mappings/m/select", #"needs "cases""#),
        FaultCase(mapping(#""select": {"key": "k", "cases": {}}"#), "/mappings/m/select/cases", "has no case"),
        FaultCase(
            mapping(#""select": {"key": "k", "cases": {"x": "n"}}"#), "/mappings/m/select/cases/x", #"no mapping "n""#),
        FaultCase(mapping(#""entity": "User", "select": {"key": "k", "cases": {}}"#), "/mappings/m/select", "either"),
        FaultCase(route(#""keyPath": "x""#), "/routes/0", "leads nowhere"),
        FaultCase(route(#""mapping": "m""#), "/routes/0", "which payloads"),
        FaultCase(route(#""keyPath": "x", "mapping": "m", "error": true"#), "/routes/0/mapping", "either"),
        FaultCase(route(#""keyPath": "x", "mapping": "n""#), "/routes/0/mapping", #"did you mean "m"?"#),
        FaultCase(route(#""keyPath": ".x", "mapping": "m""#), "/routes/0/keyPath", "empty key"),
        FaultCase(route(#""path": "/x/:", "mapping": "m""#), "/routes/0/path", "no name after it"),
        FaultCase(model(#""routes": [{"keyPath": "x", "mapping": "n"}]"#), "/routes/0/mapping", "no mappings"),
    ])
    func `each fault of a mapping or a route has a sentence of its own`(fault: FaultCase) {
        let found = faults(of: fault.json).filter { $0.place.pointer == fault.pointer }
        #expect(found.contains { $0.message.contains(fault.message) }, "\(faults(of: fault.json))")
    }
}
