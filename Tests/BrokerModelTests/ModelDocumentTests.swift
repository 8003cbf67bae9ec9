import BrokerJSON
import Testing

@testable import BrokerModel

/// A document from any source is read as a JSON text is.
@Suite(.timeLimit(.minutes(5))) struct ModelDocumentTests {
    private func string(_ text: String, _ source: String, _ line: Int, _ column: Int) -> ModelValue {
        ModelValue(.string(text), at: SourcePlace(source: source, line: line, column: column))
    }

    @Test func `a tree made by hand is read as a model`() throws {
        let nowhere = SourcePlace.unknown
        let id = ModelValue.Member("id", at: nowhere, string("integer64", "", 3, 5))
        let attributes = ModelValue.Member("attributes", at: nowhere, ModelValue(.object([id]), at: nowhere))
        let entity = ModelValue.Member("A", at: nowhere, ModelValue(.object([attributes]), at: nowhere))
        let entities = ModelValue.Member("entities", at: nowhere, ModelValue(.object([entity]), at: nowhere))
        let document = ModelDocument(root: ModelValue(.object([entities]), at: nowhere), sources: [""])
        let model = try ModelReader.read(document)
        #expect(model.entities.map(\.name) == ["A"])
        #expect(
            model.entities[0].attributes[0].place
                == ModelPlace(pointer: "/entities/A/attributes/id", line: 3, column: 5))
    }

    @Test func `faults of several sources are reported source by source, and by line within each`() throws {
        let start = SourcePlace(source: "first", line: 1, column: 1)
        let members = [("a", "second", 1), ("b", "first", 10), ("c", "first", 9)].map { name, source, line in
            ModelValue.Member(
                name, at: SourcePlace(source: source, line: line, column: 2), string("x", source, line, 5))
        }
        let document = ModelDocument(root: ModelValue(.object(members), at: start), sources: ["first", "second"])
        let error = try #require(throws: ModelError.self) { try ModelReader.read(document) }
        #expect(error.faults.map(\.place.line) == [1, 9, 10, 1])
        #expect(error.faults[1].description == "first: line 9, column 2 (/c): a model has no field \"c\"")
    }

    @Test func `text is written again as it was, unless it was changed`() throws {
        let text = #"{"a": [1,  2.50], "b": "é\n"}"#
        var document = try ModelDocument(parsing: JSONText(copying: Array(text.utf8)))
        func written() -> String {
            var writer = JSONWriter()
            document.root.write(to: &writer)
            return String(decoding: writer.bytes, as: UTF8.self)
        }
        #expect(written() == text)
        document.root.content = .object(document.root.members.reversed())
        #expect(written() == #"{"b":"é\n","a":[1,  2.50]}"#)
    }
}

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
            text(document) == #"{"entities":{"A":{"attributes":{"id":"integer64","day":{"type":"date"}}}},"#
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
        let own = try merged(first, #"{"entities": {"A": {"identity": ["a"], "attributes": {"a": {"default": 1}}}}}"#)
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

@Suite(.timeLimit(.minutes(5))) struct ModelWritingTests {
    @Test(arguments: [
        staffModel,
        attribute(
            #""type": "string", "key": "x.y", "optional": false, "default": "q\"é", "defaultWhenMissing": true, "minLength": 1, "maxLength": 9, "#
                + #""pattern": "^q\\d", "enum": ["q\u0001é", 1], "transform": "trim", "onInvalid": "null", "#
                + #""indexed": true, "unique": true"#),
        attribute(
            #""type": "date", "format": "yyyy", "timeZone": "+02:00", "storage": "coreData", "min": "1970-01-01", "#
                + #""max": 4e9, "default": 0"#),
        attribute(#""type": "decimal", "storage": "scaled", "scale": 4, "min": 0.0001"#),
        attribute(#""type": "calendarDate", "formats": ["dd/MM/yyyy"], "min": "1900-01-01", "enum": ["1985-12-10"]"#),
        attribute(#""type": "transformable", "default": {"x": [1,  "\n"]}, "indexed": true"#),
        relationship(
            #""entity": "B", "toMany": true, "key": ["b.c", "d"], "deleteRule": "deny", "assignment": "replace", "#
                + #""missing": "ignore", "ordered": true"#),
        """
        {"keyStyle": "snakeCase", "entities": {
          "Z": {"identity": ["userID", "x"], "attributes": {"x": "uuid", "userID": "integer32", "y": "uri", "x2": "date"},
                "unique": [["y", "x"], ["y"]], "indexes": [["x", "y"]], "modified": "x2",
                "relationships": {"friends": {"entity": "Z", "toMany": true, "inverse": "friends"}}},
          "A": {"identity": "hiredAt", "identityOptional": true, "attributes": {"hiredAt": "date", "b": "boolean"},
                "relationships": {"z": {"entity": "Z"}}}}}
        """,
        """
        {"description": "d1", "evolve": ["columns"], "entities": {"A": {
          "description": "d2", "attributes": {"x": {"type": "string", "description": "d3"}},
          "relationships": {"a": {"entity": "A", "description": "d4 é\\n"}}}}}
        """,
    ])
    func `a written model reads as the same model`(json: String) throws {
        let model = try read(json)
        let text = written(model)
        let again = try read(text)
        #expect(content(of: again) == content(of: model))
        #expect(written(again) == text)
    }

    @Test func `descriptions, and that a model evolves and has extra values, are written`() throws {
        let text = """
            {"evolve": ["columns"], "description": "d1", "entities": {
              "A": {"description": "d2", "extra": true, "attributes": {"x": {"type": "uuid", "description": "d3"}},
                    "relationships": {"a": {"entity": "A", "description": "d4"}}}}}
            """
        #expect(
            written(try read(text))
                == #"{"keyStyle":"exact","description":"d1","evolve":["columns"],"entities":{"A":{"description":"d2","#
                + #""table":"A","extra":true,"attributes":{"x":{"description":"d3","type":"uuid","key":["x"],"optional":true}},"#
                + #""relationships":{"a":{"description":"d4","entity":"A","toMany":false,"key":["a"],"#
                + #""deleteRule":"nullify","missing":"stub"}}}}}"#)
    }

    @Test func `implied parts of the model are written out`() throws {
        let text = """
            {"keyStyle": "snakeCase", "entities": {
              "A": {"identity": "userID", "attributes": {"userID": "integer64"},
                    "relationships": {"b": {"entity": "B"}}},
              "B": {"relationships": {"a": {"entity": "A", "inverse": "b", "toMany": true}}}}}
            """
        #expect(
            written(try read(text))
                == #"{"keyStyle":"exact","entities":{"A":{"table":"A","identity":["userID"],"attributes":"#
                + #"{"userID":{"type":"integer64","key":["user_id","id"],"optional":false}},"relationships":"#
                + #"{"b":{"entity":"B","toMany":false,"inverse":"a","key":["b"],"deleteRule":"nullify","#
                + #""missing":"stub"}}},"B":{"table":"B","attributes":{},"relationships":{"a":{"entity":"A","#
                + #""toMany":true,"inverse":"b","key":["a"],"deleteRule":"nullify","assignment":"union","#
                + #""missing":"stub"}}}}}"#)
    }
}

/// Models for people: notes beside the parts, lines, pictures.
@Suite(.timeLimit(.minutes(5))) struct ModelDescriptionTests {
    private func document(_ text: String) throws -> ModelDocument {
        try ModelDocument(parsing: JSONText(copying: Array(text.utf8)))
    }

    private func note(_ kind: ModelNote.Kind, _ message: String, _ pointer: String) -> ModelNote {
        ModelNote(kind, message, at: ModelPlace(pointer: pointer, line: 1, column: 1))
    }

    @Test func `a note is in the description of its part, or of the nearest part that exists`() throws {
        let document = try document(
            #"{"entities": {"a/b": {"description": "mine", "attributes": {"x": {"type": "string"}, "y": "string"}}}}"#)
        let described = document.described(by: [
            note(.taken, "one", "/entities/a~1b/attributes/x"), note(.leftOut, "two", "/entities/a~1b/attributes/z"),
            note(.inferred, "three", "/entities/a~1b"), note(.passedOver, "four", "/entities/a~1b/attributes/y"),
            note(.taken, "five", ""), note(.leftOut, "six", "/entities/nix/relationships/r"),
        ])
        var writer = JSONWriter()
        described.write(to: &writer)
        #expect(
            String(decoding: writer.bytes, as: UTF8.self)
                == #"{"description":"taken: five; nix r skipped: six","entities":{"a~1b":{"#
                .replacing("a~1b", with: "a/b")
                + #""description":"mine; z skipped: two; inferred: three; y ignored: four","attributes":{"#
                + #""x":{"description":"taken: one","type":"string"},"y":"string"}}}}"#)
    }

    @Test func `indented JSON reads back as the same, with a line for what is long`() throws {
        let text =
            #"{"entities":{"A":{"identity":["id"],"attributes":{"id":"integer64","n":{"type":"string","enum":["é\"",null,1.50,true,{}]}},"unique":[]}}}"#
        let indented = try document(text).root.indentedJSON
        #expect(
            indented == """
                {
                  "entities": {
                    "A": {
                      "identity": ["id"],
                      "attributes": {
                        "id": "integer64",
                        "n": {"type": "string", "enum": ["é\\"", null, 1.50, true, {}]}
                      },
                      "unique": []
                    }
                  }
                }
                """)
        #expect(try document(indented).root.indentedJSON == indented)
    }

    private let zoo = """
        {"entities": {
          "Animal": {"abstract": true, "identity": "id", "attributes": {"id": "integer64", "name": {"type": "string"}},
            "relationships": {"keeper": {"entity": "Keeper"}, "friends": {"entity": "Animal", "toMany": true, "inverse": "friends"}}},
          "Dog": {"parent": "Animal", "attributes": {"b{|}\\"": "string"}},
          "Keeper": {"identity": ["a", "b"], "attributes": {"a": "string", "b": "string"},
            "relationships": {"animals": {"entity": "Animal", "toMany": true, "inverse": "keeper"},
              "last": {"entity": "Dog"}}}}}
        """

    @Test func `a diagram for Mermaid has entities, identities, both ends, and who is whose subentity`() throws {
        #expect(
            ModelDiagram(try document(zoo)).mermaid == """
                classDiagram
                    class E0["Animal"] {
                        <<abstract>>
                        id integer64 identity
                        name string
                    }
                    class E1["Dog"] {
                        b____ string
                    }
                    class E2["Keeper"] {
                        a string identity
                        b string identity
                    }
                    E0 <|-- E1
                    E0 "0..*" -- "0..1" E2 : keeper / animals
                    E0 "0..*" -- "0..*" E0 : friends
                    E2 --> "0..1" E1 : last
                """)
    }

    @Test func `a diagram for Graphviz escapes what its labels take for their own`() throws {
        let text = ModelDiagram(try document(zoo)).graphviz
        #expect(text.contains(#"e0 [label="{Animal\n(abstract)|id integer64 identity\lname string\l}"];"#))
        #expect(text.contains(#"e1 [label="{Dog|b\{\|\}\" string\l}"];"#))
        #expect(text.contains("e1 -> e0 [arrowhead=empty];"))
        #expect(
            text.contains(#"e0 -> e2 [label="keeper / animals", headlabel="0..1", taillabel="0..*", arrowhead=none];"#))
        #expect(text.contains(#"e2 -> e1 [label="last", headlabel="0..1"];"#))
    }
}

@Suite(.timeLimit(.minutes(5))) struct FormerNameTests {
    @Test func `a part of the model may have a former name`() throws {
        let model = try read(
            """
            {"entities": {
              "A": {"renamedFrom": "B", "attributes": {"a": {"type": "string", "renamedFrom": "b"}},
                "relationships": {"c": {"entity": "A", "renamedFrom": "d"}}}}}
            """)
        let entity = model.entities[0]
        #expect(entity.renamedFrom == "B")
        #expect(entity.attributes[0].renamedFrom == "b")
        #expect(entity.relationships[0].renamedFrom == "d")
        #expect(entity.attributes[0].keyPaths == [["b"]] && entity.relationships[0].keyPaths == [["d"]])
        #expect(content(of: try read(written(model))) == content(of: model))
    }

    @Test func `what is renamed keeps its key, in the style of keys, unless it has another one`() throws {
        let model = try read(
            """
            {"keyStyle": "snakeCase", "entities": {"A": {"attributes": {
              "familyName": {"type": "string", "renamedFrom": "lastName"},
              "given": {"type": "string", "renamedFrom": "first", "key": "given"},
              "none": {"type": "string", "renamedFrom": "some", "key": []}}}}}
            """)
        #expect(model.entities[0].attributes.map(\.keyPaths) == [[["last_name"]], [["given"]], []])
    }

    @Test(
        arguments: FaultCase.list(
            entity, at: "/entities/A",
            #"""
            "renamedFrom": "A" => /renamedFrom :: "A" is still the name of the entity "A"
            "renamedFrom": ["B"] => /renamedFrom :: expected a string
            "renamedFrom": "" => /renamedFrom :: empty
            "attributes": {"a": {"type": "string", "renamedFrom": "b"}, "b": "string"}
              => /attributes/a/renamedFrom :: still the name of the attribute "b"
            "attributes": {"a": {"type": "string", "renamedFrom": "r"}}, "relationships": {"r": {"entity": "A"}}
              => /attributes/a/renamedFrom :: still the name of the relationship "r"
            "attributes": {"a": {"type": "string", "renamedFrom": "x"}, "b": {"type": "string", "renamedFrom": "x"}}
              => /attributes/b/renamedFrom :: the attribute "a" is renamed from "x" already
            """#) + [
                FaultCase(
                    #"{"entities": {"A": {"renamedFrom": "X"}, "B": {"renamedFrom": "X"}}}"#, "/entities/B/renamedFrom",
                    #"the entity "A" is renamed from "X" already"#)
            ])
    func `a former name without a renaming is refused`(fault: FaultCase) { fault.check() }
}
