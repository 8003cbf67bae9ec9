import BrokerJSON
import BrokerModel
import BrokerStaging
import Testing

@testable import BrokerModelSources

@Suite(.timeLimit(.minutes(5))) struct ModelDesignTests {
    private func model(_ entity: String, _ records: String) throws -> Model {
        try Samples(entity, records).model().model
    }

    private func keys(_ entity: Entity) -> [String] {
        entity.attributes.map { "\($0.name)=\($0.keyPaths.map { $0.joined(separator: ".") }.joined(separator: ","))" }
    }

    @Test func `an object without identity becomes columns, those inside of it too`() throws {
        let model = try model(
            "Event",
            #"[{"id": 1, "payload": {"size": 2, "geo": {"lat": 1.5}, "commits": [{"sha": "a"}, {"sha": "b"}]}}]"#)
        #expect(keys(model.entities[0]) == ["id=id", "payload_size=payload.size", "payload_geo_lat=payload.geo.lat"])
        #expect(model.entities[0].relationships[0].keyPaths == [["payload", "commits"]])
        #expect(model.entities.map(\.name) == ["Event", "Commit"])
    }

    @Test func `objects of one shape with the same ids are one entity, named by what most keys say`() throws {
        let user = { (id: Int) in
            #"{"id": \#(id), "login": "l\#(id)", "url": "u\#(id)", "type": "User", "admin": false}"#
        }
        let model = try model(
            "Issue",
            #"[{"id": 1, "owner": \#(user(1)), "user": \#(user(2)), "assignee": \#(user(1)), "lead": {"user": \#(user(3))}}]"#
        )
        #expect(model.entities.map(\.name) == ["Issue", "User"])
        #expect(model.entities[0].relationships.map(\.name) == ["owner", "user", "assignee", "lead_user"])
    }

    @Test func `objects of one shape whose equal ids have other contents are two entities`() throws {
        let shape = { (id: Int, text: String) in
            #"{"id": \#(id), "name": "\#(text)", "code": "\#(text)", "note": "\#(text)", "rank": "\#(text)"}"#
        }
        let model = try model(
            "Book",
            #"[{"id": 1, "author": \#(shape(1, "a")), "genre": \#(shape(1, "b"))}, {"id": 2, "author": \#(shape(2, "c")), "genre": \#(shape(2, "d"))}]"#
        )
        #expect(model.entities.map(\.name) == ["Book", "Author", "Genre"])
    }

    @Test func `an object whose keys are values becomes objects with that key`() throws {
        let countries = (0..<8).map {
            #"{"cca3": "C\#($0)", "currencies": {"K\#($0 % 5)": {"name": "n\#($0 % 5)", "symbol": "s\#($0 % 5)"}}, "native": {"L\#($0)": {"common": "c\#($0)"}, "M": {"common": "d\#($0)"}}}"#
        }
        let model = try model("Country", "[\(countries.joined(separator: ","))]")
        #expect(model.entities.map(\.name) == ["Country", "Currency", "Native"])
        #expect(keys(model.entities[1]) == ["key=key,id", "name=name", "symbol=symbol"])
        #expect(model.entities[0].relationships.map(\.isOwned) == [false, true])
        #expect(model.mappings.map(\.name) == ["Currency by key", "Native by key"])
    }

    @Test func `objects under a key are owned, though two of them are equal by chance`() throws {
        let model = try model(
            "Day",
            #"[{"id": 1, "rates": {"D1": {"v": 1}, "D2": {"v": 2}}}, {"id": 2, "rates": {"D1": {"v": 1}, "D3": {"v": 3}}}]"#
        )
        #expect(model.entities[0].relationships.map(\.isOwned) == [true])
    }

    @Test func `an object, or its bare key, is a relationship`() throws {
        let model = try model("Charge", #"[{"id": 1, "customer": 7}, {"id": 2, "customer": {"id": 7, "name": "n"}}]"#)
        #expect(model.entities[0].relationships.map(\.name) == ["customer"])
    }

    @Test func `owned objects may own others, and lists within themselves stay JSON`() throws {
        let nested = try model(
            "Order",
            #"[{"id": 1, "lines": [{"sku": "a", "taxes": [{"rate": 1}, {"rate": 2}]}, {"sku": "a", "taxes": []}]}]"#)
        #expect(nested.entities.map(\.name) == ["Order", "Line", "Tax"])
        #expect(nested.entities[2].identity.count == 3)
        let tree = try model(
            "Page", #"[{"id": 1, "sections": [{"title": "a", "sections": [{"title": "b", "sections": []}]}]}]"#)
        #expect(tree.entities.map(\.name) == ["Page", "Section"])
        #expect(tree.entities[1].attributes.contains { $0.name == "sections" && $0.type == .transformable })
    }

    @Test func `objects that nothing identifies own objects without identities`() throws {
        let maps = #"{"0": {"x": 1}, "1": {"x": 2}, "2": {"x": 3}}"#
        let model = try model("Log", #"[{"n": 1.5, "lines": [{"id": 7, "m": 1}, {"id": 7, "m": 4}], "map": \#(maps)}]"#)
        #expect(model.entities.map(\.name) == ["Log", "Line", "Map"])
        #expect(model.entities.map(\.identity.count) == [0, 0, 0])
    }

    @Test func `names are such that predicates can say them`() throws {
        let model = try model(
            "Row", ##"[{"id": 1, "First Name": "a", "2nd": "b", "@lang": "c", "#text": "d", "a-b": 1, "a b": 2}]"##)
        #expect(
            keys(model.entities[0]) == [
                "id=id", "First_Name=First Name", "_2nd=2nd", "lang=@lang", "text=#text", "a_b=a-b", "a_b2=a b",
            ])
    }
}

@Suite(.timeLimit(.minutes(5))) struct ModelExtensionTests {
    /// The model of some records, extended by others.
    private func extended(
        _ entity: String, _ records: String, by more: String, of other: String? = nil
    ) throws -> (changes: ModelExtension, model: Model) {
        let (model, document) = try Samples(entity, records).model()
        let changes = try Samples(other ?? entity, more).inferred(extending: model).extension
        return (changes, try StagingPlan(ModelReader.read(changes.applied(to: document))).model)
    }

    private func types(_ entity: Entity) -> [String] { entity.attributes.map { "\($0.name): \($0.type.rawValue)" } }

    @Test func `records of the same shape change nothing`() throws {
        let records =
            #"[{"id": 1, "a": null, "user": {"id": 7, "name": "n"}, "geo": {"lat": 1.5}, "lines": [{"n": 1}], "d": "2024-01-01"}]"#
        #expect(try extended("Thing", records, by: records).changes.isEmpty)
        #expect(
            try extended("Thing", records, by: #"[{"id": 2, "user": null, "geo": null, "lines": []}]"#).changes.isEmpty)
    }

    @Test func `new keys become columns, and values of other types widen theirs`() throws {
        let (changes, model) = try extended(
            "Thing", #"[{"id": 1, "n": 1, "t": "2024-01-01T00:00:00Z", "b": true, "s": "x", "none": null}]"#,
            by: #"[{"id": 2, "n": 1.5, "t": "soon", "b": 7, "s": {"a": 1}, "none": 3, "geo": {"lat": 1}, "new": "x"}]"#)
        #expect(!changes.onlyAdds)
        #expect(
            types(model.entities[0]) == [
                "id: integer64", "n: double", "t: string", "b: string", "s: transformable", "none: integer64",
                "geo_lat: integer64", "new: string",
            ])
    }

    @Test(arguments: [
        ("\"2020-01-08T11:35:00Z\"", "7", "string"), ("5", "\"2020-01-08T11:35:00Z\"", "string"),
        ("1.5", "\"2020-01-08\"", "string"), ("\"2020-01-09\"", "\"24.9.2012\"", "calendarDate"),
        ("\"24.9.2012\"", "\"2020-01-09\"", "calendarDate"), ("\"24.9.2012\"", "\"2012/09/24\"", "calendarDate"),
        ("\"Mon, 24 Sep 2012 03:35:21 GMT\"", "\"Mon Sep 24 03:35:21 +0000 2012\"", "date"), ("5", "1e400", "decimal"),
    ])
    func `a type takes the values before and after`(before: String, after: String, type: String) throws {
        let (_, model) = try extended("Thing", #"[{"id": 1, "v": \#(before)}]"#, by: #"[{"id": 2, "v": \#(after)}]"#)
        #expect(types(model.entities[0])[1] == "v: \(type)")
    }

    @Test func `keys that differ in Unicode's normal form alone are two`() throws {
        let (_, model) = try extended(
            "Thing", "[{\"id\": 1, \"caf\u{e9}\": 1}]", by: "[{\"id\": 2, \"cafe\u{301}\": 1}]")
        #expect(model.entities[0].attributes.count == 3)
    }

    @Test func `a key named key of objects in a dictionary is not the dictionary's`() throws {
        let before = #"[{"id": 1, "rates": {"A1": {"v": 1}, "A2": {"v": 2}, "A3": {"v": 3}}}]"#
        let (_, model) = try extended("Thing", before, by: #"[{"id": 1, "rates": {"A1": {"v": 1, "key": "k"}}}]"#)
        #expect(types(model.entities[1]) == ["parent_id: integer64", "key: string", "v: integer64", "key2: string"])
        #expect(try extended("Thing", before, by: before).changes.isEmpty)
    }

    @Test func `null becomes an object or a list, and one object several`() throws {
        let (_, model) = try extended(
            "Thing", #"[{"id": 1, "user": null, "lines": null, "tag": {"id": 1, "name": "a"}}]"#,
            by:
                #"[{"id": 2, "user": {"id": 7, "name": "n"}, "lines": [{"n": 1}], "tag": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]}]"#
        )
        #expect(model.entities.map(\.name) == ["Thing", "Tag", "User", "Line"])
        #expect(
            model.entities[0].relationships.map { "\($0.name) \($0.isToMany) \($0.isOwned)" } == [
                "tag true false", "user false false", "lines true true",
            ])
        #expect(types(model.entities[0]) == ["id: integer64"])
    }

    @Test func `another endpoint joins the model, and shared entities are found again`() throws {
        let user = #"{"id": 7, "name": "n", "mail": "m", "phone": "p"}"#
        let (changes, model) = try extended(
            "Issue", #"[{"id": 1, "user": \#(user)}]"#, by: #"[{"id": 5, "author": \#(user), "body": "b"}]"#,
            of: "Comment")
        #expect(changes.onlyAdds)
        #expect(model.entities.map(\.name) == ["Issue", "User", "Comment"])
        #expect(model.entities[model.entities[2].relationships[0].destination].name == "User")
    }

    @Test func `an extended entity keeps its identity`() throws {
        let (_, model) = try extended(
            "Thing", #"[{"code": "a", "n": 1}, {"code": "b", "n": 1}]"#, by: #"[{"id": 1, "code": "c", "n": 2}]"#)
        #expect(model.entities[0].identity.map { model.entities[0].attributes[$0].name } == ["code"])
        #expect(types(model.entities[0]) == ["code: string", "n: integer64", "id: integer64"])
    }

    @Test(arguments: [false, true])
    func `copies of an identity in owned objects widen with it`(isWritten: Bool) throws {
        var (model, document) = try Samples("Order", #"[{"id": 1, "lines": [{"n": 1, "taxes": [{"r": 1}]}]}]"#).model()
        if isWritten {
            var writer = JSONWriter()
            model.write(to: &writer)
            document = try ModelDocument(parsing: JSONText(copying: writer.bytes))
            model = try ModelReader.read(document)
        }
        let changes = try Samples("Order", #"[{"id": "a"}]"#).inferred(extending: model).extension
        let widened = try ModelReader.read(changes.applied(to: document))
        #expect(widened.entities.map { $0.attributes[$0.identity[0]].type } == [.string, .string, .string])
    }

    @Test func `an entity without identity gets the one that is named`() throws {
        let (model, document) = try Samples("Log", #"[{"n": 1.5, "host": "a"}]"#).model()
        let inferred = try Samples("Log", #"[{"n": 2.5, "host": "b"}]"#).inferred(
            identities: ["Log": ["host"]], extending: model)
        let changed = try ModelReader.read(inferred.extension.applied(to: document))
        #expect(changed.entities[0].identity.map { changed.entities[0].attributes[$0].name } == ["host"])
    }

    @Test func `what is left of the changes for an edited model only adds to it`() throws {
        let (changes, _) = try extended(
            "Thing", #"[{"id": 1, "n": 1, "s": null}]"#, by: #"[{"id": 2, "n": 1.5, "new": 1, "s": 1}]"#)
        #expect(!changes.onlyAdds && changes.addingOnly().onlyAdds && !changes.addingOnly().isEmpty)
    }

    @Test func `the mark of an inferred model shows an edit of any part`() throws {
        let (_, document) = try Samples("Thing", #"[{"id": 1, "n": 1}]"#).model()
        var marked = try InferredMark.marked(document)
        #expect(InferredMark.isUnedited(try ModelReader.read(marked)))
        #expect(!InferredMark.isUnedited(try ModelReader.read(document)))
        marked.root.set(["entities", "Thing", "attributes", "n"], ModelValue(.string("string"), at: .unknown))
        #expect(!InferredMark.isUnedited(try ModelReader.read(marked)))
    }
}
