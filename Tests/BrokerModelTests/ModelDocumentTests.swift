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
