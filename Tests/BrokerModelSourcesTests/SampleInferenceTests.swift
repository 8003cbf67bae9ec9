import BrokerJSON
import BrokerModel
import BrokerStaging
import Testing

@testable import BrokerModelSources

@Suite(.timeLimit(.minutes(5))) struct SampleInferenceTests {
    private func infer(
        _ entity: String, _ records: String, readsTexts: Bool = false
    ) throws -> (model: Model, text: String) {
        let inferred = try Samples(entity, records, readsTexts: readsTexts).inferred()
        return (try StagingPlan(ModelReader.read(inferred.document)).model, inferred.document.root.indentedJSON)
    }

    private func identity(_ entity: Entity) -> [String] { entity.identity.map { entity.attributes[$0].name } }

    /// `name: type` of each attribute.
    private func types(_ entity: Entity) -> [String] { entity.named.map { "\($0.name): \($0.type.rawValue)" } }

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

    @Test func `MongoDB's numbers, ids and dates have their types`() throws {
        let (model, text) = try infer(
            "T",
            #"""
            [{"_id": {"$oid": "5f"}, "n": {"$numberLong": "9007199254740993"}, "i": 1, "d": {"$date": "2012-09-24T03:35:21Z"},
              "m": {"$date": {"$numberLong": "1348457721000"}}, "e": {"$numberDecimal": "0.12345678901234567"}},
             {"_id": "x", "n": {"$numberInt": "7"}, "i": {"$numberLong": "2"}, "d": null,
              "m": {"$date": {"$numberLong": "1348457722000"}}, "e": 1}]
            """#)
        #expect(
            types(model.entities[0]) == [
                "_id: string", "n: integer64", "i: integer64", "d: date", "m: date", "e: decimal",
            ])
        #expect(identity(model.entities[0]) == ["_id"])
        #expect(text.contains(#""key": ["_id.$oid", "_id"]"#) && text.contains(#""format": "UnixTime""#), "\(text)")
        #expect(model.entities[0].attributes[1].keyPaths == [["n", "$numberLong"], ["n", "$numberInt"]])
    }

    @Test func `a value in another wrapper joins the attribute, before the wrapper itself`() throws {
        let (model, document) = try Samples("T", #"[{"id": 1, "v": {"$numberLong": "5"}}, {"id": 2, "v": 6}]"#).model()
        let later = try Samples("T", #"[{"id": 3, "v": {"$numberInt": "7"}}]"#).inferred(extending: model)
        let paths = try ModelReader.read(later.extension.applied(to: document)).entities[0].attributes[1].keyPaths
        #expect(paths == [["v", "$numberLong"], ["v", "$numberInt"], ["v"]])
    }

    @Test func `objects under the keys of paths that mean something else are JSON`() throws {
        let (model, document) = try Samples("T", #"[{"id": 1, "@parent": {"$oid": "5f"}, "@record": 1}]"#).model()
        #expect(types(model.entities[0]) == ["id: integer64", "parent: transformable", "record: integer64"])
        let later = try Samples("T", #"[{"id": 2, "@parent": {"x": 1}, "@record": {"$oid": "5f"}}]"#)
        let extended = try ModelReader.read(later.inferred(extending: model).extension.applied(to: document))
        #expect(types(extended.entities[0]) == ["id: integer64", "parent: transformable", "record: transformable"])
    }

    @Test func `one record with many keys that are codes is a dictionary of values, and no record`() throws {
        let members = (0..<50).map { "\"1.\($0).0-beta\": \"a\"" }.joined(separator: ",")
        #expect(try !Samples("T", "[{\(members)}]").inferred().hasValues)
        #expect(try Samples("T", "[{\"id\": 1, \(members)}]").inferred().hasValues)
    }

    @Test(arguments: [
        ("2012-09-24T03:35:21.5Z", 3), ("2012-09-24T03:35:21.123456Z", 6), ("2012-09-24T03:35:21.1234560Z", 6),
        ("2012-09-24T03:35:21.1234567Z", 9),
    ])
    func `a date keeps the digits of its second`(text: String, precision: Int) throws {
        let attribute = try infer("T", "[{\"a\": \"\(text)\"}]").model.entities[0].attributes[0]
        #expect(attribute.type == .date && attribute.precision == precision)
    }

    @Test(arguments: [
        ("1.5, 9007199254740993", "decimal"), ("9007199254740993, 1.5", "decimal"), ("1.5, 9007199254740992", "double"),
        ("-1e400", "decimal"), ("1e-400, 1", "decimal"), ("9007199254740993", "integer64"), ("1.50, 2", "double"),
        ("0.30000000000000004, 52.52000659999999", "double"), ("0.30000000000000002", "decimal"),
    ])
    func `numbers have a type that holds all of them`(values: String, type: String) throws {
        let records = values.split(separator: ", ").map { "{\"a\": \($0)}" }.joined(separator: ",")
        #expect(try infer("T", "[\(records)]").model.entities[0].attributes[0].type.rawValue == type)
    }

    @Test(arguments: [
        ("hashes", "hash"), ("has", "has"), ("alias", "alias"), ("aliases", "alias"), ("game_indices", "game_index"),
        ("statuses", "status"), ("mastodon_statuses", "mastodon_status"), ("caches", "cache"), ("houses", "house"),
        ("databases", "database"), ("prices", "price"), ("boxes", "box"), ("cities", "city"), ("series", "series"),
        ("children", "child"), ("addresses", "address"), ("address", "address"), ("analysis", "analysis"),
        ("ids", "id"), ("gas", "gas"), ("media", "media"), ("users", "user"), ("branches", "branch"), ("news", "news"),
        ("responses", "response"), ("movies", "movie"), ("axes", "axis"), ("areas", "area"),
    ])
    func `names of entities are singulars, or the key`(key: String, name: String) {
        #expect(EntityName.singular(key) == name)
    }

    @Test func `a table needs no quotes in SQL`() throws {
        let model = try infer("Order", #"[{"id": 1, "index": {"id": 2}}]"#).model
        #expect(model.entities.map { "\($0.name) \($0.table)" } == ["Order Orders", "Index Indices"])
        let taken = try infer("Order", #"[{"id": 1, "orders_": {"id": 2}}]"#).model
        #expect(taken.entities[0].table == "Orders")
    }

    @Test func `objects in a dictionary may have an object under the key key`() throws {
        let members = (0..<9).map { "\"A\($0)\": {\"key\": {\"x\": \($0)}, \"v\": 1}" }.joined(separator: ",")
        let (model, text) = try infer("T", "[{\"id\": 1, \"rates\": {\(members)}}]")
        #expect(types(model.entities[1]).contains("key_x: integer64"), "\(text)")
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
        #expect(links == ["user User false union", "media Media true replace", "retweeted_status Status false union"])
        #expect(model.entities.map(identity) == [["id"], ["id"], ["id"]])
        #expect(text.contains("missing or null in 2 of 3"), "\(text)")
    }

    @Test(arguments: [
        (#"[{"id": 1, "a": 1}, {"id": 1, "a": 2}]"#, [String]()),
        (#"[{"id": 1, "updated_at": 1, "a": 1}, {"id": 1, "updated_at": 2, "a": 2}]"#, []),
        (#"[{"id": 1, "a": 1}, {"id": 1, "a": null}]"#, []), (#"[{"id": 1, "a": 1}, {"id": 1, "b": 2}]"#, ["id"]),
        (#"[{"id": 1, "type": "a", "b": 1}, {"id": 1, "type": "c", "b": 2}]"#, ["id", "type"]),
        (#"[{"id": 1, "a": 1}, {"id": 1, "a": 1}]"#, ["id"]),
        (#"[{"id": 1}, {"a": 2}]"#, []), (#"[{"id": 1}, {"id": null}]"#, []), (#"[{"id": 1.5}]"#, []),
        (#"[{"id": "a"}, {"id": 1}]"#, ["id"]), (#"[{"id": "1", "a": 1}, {"id": 1, "a": 2}]"#, []),
        (#"[{"id": 1.5}, {"id": 9007199254740993}]"#, ["id"]),
        (#"[{"_id": "a", "x": {"b": 1}}, {"_id": "a", "x": {"b": 2}}]"#, []),
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

    @Test func `keys that cannot be names are renamed, and named as they are`() throws {
        let (model, text) = try infer(
            "T", #"[{"id": 1, "ID": 2, "a.b": 3, "": 4, "_pk": 5, "q\"'é": 6, "x\u0001": 7, "rowid": 8}]"#)
        #expect(
            model.entities[0].named.map { "\($0.name) \($0.keyPaths[0][0])" } == [
                "id id", "ID2 ID", "a_b a.b", "column ", "_pk2 _pk", "q_é q\"'é", "x x\u{01}", "rowid rowid",
            ])
        #expect(text.contains(#""key": ["a.b"]"#) && text.contains(#""key": [""]"#), "\(text)")
        let nested = try infer("T", #"[{"id": 1, "o": {"a.b": 1, "c": 2}}]"#)
        #expect(nested.model.entities[0].named.map(\.keyPaths) == [[["id"]], [["o", "a.b"]], [["o", "c"]]])
        #expect(nested.text.contains(#""key": [["o", "a.b"]]"#), "\(nested.text)")
        // No words of the model's own.
        let reserved = try infer("T", #"[{"id": 1, "@parent.id": 2, "@record.@content": 3}]"#)
        #expect(
            reserved.model.entities[0].named.map(\.keyPaths) == [[["id"]], [["@parent.id"]], [["@record.@content"]]])
        let long = String(repeating: "long header ", count: 30)
        let name = try infer("T", "[{\"\(long)\": 1}]").model.entities[0].attributes[0].name
        #expect(name.hasPrefix("long_header_long_header") && name.utf8.count <= 120)
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

@Suite(.timeLimit(.minutes(5))) struct ScalarShapeTests {
    private func shape(_ values: String) throws -> ScalarShape {
        let document = try JSONDocument(parsing: JSONText(copying: Array("[\(values)]".utf8)))
        var shape = ScalarShape()
        withExtendedLifetime(document) { for value in document.root.elements { shape.observe(value) } }
        return shape
    }

    @Test(arguments: [
        (#""1", "-20", "0""#, "integer64"), (#""1", "007""#, "string"), (#""1", "+5""#, "string"),
        (#""1", "1.5""#, "double"), (#""1", "9223372036854775808""#, "decimal"), (#""0.1234567890123456""#, "double"),
        (#""0.1234567890123456789""#, "decimal"),
        (#""1", "x""#, "string"), (#""1", """#, "string"), (#""true", "False""#, "boolean"),
        (#""true", "no""#, "string"),
        (#""yes", "No""#, "boolean"), (#""NO", "NO""#, "string"), (#""yes""#, "string"), (#""0", "1""#, "integer64"),
        (#""2012-09-24T00:00:00Z", "2012-09-24T00:00:00+02:00""#, "date"),
        (#""2012-09-24T00:00:00Z", "2012-09-24""#, "string"),
        (#""2012-09-24T00:00:00Z", "2012-09-24 00:00""#, "string"),
        (#""1.1", "1.10""#, "string"), (#""1.50", "12.00", "3""#, "double"), (#""1.0", "1.25""#, "double"),
        (#""9007199254740993", "1.5""#, "decimal"), (#""1.5", "9007199254740993""#, "decimal"),
        (#""c8753a44-4d6f-1226-9c60-0050e4c00067""#, "string"), (#""2012", "2012-09-24""#, "string"),
    ])
    func `texts of formats without types have the type that all of them have`(values: String, type: String) throws {
        #expect(try shape(values).type(key: "a", readsTexts: true).type.rawValue == type)
        // JSON has types, so that a text is one.
        let written = try shape(values).type(key: "a").type
        #expect(written == (type == "date" ? .date : .string))
    }

    @Test(arguments: [
        (#""5/9/2012", "24/9/2012""#, ["dd/MM/yyyy"]), (#""5/9/2012", "9/24/2012""#, ["MM/dd/yyyy"]),
        (#""5/9/2012""#, []),
        (#""24/9/2012", "9/24/2012""#, []), (#""05-09-2012", "24-09-2012""#, ["dd-MM-yyyy"]),
        (#""5.9.2012""#, ["dd.MM.yyyy"]),
        (#""5.9.2012", "5/9/2012""#, []),
    ])
    func `the order of day and month is that which all texts allow`(values: String, formats: [String]) throws {
        let type = try shape(values).type()
        #expect(type.type == (formats.isEmpty ? .string : .calendarDate))
        #expect(type.format == formats.first)
    }

    @Test(arguments: ["zip", "Postal Code", "homePhone", "ean"])
    func `numbers at the key of a code remain texts`(key: String) throws {
        #expect(try shape(#""10115", "20095""#).type(key: key, readsTexts: true).type == .string)
    }

    @Test(arguments: [
        ("created_at", "1348457721", true), ("createdAt", "1348457721, 1600000000.5", true),
        ("time", "1348457721", true),
        ("Last Modified", "1348457721000, 1600000000000", true), ("dateAdded", "1348457721", true),
        ("created_at", "1348457721, 5", false), ("created_at", "1348457721, 1348457721000", false),
        ("created_at", "631152000000", false), ("runtime", "1348457721", false), ("id", "1348457721", false),
        ("at", "5", false), ("created_at", "1348457721, \"x\"", false),
    ])
    func `numbers are dates when the key and all values say so`(key: String, values: String, isDate: Bool) throws {
        let type = try shape(values).type(key: key)
        #expect((type.type == .date) == isDate)
        #expect(type.format == (isDate ? "UnixTime" : nil))
        guard !values.contains("\"") else { return }
        let texts = values.split(separator: ", ").map { "\"\($0)\"" }.joined(separator: ",")
        #expect((try shape(texts).type(key: key, readsTexts: true).type == .date) == isDate)
        #expect(try shape(texts).type(key: key).type == .string)
    }

    @Test func `shapes of two places have the evidence of both`() throws {
        var first = try shape(#""yes", "yes""#)
        first.merge(try shape(#""no""#))
        #expect(first.type(key: "a", readsTexts: true).type == .boolean)
        var second = try shape("1348457721")
        second.merge(try shape("5, 1348457721"))
        #expect(second.type(key: "time").type == .integer64)
        second.merge(ScalarShape())
        #expect(second.type(key: "time").type == .integer64)
    }
}

/// Records from which a model is inferred.
struct Samples {
    private var inference: SampleInference

    init(_ entity: String, _ records: String, isMap: Bool = false, readsTexts: Bool = false) throws {
        inference = SampleInference(entity: entity, readsTexts: readsTexts)
        let document = try JSONDocument(parsing: JSONText(copying: Array(records.utf8)))
        withExtendedLifetime(document) { inference.observe(document.root, isMap: isMap) }
    }

    func inferred(
        identities: [String: [String]] = [:], ignored: [String: [String]] = [:], extending model: Model? = nil
    ) -> InferenceResult {
        inference.model(identities: identities, ignored: ignored, extending: model)
    }

    /// The inferred model, and its document.
    func model() throws -> (model: Model, document: ModelDocument) {
        let document = inferred().document
        return (try StagingPlan(ModelReader.read(document)).model, document)
    }
}

extension ModelExtension {
    /// No part of the model is other than before; there are new ones.
    var onlyAdds: Bool { changes.allSatisfy(\.isAddition) }
}

@Suite(.timeLimit(.minutes(5))) struct IdentityChoiceTests {
    private func identity(
        _ records: String, of entity: String = "Thing", at index: Int = 0
    ) throws -> [String] {
        let model = try ModelReader.read(Samples(entity, records).inferred().document)
        return model.entities[index].identity.map { model.entities[index].attributes[$0].name }
    }

    private func records(_ count: Int, _ record: (Int) -> String) -> String {
        "[\((0..<count).map(record).joined(separator: ", "))]"
    }

    @Test(arguments: [
        (#"[{"name": "a", "code": "x"}, {"name": "b", "code": "y"}]"#, []),
        (#"[{"url": "u", "slug": "s"}]"#, []),
        (#"[{"_id": {"$oid": "5f"}, "n": 1}, {"_id": {"$oid": "60"}, "n": 1}]"#, ["_id"]),
        (#"[{"objectID": "a", "title": "t"}]"#, ["objectID"]),
        (#"[{"thingId": 7, "name": "n"}]"#, ["thingId"]), (#"[{"userId": 7, "name": "n"}]"#, []),
        (#"[{"@id": "a", "x": 1}]"#, ["id"]),
        // By the place: the first key, if it differs in several records, and the keys of a table that joins others.
        (#"[{"page_id": 7, "name": "n"}, {"page_id": 8, "name": "o"}]"#, ["page_id"]),
        (#"[{"name": "n", "page_id": 7}, {"name": "o", "page_id": 8}]"#, []),
        (#"[{"sku": "a", "v": 1}, {"sku": "b", "v": 1}]"#, ["sku"]), (#"[{"sku": "a"}, {"sku": "a"}]"#, []),
        (#"[{"code": "a", "v": 1}]"#, []), (#"[{"code": 1.5}, {"code": 2.5}]"#, []),
        (#"[{"key": "2012-09-24"}, {"key": "2012-09-25"}]"#, []),
        (
            #"[{"user_id": 1, "group_id": 1, "r": "a"}, {"user_id": 1, "group_id": 2, "r": "a"}]"#,
            ["user_id", "group_id"]
        ),
        (#"[{"user_id": 1, "group_id": 1, "r": 1}, {"user_id": 1, "group_id": 1, "r": 2}]"#, []),
        // MongoDB's of two kinds.
        (#"[{"_id": {"$oid": "5f"}}, {"_id": "a"}, {"_id": 18446744073709551615}]"#, ["_id"]),
        (#"[{"id": "", "n": 1}]"#, []),
    ])
    func `a key that is named like an identifier identifies, and no other`(records: String, expected: [String]) throws {
        #expect(try identity(records) == expected)
    }

    @Test func `an identity has the texts that were sent, or integers`() throws {
        let type = { (records: String, readsTexts: Bool) in
            let model = try ModelReader.read(Samples("Thing", records, readsTexts: readsTexts).inferred().document)
            return model.entities[0].attributes[model.entities[0].identity[0]].type
        }
        #expect(try type(#"[{"id": 1}, {"id": -2}]"#, false) == .integer64)
        #expect(try type(#"[{"id": "1"}, {"id": "2"}]"#, true) == .integer64)
        for id in ["18446744073709551615", "1.0, \"x\": 2}, {\"id\": 2", "\"1\"", "\"2012-09-24\""] {
            #expect(try type("[{\"id\": \(id)}, {\"id\": 7}]", false) == .string, "\(id)")
        }
        #expect(try type(#"[{"id": "68753A44-4D6F-1226-9C60-0050E4C00067"}]"#, false) == .string)
        #expect(try type(#"[{"id": "1.1"}, {"id": "1.10"}]"#, true) == .string)
    }

    @Test func `words in place of a key say that the content identifies, or nothing`() throws {
        let records = #"[{"id": 1, "lines": [{"n": 1}]}, {"id": 2, "lines": []}]"#
        let content = try Samples("Order", records).inferred(identities: ["Order": ["content"]])
        let model = try StagingPlan(ModelReader.read(content.document)).model
        #expect(model.entities[0].identity.map { model.entities[0].attributes[$0].name } == ["_content"])
        #expect(model.entities[0].attributes[model.entities[0].identity[0]].holderValue == .content)
        #expect(!model.entities[0].isIdentityGuessed && model.entities[0].table == "Orders")
        // A later load knows the records by their keys.
        let later = try Samples("Order", #"[{"id": 3, "new": 1}]"#).inferred(extending: model)
        #expect(try ModelReader.read(later.extension.applied(to: content.document)).entities[0].named.count == 3)
        let none = try Samples("Order", records).inferred(identities: ["Order": ["none"]])
        #expect(try ModelReader.read(none.document).entities[0].identity.isEmpty)
        #expect(
            none.identities[0].text == "each run adds its records again, as --identity none says; its table is Orders")
    }

    @Test(arguments: [
        (#"{"id": "a"}"#, "string"), (#"{"id": {"x": 1}}"#, "integer64"), (#"{"id": [1]}"#, "integer64"),
        (#"{"id": 18446744073709551615}"#, "string"),
    ])
    func `an identity becomes a text, and never JSON`(later: String, type: String) throws {
        let (model, document) = try Samples("Thing", #"[{"id": 1, "a": 1}]"#).model()
        let changes = try Samples("Thing", "[\(later)]").inferred(extending: model).extension
        let extended = try ModelReader.read(changes.applied(to: document)).entities[0]
        #expect(extended.attributes[extended.identity[0]].type.rawValue == type)
    }

    @Test func `a dictionary that is loaded again changes nothing`() throws {
        let records = "{\((0..<9).map { "\"A\($0)\": {\"key\": {\"x\": \($0)}, \"v\": 1}" }.joined(separator: ","))}"
        let model = try Samples("Thing", records, isMap: true).model().model
        #expect(try Samples("Thing", records, isMap: true).inferred(extending: model).extension.isEmpty)
    }

    @Test func `a later input that contradicts a guess is counted, and a person's word ends the guess`() throws {
        let (model, document) = try Samples("Thing", #"[{"id": 1, "a": 1}, {"id": 2, "a": 2}]"#).model()
        #expect(model.entities[0].isIdentityGuessed)
        let later = try Samples("Thing", #"[{"id": 3, "a": 1}, {"id": 4, "a": 2}, {"id": 3, "a": 3}]"#)
        #expect(later.inferred(extending: model).contradictions.map(\.count) == [1])
        let same = try Samples("Thing", #"[{"id": 1, "a": 5}, {"id": 1, "a": 5}]"#)
        #expect(same.inferred(extending: model).contradictions.map(\.count) == [0])
        let named = later.inferred(identities: ["Thing": ["id"]], extending: model)
        #expect(named.contradictions.isEmpty)
        #expect(try !ModelReader.read(named.extension.applied(to: document)).entities[0].isIdentityGuessed)
    }

    @Test func `an id with other values is none, and identifies with what numbers or dates its objects`() throws {
        let feed = records(20) {
            #"{"id": \#($0 % 4), "title": "t\#($0 % 4)", "votes": \#($0), "state": "open", "by": "b\#($0 % 4)"}"#
        }
        #expect(try identity(feed) == [])
        let readings = records(20) {
            #"{"id": \#($0 % 2), "date": "2024-01-\#(10 + $0)", "value": \#($0), "min": \#($0 * 2), "max": \#($0 * 3)}"#
        }
        #expect(try identity(readings) == ["id", "date"])
    }

    @Test(arguments: [
        // Unique in two parents, but only twice.
        (#"[{"id": 1, "tags": [{"code": "a", "n": 1}]}, {"id": 2, "tags": [{"code": "b", "n": 1}]}]"#, 1),
        // Key and value.
        (#"[{"id": 1, "tags": [{"key": "a", "value": 1}]}, {"id": 2, "tags": [{"key": "a", "value": 1}]}]"#, 1),
        // Equal ones in one list are two.
        (
            #"[{"id": 1, "tags": [{"code": "a", "n": 1}, {"code": "a", "n": 1}, {"code": "a", "n": 1}, {"code": "a", "n": 1}]}]"#,
            1
        ),
        // Numbered in each parent.
        (#"[{"id": 1, "tags": [{"id": 1, "n": 1}, {"id": 2, "n": 5}]}]"#, 1),
        (#"[{"id": 1, "tags": [{"id": 8, "n": 1, "m": 1}]}, {"id": 2, "tags": [{"id": 8, "n": 5, "m": 6}]}]"#, 1),
    ])
    func `nested objects without an identity of their own belong to their parent`(records: String, owned: Int) throws {
        let model = try Samples("Order", records).model().model
        #expect(model.entities[0].relationships.count(where: \.isOwned) == owned)
    }

    @Test func `nested objects of one id that differ are columns, whatever others agree`() throws {
        let kinds = [7, 7, 23].enumerated().map { #"{"id": \#($0), "kind": {"id": "a", "v": \#($1)}}"# }
        #expect(try Samples("Thing", "[\(kinds.joined(separator: ","))]").model().model.entities.count == 1)
    }

    @Test func `nested objects that several parents share have the identifier that they all have`() throws {
        let shared = records(10) {
            #"{"id": \#($0), "license": {"id": "k\#($0 % 2)", "name": "n\#($0 % 2)"}, "labels": [{"label_id": \#($0 % 3), "color": "c\#($0 % 3)"}]}"#
        }
        #expect(try identity(shared, at: 1) == ["id"])
        #expect(try identity(shared, at: 2) == ["label_id"])
    }

    @Test func `evidence is bounded, and more values than are compared are not called unique`() {
        let budget = EvidenceBudget(rows: 2, values: 3)
        var values = DistinctValues()
        for value in 0..<3 { values.insert(value, budget) }
        #expect(values.areUnique)
        values.insert(3, budget)
        #expect(!values.areUnique)
        var rows = RowSample(budget)
        for row in 0..<3 {
            rows.begin(inList: nil)
            rows.note(row, at: 0)
        }
        #expect(rows.count == 2 && rows.isCut && !rows.areUnique(together: [0]))
    }

    @Test func `an object without a value at a key repeats none, wherever it is among the others`() {
        // By object, the hash at each column; the last one is of the values without a column.
        func sample(_ objects: [[Int?]]) -> RowSample {
            var rows = RowSample(EvidenceBudget())
            for object in objects {
                rows.begin(inList: nil)
                for (column, hash) in object.enumerated() { if let hash { rows.note(hash, at: column) } }
            }
            return rows
        }
        let rows = sample([[1], [nil, 5], [1, 7], [nil, 5], [2]])
        #expect(rows.repetitions(at: [0]) == (1, 0) && rows.repetitions(at: [1]) == (1, 0))
        #expect(!rows.areUnique(together: [0]) && !rows.isConstant && sample([[1], [1]]).isConstant)
        #expect(sample([[1, 5], [1, 7]]).repetitions(at: [0]) == (1, 1))
        var merged = sample([[1], [2]])
        merged.merge(sample([[9, 2], [nil, 3]]), [1, 0])
        #expect(merged.count == 4 && merged.repetitions(at: [0]) == (1, 0) && merged.repetitions(at: [1]) == (0, 0))
    }

    @Test func `a named identity is used, and its candidates are known`() throws {
        let inferred = try Samples("Thing", #"[{"id": 1, "a": "x", "b": 2}, {"id": 2, "a": "x", "b": 3}]"#)
            .inferred(identities: ["Thing": ["a", "b"]])
        let model = try ModelReader.read(inferred.document)
        #expect(model.entities[0].identity.map { model.entities[0].attributes[$0].name } == ["a", "b"])
        #expect(inferred.keys["Thing"]?.filter { $0.nonidentityReason == nil }.map(\.path) == ["id", "a", "b"])
        #expect(inferred.identities.map(\.text) == ["identified by a and b (as --identity says)"])
        let repeated = try Samples("Thing", #"[{"n": "a", "v": 1}, {"n": "a", "v": 2}]"#).inferred(identities: [
            "Thing": ["n"]
        ])
        #expect(repeated.identities[0].text.contains("1 of 2 repeat an earlier one, and replace it"))
        // A key of a nested object is not compared by what is around it.
        let nested = try Samples("Thing", #"[{"o": {"n": "a"}, "v": 1}, {"o": {"n": "b"}, "v": 2}]"#).inferred(
            identities: [
                "Thing": ["o.n"]
            ])
        #expect(nested.identities[0].text == "identified by o_n (as --identity says)")
        let big = try Samples("Thing", #"[{"n": 18446744073709551615, "t": true}, {"n": 7, "t": false}]"#).inferred()
        let reasons = big.keys["Thing"]?.map { $0.nonidentityReason ?? "none" }
        #expect(reasons == ["none", "its values are booleans; whole numbers or texts identify"])
    }
}

@Suite(.timeLimit(.minutes(5))) struct ModelDesignTests {
    private func model(_ entity: String, _ records: String) throws -> Model {
        try Samples(entity, records).model().model
    }

    private func keys(_ entity: Entity) -> [String] {
        entity.named.map { "\($0.name)=\($0.keyPaths.map { $0.joined(separator: ".") }.joined(separator: ","))" }
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

    private func types(_ entity: Entity) -> [String] { entity.named.map { "\($0.name): \($0.type.rawValue)" } }

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
        #expect(model.entities[0].named.count == 3)
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
            "Thing", #"[{"uuid": "a", "n": 1}, {"uuid": "b", "n": 1}]"#, by: #"[{"id": 1, "uuid": "c", "n": 2}]"#)
        #expect(model.entities[0].identity.map { model.entities[0].attributes[$0].name } == ["uuid"])
        #expect(types(model.entities[0]) == ["uuid: string", "n: integer64", "id: integer64"])
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

    @Test func `an inferred model evolves, and has extra values`() throws {
        let (model, document) = try Samples("Thing", #"[{"id": 1, "part": {"id": 2}, "lines": [{"n": 1}]}]"#).model()
        #expect(model.evolves && model.entities.allSatisfy { $0.extra != nil })
        var legacy = document
        legacy.root.set(["evolve"], nil)
        #expect(try !ModelReader.read(legacy).evolves)
        legacy.root.set(["inferred"], .text("9a"))
        #expect(try ModelReader.read(legacy).evolves)
    }

    @Test func `what is left of the changes for an edited model only adds to it`() throws {
        let (changes, _) = try extended(
            "Thing", #"[{"id": 1, "n": 1, "s": null}]"#, by: #"[{"id": 2, "n": 1.5, "new": 1, "s": 1}]"#)
        #expect(!changes.onlyAdds && changes.addingOnly().onlyAdds && !changes.addingOnly().isEmpty)
    }
}

extension Entity {
    /// The attributes but for `_extra`, which each inferred entity has.
    fileprivate var named: [Attribute] { attributes.filter { !$0.isExtra } }
}
