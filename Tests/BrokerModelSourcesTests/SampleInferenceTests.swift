import BrokerJSON
import BrokerModel
import BrokerStaging
import Testing

@testable import BrokerModelSources

@Suite(.timeLimit(.minutes(5))) struct SampleInferenceTests {
    private func infer(
        _ entity: String, _ records: String, isComplete: Bool = true, readsTexts: Bool = false
    ) throws -> (model: Model, text: String) {
        let inferred = try Samples(entity, records, readsTexts: readsTexts).inferred(isComplete: isComplete)
        return (try StagingPlan(ModelReader.read(JSONText(copying: Array(inferred.text.utf8)))).model, inferred.text)
    }

    private func identity(_ entity: Entity) -> [String] { entity.identity.map { entity.attributes[$0].name } }

    /// `name: type` of each attribute.
    private func types(_ entity: Entity) -> [String] { entity.attributes.map { "\($0.name): \($0.type.rawValue)" } }

    @Test func `types follow from all values of a key`() throws {
        let (model, _) = try infer(
            "Thing",
            #"""
            [{"whole": 1, "wide": 18446744073709551615, "part": 1.5, "long": 0.12345678901234567, "yes": true, "text": "a",
              "mixed": 1, "nothing": null, "list": [1, "a"], "empty": [], "keyless": {}, "both": {"a": 1}},
             {"whole": -9223372036854775808, "wide": 1, "part": 2, "long": 1, "yes": false, "text": "", "mixed": "x",
              "both": 1}]
            """#)
        #expect(
            types(model.entities[0]) == [
                "whole: integer64", "wide: decimal", "part: double", "long: decimal", "yes: boolean", "text: string",
                "mixed: string", "nothing: transformable", "list: transformable", "empty: transformable",
                "keyless: transformable", "both: transformable",
            ])
        #expect(model.entities.count == 1 && model.entities[0].identity.isEmpty)
    }

    @Test(arguments: [
        ("2012-09-24T03:35:21Z", "date", [String]()), ("2012-09-24 03:35:21.123+02:00", "date", []),
        ("2012-09-24T03:35:21.123456Z", "date", []), ("2012-02-30T03:35:21Z", "string", []),
        ("2012-09-24", "calendarDate", []), ("2012/09/24", "calendarDate", ["yyyy/MM/dd"]),
        ("2012-13-24", "string", []),
        ("Mon Sep 24 03:35:21 +0000 2012", "date", ["EEE MMM dd HH:mm:ss Z yyyy"]),
        ("Mon, 24 Sep 2012 03:35:21 +0000", "date", ["EEE, dd MMM yyyy HH:mm:ss Z"]),
        ("2012/09/24 03:35:21 +0000", "date", ["yyyy/MM/dd HH:mm:ss Z"]),
        ("68753A44-4D6F-1226-9C60-0050E4C00067", "uuid", []), ("https://example.org/", "string", []),
    ])
    func `texts that are all of one form have its type`(text: String, type: String, formats: [String]) throws {
        let attribute = try infer("T", "[{\"a\": \"\(text)\"}, {\"a\": null}]").model.entities[0].attributes[0]
        #expect(attribute.type.rawValue == type)
        #expect(attribute.dateFormats == formats)
        let mixed = try infer("T", "[{\"a\": \"\(text)\"}, {\"a\": \"soon\"}]").model.entities[0].attributes[0]
        #expect(mixed.type == .string)
    }

    @Test func `nested objects become entities, and objects of one entity are recognized by names and keys`() throws {
        let (model, text) = try infer(
            "Status",
            #"""
            [{"id": 1, "text": "a", "user": {"id": 7, "name": "n"}, "tags": ["x"],
              "media": [{"id": 3, "url": "u"}, {"id": 4, "url": "v"}], "geo": {"lat": 1.5, "lon": 2.5}},
             {"id": 2, "text": "b", "user": {"id": 7, "name": "n"}, "media": [], "retweeted_status":
               {"id": 9, "text": "c", "user": {"id": 8, "name": "m"}, "media": [{"id": 4, "url": "v"}], "tags": []}}]
            """#)
        #expect(model.entities.map(\.name) == ["Status", "User", "Media"])
        let status = model.entities[0]
        #expect(
            types(status) == [
                "id: integer64", "text: string", "tags: transformable", "geo_lat: double", "geo_lon: double",
            ])
        let links = status.relationships.map {
            "\($0.name) \(model.entities[$0.destination].name) \($0.isToMany) \($0.assignment.rawValue)"
        }
        #expect(
            links == [
                "user User false union", "media Media true replace", "retweeted_status Status false union",
            ])
        #expect(model.entities.map(identity) == [["id"], ["id"], ["id"]])
        #expect(text.contains("missing or null in 2 of 3"), "\(text)")
    }

    @Test(arguments: [
        (#"[{"id": 1, "a": 1}, {"id": 1, "a": 2}]"#, ["id"]),
        (#"[{"id": 1, "a": 1}, {"id": 1, "a": 2}, {"id": 1, "a": 3}]"#, [String]()),
        (#"[{"id": 1, "type": "a", "b": 1}, {"id": 1, "type": "c", "b": 2}]"#, ["id", "type"]),
        (#"[{"id": 1, "a": 1}, {"id": 1, "a": 1}]"#, ["id"]),
        (#"[{"id": 1}, {"a": 2}]"#, []), (#"[{"id": 1}, {"id": null}]"#, []), (#"[{"id": 1.5}]"#, []),
        (#"[{"id": "a"}, {"id": 1}]"#, []), (#"[{"_id": "a", "x": {"b": 1}}, {"_id": "a", "x": {"b": 2}}]"#, ["_id"]),
        (#"[{"thing_id": 1}]"#, ["thing_id"]), (#"[{"thingId": 1, "other_id": 2}]"#, ["thingId"]),
        (#"[{"other_id": 1}]"#, []), (#"[{"uuid": "68753A44-4D6F-1226-9C60-0050E4C00067"}]"#, ["uuid"]),
        (#"[{"id": 1, "n": 1}, {"n": 1, "id": 1}]"#, ["id"]),
    ])
    func `a key that every object has, with different content for different objects, is the identity`(
        records: String, identity: [String]
    ) throws {
        let entity = try infer("Thing", records).model.entities[0]
        #expect(entity.identity.map { entity.attributes[$0].name } == identity)
    }

    @Test func `keys that cannot be names are renamed, or skipped and reported`() throws {
        let (model, text) = try infer(
            "T", #"[{"id": 1, "ID": 2, "a.b": 3, "": 4, "_pk": 5, "q\"'é": 6, "x\u0001": 7, "rowid": 8}]"#)
        #expect(
            model.entities[0].attributes.map { "\($0.name) \($0.keyPaths[0][0])" } == [
                "id id", "ID2 ID", "_pk2 _pk", "q_é q\"'é", "rowid rowid",
            ])
        #expect(text.contains(#"\"a.b\""#))
    }

    @Test func `dictionaries with very many keys and deep nesting stay JSON`() throws {
        let many = (0..<400).map { "\"k\($0)\": \($0 % 2 == 0 ? "1" : "{\"v\": 1}")" }.joined(separator: ",")
        let model = try infer("T", "[{\"id\": 1, \"map\": {\(many)}}]").model
        #expect(types(model.entities[0]) == ["id: integer64", "map: transformable"])
        let deep = String(repeating: #"{"a": {"b": "#, count: 60) + "1" + String(repeating: "}}", count: 60)
        #expect(try infer("T", deep).model.entities.count <= ObjectShape.deepest + 1)
    }

    @Test func `the same samples give the same model text`() throws {
        let records = #"[{"b": {"x": 1}, "a": [{"y": 1}], "c": {"x": 2}, "id": 1, "code": "q"}]"#
        let first = try infer("T", records).text
        for _ in 0..<5 { #expect(try infer("T", records).text == first) }
    }
}
