import BrokerModel
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
