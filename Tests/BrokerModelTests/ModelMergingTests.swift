import BrokerJSON
import Testing

@testable import BrokerModel

/// The changes of an override, and the unchanged parts.
@Suite(.timeLimit(.minutes(5))) struct ModelMergingTests {
    private func document(_ text: String, _ source: String) throws -> ModelDocument {
        try ModelDocument(parsing: JSONText(copying: Array(text.utf8)), source: source)
    }

    private func merged(_ first: String, _ others: String...) throws -> ModelDocument {
        var document = try document(first, "1.json")
        for (index, text) in others.enumerated() {
            document = document.merged(with: try self.document(text, "\(index + 2).json"))
        }
        return document
    }

    private func text(_ document: ModelDocument) -> String {
        var writer = JSONWriter()
        document.root.write(to: &writer)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    private let company = """
        {"entities": {
        "A": {"identity": "id", "attributes": {"id": "integer64", "day": {"type": "date", "key": "d"}, "x": "string"},
          "relationships": {"b": {"entity": "B", "inverse": "a"}}},
        "B": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {"a": {"entity": "A", "toMany": true}}}},
        "mappings": {"one": {"entity": "A"}, "two": {"entity": "B", "attributes": {"k": "id"}}},
        "routes": [{"keyPath": "as", "mapping": "one"}]}
        """

    @Test func `objects are merged by key, other values replaced, new ones added`() throws {
        let document = try merged(
            company,
            """
            {"keyStyle": "snakeCase", "entities": {
              "A": {"table": "aa", "attributes": {"day": {"format": "yyyy"}, "x": {"key": "y"}, "new": "double"},
                "relationships": {"b": {"deleteRule": "cascade"}}},
              "C": {"attributes": {"c": "string"}}}}
            """)
        let model = try ModelReader.read(document)
        #expect(model.entities.map(\.name) == ["A", "B", "C"])
        let a = model.entities[0]
        #expect(a.table == "aa" && a.identity == [0])
        #expect(a.attributes.map(\.name) == ["id", "day", "x", "new"])
        #expect(a.attributes[1].dateFormats == ["yyyy"] && a.attributes[1].keyPaths == [["d"]])
        #expect(a.attributes[2].type == .string && a.attributes[2].keyPaths == [["y"]])
        #expect(a.relationships[0].deleteRule == .cascade && a.relationships[0].inverse == 0)
    }

    @Test func `null removes a part, and so does an empty identity`() throws {
        let document = try merged(
            company,
            """
            {"entities": {"A": {"identity": [], "attributes": {"x": null, "day": {"key": null}}, "relationships": null},
              "B": null}, "mappings": {"two": null, "one": null}}
            """)
        #expect(
            text(document)
                == #"{"entities":{"A":{"attributes":{"id":"integer64","day":{"type":"date"}}}},"#
                + #""mappings":{},"routes":[{"keyPath": "as", "mapping": "one"}]}"#)
        #expect(document.faults == [])
    }

    @Test func `a plain type over an object changes the type alone`() throws {
        let document = try merged(company, #"{"entities": {"A": {"attributes": {"day": "string", "x": "uri"}}}}"#)
        #expect(text(document).contains(#""day":{"type":"string","key":"d"},"x":"uri""#))
    }

    @Test func `mappings and routes may come alone, and routes go before those that are there`() throws {
        let document = try merged(
            company,
            #"{"mappings": {"three": {"entity": "B"}, "two": {"attributes": {"l": "id"}}}, "routes": [{"keyPath": "x"}]}"#,
            #"{"routes": [{"keyPath": "y"}]}"#)
        #expect(
            text(document).contains(
                #""mappings":{"one":{"entity": "A"},"two":{"entity":"B","attributes":{"k":"id","l":"id"}},"#
                    + #""three":{"entity": "B"}},"routes":[{"keyPath": "y"},{"keyPath": "x"},{"keyPath": "as", "mapping": "one"}]"#
            ))
    }

    @Test func `a select, a default and an enum are replaced whole, with the nulls in them`() throws {
        let document = try merged(
            #"{"entities": {"A": {"attributes": {"t": {"type": "transformable", "default": {"a": 1}}}}}, "#
                + #""mappings": {"m": {"select": {"key": "k", "cases": {"a": "b"}}}}}"#,
            #"{"entities": {"A": {"attributes": {"t": {"default": {"b": null}}}}}, "#
                + #""mappings": {"m": {"select": {"key": "l", "otherwise": null}}}}"#)
        #expect(text(document).contains(#""default":{"b": null}"#))
        #expect(text(document).contains(#""select":{"key": "l", "otherwise": null}"#))
    }

    @Test func `a missing part that an override names is reported where it is written`() throws {
        let document = try merged(
            company,
            """
            {"entities": {"AA": null,
              "A": {"attributes": {"dya": null}, "relationships": {"c": null}}},
             "mappings": {"tow": null}, "routes": null}
            """)
        let error = try #require(throws: ModelError.self) { try ModelReader.read(document) }
        #expect(
            error.faults.map(\.description) == [
                "2.json: line 1, column 16 (/entities/AA): there is no entity \"AA\" to remove; did you mean \"A\"?",
                "2.json: line 2, column 25 (/entities/A/attributes/dya): there is no attribute \"dya\" to remove; "
                    + "did you mean \"day\"?",
                "2.json: line 2, column 57 (/entities/A/relationships/c): there is no relationship \"c\" to remove; "
                    + "did you mean \"b\"?",
                "2.json: line 3, column 16 (/mappings/tow): there is no mapping \"tow\" to remove; did you mean \"two\"?",
            ])
    }

    @Test func `faults name the file of the value, and are ordered by file`() throws {
        let document = try merged(
            #"{"entities": {"A": {"identity": "nix", "attributes": {"a": {"type": "string", "min": 1}}}}}"#,
            "{\"entities\": {\"A\": {\"attributes\": {\"a\": {\"optinal\": true}}}}, \"x\": 1}")
        let error = try #require(throws: ModelError.self) { try ModelReader.read(document) }
        #expect(error.faults.map(\.place.source) == ["1.json", "1.json", "2.json", "2.json"])
    }

    @Test func `a key that occurs twice in an override is reported there`() throws {
        let document = try merged(company, "{\"entities\": {\"A\": {\"table\": \"x\"},\n \"A\": {\"table\": \"y\"}}}")
        #expect(
            document.faults.map(\.description) == [
                "2.json: line 2, column 3 (/entities/A): \"A\" occurs twice here, first on line 1; keep one of them"
            ])
    }

    @Test func `an override that is no object is reported, and an earlier duplicate stays one`() throws {
        let document = try merged(#"{"entities": {"A": {}, "A": {}}}"#, "[]")
        let error = try #require(throws: ModelError.self) { try ModelReader.read(document) }
        #expect(
            error.faults.map(\.message) == [
                "\"A\" occurs twice here, first on line 1; keep one of them",
                "expected an object that describes a model, saw an array",
            ])
    }

    @Test func `an attribute that becomes the identity loses the default of before, not that of the override`() throws {
        let first = #"{"entities": {"A": {"attributes": {"a": {"type": "integer64", "default": 0}}}}}"#
        let document = try merged(first, #"{"entities": {"A": {"identity": "a"}}}"#)
        #expect(try ModelReader.read(document).entities[0].attributes[0].defaultValue == nil)
        let beside = try merged(first, #"{"entities": {"A": {"identity": "a", "attributes": {"a": {"key": "k"}}}}}"#)
        #expect(try ModelReader.read(beside).entities[0].attributes[0].defaultValue == nil)
        let own = try merged(
            first, #"{"entities": {"A": {"identity": ["a"], "attributes": {"a": {"default": 1}}}}}"#)
        #expect(throws: ModelError.self) { try ModelReader.read(own) }
    }

    @Test func `an empty list of keys says that no record brings it`() throws {
        let document = try merged(
            company,
            #"{"entities": {"A": {"attributes": {"x": {"key": []}}, "relationships": {"b": {"key": []}}}}}"#)
        let model = try ModelReader.read(document)
        #expect(model.entities[0].attributes[2].keyPaths == [])
        #expect(model.entities[0].relationships[0].keyPaths == [])
        var writer = JSONWriter()
        model.write(to: &writer)
        let again = try ModelReader.read(JSONText(copying: writer.bytes))
        #expect(again.entities[0].attributes[2].keyPaths == [])
    }
}
