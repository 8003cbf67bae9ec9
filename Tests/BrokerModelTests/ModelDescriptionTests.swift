import BrokerJSON
import Testing

@testable import BrokerModel

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
